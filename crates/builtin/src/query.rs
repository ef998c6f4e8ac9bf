//! The tool `json_query`.

use execution::Projection;
use model::strict_json;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Builtin, Given, Work, read, schema};

pub(crate) static JSON_QUERY: Builtin = Builtin {
    name: "json_query",
    title: "Query JSON",
    description: "Picks out, filters and reshapes parts of a JSON value with a JMESPath expression.",
    tags: &["jmespath", "filter"],
    example: r#"{"json": {"orders": [{"id": 1, "open": true}, {"id": 2, "open": false}]}, "query": "orders[?open].id"}"#,
    reaches_out: false,
    input: schema::<Arguments>,
    work: Work::Long(|arguments| query(&read(arguments)?)),
};

/// Most bytes that a query may copy.
const WORK: usize = 8 << 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The value, or a text that holds it.
    json: Value,
    /// The JMESPath expression.
    #[schemars(length(min = 1, max = 2000))]
    query: String,
}

fn query(arguments: &Arguments) -> Given {
    let query =
        Projection::compile(&arguments.query).map_err(|error| format!("the query {error}"))?;
    let read;
    let value = match &arguments.json {
        Value::String(text) => {
            read = strict_json::tolerant(text.as_bytes())
                .map_err(|error| format!("the text in `json` is no JSON: {error}"))?;
            &read
        }
        value => value,
    };
    let found =
        query.apply_within(value, WORK).map_err(|error| format!("the query failed: {error}"))?;
    Ok(json!({ "result": found }))
}
