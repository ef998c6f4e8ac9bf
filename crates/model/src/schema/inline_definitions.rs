//! Inlines definitions of a schema for agents, to make it shorter.
//!
//! Stored schemas share their definitions with other tools. In a single schema, inlining a definition saves bytes if it
//! is used once, or is shorter than its references.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// Deepest nesting of schemas before a definition stays in `$defs`. Each is two levels of JSON, and many parsers accept
/// only 128 levels.
const MAX_DEPTH: usize = 40;
const DEFINITION_PREFIX: &str = "#/$defs/";
/// Keywords whose value is data and not a schema.
const DATA_KEYWORDS: [&str; 4] = ["const", "default", "enum", "examples"];
/// Keywords whose value maps names to schemas.
const SCHEMA_MAP_KEYWORDS: [&str; 4] =
    ["properties", "patternProperties", "dependentSchemas", "$defs"];

/// Inlines definitions where that is shorter. A schema with references to other targets is returned unchanged.
pub(super) fn inline_definitions(mut schema: Value) -> Value {
    let Some(definitions) = schema.get("$defs").and_then(Value::as_object) else { return schema };
    let mut uses = ReferenceCounts::default();
    count_references(&schema, &mut uses);
    if uses.has_other_references || uses.names.keys().any(|name| !definitions.contains_key(name)) {
        return schema;
    }
    let Some(Value::Object(definitions)) =
        schema.as_object_mut().and_then(|root| root.shift_remove("$defs"))
    else {
        return schema;
    };
    let mut stay: HashSet<String> = HashSet::new();
    for (name, definition) in &definitions {
        if stays_shared(name, definition, uses.names.get(name).copied().unwrap_or_default()) {
            stay.insert(name.clone());
        }
    }
    let kept: Vec<String> = stay.iter().cloned().collect();
    let mut places = DefinitionInliner { definitions, shared: stay, pending: kept, depth: 0 };
    places.inline_references(&mut schema);
    // Cyclic definitions keep referring to each other in `$defs`.
    let mut rest = Map::new();
    while let Some(name) = places.pending.pop() {
        if !rest.contains_key(&name)
            && let Some(mut definition) = places.definitions.get(&name).cloned()
        {
            places.inline_references(&mut definition);
            rest.insert(name, definition);
        }
    }
    rest.sort_keys();
    if let (Some(root), false) = (schema.as_object_mut(), rest.is_empty()) {
        root.insert("$defs".to_owned(), Value::Object(rest));
    }
    schema
}

/// Whether a definition with this many uses stays in `$defs`.
fn stays_shared(name: &str, definition: &Value, uses: usize) -> bool {
    if uses < 2 || !definition.is_object() {
        return 0 < uses && !definition.is_object();
    }
    let mut inner = ReferenceCounts::default();
    count_references(definition, &mut inner);
    let length = definition.to_string().len();
    let reference = DEFINITION_PREFIX.len() + name.len() + 11;
    !inner.names.is_empty() || uses * reference + name.len() + 4 + length < uses * length
}

struct DefinitionInliner {
    definitions: Map<String, Value>,
    /// Names of the definitions that stay in `$defs`.
    shared: HashSet<String>,
    /// Definitions to put into `$defs` that are not processed yet: the shared ones, and those nested too deeply.
    pending: Vec<String>,
    depth: usize,
}

impl DefinitionInliner {
    /// Replaces references to inlined definitions below a schema.
    fn inline_references(&mut self, schema: &mut Value) {
        let Some(object) = schema.as_object_mut() else { return };
        while let Some(name) = object
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|text| text.strip_prefix(DEFINITION_PREFIX))
        {
            if self.shared.contains(name) {
                break;
            }
            if MAX_DEPTH < self.depth {
                self.pending.push(name.to_owned());
                break;
            }
            let Some(Value::Object(definition)) = self.definitions.get(name) else { break };
            let merged = merge_reference(definition, object);
            *object = merged;
        }
        self.depth += 1;
        for (key, value) in object.iter_mut() {
            match value {
                _ if DATA_KEYWORDS.contains(&key.as_str()) => {}
                Value::Object(named) if SCHEMA_MAP_KEYWORDS.contains(&key.as_str()) => {
                    named.values_mut().for_each(|value| self.inline_references(value));
                }
                Value::Array(items) => {
                    items.iter_mut().for_each(|item| self.inline_references(item))
                }
                value => self.inline_references(value),
            }
        }
        self.depth -= 1;
    }
}

/// Merges a definition with the keywords beside its reference. Annotations beside the reference win; conflicting
/// constraints are combined with `allOf`.
fn merge_reference(
    definition: &Map<String, Value>,
    beside: &Map<String, Value>,
) -> Map<String, Value> {
    let describes = |key: &str| {
        matches!(key, "title" | "description" | "default" | "examples" | "deprecated" | "$comment")
    };
    let beside = beside
        .iter()
        .filter(|(key, _)| *key != "$ref")
        .map(|(key, value)| (key.clone(), value.clone()));
    let beside: Map<String, Value> = beside.collect();
    if beside.keys().all(|key| !definition.contains_key(key) || describes(key)) {
        let mut merged = definition.clone();
        merged.extend(beside);
        return merged;
    }
    let mut both = beside;
    let definition = Value::Object(definition.clone());
    match both.get_mut("allOf") {
        Some(Value::Array(items)) => items.push(definition),
        _ => drop(both.insert("allOf".to_owned(), Value::Array(vec![definition]))),
    }
    both
}

