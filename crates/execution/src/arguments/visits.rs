//! Estimates the work of a validation: how often the validator visits a part of the arguments with a part of the
//! schema.
//!
//! Two references in an `anyOf`, thirty levels deep, are 2 KB of schema and a billion visits. Counting them is cheap,
//! because each pair of schema and value is counted once and then remembered.

use std::collections::HashMap;
use std::ptr;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Number, Value};

use super::TEXT;
use super::patterns::Patterns;

/// The maximum number of counted pairs.
const PAIRS: usize = 50_000;
/// Counting stops here, above every limit: counting on would take long itself.
const ENOUGH: u64 = 1_000_000;
/// The number of names or values that cost one visit.
const AT_ONCE: u64 = 8;
const FEW: usize = 15;
/// The product of text bytes and KiB of a compiled pattern that costs one visit.
const STEPS: u64 = 13;
/// Keywords that give a schema an id; `id` only in draft 4.
pub(super) const NAMES: [&str; 2] = ["$id", "id"];
/// Visits for a `multipleOf` that needs large integers, and the magnitude (or its inverse) from which it does.
const LARGE: u64 = 300;
const PLAIN: f64 = 1e15;
/// The maximum recursion depth: counting and validating use the stack.
const DEPTH: usize = 300;

/// A reference cannot be resolved, so the visits cannot be counted.
#[derive(Debug)]
pub(super) struct Lost;

/// An upper bound for the visits of a validation.
pub(super) fn visits(schema: &Value, instance: &Value, patterns: &Patterns) -> Result<u64, Lost> {
    counted(schema, instance, patterns, u64::MAX)
}

/// An upper bound for the visits if all texts were short.
pub(super) fn of_short_texts(
    schema: &Value,
    instance: &Value,
    patterns: &Patterns,
) -> Result<u64, Lost> {
    counted(schema, instance, patterns, super::SHORT)
}

fn counted(
    schema: &Value,
    instance: &Value,
    patterns: &Patterns,
    longest: u64,
) -> Result<u64, Lost> {
    let (known, sizes, names) = (HashMap::new(), HashMap::new(), HashMap::new());
    let (depth, is_lost) = (0, false);
    let mut count = Count { root: schema, patterns, longest, known, sizes, names, depth, is_lost };
    let visits = count.visits(schema, Part::Value(instance));
    if count.is_lost { Err(Lost) } else { Ok(visits) }
}

/// Whether a validation visits each value at most once: the schema has no references, and no two subschemas apply to
/// the same value. Then the number of visits is the number of values, and needs no counting.
pub(super) fn looks_once(schema: &Value) -> bool {
    let Some(keywords) = schema.as_object() else { return schema.is_boolean() };
    keywords.iter().all(|(keyword, value)| match keyword.as_str() {
        // Limited, so that searching the names costs at most one visit.
        "properties" => names_in(value) <= super::SMALL && children(value).all(looks_once),
        "items" | "additionalProperties" => looks_once(value),
        "const" | "dependentRequired" | "enum" | "required" => super::size(value) <= super::SMALL,
        keyword => !COUNTED.contains(&keyword),
    })
}

