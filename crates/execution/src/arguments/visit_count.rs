//! Estimates the work of a validation: how often the validator visits a part of the arguments with a part of the
//! schema.
//!
//! Two references in an `anyOf`, thirty levels deep, are 2 KB of schema and a billion visits. Counting them is cheap,
//! because each pair of schema and value is counted once and then remembered.

use std::collections::HashMap;
use std::ptr;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Number, Value};

use super::TEXT_PER_VALUE;
use super::schema_patterns::PatternBudget;

/// The maximum number of counted pairs.
const MAX_PAIRS: usize = 50_000;
/// Counting stops here, above every limit: counting on would take long itself.
const VISIT_CEILING: u64 = 1_000_000;
/// The number of names or values that cost one visit.
const NAMES_PER_VISIT: u64 = 8;
const PAIRWISE_ITEMS: usize = 15;
/// The product of text bytes and KiB of a compiled pattern that costs one visit.
const MATCH_STEPS_PER_VISIT: u64 = 13;
/// Keywords that give a schema an id; `id` only in draft 4.
pub(super) const ID_KEYWORDS: [&str; 2] = ["$id", "id"];
/// Visits for a `multipleOf` that needs large integers, and the magnitude (or its inverse) from which it does.
const BIG_DIVISION_VISITS: u64 = 300;
const MAX_FAST_DIVISION: f64 = 1e15;
/// The maximum recursion depth: counting and validating use the stack.
const MAX_COUNT_DEPTH: usize = 300;

/// A reference cannot be resolved, so the visits cannot be counted.
#[derive(Debug)]
pub(super) struct UnresolvableReference;

/// An upper bound for the visits of a validation.
pub(super) fn count_visits(
    schema: &Value,
    instance: &Value,
    patterns: &PatternBudget,
) -> Result<u64, UnresolvableReference> {
    count_visits_with_text_limit(schema, instance, patterns, u64::MAX)
}

/// An upper bound for the visits if all texts were short.
pub(super) fn count_visits_of_short_texts(
    schema: &Value,
    instance: &Value,
    patterns: &PatternBudget,
) -> Result<u64, UnresolvableReference> {
    count_visits_with_text_limit(schema, instance, patterns, super::SHORT_TEXT_BYTES)
}

fn count_visits_with_text_limit(
    schema: &Value,
    instance: &Value,
    patterns: &PatternBudget,
    longest: u64,
) -> Result<u64, UnresolvableReference> {
    let (known, sizes, names) = (HashMap::new(), HashMap::new(), HashMap::new());
    let (depth, is_lost) = (0, false);
    let mut count = VisitCounter {
        root: schema,
        patterns,
        counted_text_bytes: longest,
        known,
        sizes,
        names,
        depth,
        has_unresolvable_reference: is_lost,
    };
    let visits = count.count_pair(schema, InstancePart::Value(instance));
    if count.has_unresolvable_reference { Err(UnresolvableReference) } else { Ok(visits) }
}

/// Whether a validation visits each value at most once: the schema has no references, and no two subschemas apply to
/// the same value. Then the number of visits is the number of values, and needs no counting.
pub(super) fn visits_values_once(schema: &Value) -> bool {
    let Some(keywords) = schema.as_object() else { return schema.is_boolean() };
    keywords.iter().all(|(keyword, value)| match keyword.as_str() {
        // Limited, so that searching the names costs at most one visit.
        "properties" => {
            lookup_cost(value) <= super::SMALL_VALUE_COUNT
                && children(value).all(visits_values_once)
        }
        "items" | "additionalProperties" => visits_values_once(value),
        "const" | "dependentRequired" | "enum" | "required" => {
            super::count_values(value) <= super::SMALL_VALUE_COUNT
        }
        keyword => !REVISITING_KEYWORDS.contains(&keyword),
    })
}