/// Number of references to each definition.
#[derive(Default)]
struct ReferenceCounts {
    names: HashMap<String, usize>,
    /// Whether there are references or anchors of other kinds.
    has_other_references: bool,
}

fn count_references(schema: &Value, uses: &mut ReferenceCounts) {
    let Some(object) = schema.as_object() else { return };
    for (key, value) in object {
        match value {
            _ if DATA_KEYWORDS.contains(&key.as_str()) => {}
            Value::String(text) if key == "$ref" => match text.strip_prefix(DEFINITION_PREFIX) {
                Some(name) => *uses.names.entry(name.to_owned()).or_default() += 1,
                None => uses.has_other_references = true,
            },
            Value::String(_)
                if matches!(key.as_str(), "$dynamicRef" | "$anchor" | "$dynamicAnchor" | "$id") =>
            {
                uses.has_other_references = true;
            }
            Value::Object(named) if SCHEMA_MAP_KEYWORDS.contains(&key.as_str()) => {
                named.values().for_each(|value| count_references(value, uses));
            }
            Value::Array(items) => items.iter().for_each(|item| count_references(item, uses)),
            value => count_references(value, uses),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn long() -> Value {
        json!({"type": "string", "description": "a long description of what this is, again and again and again and again"})
    }

    #[test]
    fn a_definition_used_once_is_inlined() {
        let schema = json!({"properties": {"a": {"$ref": "#/$defs/A", "description": "mine"}},
            "$defs": {"A": {"items": {"$ref": "#/$defs/B"}, "description": "its"}, "B": long()}});
        assert_eq!(
            inline_definitions(schema),
            json!({"properties": {"a": {"items": long(), "description": "mine"}}})
        );
    }

    #[test]
    fn a_long_definition_used_twice_stays_and_a_short_one_is_inlined() {
        let twice = |definition: Value| json!({"properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/A"}}, "$defs": {"A": definition}});
        assert_eq!(inline_definitions(twice(long())), twice(long()));
        let short = json!({"type": "integer"});
        assert_eq!(
            inline_definitions(twice(short.clone())),
            json!({"properties": {"a": short, "b": short}})
        );
    }

    #[test]
    fn cyclic_definitions_stay_cyclic() {
        let schema = json!({"properties": {"v": {"$ref": "#/$defs/Node"}},
            "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}}}});
        assert_eq!(inline_definitions(schema.clone()), schema);
        let two = json!({"properties": {"v": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"items": {"$ref": "#/$defs/A"}}}});
        let expected = json!({"properties": {"v": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {"items": {"items": {"$ref": "#/$defs/A"}}}}});
        assert_eq!(inline_definitions(two), expected);
    }

    #[test]
    fn a_reference_with_conflicting_keywords_keeps_both() {
        let schema = json!({"properties": {"a": {"$ref": "#/$defs/A", "maxLength": 3}},
            "$defs": {"A": {"type": "string", "maxLength": 5}}});
        let expected = json!({"properties": {"a": {"maxLength": 3, "allOf": [{"type": "string", "maxLength": 5}]}}});
        assert_eq!(inline_definitions(schema), expected);
    }

    #[test]
    fn a_schema_with_other_references_is_unchanged() {
        for reference in ["#/$defs/A/properties/b", "#a", "#/$defs/B", "#"] {
            let schema = json!({"properties": {"a": {"$ref": reference}},
                "$defs": {"A": {"$anchor": "a", "properties": {"b": {"type": "null"}}}}});
            assert_eq!(inline_definitions(schema.clone()), schema);
        }
    }

    #[test]
    fn a_boolean_definition_stays() {
        let schema = json!({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": true}});
        assert_eq!(inline_definitions(schema.clone()), schema);
    }

    #[test]
    fn a_long_chain_of_definitions_stays_within_the_depth_limit() {
        let next = |at: usize| json!({"properties": {"next": {"$ref": format!("#/$defs/S{at}")}}});
        let definitions: Map<String, Value> =
            (0..500).map(|at| (format!("S{at}"), next(at + 1))).collect();
        let mut schema = json!({"properties": {"a": {"$ref": "#/$defs/S0"}}, "$defs": definitions});
        schema["$defs"]["S500"] = json!({"type": "null"});
        let text = inline_definitions(schema).to_string();
        let schema: Value = serde_json::from_str(&text).unwrap();
        let mut uses = ReferenceCounts::default();
        count_references(&schema, &mut uses);
        assert!(!uses.names.is_empty());
        assert!(uses.names.keys().all(|name| schema["$defs"].get(name).is_some()), "{text}");
    }

    #[test]
    fn ref_in_data_or_as_a_property_name_is_no_reference() {
        let schema = json!({"properties": {"$ref": {"type": "string", "examples": [{"$ref": "#/$defs/A"}]}},
            "default": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "null"}}});
        let expected = json!({"properties": {"$ref": {"type": "string", "examples": [{"$ref": "#/$defs/A"}]}},
            "default": {"$ref": "#/$defs/A"}});
        assert_eq!(inline_definitions(schema), expected);
    }
}
