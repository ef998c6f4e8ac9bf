//! Regular expressions of a schema: checked by an engine that takes linear time, or not at all.

use jsonschema::{PatternOptions, Regex};
use serde_json::{Map, Value, json};

/// How large a compiled pattern may be, in bytes.
const LIMIT: usize = 256 * 1024;
/// How long one may be, and all of a schema together, in bytes: to compile one takes a time that grows with its square.
const LENGTH: usize = 1024;
pub(super) const LENGTHS: usize = 32 * 1024;
/// Members that hold values and not schemas.
const VALUES: [&str; 5] = ["const", "default", "enum", "example", "examples"];

pub(super) fn options() -> PatternOptions<Regex> {
    PatternOptions::regex().size_limit(LIMIT)
}

/// The schema without patterns that look ahead or back, refer back, are too large or too many, or are no patterns; and how
/// long those are that stay.
pub(super) fn without_unusable(schema: &Value, longest: usize) -> (Value, usize) {
    let mut left = longest;
    (usable(schema, &mut left), longest - left)
}

fn usable(schema: &Value, left: &mut usize) -> Value {
    match schema {
        Value::Object(members) => Value::Object(object(members, left)),
        Value::Array(items) => items.iter().map(|item| usable(item, left)).collect(),
        other => other.clone(),
    }
}

fn object(members: &Map<String, Value>, left: &mut usize) -> Map<String, Value> {
    let mut kept = Map::new();
    let mut lost_names = false;
    for (name, value) in members {
        match (name.as_str(), value) {
            ("pattern", Value::String(pattern)) if !is_usable(pattern, left) => {}
            ("patternProperties", Value::Object(patterns)) => {
                let mut some = Map::new();
                for (pattern, value) in patterns {
                    if is_usable(pattern, left) {
                        some.insert(pattern.clone(), usable(value, left));
                    }
                }
                lost_names |= some.len() < patterns.len();
                kept.insert(name.clone(), Value::Object(some));
            }
            (name, value) if VALUES.contains(&name) => {
                drop(kept.insert(name.into(), value.clone()))
            }
            (name, value) => drop(kept.insert(name.into(), usable(value, left))),
        }
    }
    if lost_names {
        // It would now be asked about names that the lost pattern had answered for.
        kept.remove("additionalProperties");
    }
    kept
}

fn is_usable(pattern: &str, left: &mut usize) -> bool {
    if LENGTH < pattern.len() || *left < pattern.len() {
        return false;
    }
    *left -= pattern.len();
    jsonschema::options()
        .with_pattern_options(options())
        .build(&json!({"pattern": pattern}))
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_unusable_here(schema: &Value) -> (Value, usize) {
        without_unusable(schema, LENGTHS)
    }

    #[test]
    fn long_patterns_and_too_many_are_not_checked() {
        let long = json!({"properties": {"x": {"pattern": "(a|b|ab|\\w)*".repeat(1500)}}});
        assert_eq!(without_unusable_here(&long), (json!({"properties": {"x": {}}}), 0));
        let many: Map<_, _> =
            (0..10_000).map(|number| (format!("^a{number}$"), json!(1))).collect();
        let (left, length) = without_unusable_here(&json!({"patternProperties": many}));
        let count = left["patternProperties"].as_object().map(Map::len);
        assert!(length <= LENGTHS && count.is_some_and(|count| 1_000 < count), "{count:?}");
    }
}
