//! Converts one schema of OpenAPI 2.0 to 3.2 to JSON Schema 2020-12.
//!
//! Keywords are copied one by one. An unknown keyword (`x-…`, `xml`, `discriminator`) or one with an invalid value is
//! omitted, so that a mistake costs only that keyword. Inside `properties` keys are names, never keywords; inside
//! `example`, `default`, `enum` and `const` everything is data.

use std::collections::HashSet;

use json::document_text::{DocumentNode, DocumentObject};
use serde_json::{Map, Value, json};

use super::super::specification_documents::{DanglingReference, DocumentValue};
use super::{SchemaDirection, SharedSchemas, keyword_values};

/// The maximum length of an example in bytes; a longer one does not help to fill in an argument.
const MAX_EXAMPLE_BYTES: usize = 200;

/// Converts one schema; `uses` collects the definitions that it refers to.
pub(super) fn convert_schema<'a>(
    schemas: &mut SharedSchemas<'a>,
    place: DocumentValue<'a>,
    uses: &mut Vec<usize>,
) -> Result<Value, DanglingReference> {
    SchemaConverter { schemas, uses }.convert_value(place)
}

struct SchemaConverter<'s, 'a> {
    schemas: &'s mut SharedSchemas<'a>,
    uses: &'s mut Vec<usize>,
}

/// Keywords whose meaning depends on other keywords of the same schema.
#[derive(Default)]
struct DependentKeywords {
    nullable: bool,
    exclusive_minimum: bool,
    exclusive_maximum: bool,
    /// Whether `items` is a list: a tuple in older drafts.
    tuple: bool,
    additional_items: Option<Value>,
    required: Vec<String>,
    /// Names of omitted properties.
    omitted: HashSet<String>,
}

