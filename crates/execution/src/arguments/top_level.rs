//! The checks that always run: required arguments are present, and each argument has its type.

use serde_json::{Map, Value};

use super::InvalidArgument;

pub(super) fn top_level_problems(schema: &Value, arguments: &Value) -> Vec<InvalidArgument> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let missing = required
        .filter_map(Value::as_str)
        .filter(|name| arguments.get(name).is_none())
        .map(|name| InvalidArgument::new("", &format!("\"{name}\" is a required property")));
    let wrong = arguments.as_object().into_iter().flatten().filter_map(|(name, value)| {
        let types = schema.get("properties")?.get(name)?.get("type")?;
        let message = || format!("it is not of type {types}");
        (!has_type(types, value)).then(|| InvalidArgument::new(&pointer_to(name), &message()))
    });
    missing.chain(wrong).collect()
}

/// Reports integers beyond 64 bits: they were rounded when they were parsed, so sending them would change their value.
pub(super) fn rounded_integers(
    schema: &Value,
    arguments: &Map<String, Value>,
) -> Vec<InvalidArgument> {
    let is_integer = |name: &str| {
        let property = schema.get("properties").and_then(|properties| properties.get(name));
        property.and_then(|property| property.get("type")).is_some_and(|word| word == "integer")
    };
    let rounded = |value: &Value| value.is_f64() && value.as_f64().is_some_and(|n| 9e15 < n.abs());
    let large = arguments.iter().filter(|(name, value)| rounded(value) && is_integer(name));
    large
        .map(|(name, _)| {
            InvalidArgument::new(&pointer_to(name), "it is too large to be sent exactly")
        })
        .collect()
}

fn pointer_to(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn has_type(types: &Value, value: &Value) -> bool {
    match types {
        Value::Array(types) => types.iter().any(|one| has_type(one, value)),
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