/// All other keywords that may visit a value again, or for long.
const REVISITING_KEYWORDS: [&str; 24] = [
    "$dynamicRef",
    "$id",
    "$recursiveRef",
    "$ref",
    "additionalItems",
    "allOf",
    "anyOf",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "dependencies",
    "dependentSchemas",
    "else",
    "if",
    "multipleOf",
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

/// A visited part of the arguments.
#[derive(Clone, Copy)]
enum InstancePart<'a> {
    Value(&'a Value),
    /// The name of a field.
    Name(&'a str),
}

impl<'a> InstancePart<'a> {
    fn address(self) -> *const u8 {
        match self {
            Self::Value(value) => ptr::from_ref(value).cast(),
            Self::Name(name) => name.as_ptr(),
        }
    }

    fn as_text(self) -> Option<&'a str> {
        match self {
            Self::Value(value) => value.as_str(),
            Self::Name(name) => Some(name),
        }
    }

    fn as_object(self) -> Option<&'a Map<String, Value>> {
        match self {
            Self::Value(value) => value.as_object(),
            Self::Name(_) => None,
        }
    }

    fn children(self) -> Box<dyn Iterator<Item = Self> + 'a> {
        match self {
            Self::Value(value) => Box::new(children(value).map(Self::Value)),
            Self::Name(_) => Box::new(std::iter::empty()),
        }
    }
}

struct VisitCounter<'a> {
    root: &'a Value,
    patterns: &'a PatternBudget,
    /// The counted length of a text, in bytes.
    counted_text_bytes: u64,
    known: HashMap<(*const Value, *const u8), u64>,
    sizes: HashMap<*const Value, u64>,
    names: HashMap<*const Value, u64>,
    depth: usize,
    /// Whether a reference cannot be resolved.
    has_unresolvable_reference: bool,
}

impl<'a> VisitCounter<'a> {
    fn count_pair(&mut self, schema: &'a Value, part: InstancePart<'a>) -> u64 {
        let Some(keywords) = schema.as_object() else { return 1 };
        let pair = (ptr::from_ref(schema), part.address());
        if let Some(known) = self.known.get(&pair) {
            return *known;
        }
        if has_own_id(schema) && !ptr::eq(schema, self.root) {
            return self.mark_unresolvable();
        }
        if MAX_PAIRS < self.known.len() || MAX_COUNT_DEPTH < self.depth {
            return u64::MAX;
        }
        // Holds until the pair is counted: a circular schema never ends.
        self.known.insert(pair, u64::MAX);
        self.depth += 1;
        let mut total: u64 = 1 + keywords.len() as u64 / NAMES_PER_VISIT;
        for (keyword, value) in keywords {
            total = total.saturating_add(self.count_keyword(keyword, value, part));
            if VISIT_CEILING < total {
                total = u64::MAX;
                break;
            }
        }
        if keywords.keys().any(|keyword| keyword.starts_with("unevaluated")) {
            // These keywords visit everything beside them once more.
            total = total.saturating_mul(2);
        }
        self.depth -= 1;
        self.known.insert(pair, total);
        total
    }

