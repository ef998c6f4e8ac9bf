//! One call of a tool on an MCP server from the command line. Questions of the server cannot be answered here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use execution::{ArgumentValidator, UndeclaredArguments, outcome_of_mcp_result};
use mcp_client::{McpAnswer, McpCallOptions, McpConnection, ToolTaskOptions};
use model::{Manifest, SchemaRef, ToolId};
use serde_json::{Map, Value, json};

use super::call_output;
use crate::arguments::{VerbOutcome, target_options as options};
use crate::cli_error::CliError;
use crate::{output, progress};

pub(super) async fn call_mcp_tool(
    given: &options::CallArgs,
    id: &ToolId,
    manifest: &Manifest<SchemaRef>,
    schema: &Value,
    arguments: Map<String, Value>,
    connection: &McpConnection,
) -> Result<VerbOutcome, CliError> {
    ArgumentValidator::compile(schema, UndeclaredArguments::Sent).check(&arguments).map_err(
        |problems| {
            let problems = problems.iter().map(ToString::to_string).collect();
            CliError::Arguments { tool: manifest.name.to_string(), problems }
        },
    )?;
    let params = Map::from_iter([
        ("name".to_owned(), Value::from(&*manifest.name)),
        ("arguments".to_owned(), Value::Object(arguments)),
    ]);
    if given.dry_run {
        output::print_json(&json!({"method": "tools/call", "params": params}))?;
        return Ok(VerbOutcome::Success);
    }
    let deadline = given.target.timeout.map(Duration::from_secs);
    let call = McpCallOptions {
        deadline,
        schema: Some(Arc::new(schema.clone())),
        ..McpCallOptions::default()
    };
    let start = Instant::now();
    let as_task = ToolTaskOptions { is_required: manifest.requires_task(), max_wait: None };
    let asked = connection.call_tool(params, as_task, call);
    let answer =
        progress::show_while("waiting for the answer", asked).await.map_err(CliError::Mcp)?;
    let result = match answer {
        McpAnswer::Result(result) => Ok(result),
        McpAnswer::Error(error) => Err(error.message().to_owned()),
    };
    let outcome = outcome_of_mcp_result(id.clone(), result, start.elapsed());
    call_output::print_outcome(&outcome, given.json.json)
}