/// All other keywords that may visit a value again, or for long.
const COUNTED: [&str; 24] = [
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
enum Part<'a> {
    Value(&'a Value),
    /// The name of a field.
    Name(&'a str),
}

impl<'a> Part<'a> {
    fn address(self) -> *const u8 {
        match self {
            Self::Value(value) => ptr::from_ref(value).cast(),
            Self::Name(name) => name.as_ptr(),
        }
    }

    fn text(self) -> Option<&'a str> {
        match self {
            Self::Value(value) => value.as_str(),
            Self::Name(name) => Some(name),
        }
    }

    fn members(self) -> Option<&'a Map<String, Value>> {
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

struct Count<'a> {
    root: &'a Value,
    patterns: &'a Patterns,
    /// The counted length of a text, in bytes.
    longest: u64,
    known: HashMap<(*const Value, *const u8), u64>,
    sizes: HashMap<*const Value, u64>,
    names: HashMap<*const Value, u64>,
    depth: usize,
    /// Whether a reference cannot be resolved.
    is_lost: bool,
}

impl<'a> Count<'a> {
    fn visits(&mut self, schema: &'a Value, part: Part<'a>) -> u64 {
        let Some(keywords) = schema.as_object() else { return 1 };
        let pair = (ptr::from_ref(schema), part.address());
        if let Some(known) = self.known.get(&pair) {
            return *known;
        }
        if has_own_name(schema) && !ptr::eq(schema, self.root) {
            return self.lost();
        }
        if PAIRS < self.known.len() || DEPTH < self.depth {
            return u64::MAX;
        }
        // Holds until the pair is counted: a circular schema never ends.
        self.known.insert(pair, u64::MAX);
        self.depth += 1;
        let mut total: u64 = 1 + keywords.len() as u64 / AT_ONCE;
        for (keyword, value) in keywords {
            total = total.saturating_add(self.keyword(keyword, value, part));
            if ENOUGH < total {
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
    fn keyword(&mut self, keyword: &str, value: &'a Value, part: Part<'a>) -> u64 {
        match keyword {
            "$ref" => match target(self.root, value) {
                Some(target) => self.visits(target, part),
                None => self.lost(),
            },
            // The target depends on the dynamic scope, not on the schema alone.
            "$dynamicRef" | "$recursiveRef" => self.lost(),
            "not" | "if" | "then" | "else" => self.visits(value, part),
            "allOf" | "anyOf" | "oneOf" => self.sum(children(value).map(|schema| (schema, part))),
            "dependencies" | "dependentSchemas" => {
                let inside = self.sum(children(value).map(|schema| (schema, part)));
                inside.saturating_add(self.looked_up(value))
            }
            "properties" => {
                let schemas = value.as_object().into_iter().flatten();
                let inside = schemas.filter_map(|(name, schema)| {
                    Some((schema, Part::Value(part.members()?.get(name)?)))
                });
                self.sum(inside).saturating_add(self.looked_up(value))
            }
            "required" => self.looked_up(value),
            "dependentRequired" => self.size(value),
            "const" | "enum" => self.size(value) / AT_ONCE,
            "multipleOf" => match part {
                // Numbers beyond hardware division are divided as large integers.
                Part::Value(Value::Number(number)) if !is_plain(number) => LARGE,
                Part::Value(_) | Part::Name(_) => 0,
            },
            "uniqueItems" if *value == Value::Bool(true) => match part {
                // The validator compares a few items pairwise, and hashes many.
                Part::Value(value @ Value::Array(items)) if items.len() <= FEW => {
                    self.size(value).saturating_mul(items.len() as u64) / AT_ONCE
                }
                Part::Value(value @ Value::Array(_)) => self.size(value),
                Part::Value(_) | Part::Name(_) => 0,
            },
            "patternProperties" => {
                let names = part.members().into_iter().flat_map(Map::keys);
                let names: u64 = names.map(|name| 1 + self.length(name)).sum();
                let patterns = value.as_object().into_iter().flat_map(Map::keys);
                let texts: u64 = patterns.map(|pattern| self.matching(pattern, names)).sum();
                self.each(children(value), part)
                    .saturating_add(texts)
                    .saturating_add(names / AT_ONCE)
            }
            "propertyNames" => {
                let names = part.members().into_iter().flat_map(Map::keys);
                self.sum(names.map(|name| (value, Part::Name(name))))
            }
            "items" if value.is_array() => self.each(children(value), part),
            "prefixItems" => self.each(children(value), part),
            "additionalItems" | "contains" | "items" | "unevaluatedItems" => {
                self.each(std::iter::once(value), part)
            }
            "additionalProperties" | "unevaluatedProperties" => {
                let inside = self.each(std::iter::once(value), part);
                match part {
                    Part::Value(members) => inside.saturating_add(self.looked_up(members)),
                    Part::Name(_) => inside,
                }
            }
            "pattern" => {
                let pattern = value.as_str().unwrap_or_default();
                self.matching(pattern, part.text().map_or(0, |text| self.length(text)))
            }
            "contentEncoding" | "contentMediaType" | "maxLength" | "minLength" => {
                part.text().map_or(0, |text| self.length(text) / TEXT)
            }
            _ => 0,
        }
    }

    fn length(&self, text: &str) -> u64 {
        (text.len() as u64).min(self.longest)
    }

    fn lost(&mut self) -> u64 {
        self.is_lost = true;
        u64::MAX
    }

    /// Visits of all schemas with all children.
    fn each(&mut self, schemas: impl Iterator<Item = &'a Value>, part: Part<'a>) -> u64 {
        self.sum(schemas.flat_map(|schema| part.children().map(move |child| (schema, child))))
    }

    fn sum(&mut self, pairs: impl Iterator<Item = (&'a Value, Part<'a>)>) -> u64 {
        let mut total: u64 = 0;
        for (schema, part) in pairs {
            total = total.saturating_add(self.visits(schema, part));
            if ENOUGH < total {
                return u64::MAX;
            }
        }
        total
    }

    /// The cost of matching a pattern: linear, with a factor of the pattern's size in the worst case.
    fn matching(&self, pattern: &str, bytes: u64) -> u64 {
        let size = self.patterns.size_of(pattern) as u64;
        (bytes / 2).max(bytes.saturating_mul(size) / STEPS)
    }

    /// [`names_in`], computed once per value.
    fn looked_up(&mut self, value: &'a Value) -> u64 {
        *self.names.entry(ptr::from_ref(value)).or_insert_with(|| names_in(value))
    }

    /// [`super::size`], computed once per value.
    fn size(&mut self, value: &'a Value) -> u64 {
        if !(value.is_array() || value.is_object()) {
            return super::size(value);
        }
        if let Some(known) = self.sizes.get(&ptr::from_ref(value)) {
            return *known;
        }
        let names = value.as_object().into_iter().flat_map(Map::keys);
        let names: u64 = names.map(|name| name.len() as u64 / TEXT).sum();
        let below: u64 = children(value).map(|child| self.size(child)).sum();
        self.sizes.insert(ptr::from_ref(value), 1 + names + below);
        1 + names + below
    }
}

/// The visits for searching the names of a value. Long names take long to hash.
fn names_in(value: &Value) -> u64 {
    let (number, bytes) = match value {
        Value::Object(members) => (members.len(), members.keys().map(String::len).sum()),
        Value::Array(items) => {
            (items.len(), items.iter().filter_map(Value::as_str).map(str::len).sum::<usize>())
        }
        _ => (0, 0),
    };
    number as u64 / AT_ONCE + bytes as u64 / TEXT
}

fn is_plain(number: &Number) -> bool {
    number.as_f64().is_some_and(|number| {
        number.abs() < PLAIN && (number == 0.0 || PLAIN.recip() < number.abs())
    })
}

/// Whether references below a schema resolve against its own id. Ids of subschemas are removed, but not in values, and
/// a reference can turn a value into a schema.
pub(super) fn has_own_name(schema: &Value) -> bool {
    NAMES.iter().any(|name| schema.get(name).is_some_and(Value::is_string))
}

/// The target of a reference within the schema, such as `#/$defs/Pet`.
pub(super) fn target<'a>(root: &'a Value, reference: &Value) -> Option<&'a Value> {
    let pointer = reference.as_str()?.strip_prefix('#')?;
    let pointer = percent_decode_str(pointer).decode_utf8().ok()?;
    if pointer.is_empty() {
        return Some(root);
    }
    let mut at = root;
    for step in pointer.strip_prefix('/')?.split('/') {
        at = at.pointer(&format!("/{step}"))?;
        if has_own_name(at) {
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
        assert!(looks_once(&plain));
        let once = visits(&plain, &json!({"a": [1, 2], "$ref": 0}), &Patterns::default()).unwrap();
        assert!(once <= 20, "{once}");
    }

    #[test]
    fn every_revisiting_keyword_is_detected() {
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
