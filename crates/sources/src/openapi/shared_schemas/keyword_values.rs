//! Converts values of single keywords to JSON Schema 2020-12; a value without a meaning there becomes `None`.

use std::collections::HashSet;

use json::document_text::DocumentNode;
use serde_json::{Number, Value};

/// The JSON Schema name of a type, also for common misspellings.
pub(super) fn type_name(word: &str) -> Option<&'static str> {
    Some(match word.trim().to_ascii_lowercase().as_str() {
        "string" | "str" | "text" | "file" | "date" | "datetime" | "date-time" | "uuid"
        | "binary" => "string",
        "integer" | "int" | "long" | "int32" | "int64" => "integer",
        "number" | "float" | "double" | "decimal" => "number",
        "boolean" | "bool" => "boolean",
        "array" | "list" => "array",
        "object" | "map" | "dict" | "hash" => "object",
        "null" => "null",
        _ => return None,
    })
}

/// The known types in a `type` keyword, each once.
pub(super) fn type_names(value: &DocumentNode<'_>) -> Vec<&'static str> {
    let words: &[DocumentNode<'_>] = match value {
        DocumentNode::List(words) => words,
        one => std::slice::from_ref(one),
    };
    let mut types = Vec::new();
    for word in words {
        // YAML parses an unquoted `type: null` as null.
        let name = if word.is_null() { Some("null") } else { word.as_str().and_then(type_name) };
        types.extend(name.filter(|name| !types.contains(name)));
    }
    types
}

/// One type as a string, several as a list.
pub(super) fn type_value(types: &[&'static str]) -> Option<Value> {
    match types {
        [] => None,
        [one] => Some(Value::from(*one)),
        many => Some(Value::from(many)),
    }
}

/// A number, also if it is written as a string.
pub(super) fn number_value(value: &DocumentNode<'_>) -> Option<Value> {
    match value {
        DocumentNode::Number(number) => Some(Value::Number(number.clone())),
        DocumentNode::Text(text) => text.trim().parse::<Number>().ok().map(Value::Number),
        _ => None,
    }
}

/// A number above zero.
pub(super) fn positive_number(value: &DocumentNode<'_>) -> Option<Value> {
    number_value(value).filter(|value| value.as_f64().is_some_and(|number| 0.0 < number))
}

/// A length or count: `3`, also written `3.0` or `"3"`.
pub(super) fn count_value(value: &DocumentNode<'_>) -> Option<Value> {
    let number = number_value(value)?;
    if number.is_u64() {
        return Some(number);
    }
    let float = number.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole and within 2^53"
    )]
    (float.fract() == 0.0 && (0.0..9e15).contains(&float)).then(|| Value::from(float as u64))
}

/// The distinct strings of a list.
pub(super) fn distinct_strings(value: &DocumentNode<'_>) -> Option<Vec<String>> {
    let mut seen = HashSet::new();
    let texts = value.as_list()?.iter().filter_map(DocumentNode::scalar_string);
    Some(texts.filter(|text| seen.insert(text.clone())).collect())
}
