//! An example call for the startup message: of a read-only tool if possible, with arguments that match its schema.

use execution::{ArgumentValidator, UndeclaredArguments};
use serde_json::{Map, Value, json};
use toolcrib::ViewedTool;

use crate::shell_text::shell_quote;

/// Maximum number of tools examined for an example.
const MAX_EXAMINED_TOOLS: usize = 300;
/// Maximum depth of generated values; a schema may be recursive.
const MAX_VALUE_DEPTH: usize = 8;
/// Maximum number of generated values per tool.
const MAX_VALUES: usize = 64;
/// Maximum length of a generated string or array.
const MAX_GENERATED_LENGTH: u64 = 60;

/// `TOOL KEY=VALUE…`, quoted for a shell; `None` if no tool can be called like that.
pub(crate) fn example_call(tools: &[ViewedTool]) -> Option<String> {
    let known = tools.iter().filter(|tool| tool.catalog_entry().is_some()).take(MAX_EXAMINED_TOOLS);
    let tried =
        known.filter_map(|tool| Some((tool, ExampleArguments::for_schema(&tool.input_schema())?)));
    let (tool, tried) = tried.min_by_key(|(tool, tried)| {
        let is_private = may_reveal_secrets(tool.name());
        (is_private, !is_read_only(tool), tried.is_generated, tried.arguments.len())
    })?;
    let pairs = tried.arguments.into_iter().map(|(name, value)| {
        let value = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        format!(" {}={}", shell_quote(&name), shell_quote(&value))
    });
    Some(format!("{}{}", shell_quote(tool.name()), pairs.collect::<String>()))
}

/// Whether the result may contain secrets, which must not appear on a shared screen.
fn may_reveal_secrets(name: &str) -> bool {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let private = ["env", "environment", "secret", "secrets", "token", "tokens", "key", "keys"];
    words.into_iter().any(|word| private.iter().any(|it| word.eq_ignore_ascii_case(it)))
}

fn is_read_only(tool: &ViewedTool) -> bool {
    let manifest = tool.catalog_entry().and_then(|entry| entry.tool.served_manifest());
    manifest.is_some_and(|manifest| &*manifest.method == "GET")
        || tool
            .extra_fields()
            .get("annotations")
            .is_some_and(|said| said["readOnlyHint"] == json!(true))
}

/// Arguments that match a schema.
struct ExampleArguments {
    arguments: Map<String, Value>,
    /// Whether a value is generated and not from the schema itself.
    is_generated: bool,
}

impl ExampleArguments {
    /// The required arguments; `None` if the schema would reject them.
    fn for_schema(schema: &Value) -> Option<Self> {
        let mut making = ExampleGenerator { root: schema, is_generated: false, left: MAX_VALUES };
        let arguments = making.generate_object(schema, MAX_VALUE_DEPTH)?;
        let is_taken =
            ArgumentValidator::compile(schema, UndeclaredArguments::Sent).check(&arguments).is_ok();
        is_taken.then_some(Self { arguments, is_generated: making.is_generated })
    }
}

struct ExampleGenerator<'a> {
    root: &'a Value,
    is_generated: bool,
    /// Number of values that may still be generated.
    left: usize,
}

impl ExampleGenerator<'_> {
    /// An object with its required properties.
    fn generate_object(&mut self, schema: &Value, depth: usize) -> Option<Map<String, Value>> {
        let required = schema["required"].as_array().into_iter().flatten();
        let mut object = Map::new();
        for name in required.filter_map(Value::as_str) {
            // The command line would take it for an option.
            if name.starts_with('-') {
                return None;
            }
            object
                .insert(name.to_owned(), self.generate_value(&schema["properties"][name], depth)?);
        }
        Some(object)
    }

    fn generate_value(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        self.left = self.left.checked_sub(1)?;
        if let Some(said) = value_in_schema(schema) {
            return Some(said.clone());
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let at = reference.strip_prefix('#')?;
            return self.generate_value(self.root.pointer(at)?, depth);
        }
        if let Some(first) = ["allOf", "oneOf", "anyOf"].iter().find_map(|of| schema[of].get(0)) {
            return self.generate_value(first, depth);
        }
        let kind = match &schema["type"] {
            Value::Array(several) => {
                several.iter().filter_map(Value::as_str).find(|it| *it != "null")
            }
            other => other.as_str(),
        };
        match kind {
            Some("object") => return self.generate_object(schema, depth).map(Value::Object),
            Some("array") => {
                let least = schema["minItems"].as_u64().unwrap_or(0).min(MAX_GENERATED_LENGTH);
                let items: Option<Vec<Value>> =
                    (0..least).map(|_| self.generate_value(&schema["items"], depth)).collect();
                return items.map(Value::Array);
            }
            _ => self.is_generated = true,
        }
        Some(match kind {
            Some("integer" | "number") => generate_number(schema),
            Some("boolean") => json!(true),
            _ => json!(generate_text(schema)),
        })
    }
}

