//! What is always checked: that required arguments are there, and that each has its type.

use serde_json::{Map, Value};

use super::Problem;

pub(super) fn problems(schema: &Value, arguments: &Map<String, Value>) -> Vec<Problem> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let missing = required
        .filter_map(Value::as_str)
        .filter(|name| !arguments.contains_key(*name))
        .map(|name| Problem::new("", &format!("\"{name}\" is a required property")));
    let wrong = arguments.iter().filter_map(|(name, value)| {
        let types = schema.get("properties")?.get(name)?.get("type")?;
        let path = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        (!is_of(types, value)).then(|| Problem::new(&path, &format!("it is not of type {types}")))
    });
    missing.chain(wrong).collect()
}

fn is_of(types: &Value, value: &Value) -> bool {
    match types {
        Value::Array(types) => types.iter().any(|one| is_of(one, value)),
        Value::String(name) => match name.as_str() {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "number" => value.is_number(),
            "integer" => value.is_number() && value.as_f64().is_some_and(|n| n.fract() == 0.0),
            _ => true,
        },
        _ => true,
    }
}
