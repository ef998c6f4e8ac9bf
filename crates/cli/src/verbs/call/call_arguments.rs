//! The arguments of a call on the command line: `key=value` pairs, read by the types of the input schema, and JSON.

use std::path::Path;

use config::config_error::read_limited_file;
use serde_json::{Map, Value};

use crate::arguments::target_options as options;
use crate::cli_error::CliError;
use crate::inspected_target;

/// Maximum bytes of `--args`, the same as for a request body.
const MAX_ARGS_BYTES: u64 = 10 << 20;

/// Merges `--args` with the pairs; a pair overrides a field of `--args`.
pub(super) async fn read_call_arguments(
    given: &options::CallArgs,
    schema: &Value,
) -> Result<Map<String, Value>, CliError> {
    let mut arguments = match &given.args {
        Some(args) => {
            read_args_object(args, given.target.target.as_deref().unwrap_or_default()).await?
        }
        None => Map::new(),
    };
    let mut problems = Vec::new();
    let mut seen = Vec::new();
    for pair in &given.pairs {
        let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
        match parse_pair_value(name, text, schema) {
            _ if !pair.contains('=') => problems.push(format!("`{pair}` is not KEY=VALUE")),
            _ if seen.contains(&name) => problems.push(format!("`{name}` is given twice")),
            Ok(value) => drop(arguments.insert(name.to_owned(), value)),
            Err(problem) => problems.push(problem),
        }
        seen.push(name);
    }
    match problems.is_empty() {
        true => Ok(arguments),
        false => Err(CliError::Arguments { tool: given.tool.clone(), problems }),
    }
}

async fn read_args_object(args: &str, target: &str) -> Result<Map<String, Value>, CliError> {
    let bytes = match (args, args.strip_prefix('@')) {
        ("-", _) if target == "-" => return Err(CliError::StdinTwice),
        ("-", _) => inspected_target::read_stdin(MAX_ARGS_BYTES).await?,
        (_, Some(path)) => read_limited_file(Path::new(path), MAX_ARGS_BYTES)?,
        (text, None) => text.as_bytes().to_vec(),
    };
    serde_json::from_slice(&bytes).map_err(CliError::ArgsNotAnObject)
}

/// Reads the value of a pair: as a string if the schema accepts strings, else as JSON. If the schema gives no type, as
/// JSON if it parses, else as a string.
fn parse_pair_value(name: &str, text: &str, schema: &Value) -> Result<Value, String> {
    let read = serde_json::from_str(text);
    match accepted_types(schema, &schema["properties"][name]).as_slice() {
        [] => Ok(read.unwrap_or_else(|_| Value::from(text))),
        types if types.contains(&"string") => Ok(Value::from(text)),
        types => {
            let example = match types {
                ["array", ..] => format!(", as in {name}='[…]'"),
                ["object", ..] => format!(", as in {name}='{{…}}'"),
                _ => String::new(),
            };
            read.map_err(|_| format!("`{name}` takes JSON of type {}{example}", types.join(" or ")))
        }
    }
}

/// The types that the schema of a property accepts; empty if the schema gives none.
fn accepted_types<'a>(root: &'a Value, property: &'a Value) -> Vec<&'a str> {
    let mut property = property;
    // Follow at most 16 references: the schema may contain a reference cycle.
    for _ in 0..16 {
        let Some(reference) = property["$ref"].as_str() else { break };
        let found = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        property = found.unwrap_or(&Value::Null);
    }
    match &property["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(name: &str, text: &str) -> Result<Value, String> {
        let schema = json!({
            "properties": {
                "text": {"type": "string"}, "count": {"type": "integer"}, "maybe": {"type": ["string", "null"]},
                "list": {"type": "array"}, "size": {"$ref": "#/$defs/Size"}, "any": {},
                "circle": {"$ref": "#/$defs/Circle"},
            },
            "$defs": {"Size": {"type": "string"}, "Circle": {"$ref": "#/$defs/Circle"}},
        });
        parse_pair_value(name, text, &schema)
    }

    #[test]
    fn a_string_property_takes_the_value_verbatim_and_other_types_take_json() {
        assert_eq!(read("text", "7"), Ok(json!("7")));
        assert_eq!(read("text", "a=b"), Ok(json!("a=b")));
        assert_eq!(read("size", "7"), Ok(json!("7")));
        assert_eq!(read("maybe", "null"), Ok(json!("null")));
        assert_eq!(read("count", "-7"), Ok(json!(-7)));
        assert_eq!(read("list", "[1]"), Ok(json!([1])));
    }

    #[test]
    fn a_value_of_unknown_type_is_json_if_it_parses() {
        for name in ["any", "unknown", "circle"] {
            assert_eq!(read(name, "7"), Ok(json!(7)));
            assert_eq!(read(name, "seven"), Ok(json!("seven")));
        }
    }

    #[test]
    fn a_value_that_is_not_json_is_rejected_with_the_expected_type() {
        assert_eq!(
            read("list", "a,b"),
            Err("`list` takes JSON of type array, as in list='[…]'".to_owned())
        );
    }
}
