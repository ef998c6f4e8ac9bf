//! Regular expressions of a schema: checked by an engine that takes linear time, or not at all.

use jsonschema::{PatternOptions, Regex};
use serde_json::{Map, Value, json};

/// How large a compiled pattern may be, in bytes.
const LIMIT: usize = 256 * 1024;
/// Members that hold values and not schemas.
const VALUES: [&str; 5] = ["const", "default", "enum", "example", "examples"];

pub(super) fn options() -> PatternOptions<Regex> {
    PatternOptions::regex().size_limit(LIMIT)
}

/// The schema without patterns that look ahead or back, refer back, are too large, or are no patterns.
pub(super) fn without_unusable(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => Value::Object(object(members)),
        Value::Array(items) => items.iter().map(without_unusable).collect(),
        other => other.clone(),
    }
}

fn object(members: &Map<String, Value>) -> Map<String, Value> {
    let mut kept = Map::new();
    let mut lost_names = false;
    for (name, value) in members {
        match (name.as_str(), value) {
            ("pattern", Value::String(pattern)) if !is_usable(pattern) => {}
            ("patternProperties", Value::Object(patterns)) => {
                let usable = patterns.iter().filter(|(pattern, _)| is_usable(pattern));
                let usable: Map<_, _> =
                    usable.map(|(name, value)| (name.clone(), without_unusable(value))).collect();
                lost_names |= usable.len() < patterns.len();
                kept.insert(name.clone(), Value::Object(usable));
            }
            (name, value) if VALUES.contains(&name) => {
                drop(kept.insert(name.into(), value.clone()))
            }
            (name, value) => drop(kept.insert(name.into(), without_unusable(value))),
        }
    }
    if lost_names {
        // It would now be asked about names that the lost pattern had answered for.
        kept.remove("additionalProperties");
    }
    kept
}

fn is_usable(pattern: &str) -> bool {
    jsonschema::options()
        .with_pattern_options(options())
        .build(&json!({"pattern": pattern}))
        .is_ok()
}
