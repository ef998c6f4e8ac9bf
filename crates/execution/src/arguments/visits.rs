//! How much work a check would be: how often the validator would look at a part of the arguments with a part of the
//! schema.
//!
//! Two references in an `anyOf`, thirty levels deep, are 2 KB of schema and a billion visits. Counting them is cheap,
//! because each pair of schema and value is counted once and then remembered.

use std::collections::HashMap;
use std::ptr;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// How many pairs are counted before we give up.
const PAIRS: usize = 50_000;
/// So many are too many: counting on would take long itself.
const ENOUGH: u64 = 1_000_000;
/// How far in we go: counting and checking use the stack.
const DEPTH: usize = 300;

/// An upper bound for the visits of this check. The most there can be if that is not known.
pub(super) fn visits(schema: &Value, instance: &Value) -> u64 {
    Count { root: schema, known: HashMap::new(), depth: 0 }.visits(schema, instance)
}

/// Whether a check looks at each value once at most, with one part of the schema: no reference leads anywhere, and no two
/// schemas are about the same value. Then the visits are as many as there are values, and need no counting.
pub(super) fn looks_once(schema: &Value) -> bool {
    let Some(keywords) = schema.as_object() else { return schema.is_boolean() };
    keywords.iter().all(|(keyword, value)| match keyword.as_str() {
        "properties" => children(value).all(looks_once),
        "items" | "additionalProperties" => looks_once(value),
        keyword => !COUNTED.contains(&keyword),
    })
}

/// All other keywords that `Count` has something to say about.
const COUNTED: [&str; 20] = [
    "$dynamicRef",
    "$id",
    "$recursiveRef",
    "$ref",
    "allOf",
    "anyOf",
    "contains",
    "dependencies",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

struct Count<'a> {
    root: &'a Value,
    known: HashMap<(*const Value, *const Value), u64>,
    depth: usize,
}

impl<'a> Count<'a> {
    fn visits(&mut self, schema: &'a Value, instance: &'a Value) -> u64 {
        let Some(keywords) = schema.as_object() else { return 1 };
        let pair = (ptr::from_ref(schema), ptr::from_ref(instance));
        if let Some(known) = self.known.get(&pair) {
            return *known;
        }
        let is_elsewhere = keywords.contains_key("$id") && !ptr::eq(schema, self.root);
        if is_elsewhere || PAIRS < self.known.len() || DEPTH < self.depth {
            return u64::MAX;
        }
        // Stands until the pair is counted: a schema that leads back to itself on the way never ends.
        self.known.insert(pair, u64::MAX);
        self.depth += 1;
        let mut total: u64 = 1;
        for (keyword, value) in keywords {
            total = total.saturating_add(self.keyword(keyword, value, instance));
        }
        if keywords.keys().any(|keyword| keyword.starts_with("unevaluated")) {
            // Looks at everything beside it once more.
            total = total.saturating_mul(2);
        }
        self.depth -= 1;
        self.known.insert(pair, total);
        total
    }

    fn keyword(&mut self, keyword: &str, value: &'a Value, instance: &'a Value) -> u64 {
        match keyword {
            "$ref" => match target(self.root, value) {
                Some(target) => self.visits(target, instance),
                None => u64::MAX,
            },
            // Where these lead is not seen from the schema alone.
            "$dynamicRef" | "$recursiveRef" => u64::MAX,
            "not" | "if" | "then" | "else" => self.visits(value, instance),
            "allOf" | "anyOf" | "oneOf" | "dependentSchemas" => {
                self.sum(children(value).map(|schema| (schema, instance)))
            }
            "properties" => {
                let schemas = value.as_object().into_iter().flatten();
                let inside =
                    schemas.filter_map(|(name, schema)| Some((schema, instance.get(name)?)));
                self.sum(inside).saturating_add(looked_up(value))
            }
            "enum" | "required" => looked_up(value),
            "patternProperties" | "prefixItems" => {
                let pairs = children(value)
                    .flat_map(|schema| children(instance).map(move |child| (schema, child)));
                self.sum(pairs)
            }
            "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
            | "items"
            | "unevaluatedItems"
            | "contains" => self.sum(children(instance).map(|child| (value, child))),
            // Linear, but in the length of the text times the size of the pattern.
            "pattern" => instance.as_str().map_or(0, |text| text.len() as u64 / 2),
            _ => 0,
        }
    }

    fn sum(&mut self, pairs: impl Iterator<Item = (&'a Value, &'a Value)>) -> u64 {
        let mut total: u64 = 0;
        for (schema, instance) in pairs {
            total = total.saturating_add(self.visits(schema, instance));
            if ENOUGH < total {
                return u64::MAX;
            }
        }
        total
    }
}

/// What it takes to look through names and values, which are many for one look.
fn looked_up(value: &Value) -> u64 {
    const AT_ONCE: usize = 8;
    let number = value.as_array().map_or_else(|| value.as_object().map_or(0, Map::len), Vec::len);
    (number / AT_ONCE) as u64
}

/// Where a reference within the schema leads: `#/$defs/Pet`.
pub(super) fn target<'a>(root: &'a Value, reference: &Value) -> Option<&'a Value> {
    let pointer = reference.as_str()?.strip_prefix('#')?;
    root.pointer(&percent_decode_str(pointer).decode_utf8().ok()?)
}

/// The members of an object, or the items of a list.
pub(super) fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Object(members) => Box::new(members.values()),
        Value::Array(items) => Box::new(items.iter()),
        _ => Box::new(std::iter::empty()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_without_references_and_choices_looks_once() {
        let inner = json!({"type": "array", "items": {"type": "integer", "minimum": 1}});
        let plain = json!({
            "type": "object", "required": ["a"], "properties": {"a": inner, "$ref": true},
            "additionalProperties": {"enum": [1, {"$ref": "#"}]}, "$defs": {"a": {"$ref": "#"}},
        });
        assert!(looks_once(&plain));
        let once = visits(&plain, &json!({"a": [1, 2], "$ref": 0}));
        assert!(once <= 20, "{once}");
    }

    #[test]
    fn wherever_there_is_one_it_may_look_again() {
        for keyword in COUNTED {
            let inner = json!({keyword: {}});
            for schema in [
                json!({"properties": {"a": inner}}),
                json!({"items": {"items": inner}}),
                json!({"additionalProperties": inner}),
                json!({"type": "object", keyword: []}),
            ] {
                assert!(!looks_once(&schema), "{schema}");
            }
        }
        assert!(!looks_once(&json!({"items": [{"$ref": "#"}]})));
    }
}
