//! One call of a tool on an MCP server from the command line. Questions of the server cannot be answered here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use execution::{Arguments, Others, outcome_of_server};
use model::{Manifest, SchemaRef, ToolId};
use serde_json::{Map, Value, json};
use upstream::mcp::{Answer, AsTask, Call, Connection};

use super::shown;
use crate::cli::{Ended, target as options};
use crate::failure::Failure;
use crate::{out, progress};

pub(super) async fn call(
    given: &options::Call,
    id: &ToolId,
    manifest: &Manifest<SchemaRef>,
    schema: &Value,
    arguments: Map<String, Value>,
    connection: &Connection,
) -> Result<Ended, Failure> {
    Arguments::compile(schema, Others::Sent).check(&arguments).map_err(|problems| {
        let problems = problems.iter().map(ToString::to_string).collect();
        Failure::Arguments { tool: manifest.name.to_string(), problems }
    })?;
    let params = Map::from_iter([
        ("name".to_owned(), Value::from(&*manifest.name)),
        ("arguments".to_owned(), Value::Object(arguments)),
    ]);
    if given.dry_run {
        out::print_json(&json!({"method": "tools/call", "params": params}))?;
        return Ok(Ended::Fine);
    }
    let deadline = given.target.timeout.map(Duration::from_secs);
    let call = Call { deadline, schema: Some(Arc::new(schema.clone())), ..Call::default() };
    let start = Instant::now();
    let as_task = AsTask { is_needed: manifest.must_be_a_task(), patience: None };
    let asked = connection.call_tool(params, as_task, call);
    let answer = progress::during("waiting for the answer", asked).await.map_err(Failure::Mcp)?;
    let result = match answer {
        Answer::Result(result) => Ok(result),
        Answer::Error(error) => Err(error.message().to_owned()),
    };
    let outcome = outcome_of_server(id.clone(), result, start.elapsed());
    shown::outcome(&outcome, given.json.json)
}