impl<'a> SchemaConverter<'_, 'a> {
    fn convert_value(&mut self, place: DocumentValue<'a>) -> Result<Value, DanglingReference> {
        let object = match place.value {
            DocumentNode::Object(object) => object,
            DocumentNode::Bool(any) => return Ok(Value::Bool(*any)),
            _ => return Ok(Value::Object(Map::new())),
        };
        let mut out = Map::new();
        if let Some(DocumentNode::Text(text)) = object.get("$ref")
            && let Value::Object(referred) =
                self.schemas.convert_reference(place, text, self.uses)?
        {
            out = referred;
        }
        let mut together = DependentKeywords::default();
        for (key, value) in object.iter() {
            self.convert_keyword(key, place.with_value(value), &mut out, &mut together)?;
        }
        together.apply_to(&mut out);
        collapse_single(&mut out);
        Ok(Value::Object(out))
    }

    fn convert_keyword(
        &mut self,
        key: &str,
        place: DocumentValue<'a>,
        out: &mut Map<String, Value>,
        together: &mut DependentKeywords,
    ) -> Result<(), DanglingReference> {
        let value = place.value;
        let converted = match key {
            "type" => {
                if value.as_str() == Some("file") {
                    out.insert("format".to_owned(), Value::from("binary"));
                }
                keyword_values::type_value(&keyword_values::type_names(value))
            }
            "description" | "title" | "format" | "contentEncoding" | "contentMediaType" => {
                value.scalar_string().filter(|text| !text.is_empty()).map(Value::String)
            }
            "properties" => Some(self.convert_properties(place, together)?),
            "required" => {
                together
                    .required
                    .extend(keyword_values::distinct_strings(value).unwrap_or_default());
                None
            }
            "items" => match value {
                DocumentNode::List(_) => {
                    together.tuple = true;
                    if let Some(items) = self.convert_list(place)? {
                        out.insert("prefixItems".to_owned(), items);
                    }
                    None
                }
                _ => Some(self.convert_value(place)?),
            },
            "additionalItems" => {
                together.additional_items = Some(self.convert_value(place)?);
                None
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => self.convert_list(place)?,
            "additionalProperties" | "unevaluatedProperties" | "unevaluatedItems" => match value {
                DocumentNode::Bool(_) | DocumentNode::Object(_) => Some(self.convert_value(place)?),
                _ => None,
            },
            "not" | "if" | "then" | "else" | "contains" | "propertyNames" | "contentSchema" => {
                match value {
                    DocumentNode::Bool(_) | DocumentNode::Object(_) => {
                        Some(self.convert_value(place)?)
                    }
                    _ => None,
                }
            }
            "patternProperties" | "dependentSchemas" => self.convert_named_schemas(key, place)?,
            "dependentRequired" => convert_dependent_required(value),
            "enum" => match value {
                DocumentNode::List(values) if values.is_empty() => None,
                DocumentNode::List(_) => Some(value.to_value()),
                _ => None,
            },
            "const" | "default" => Some(value.to_value()),
            "example" => self.convert_example(value).map(|example| json!([example])),
            "examples" => self.convert_examples(value),
            "minimum" | "maximum" => keyword_values::number_value(value),
            "exclusiveMinimum" => match value {
                DocumentNode::Bool(exclusive) => {
                    together.exclusive_minimum = *exclusive;
                    None
                }
                _ => keyword_values::number_value(value),
            },
            "exclusiveMaximum" => match value {
                DocumentNode::Bool(exclusive) => {
                    together.exclusive_maximum = *exclusive;
                    None
                }
                _ => keyword_values::number_value(value),
            },
            "multipleOf" => keyword_values::positive_number(value),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
            | "maxProperties" | "minContains" | "maxContains" => keyword_values::count_value(value),
            "uniqueItems" | "deprecated" => value.is_true().then_some(Value::Bool(true)),
            "pattern" => match value.as_str() {
                Some(pattern) if self.schemas.is_portable(pattern) => Some(Value::from(pattern)),
                // A pattern that is not ECMA-262 is kept as a comment for readers.
                Some(pattern) => {
                    out.insert("$comment".to_owned(), Value::from(format!("pattern: {pattern}")));
                    None
                }
                None => None,
            },
            "nullable" | "x-nullable" => {
                together.nullable |= value.is_true();
                None
            }
            _ => None,
        };
        if let Some(converted) = converted {
            out.insert(key.to_owned(), converted);
            if key == "example" {
                let example = out.shift_remove("example").unwrap_or_default();
                out.entry("examples").or_insert(example);
            }
        }
        Ok(())
    }

    fn convert_properties(
        &mut self,
        place: DocumentValue<'a>,
        together: &mut DependentKeywords,
    ) -> Result<Value, DanglingReference> {
        let mut properties = Map::new();
        for (name, value) in place.as_object().into_iter().flat_map(DocumentObject::iter) {
            let property = place.with_value(value);
            if self.schemas.is_omitted(property) {
                together.omitted.insert(name.to_owned());
                continue;
            }
            // JSON Schema draft 3 has `required` on the property itself.
            if property.is_true("required") {
                together.required.push(name.to_owned());
            }
            let mut schema = self.convert_value(property)?;
            drop_repeated_title(name, &mut schema);
            properties.insert(name.to_owned(), schema);
        }
        Ok(Value::Object(properties))
    }

    fn convert_list(
        &mut self,
        place: DocumentValue<'a>,
    ) -> Result<Option<Value>, DanglingReference> {
        let DocumentNode::List(items) = place.value else { return Ok(None) };
        let items: Vec<Value> = items
            .iter()
            .map(|item| self.convert_value(place.with_value(item)))
            .collect::<Result<_, _>>()?;
        Ok((!items.is_empty()).then_some(Value::Array(items)))
    }

    fn convert_named_schemas(
        &mut self,
        key: &str,
        place: DocumentValue<'a>,
    ) -> Result<Option<Value>, DanglingReference> {
        let Some(object) = place.as_object() else { return Ok(None) };
        let mut schemas = Map::new();
        for (name, value) in object.iter() {
            if key != "patternProperties" || self.schemas.is_portable(name) {
                schemas.insert(name.to_owned(), self.convert_value(place.with_value(value))?);
            }
        }
        Ok(Some(Value::Object(schemas)))
    }

    fn convert_example(&self, value: &DocumentNode<'_>) -> Option<Value> {
        if self.schemas.direction == SchemaDirection::Response {
            return None;
        }
        let example = value.to_value();
        let is_short = !(example.is_object() || example.is_array())
            || example.to_string().len() <= MAX_EXAMPLE_BYTES;
        is_short.then_some(example)
    }

    fn convert_examples(&self, value: &DocumentNode<'_>) -> Option<Value> {
        let examples: Vec<&DocumentNode<'_>> = match value {
            DocumentNode::List(examples) => examples.iter().collect(),
            // Parameters and bodies use `{name: {value: …}}`.
            DocumentNode::Object(named) => {
                named.iter().filter_map(|(_, example)| example.get("value")).collect()
            }
            _ => return None,
        };
        let helpful: Vec<Value> =
            examples.into_iter().filter_map(|example| self.convert_example(example)).collect();
        (!helpful.is_empty()).then_some(Value::Array(helpful))
    }
}

