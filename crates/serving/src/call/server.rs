//! One call of a tool on an MCP server, by whoever sits at the terminal: nobody can be asked there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use execution::{Arguments, Others};
use model::{
    CallStatus, Content, ErrorCode, Failure as CallFailure, Manifest, Outcome, SchemaRef, ToolId,
};
use serde_json::{Map, Value, json};
use upstream::mcp::{Answer, Call, Connection};

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
    let asked = connection.request("tools/call", params, call);
    let answer = progress::during("waiting for the answer", asked).await.map_err(Failure::Mcp)?;
    let outcome = outcome(id, start, answer);
    shown::outcome(&outcome, given.json.json)
}

fn outcome(id: &ToolId, start: Instant, answer: Answer) -> Outcome {
    let failed = |message: &str| CallFailure {
        code: ErrorCode::UpstreamError,
        message: message.to_owned(),
        retryable: false,
    };
    let (result, content, error) = match answer {
        Answer::Error(error) => (None, Vec::new(), Some(failed(error.message()))),
        Answer::Result(mut result) => {
            let content = match result.shift_remove("content") {
                Some(Value::Array(content)) => content,
                _ => Vec::new(),
            };
            let is_error = result.get("isError") == Some(&Value::Bool(true));
            let text = content.iter().find_map(|part| part.get("text")?.as_str());
            let error = is_error.then(|| failed(text.unwrap_or("the tool says that it failed")));
            let content = content.into_iter().map(read).collect();
            (result.shift_remove("structuredContent"), content, error)
        }
    };
    Outcome {
        tool_id: id.clone(),
        status: if error.is_some() { CallStatus::Failed } else { CallStatus::Completed },
        result,
        content,
        error,
        execution_time_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
        upstream_status: None,
    }
}

/// What we know how to show; the rest as it is.
fn read(part: Value) -> Content {
    serde_json::from_value(part.clone()).unwrap_or(Content::Other(part))
}