    /// Counts the visits of one keyword. Covers all keywords of all JSON Schema drafts that apply schemas or may take
    /// long.
    fn count_keyword(&mut self, keyword: &str, value: &'a Value, part: InstancePart<'a>) -> u64 {
        match keyword {
            "$ref" => match reference_target(self.root, value) {
                Some(target) => self.count_pair(target, part),
                None => self.mark_unresolvable(),
            },
            // The target depends on the dynamic scope, not on the schema alone.
            "$dynamicRef" | "$recursiveRef" => self.mark_unresolvable(),
            "not" | "if" | "then" | "else" => self.count_pair(value, part),
            "allOf" | "anyOf" | "oneOf" => {
                self.count_pairs(children(value).map(|schema| (schema, part)))
            }
            "dependencies" | "dependentSchemas" => {
                let inside = self.count_pairs(children(value).map(|schema| (schema, part)));
                inside.saturating_add(self.cached_lookup_cost(value))
            }
            "properties" => {
                let schemas = value.as_object().into_iter().flatten();
                let inside = schemas.filter_map(|(name, schema)| {
                    Some((schema, InstancePart::Value(part.as_object()?.get(name)?)))
                });
                self.count_pairs(inside).saturating_add(self.cached_lookup_cost(value))
            }
            "required" => self.cached_lookup_cost(value),
            "dependentRequired" => self.cached_size(value),
            "const" | "enum" => self.cached_size(value) / NAMES_PER_VISIT,
            "multipleOf" => match part {
                // Numbers beyond hardware division are divided as large integers.
                InstancePart::Value(Value::Number(number)) if !divides_fast(number) => {
                    BIG_DIVISION_VISITS
                }
                InstancePart::Value(_) | InstancePart::Name(_) => 0,
            },
            "uniqueItems" if *value == Value::Bool(true) => match part {
                // The validator compares a few items pairwise, and hashes many.
                InstancePart::Value(value @ Value::Array(items))
                    if items.len() <= PAIRWISE_ITEMS =>
                {
                    self.cached_size(value).saturating_mul(items.len() as u64) / NAMES_PER_VISIT
                }
                InstancePart::Value(value @ Value::Array(_)) => self.cached_size(value),
                InstancePart::Value(_) | InstancePart::Name(_) => 0,
            },
            "patternProperties" => {
                let names = part.as_object().into_iter().flat_map(Map::keys);
                let names: u64 = names.map(|name| 1 + self.counted_length(name)).sum();
                let patterns = value.as_object().into_iter().flat_map(Map::keys);
                let texts: u64 = patterns.map(|pattern| self.matching_cost(pattern, names)).sum();
                self.count_children(children(value), part)
                    .saturating_add(texts)
                    .saturating_add(names / NAMES_PER_VISIT)
            }
            "propertyNames" => {
                let names = part.as_object().into_iter().flat_map(Map::keys);
                self.count_pairs(names.map(|name| (value, InstancePart::Name(name))))
            }
            "items" if value.is_array() => self.count_children(children(value), part),
            "prefixItems" => self.count_children(children(value), part),
            "additionalItems" | "contains" | "items" | "unevaluatedItems" => {
                self.count_children(std::iter::once(value), part)
            }
            "additionalProperties" | "unevaluatedProperties" => {
                let inside = self.count_children(std::iter::once(value), part);
                match part {
                    InstancePart::Value(members) => {
                        inside.saturating_add(self.cached_lookup_cost(members))
                    }
                    InstancePart::Name(_) => inside,
                }
            }
            "pattern" => {
                let pattern = value.as_str().unwrap_or_default();
                self.matching_cost(
                    pattern,
                    part.as_text().map_or(0, |text| self.counted_length(text)),
                )
            }
            "contentEncoding" | "contentMediaType" | "maxLength" | "minLength" => {
                part.as_text().map_or(0, |text| self.counted_length(text) / TEXT_PER_VALUE)
            }
            _ => 0,
        }
    }

    fn counted_length(&self, text: &str) -> u64 {
        (text.len() as u64).min(self.counted_text_bytes)
    }

    fn mark_unresolvable(&mut self) -> u64 {
        self.has_unresolvable_reference = true;
        u64::MAX
    }

    /// Visits of all schemas with all children.
    fn count_children(
        &mut self,
        schemas: impl Iterator<Item = &'a Value>,
        part: InstancePart<'a>,
    ) -> u64 {
        self.count_pairs(
            schemas.flat_map(|schema| part.children().map(move |child| (schema, child))),
        )
    }

    fn count_pairs(&mut self, pairs: impl Iterator<Item = (&'a Value, InstancePart<'a>)>) -> u64 {
        let mut total: u64 = 0;
        for (schema, part) in pairs {
            total = total.saturating_add(self.count_pair(schema, part));
            if VISIT_CEILING < total {
                return u64::MAX;
            }
        }
        total
    }

    /// The cost of matching a pattern: linear, with a factor of the pattern's size in the worst case.
    fn matching_cost(&self, pattern: &str, bytes: u64) -> u64 {
        let size = self.patterns.pattern_kib(pattern) as u64;
        (bytes / 2).max(bytes.saturating_mul(size) / MATCH_STEPS_PER_VISIT)
    }

