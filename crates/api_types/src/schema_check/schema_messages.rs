//! Error messages of the schema check; each follows the name of the field.

use serde_json::Value;

pub(super) fn describe_value(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

pub(super) fn with_article(kind: &str) -> &str {
    match kind {
        "boolean" => "a boolean",
        "integer" => "an integer",
        "number" => "a number",
        "string" => "a string",
        "array" => "an array",
        "object" => "an object",
        other => other,
    }
}

pub(super) fn join_quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

pub(super) fn choice_message(given: Option<&str>, words: &[&str]) -> String {
    match given {
        Some(given) => {
            let given: String = given.chars().take(40).collect();
            format!("there is no `{given}`; there is {}", join_quoted(words))
        }
        None => format!("is to be one of {}", join_quoted(words)),
    }
}

pub(super) fn unknown_field_message(name: &str, known: &[&str]) -> String {
    let distance = |known: &&&str| execution::edit_distance(name, known);
    let near =
        known.iter().min_by_key(distance).filter(|near| distance(near) <= 1 + near.len() / 3);
    match near {
        Some(near) => format!("is not known here; did you mean `{near}`?"),
        None => format!("is not known here; there is {}", join_quoted(known)),
    }
}
