//! Limits `unevaluatedProperties` and `unevaluatedItems`, which depend on every schema that applies to the same value,
//! through all references. The validator expands these schemas when it is compiled: two references in an `allOf`, 25
//! levels deep, are 2 KB of schema and exhaust the memory. Where the expansion is too large, the keywords are removed.

use std::collections::HashMap;
use std::ptr;

use serde_json::Value;

use super::visits::{children, has_own_name, target};

/// The maximum number of expanded schemas.
const MOST: u64 = 10_000;
/// The maximum recursion depth.
const DEPTH: usize = 300;
const KEYWORDS: [&str; 2] = ["unevaluatedItems", "unevaluatedProperties"];

pub(super) fn is_costly(schema: &Value) -> bool {
    MOST < Count { root: schema, known: HashMap::new(), depth: 0 }.everywhere(schema)
}

pub(super) fn remove(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            KEYWORDS.iter().for_each(|keyword| drop(members.shift_remove(*keyword)));
            members.values_mut().for_each(remove);
        }
        Value::Array(items) => items.iter_mut().for_each(remove),
        _ => {}
    }
}

struct Count<'a> {
    root: &'a Value,
    known: HashMap<*const Value, u64>,
    depth: usize,
}

impl<'a> Count<'a> {
    /// The number of schemas that all these keywords expand to.
    fn everywhere(&mut self, schema: &'a Value) -> u64 {
        let below = children(schema).map(|child| self.everywhere(child));
        let below = below.fold(0, u64::saturating_add);
        let is_one = KEYWORDS.iter().any(|keyword| schema.get(keyword).is_some());
        if is_one { below.saturating_add(self.about_the_same(schema)) } else { below }
    }

    /// The number of schemas that apply to the same value, each counted once per path to it.
    fn about_the_same(&mut self, schema: &'a Value) -> u64 {
        let Some(keywords) = schema.as_object() else { return 1 };
        if let Some(known) = self.known.get(&ptr::from_ref(schema)) {
            return *known;
        }
        let is_elsewhere = has_own_name(schema) && !ptr::eq(schema, self.root);
        if is_elsewhere || DEPTH < self.depth {
            return u64::MAX;
        }
        // Holds until the count is known: a circular schema is infinite.
        self.known.insert(ptr::from_ref(schema), u64::MAX);
        self.depth += 1;
        let mut total: u64 = 1;
        for (keyword, value) in keywords {
            let more = match keyword.as_str() {
                "$ref" => match target(self.root, value) {
                    Some(target) => self.about_the_same(target),
                    None => u64::MAX,
                },
                "$dynamicRef" | "$recursiveRef" => u64::MAX,
                "not" | "if" | "then" | "else" => self.about_the_same(value),
                "allOf" | "anyOf" | "oneOf" | "dependentSchemas" => children(value)
                    .map(|schema| self.about_the_same(schema))
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
        assert!(!is_costly(&ladder(4)));
        for costly in [
            ladder(25),
            json!({"$ref": "#", "unevaluatedProperties": false}),
            json!({"$dynamicRef": "#a", "unevaluatedItems": false}),
        ] {
            assert!(is_costly(&costly));
            let mut left = costly;
            remove(&mut left);
            assert!(!left.to_string().contains("unevaluated"), "{left}");
        }
        assert!(!is_costly(&json!({"allOf": [{"$ref": "#"}]})));
    }

    #[test]
    fn a_schema_that_explodes_is_still_compiled() {
        let arguments = super::super::Arguments::compile(&ladder(25), super::super::Others::Sent);
        assert!(arguments.check(&serde_json::Map::new()).is_ok());
    }
}
