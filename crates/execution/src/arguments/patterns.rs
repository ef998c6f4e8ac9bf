//! Regular expressions of a schema: checked by an engine that takes linear time, or not at all.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Regex};
use serde_json::{Map, Value, json};

/// How large a compiled pattern may be, in KiB, and the sizes that are told apart.
const LIMIT: usize = 256;
const SIZES: [usize; 7] = [4, 8, 16, 32, 64, 128, LIMIT];
/// How long one may be, and all of a schema together, in bytes: to compile one takes a time that grows with its square.
const LENGTH: usize = 1024;
pub(super) const LENGTHS: usize = 32 * 1024;
/// Members that hold schemas under names of any kind, and those that hold values and no schemas.
const SCHEMAS: [&str; 5] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "properties"];
const VALUES: [&str; 5] = ["const", "default", "enum", "example", "examples"];

/// How large patterns are at most once they are compiled, in KiB.
#[derive(Debug, Default)]
pub(super) struct Sizes(HashMap<String, usize>);

/// A schema without the patterns that cannot be used, and what is known of the others.
pub(super) struct Usable {
    pub(super) schema: Value,
    /// How long they are.
    pub(super) length: usize,
    pub(super) sizes: Sizes,
}

impl Sizes {
    /// One that was not found stands where no schema is looked for, and may be as large as any.
    pub(super) fn of(&self, pattern: &str) -> usize {
        self.0.get(pattern).copied().unwrap_or(LIMIT)
    }
}

/// Of all patterns: how much longer they may be, and how large they are.
struct Found {
    left: usize,
    sizes: Sizes,
}

pub(super) fn options() -> PatternOptions<Regex> {
    of_size(LIMIT)
}

fn of_size(size: usize) -> PatternOptions<Regex> {
    PatternOptions::regex().size_limit(size * 1024)
}

/// Leaves out patterns that look ahead or back, refer back, are too large or too many, or are no patterns.
pub(super) fn without_unusable(schema: &Value, longest: usize) -> Usable {
    let mut found = Found { left: longest, sizes: Sizes::default() };
    let schema = usable(schema, &mut found);
    Usable { schema, length: longest - found.left, sizes: found.sizes }
}

fn usable(schema: &Value, found: &mut Found) -> Value {
    match schema {
        Value::Object(members) => Value::Object(object(members, found)),
        Value::Array(items) => items.iter().map(|item| usable(item, found)).collect(),
        other => other.clone(),
    }
}

fn object(members: &Map<String, Value>, found: &mut Found) -> Map<String, Value> {
    let mut kept = Map::new();
    let mut lost_names = false;
    for (name, value) in members {
        match (name.as_str(), value) {
            ("pattern", Value::String(pattern)) if !is_usable(pattern, found) => {}
            ("patternProperties", Value::Object(patterns)) => {
                let mut some = Map::new();
                for (pattern, value) in patterns {
                    if is_usable(pattern, found) {
                        some.insert(pattern.clone(), usable(value, found));
                    }
                }
                lost_names |= some.len() < patterns.len();
                kept.insert(name.clone(), Value::Object(some));
            }
            (name, Value::Object(schemas)) if SCHEMAS.contains(&name) => {
                let named =
                    |(name, schema): (&String, &Value)| (name.clone(), usable(schema, found));
                let schemas: Map<_, _> = schemas.iter().map(named).collect();
                drop(kept.insert(name.into(), schemas.into()));
            }
            (name, value) if VALUES.contains(&name) => {
                drop(kept.insert(name.into(), value.clone()))
            }
            (name, value) => drop(kept.insert(name.into(), usable(value, found))),
        }
    }
    if lost_names {
        // It would now be asked about names that the lost pattern had answered for.
        kept.remove("additionalProperties");
    }
    kept
}

fn is_usable(pattern: &str, found: &mut Found) -> bool {
    if LENGTH < pattern.len() || found.left < pattern.len() {
        return false;
    }
    found.left -= pattern.len();
    let Some(size) = SIZES.into_iter().find(|size| fits(pattern, *size)) else { return false };
    found.sizes.0.insert(pattern.to_owned(), size);
    true
}

fn fits(pattern: &str, size: usize) -> bool {
    let schema = json!({"pattern": pattern});
    jsonschema::options().with_pattern_options(of_size(size)).build(&schema).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_unusable_here(schema: &Value) -> (Value, usize) {
        let Usable { schema, length, .. } = without_unusable(schema, LENGTHS);
        (schema, length)
    }

    #[test]
    fn it_is_known_of_patterns_how_large_they_are() {
        let patterns = ["^[a-z]+$", "^[0-9a-f]{64}$", "^[01]*1[01]{3000}[23]$"];
        let schema: Value = patterns.iter().map(|pattern| json!({"pattern": pattern})).collect();
        let sizes = without_unusable(&schema, LENGTHS).sizes;
        assert_eq!(patterns.map(|pattern| sizes.of(pattern)), [4, 8, 256]);
        assert_eq!(sizes.of("of a default, perhaps"), LIMIT);
    }

    #[test]
    fn a_schema_may_have_any_name() {
        for names in SCHEMAS {
            for name in VALUES {
                let schema = |below: Value| json!({names: {name: below}});
                let given = schema(json!({"pattern": "(?!x)a", "minLength": 1}));
                let (left, _) = without_unusable_here(&given);
                assert_eq!(left, schema(json!({"minLength": 1})), "{names} {name}");
            }
        }
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
