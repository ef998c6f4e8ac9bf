//! The tool `json_query`.

use execution::ResultProjection;
use json::strict_json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{BuiltinResult, BuiltinTool, BuiltinWork, arguments_schema, parse_arguments};

pub(crate) static JSON_QUERY: BuiltinTool = BuiltinTool {
    name: "json_query",
    title: "Query JSON",
    description: "Picks out, filters and reshapes parts of a JSON value with a JMESPath expression.",
    tags: &["jmespath", "filter"],
    example: r#"{"json": {"orders": [{"id": 1, "open": true}, {"id": 2, "open": false}]}, "query": "orders[?open].id"}"#,
    uses_network: false,
    input: arguments_schema::<JsonQueryArguments>,
    work: BuiltinWork::Expensive(|arguments| query_json(&parse_arguments(arguments)?)),
};

/// Most bytes that a query may copy.
const MAX_COPIED_BYTES: usize = 8 << 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Arguments")]
struct JsonQueryArguments {
    /// The value, or a text that holds it.
    json: Value,
    /// The JMESPath expression.
    #[schemars(length(min = 1, max = 2000))]
    query: String,
}

fn query_json(arguments: &JsonQueryArguments) -> BuiltinResult {
    let query = ResultProjection::compile(&arguments.query)
        .map_err(|error| format!("the query {error}"))?;
    let read;
    let value = match &arguments.json {
        Value::String(text) => {
            read = strict_json::parse_tolerant(text.as_bytes())
                .map_err(|error| format!("the text in `json` is no JSON: {error}"))?;
            &read
        }
        value => value,
    };
    let found = query
        .apply_with_limit(value, MAX_COPIED_BYTES)
        .map_err(|error| format!("the query failed: {error}"))?;
    Ok(json!({ "result": found }))
}