impl DependentKeywords {
    fn apply_to(mut self, out: &mut Map<String, Value>) {
        self.required.retain(|name| !self.omitted.contains(name));
        self.required.sort();
        self.required.dedup();
        if !self.required.is_empty() {
            out.insert("required".to_owned(), Value::from(self.required));
        }
        if let Some(additional) = self.additional_items.filter(|_| self.tuple) {
            out.insert("items".to_owned(), additional);
        }
        if self.exclusive_minimum
            && let Some(minimum) = out.shift_remove("minimum")
        {
            out.insert("exclusiveMinimum".to_owned(), minimum);
        }
        if self.exclusive_maximum
            && let Some(maximum) = out.shift_remove("maximum")
        {
            out.insert("exclusiveMaximum".to_owned(), maximum);
        }
        restore_enum_strings(out);
        if self.nullable {
            allow_null(out);
        }
    }
}

/// Restores the strings of an `enum` of type `string` that YAML parsed as numbers or booleans.
fn restore_enum_strings(out: &mut Map<String, Value>) {
    if out.get("type").is_none_or(|word| word != "string") {
        return;
    }
    if let Some(Value::Array(words)) = out.get_mut("enum") {
        for word in words.iter_mut().filter(|word| word.is_number() || word.is_boolean()) {
            *word = Value::String(word.to_string());
        }
    }
}

/// Applies `nullable: true` of OpenAPI 3.0.
fn allow_null(out: &mut Map<String, Value>) {
    if let Some(Value::Array(values)) = out.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    let null = || json!({"type": "null"});
    match out.get_mut("type") {
        Some(Value::String(word)) if word != "null" => {
            let types = json!([word, "null"]);
            out.insert("type".to_owned(), types);
        }
        Some(Value::Array(types)) if !types.contains(&Value::from("null")) => {
            types.push(Value::from("null"));
        }
        Some(_) => {}
        None => {
            for key in ["anyOf", "oneOf"] {
                if let Some(Value::Array(choices)) = out.get_mut(key) {
                    choices.push(null());
                    return;
                }
            }
            let mut meant = Map::new();
            for key in ["$ref", "allOf"] {
                meant.extend(out.shift_remove_entry(key));
            }
            if !meant.is_empty() {
                out.insert("anyOf".to_owned(), Value::Array(vec![Value::Object(meant), null()]));
            }
        }
    }
}

/// Replaces an `allOf` with one item by that item; OpenAPI 3.0 needs it for a description beside a `$ref`.
fn collapse_single(out: &mut Map<String, Value>) {
    let Some(Value::Array(items)) = out.get("allOf") else { return };
    let [Value::Object(only)] = items.as_slice() else { return };
    let annotation =
        |key: &str| matches!(key, "description" | "title" | "default" | "examples" | "deprecated");
    if only.keys().any(|key| out.contains_key(key) && !annotation(key)) {
        return;
    }
    let mut merged = only.clone();
    for (key, value) in std::mem::take(out) {
        if key != "allOf" {
            merged.insert(key, value);
        }
    }
    *out = merged;
}

/// Drops a title that only repeats the name: `Item Id` of `item_id`.
fn drop_repeated_title(name: &str, schema: &mut Value) {
    let letters = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    if let Some(object) = schema.as_object_mut()
        && let Some(Value::String(title)) = object.get("title")
        && letters(title) == letters(name)
    {
        object.shift_remove("title");
    }
}

fn convert_dependent_required(value: &DocumentNode<'_>) -> Option<Value> {
    let names = |(name, value): (&str, &DocumentNode<'_>)| {
        Some((name.to_owned(), Value::from(keyword_values::distinct_strings(value)?)))
    };
    Some(Value::Object(value.as_object()?.iter().filter_map(names).collect()))
}