/// A value that the schema itself contains.
fn value_in_schema(schema: &Value) -> Option<&Value> {
    let one = ["const", "example", "default"].iter().find_map(|name| schema.get(name));
    one.or_else(|| schema["examples"].get(0)).or_else(|| schema["enum"].get(0))
}

fn generate_number(schema: &Value) -> Value {
    let limit = |name: &str| schema.get(name).filter(|limit| limit.is_number());
    match (limit("minimum"), limit("exclusiveMinimum").and_then(Value::as_i64), limit("maximum")) {
        (Some(least), ..) => least.clone(),
        (_, Some(below), _) => json!(below.saturating_add(1)),
        (.., Some(most)) if most.as_f64().is_some_and(|most| most < 1.0) => most.clone(),
        _ => json!(1),
    }
}

fn generate_text(schema: &Value) -> String {
    match schema["format"].as_str() {
        Some("date") => return "2026-01-31".to_owned(),
        Some("date-time") => return "2026-01-31T12:00:00Z".to_owned(),
        Some("uuid") => return "00000000-0000-4000-8000-000000000000".to_owned(),
        Some("email") => return "ada@example.com".to_owned(),
        Some("uri" | "url") => return "https://example.com/".to_owned(),
        _ => {}
    }
    let least = schema["minLength"].as_u64().unwrap_or(0).min(MAX_GENERATED_LENGTH);
    let most = schema["maxLength"].as_u64().unwrap_or(MAX_GENERATED_LENGTH);
    let length = usize::try_from(least.max(4).min(most)).unwrap_or(4);
    "text".chars().cycle().take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(schema: Value) -> Option<(Value, bool)> {
        let tried = ExampleArguments::for_schema(&schema)?;
        Some((Value::Object(tried.arguments), tried.is_generated))
    }

    #[test]
    fn a_schema_with_huge_values_or_option_like_names_gives_no_example() {
        let nested = (0..6).fold(
            json!({"type": "string"}),
            |items, _| json!({"type": "array", "minItems": 60, "items": items}),
        );
        let of = |name: &str, property: &Value| {
            tried(json!({"type": "object", "required": [name], "properties": {name: property}}))
        };
        assert_eq!(of("a", &nested), None);
        assert_eq!(of("--args", &json!({"default": "@/etc/passwd"})), None);
        let beyond = json!({"type": "integer", "exclusiveMinimum": i64::MAX});
        assert_eq!(of("a", &beyond), None, "no number is larger");
    }

    #[test]
    fn values_come_from_the_schema_or_are_generated_to_match_it() {
        let schema = json!({
            "type": "object", "required": ["a", "b", "c", "d", "e", "f", "g"],
            "properties": {
                "a": {"type": "string", "examples": ["one"]}, "b": {"enum": ["x", "y"]},
                "c": {"$ref": "#/$defs/Count"}, "d": {"type": ["null", "array"], "minItems": 1, "items": {"const": 3}},
                "e": {"type": "object", "required": ["name"], "properties": {"name": {"default": "n"}, "z": {}}},
                "f": {"anyOf": [{"type": "boolean", "default": false}]}, "g": {"type": "integer", "example": 7},
                "left out": {"type": "string"},
            },
            "$defs": {"Count": {"type": "integer", "default": 2}},
        });
        let all =
            json!({"a": "one", "b": "x", "c": 2, "d": [3], "e": {"name": "n"}, "f": false, "g": 7});
        assert_eq!(tried(schema), Some((all, false)));
        let made_up = |property: Value| {
            let schema =
                json!({"type": "object", "required": ["it"], "properties": {"it": property}});
            tried(schema).map(|(value, is_made_up)| (value["it"].clone(), is_made_up))
        };
        for (property, value) in [
            (json!({"type": "integer", "minimum": 5}), json!(5)),
            (json!({"type": "integer", "exclusiveMinimum": 5}), json!(6)),
            (json!({"type": "number", "maximum": -1}), json!(-1)),
            (json!({"type": "boolean"}), json!(true)),
            (json!({"type": "string"}), json!("text")),
            (json!({"type": "string", "maxLength": 2}), json!("te")),
            (json!({"type": "string", "minLength": 6}), json!("textte")),
            (json!({"type": "string", "format": "date"}), json!("2026-01-31")),
            (json!({}), json!("text")),
        ] {
            assert_eq!(made_up(property.clone()), Some((value, true)), "{property}");
        }
        assert_eq!(made_up(json!({"type": "string", "pattern": "^[0-9]+$"})), None);
        assert_eq!(made_up(json!({"$ref": "#/properties/it"})), None);
        assert_eq!(tried(json!({"type": "object"})), Some((json!({}), false)));
    }
}
