//! Removes the parts of a schema that cannot be used, so that no schema makes a tool unusable.

use serde_json::{Map, Value};

use super::schema_patterns::PatternBudget;
use super::visit_count::ID_KEYWORDS;

/// Keywords that hold schemas under arbitrary names.
const SCHEMA_MAP_KEYWORDS: [&str; 5] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "properties"];
/// Keywords that hold values and no schemas.
const VALUE_KEYWORDS: [&str; 5] = ["const", "default", "enum", "example", "examples"];
const REFERENCE_KEYWORDS: [&str; 3] = ["$dynamicRef", "$recursiveRef", "$ref"];
/// The keyword that names the dialect of a schema; it counts only at the root.
const DIALECT_KEYWORD: &str = "$schema";

/// The usable parts of a schema, and facts about the rest.
pub(super) struct UsableSchema {
    pub(super) schema: Value,
    pub(super) patterns: PatternBudget,
    /// Whether no pattern was removed.
    pub(super) is_complete: bool,
    /// Whether there are references below a removed id; they would resolve differently now.
    pub(super) has_relocated_references: bool,
}

/// Removes unusable patterns, and ids and dialects of subschemas.
pub(super) fn usable_schema(schema: &Value, patterns: PatternBudget) -> UsableSchema {
    let rules = schema.get(DIALECT_KEYWORD).and_then(Value::as_str).unwrap_or_default();
    let names = if rules.contains("draft-04") { &ID_KEYWORDS[..] } else { &ID_KEYWORDS[..1] };
    let mut walk = SchemaFilter {
        id_keywords: names,
        patterns,
        is_complete: true,
        has_relocated_references: false,
    };
    let left = match schema {
        Value::Object(members) => {
            let of_top = members.iter().filter(|(name, value)| is_root_keyword(name, value));
            let of_top: Vec<_> = of_top.map(|(name, it)| (name.clone(), it.clone())).collect();
            let mut kept = walk.filter_keywords(members, false);
            kept.extend(of_top);
            kept.into()
        }
        other => other.clone(),
    };
    let SchemaFilter {
        patterns, is_complete: is_whole, has_relocated_references: is_bundled, ..
    } = walk;
    UsableSchema {
        schema: left,
        patterns,
        is_complete: is_whole,
        has_relocated_references: is_bundled,
    }
}

struct SchemaFilter {
    /// The id keywords of the schema's dialect.
    id_keywords: &'static [&'static str],
    patterns: PatternBudget,
    is_complete: bool,
    has_relocated_references: bool,
}

fn is_root_keyword(keyword: &str, value: &Value) -> bool {
    (keyword == DIALECT_KEYWORD || ID_KEYWORDS.contains(&keyword)) && value.is_string()
}

impl SchemaFilter {
    fn filter_schema(&mut self, schema: &Value, is_named: bool) -> Value {
        match schema {
            Value::Object(members) => {
                let names = self.id_keywords.iter().filter_map(|name| members.get(*name)?.as_str());
                // An id that is only a fragment does not change the base of references.
                let is_named = is_named || names.into_iter().any(|name| !name.starts_with('#'));
                Value::Object(self.filter_keywords(members, is_named))
            }
            Value::Array(items) => {
                items.iter().map(|item| self.filter_schema(item, is_named)).collect()
            }
            other => other.clone(),
        }
    }

    fn filter_keywords(
        &mut self,
        members: &Map<String, Value>,
        is_named: bool,
    ) -> Map<String, Value> {
        let mut kept = Map::new();
        let mut lost_names = false;
        for (name, value) in members {
            let left = match (name.as_str(), value) {
                ("pattern", Value::String(pattern)) if !self.accept_pattern(pattern) => continue,
                ("patternProperties", Value::Object(patterns)) => {
                    let usable =
                        patterns.iter().filter(|(pattern, _)| self.accept_pattern(pattern));
                    let usable: Vec<_> = usable.collect();
                    lost_names |= usable.len() < patterns.len();
                    self.filter_named_schemas(usable, is_named)
                }
                (name, Value::Object(schemas)) if SCHEMA_MAP_KEYWORDS.contains(&name) => {
                    self.filter_named_schemas(schemas, is_named)
                }
                (name, value) if VALUE_KEYWORDS.contains(&name) => value.clone(),
                (name, value) if is_root_keyword(name, value) => continue,
                (name, value) => {
                    self.has_relocated_references |= is_named && REFERENCE_KEYWORDS.contains(&name);
                    self.filter_schema(value, is_named)
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

    fn filter_named_schemas<'a>(
        &mut self,
        schemas: impl IntoIterator<Item = (&'a String, &'a Value)>,
        is_named: bool,
    ) -> Value {
        let schemas = schemas.into_iter();
        schemas.map(|(name, schema)| (name.clone(), self.filter_schema(schema, is_named))).collect()
    }

    fn accept_pattern(&mut self, pattern: &str) -> bool {
        let is_usable = self.patterns.accept(pattern);
        self.is_complete &= is_usable;
        is_usable
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn left_of(schema: &Value) -> Value {
        usable_schema(schema, PatternBudget::default()).schema
    }

    #[test]
    fn properties_may_have_the_names_of_keywords() {
        for names in SCHEMA_MAP_KEYWORDS {
            for name in VALUE_KEYWORDS {
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
            let told = usable_schema(&json!({"items": part}), PatternBudget::default());
            assert_eq!(
                (told.has_relocated_references, told.is_complete),
                (expected, true),
                "{part}"
            );
        }
        let part = json!({"id": "a", "items": {"$ref": "#"}});
        for (rules, expected) in [("http://json-schema.org/draft-04/schema#", true), ("", false)] {
            let schema = json!({"$schema": rules, "items": part});
            assert_eq!(
                usable_schema(&schema, PatternBudget::default()).has_relocated_references,
                expected,
                "{rules}"
            );
        }
    }
}
