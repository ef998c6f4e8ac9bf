//! Limits `unevaluatedProperties` and `unevaluatedItems`, which depend on every schema that applies to the same value,
//! through all references. The validator expands these schemas when it is compiled: two references in an `allOf`, 25
//! levels deep, are 2 KB of schema and exhaust the memory. Where the expansion is too large, the keywords are removed.

use std::collections::HashMap;
use std::ptr;

use serde_json::Value;

use super::visit_count::{children, has_own_id, reference_target};

/// The maximum number of expanded schemas.
const MAX_EXPANDED_SCHEMAS: u64 = 10_000;
/// The maximum recursion depth.
const MAX_EXPANSION_DEPTH: usize = 300;
const UNEVALUATED_KEYWORDS: [&str; 2] = ["unevaluatedItems", "unevaluatedProperties"];

pub(super) fn has_costly_unevaluated(schema: &Value) -> bool {
    MAX_EXPANDED_SCHEMAS
        < ExpansionCount { root: schema, known: HashMap::new(), depth: 0 }.count_all(schema)
}

pub(super) fn remove_unevaluated(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            UNEVALUATED_KEYWORDS.iter().for_each(|keyword| drop(members.shift_remove(*keyword)));
            members.values_mut().for_each(remove_unevaluated);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_unevaluated),
        _ => {}
    }
}

struct ExpansionCount<'a> {
    root: &'a Value,
    known: HashMap<*const Value, u64>,
    depth: usize,
}

impl<'a> ExpansionCount<'a> {
    /// The number of schemas that all these keywords expand to.
    fn count_all(&mut self, schema: &'a Value) -> u64 {
        let below = children(schema).map(|child| self.count_all(child));
        let below = below.fold(0, u64::saturating_add);
        let is_one = UNEVALUATED_KEYWORDS.iter().any(|keyword| schema.get(keyword).is_some());
        if is_one { below.saturating_add(self.count_in_place(schema)) } else { below }
    }

    /// The number of schemas that apply to the same value, each counted once per path to it.
    fn count_in_place(&mut self, schema: &'a Value) -> u64 {
        let Some(keywords) = schema.as_object() else { return 1 };
        if let Some(known) = self.known.get(&ptr::from_ref(schema)) {
            return *known;
        }
        let is_elsewhere = has_own_id(schema) && !ptr::eq(schema, self.root);
        if is_elsewhere || MAX_EXPANSION_DEPTH < self.depth {
            return u64::MAX;
        }
        // Holds until the count is known: a circular schema is infinite.
        self.known.insert(ptr::from_ref(schema), u64::MAX);
        self.depth += 1;
        let mut total: u64 = 1;
        for (keyword, value) in keywords {
            let more = match keyword.as_str() {
                "$ref" => match reference_target(self.root, value) {
                    Some(target) => self.count_in_place(target),
                    None => u64::MAX,
                },
                "$dynamicRef" | "$recursiveRef" => u64::MAX,
                "not" | "if" | "then" | "else" => self.count_in_place(value),
                "allOf" | "anyOf" | "oneOf" | "dependentSchemas" => children(value)
                    .map(|schema| self.count_in_place(schema))
                    .fold(0, u64::saturating_add),
                _ => 0,
            };
            total = total.saturating_add(more);
        }
        self.depth -= 1;
        self.known.insert(ptr::from_ref(schema), total);
        total
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ladder(steps: usize) -> Value {
        let step = |step: usize| {
            let next = json!({"$ref": format!("#/$defs/{}", step + 1)});
            (step.to_string(), json!({"allOf": [next, next], "unevaluatedProperties": false}))
        };
        let mut all: serde_json::Map<String, Value> = (0..steps).map(step).collect();
        all.insert(steps.to_string(), json!({"properties": {"x": {}}}));
        json!({"$ref": "#/$defs/0", "$defs": all, "unevaluatedProperties": false})
    }

    #[test]
    fn cheap_keywords_stay_and_exploding_ones_are_removed() {
        assert!(!has_costly_unevaluated(&ladder(4)));
        for costly in [
            ladder(25),
            json!({"$ref": "#", "unevaluatedProperties": false}),
            json!({"$dynamicRef": "#a", "unevaluatedItems": false}),
        ] {
            assert!(has_costly_unevaluated(&costly));
            let mut left = costly;
            remove_unevaluated(&mut left);
            assert!(!left.to_string().contains("unevaluated"), "{left}");
        }
        assert!(!has_costly_unevaluated(&json!({"allOf": [{"$ref": "#"}]})));
    }

    #[test]
    fn a_schema_that_explodes_is_still_compiled() {
        let arguments = super::super::ArgumentValidator::compile(
            &ladder(25),
            super::super::UndeclaredArguments::Sent,
        );
        assert!(arguments.check(&serde_json::Map::new()).is_ok());
    }
}