    /// [`lookup_cost`], computed once per value.
    fn cached_lookup_cost(&mut self, value: &'a Value) -> u64 {
        *self.names.entry(ptr::from_ref(value)).or_insert_with(|| lookup_cost(value))
    }

    /// [`super::count_values`], computed once per value.
    fn cached_size(&mut self, value: &'a Value) -> u64 {
        if !(value.is_array() || value.is_object()) {
            return super::count_values(value);
        }
        if let Some(known) = self.sizes.get(&ptr::from_ref(value)) {
            return *known;
        }
        let names = value.as_object().into_iter().flat_map(Map::keys);
        let names: u64 = names.map(|name| name.len() as u64 / TEXT_PER_VALUE).sum();
        let below: u64 = children(value).map(|child| self.cached_size(child)).sum();
        self.sizes.insert(ptr::from_ref(value), 1 + names + below);
        1 + names + below
    }
}

/// The visits for searching the names of a value. Long names take long to hash.
fn lookup_cost(value: &Value) -> u64 {
    let (number, bytes) = match value {
        Value::Object(members) => (members.len(), members.keys().map(String::len).sum()),
        Value::Array(items) => {
            (items.len(), items.iter().filter_map(Value::as_str).map(str::len).sum::<usize>())
        }
        _ => (0, 0),
    };
    number as u64 / NAMES_PER_VISIT + bytes as u64 / TEXT_PER_VALUE
}

fn divides_fast(number: &Number) -> bool {
    number.as_f64().is_some_and(|number| {
        number.abs() < MAX_FAST_DIVISION
            && (number == 0.0 || MAX_FAST_DIVISION.recip() < number.abs())
    })
}

/// Whether references below a schema resolve against its own id. Ids of subschemas are removed, but not in values, and
/// a reference can turn a value into a schema.
pub(super) fn has_own_id(schema: &Value) -> bool {
    ID_KEYWORDS.iter().any(|name| schema.get(name).is_some_and(Value::is_string))
}

/// The target of a reference within the schema, such as `#/$defs/Pet`.
pub(super) fn reference_target<'a>(root: &'a Value, reference: &Value) -> Option<&'a Value> {
    let pointer = reference.as_str()?.strip_prefix('#')?;
    let pointer = percent_decode_str(pointer).decode_utf8().ok()?;
    if pointer.is_empty() {
        return Some(root);
    }
    let mut at = root;
    for step in pointer.strip_prefix('/')?.split('/') {
        at = at.pointer(&format!("/{step}"))?;
        if has_own_id(at) {
            return None;
        }
    }
    Some(at)
}

/// The values of an object's fields, or the items of a list.
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
    fn a_schema_without_references_and_alternatives_visits_values_once() {
        let inner = json!({"type": "array", "items": {"type": "integer", "minimum": 1}});
        let plain = json!({
            "type": "object", "required": ["a"], "properties": {"a": inner, "$ref": true},
            "additionalProperties": {"enum": [1, {"$ref": "#"}]}, "$defs": {"a": {"$ref": "#"}},
        });
        assert!(visits_values_once(&plain));
        let once =
            count_visits(&plain, &json!({"a": [1, 2], "$ref": 0}), &PatternBudget::default())
                .unwrap();
        assert!(once <= 20, "{once}");
    }

    #[test]
    fn every_revisiting_keyword_is_detected() {
        for keyword in REVISITING_KEYWORDS {
            let inner = json!({keyword: {}});
            for schema in [
                json!({"properties": {"a": inner}}),
                json!({"items": {"items": inner}}),
                json!({"additionalProperties": inner}),
                json!({"type": "object", keyword: []}),
            ] {
                assert!(!visits_values_once(&schema), "{schema}");
            }
        }
        assert!(!visits_values_once(&json!({"items": [{"$ref": "#"}]})));
    }
}
