//! Removes the parts of a schema that cannot be used, so that no schema makes a tool unusable.

use serde_json::{Map, Value};

use super::patterns::Patterns;
use super::visits::NAMES;

/// Keywords that hold schemas under arbitrary names.
const SCHEMAS: [&str; 5] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "properties"];
/// Keywords that hold values and no schemas.
const VALUES: [&str; 5] = ["const", "default", "enum", "example", "examples"];
const REFERENCES: [&str; 3] = ["$dynamicRef", "$recursiveRef", "$ref"];
/// The keyword that names the dialect of a schema; it counts only at the root.
const RULES: &str = "$schema";

/// The usable parts of a schema, and facts about the rest.
pub(super) struct Usable {
    pub(super) schema: Value,
    pub(super) patterns: Patterns,
    /// Whether no pattern was removed.
    pub(super) is_whole: bool,
    /// Whether there are references below a removed id; they would resolve differently now.
    pub(super) is_bundled: bool,
}

/// Removes unusable patterns, and ids and dialects of subschemas.
pub(super) fn usable(schema: &Value, patterns: Patterns) -> Usable {
    let rules = schema.get(RULES).and_then(Value::as_str).unwrap_or_default();
    let names = if rules.contains("draft-04") { &NAMES[..] } else { &NAMES[..1] };
    let mut walk = Walk { names, patterns, is_whole: true, is_bundled: false };
    let left = match schema {
        Value::Object(members) => {
            let of_top = members.iter().filter(|(name, value)| is_said_at_top(name, value));
            let of_top: Vec<_> = of_top.map(|(name, it)| (name.clone(), it.clone())).collect();
            let mut kept = walk.members(members, false);
            kept.extend(of_top);
            kept.into()
        }
        other => other.clone(),
    };
    let Walk { patterns, is_whole, is_bundled, .. } = walk;
    Usable { schema: left, patterns, is_whole, is_bundled }
}

struct Walk {
    /// The id keywords of the schema's dialect.
    names: &'static [&'static str],
    patterns: Patterns,
    is_whole: bool,
    is_bundled: bool,
}

fn is_said_at_top(keyword: &str, value: &Value) -> bool {
    (keyword == RULES || NAMES.contains(&keyword)) && value.is_string()
}

impl Walk {
    fn part(&mut self, schema: &Value, is_named: bool) -> Value {
        match schema {
            Value::Object(members) => {
                let names = self.names.iter().filter_map(|name| members.get(*name)?.as_str());
                // An id that is only a fragment does not change the base of references.
                let is_named = is_named || names.into_iter().any(|name| !name.starts_with('#'));
                Value::Object(self.members(members, is_named))
            }
            Value::Array(items) => items.iter().map(|item| self.part(item, is_named)).collect(),
            other => other.clone(),
        }
    }

    fn members(&mut self, members: &Map<String, Value>, is_named: bool) -> Map<String, Value> {
        let mut kept = Map::new();
        let mut lost_names = false;
        for (name, value) in members {
            let left = match (name.as_str(), value) {
                ("pattern", Value::String(pattern)) if !self.is_usable(pattern) => continue,
                ("patternProperties", Value::Object(patterns)) => {
                    let usable = patterns.iter().filter(|(pattern, _)| self.is_usable(pattern));
                    let usable: Vec<_> = usable.collect();
                    lost_names |= usable.len() < patterns.len();
                    self.named(usable, is_named)
                }
                (name, Value::Object(schemas)) if SCHEMAS.contains(&name) => {
                    self.named(schemas, is_named)
                }
                (name, value) if VALUES.contains(&name) => value.clone(),
                (name, value) if is_said_at_top(name, value) => continue,
                (name, value) => {
                    self.is_bundled |= is_named && REFERENCES.contains(&name);
                    self.part(value, is_named)
                }
            };
            kept.insert(name.clone(), left);
        }
        if lost_names {
            // It would now apply to names that the removed pattern matched.
            kept.remove("additionalProperties");
        }
        kept
    }

    fn named<'a>(
        &mut self,
        schemas: impl IntoIterator<Item = (&'a String, &'a Value)>,
        is_named: bool,
    ) -> Value {
        let schemas = schemas.into_iter();
        schemas.map(|(name, schema)| (name.clone(), self.part(schema, is_named))).collect()
    }

    fn is_usable(&mut self, pattern: &str) -> bool {
        let is_usable = self.patterns.take(pattern);
        self.is_whole &= is_usable;
        is_usable
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn left_of(schema: &Value) -> Value {
        usable(schema, Patterns::default()).schema
    }

    #[test]
    fn properties_may_have_the_names_of_keywords() {
        for names in SCHEMAS {
            for name in VALUES {
                let schema = |below: Value| json!({names: {name: below}});
                let given = schema(json!({"pattern": "(?!x)a", "minLength": 1}));
                assert_eq!(left_of(&given), schema(json!({"minLength": 1})), "{names} {name}");
            }
        }
    }

    #[test]
    fn ids_and_dialects_are_kept_only_at_the_root() {
        let schema = |rules: &str, part: Value| json!({"$schema": rules, "$id": "https://a.test/", "id": "b", "properties": {"id": part, "$id": {}}});
        let left = json!({"type": "string", "const": {"$id": "x"}});
        for rules in ["http://json-schema.org/draft-04/schema#", "another"] {
            let part = json!({"$id": "#a", "id": "b", "$schema": "another", "type": "string", "const": {"$id": "x"}});
            assert_eq!(left_of(&schema(rules, part)), schema(rules, left.clone()));
        }
    }

    #[test]
    fn references_below_an_id_would_resolve_differently() {
        for (name, inner, expected) in [
            ("https://a.test/", json!({"$ref": "#/$defs/a"}), true),
            ("https://a.test/", json!({"$ref": {}}), true),
            ("https://a.test/", json!({"properties": {"$ref": {}}}), false),
            ("https://a.test/", json!({"const": {"$ref": "#"}}), false),
            ("#a", json!({"$ref": "#/$defs/a"}), false),
        ] {
            let part = json!({"$id": name, "items": inner});
            let told = usable(&json!({"items": part}), Patterns::default());
            assert_eq!((told.is_bundled, told.is_whole), (expected, true), "{part}");
        }
        let part = json!({"id": "a", "items": {"$ref": "#"}});
        for (rules, expected) in [("http://json-schema.org/draft-04/schema#", true), ("", false)] {
            let schema = json!({"$schema": rules, "items": part});
            assert_eq!(usable(&schema, Patterns::default()).is_bundled, expected, "{rules}");
        }
    }
}
