//! The tool `validate_json`.

use execution::{InvalidArgument, problems_by_schema};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{BuiltinResult, BuiltinTool, BuiltinWork, arguments_schema, parse_arguments};

pub(crate) static VALIDATE_JSON: BuiltinTool = BuiltinTool {
    name: "validate_json",
    title: "Validate JSON",
    description: "Holds a JSON value against a JSON Schema and says what does not fit, and where. References lead nowhere but into the schema itself.",
    tags: &["schema", "check"],
    example: r#"{"schema": {"type": "object", "required": ["id"]}, "json": {"name": "A"}}"#,
    uses_network: false,
    input: arguments_schema::<ValidateJsonArguments>,
    work: BuiltinWork::Expensive(|arguments| validate_json(&parse_arguments(arguments)?)),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Arguments")]
struct ValidateJsonArguments {
    /// The JSON Schema; draft 2020-12 if it does not say.
    schema: Value,
    /// The value.
    json: Value,
}

fn validate_json(arguments: &ValidateJsonArguments) -> BuiltinResult {
    let found = problems_by_schema(&arguments.schema, &arguments.json)?;
    let problem = |found: InvalidArgument| json!({ "path": found.path, "message": found.message });
    let problems: Vec<Value> = found.into_iter().map(problem).collect();
    Ok(json!({ "valid": problems.is_empty(), "problems": problems }))
}
