//! The tool `validate_json`.

use execution::{Problem, misfits};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Builtin, Given, Work, read, schema};

pub(crate) static VALIDATE_JSON: Builtin = Builtin {
    name: "validate_json",
    title: "Validate JSON",
    description: "Holds a JSON value against a JSON Schema and says what does not fit, and where. References lead nowhere but into the schema itself.",
    tags: &["schema", "check"],
    example: r#"{"schema": {"type": "object", "required": ["id"]}, "json": {"name": "A"}}"#,
    reaches_out: false,
    input: schema::<Arguments>,
    work: Work::Long(|arguments| validate(&read(arguments)?)),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The JSON Schema; draft 2020-12 if it does not say.
    schema: Value,
    /// The value.
    json: Value,
}

fn validate(arguments: &Arguments) -> Given {
    let found = misfits(&arguments.schema, &arguments.json)?;
    let problem = |found: Problem| json!({ "path": found.path, "message": found.message });
    let problems: Vec<Value> = found.into_iter().map(problem).collect();
    Ok(json!({ "valid": problems.is_empty(), "problems": problems }))
}
