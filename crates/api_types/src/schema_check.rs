//! Validates a value against the published schema and reports all errors at once, each with its field path.
//!
//! Not a complete JSON Schema validator: it knows the keywords that our own types generate. Deserializing the value
//! afterwards catches the rest.

mod schema_messages;

use std::collections::HashMap;

use regex::Regex;
use serde_json::{Map, Value};

use self::schema_messages::{
    choice_message, describe_value, join_quoted, unknown_field_message, with_article,
};
use crate::problem::{FieldError, Problem};
use crate::type_schemas::{SchemaSet, TypeSchema, resolve_ref};

/// Most errors in one report.
const MAX_SCHEMA_ERRORS: usize = 50;

/// Rejects a value that does not match the schema of a type.
pub fn check_schema(shape: TypeSchema, value: &Value) -> Result<(), Problem> {
    let errors = schema_errors(&shape.schema_set(), shape, value);
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid_fields(errors)) }
}

/// All errors in a value.
pub fn schema_errors(schemas: &SchemaSet, shape: TypeSchema, value: &Value) -> Vec<FieldError> {
    collect_errors(&schemas.components, schemas.get(shape), value)
}

fn collect_errors(
    components: &Map<String, Value>,
    schema: &Value,
    value: &Value,
) -> Vec<FieldError> {
    let mut check = SchemaChecker { components, patterns: HashMap::new(), errors: Vec::new() };
    check.check_value("", schema, value);
    check.errors.truncate(MAX_SCHEMA_ERRORS);
    check.errors
}

struct SchemaChecker<'a> {
    components: &'a Map<String, Value>,
    patterns: HashMap<&'a str, Option<Regex>>,
    errors: Vec<FieldError>,
}

impl<'a> SchemaChecker<'a> {
    fn push_error(&mut self, field: &str, message: impl Into<String>) {
        if self.errors.len() <= MAX_SCHEMA_ERRORS {
            self.errors.push(FieldError { field: field.to_owned(), message: message.into() });
        }
    }

    fn check_value(&mut self, at: &str, schema: &'a Value, value: &Value) {
        let mut parts = Vec::new();
        if !self.collect_parts(at, schema, value, &mut parts) {
            return;
        }
        let before = self.errors.len();
        for part in &parts {
            self.check_type(at, part, value);
        }
        if before < self.errors.len() {
            return;
        }
        for part in &parts {
            self.check_constraints(at, part, value);
        }
        match value {
            Value::Object(members) => self.check_fields(at, &parts, members),
            Value::Array(elements) => self.check_elements(at, &parts, elements),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Collects all schemas that apply to the value: `$ref` targets, all of `allOf`, and the intended choice.
    fn collect_parts(
        &mut self,
        at: &str,
        schema: &'a Value,
        value: &Value,
        parts: &mut Vec<&'a Map<String, Value>>,
    ) -> bool {
        let Some(part) = schema.as_object() else { return true };
        parts.push(part);
        let target = resolve_ref(self.components, schema);
        if !std::ptr::eq(target, schema) && !self.collect_parts(at, target, value, parts) {
            return false;
        }
        for every in array_keyword(part, "allOf") {
            if !self.collect_parts(at, every, value, parts) {
                return false;
            }
        }
        for choice in ["oneOf", "anyOf"] {
            let choices = array_keyword(part, choice);
            if choices.is_empty() {
                continue;
            }
            // An optional field is `anyOf` a schema and null. That schema may be a choice itself, which hides whether
            // it accepts null, so match null first.
            let null = choices.iter().find(|choice| value.is_null() && is_null(choice));
            let meant = || choices.iter().find(|choice| self.is_intended_choice(choice, value));
            match null.or_else(meant) {
                Some(chosen) if !self.collect_parts(at, chosen, value, parts) => return false,
                Some(_) => {}
                None => {
                    self.push_choice_error(at, choices, value);
                    return false;
                }
            }
        }
        true
    }

    /// Whether a choice is the intended one: its type fits, and so do the constants that distinguish the choices.
    fn is_intended_choice(&self, schema: &Value, value: &Value) -> bool {
        let Some(part) = resolve_ref(self.components, schema).as_object() else { return true };
        let beside = schema.as_object().into_iter();
        beside.chain([part]).all(|part| {
            let tags =
                property_schemas(part).filter_map(|(name, member)| Some((name, member.get("const")?)));
            let required = array_keyword(part, "required").iter().filter_map(Value::as_str);
            let is_closed = part.get("additionalProperties") == Some(&Value::Bool(false));
            fits_type(part, value)
                && part.get("const").is_none_or(|word| word == value)
                && (array_keyword(part, "enum").is_empty() || array_keyword(part, "enum").contains(value))
                && tags.into_iter().all(|(name, word)| value.get(name) == Some(word))
                // `{"url": …}` or `{"text": …}`: the single required field identifies the choice.
                && (!is_closed || required.into_iter().all(|name| value.get(name).is_some()))
        })
    }

    fn push_choice_error(&mut self, at: &str, choices: &'a [Value], value: &Value) {
        let mut tag = None;
        let mut words = Vec::new();
        for choice in choices {
            let part = choice.as_object();
            let consts = part.into_iter().flat_map(property_schemas);
            if let Some((name, word)) =
                consts.filter_map(|(n, m)| Some((n, m.get("const")?))).next()
            {
                tag = Some(name);
                words.extend(word.as_str());
            }
            words.extend(choice.get("const").and_then(Value::as_str));
            words.extend(array_keyword_of(choice, "enum").iter().filter_map(Value::as_str));
        }
        match (tag, value.as_object()) {
            (Some(tag), Some(members)) => {
                let given = members.get(tag);
                self.push_error(
                    &join_field_path(at, tag),
                    choice_message(given.and_then(Value::as_str), &words),
                );
            }
            (None, _) if !words.is_empty() => {
                self.push_error(at, choice_message(value.as_str(), &words))
            }
            (Some(_), None) => {
                self.push_error(at, format!("is to be an object, not {}", describe_value(value)))
            }
            (None, _) => {
                let closed = choices.iter().flat_map(|choice| array_keyword_of(choice, "required"));
                let names: Vec<_> = closed.filter_map(Value::as_str).collect();
                self.push_error(
                    at,
                    match names.as_slice() {
                        [] => format!("cannot be {}", describe_value(value)),
                        names => format!("is to have one of the members {}", join_quoted(names)),
                    },
                );
            }
        }
    }

    fn check_type(&mut self, at: &str, part: &Map<String, Value>, value: &Value) {
        if !fits_type(part, value) {
            let names: Vec<_> = type_names(part).into_iter().map(with_article).collect();
            self.push_error(
                at,
                format!("is to be {}, not {}", names.join(" or "), describe_value(value)),
            );
        }
    }

    fn check_constraints(&mut self, at: &str, part: &'a Map<String, Value>, value: &Value) {
        let words = array_keyword(part, "enum");
        if !words.is_empty() && !words.contains(value) {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            self.push_error(at, choice_message(value.as_str(), &words));
        }
        let number = |name: &str| part.get(name).and_then(Value::as_f64);
        if let Value::String(text) = value {
            // Many limits are in bytes; the type checks those. Text with too many characters exceeds them too.
            let length = text.chars().count() as f64;
            if number("minLength").is_some_and(|least| length < least) {
                self.push_error(at, "is empty");
            } else if let Some(most) = number("maxLength").filter(|most| *most < length) {
                self.push_error(at, format!("is longer than {most} characters"));
            } else if part.get("format").is_some_and(|format| format == "date-time")
                && text.parse::<jiff::Timestamp>().is_err()
            {
                self.push_error(at, "is to be a time, such as `2026-05-01T12:00:00Z`");
            } else if !self.matches_pattern(part, text) {
                let meant = part.get("title").and_then(Value::as_str);
                self.push_error(
                    at,
                    match meant {
                        Some(meant) => format!("is to be {meant}"),
                        None => "does not have the right form".to_owned(),
                    },
                );
            }
        }
        if let Some(value) = value.as_f64() {
            if let Some(least) = number("minimum").filter(|least| value < *least) {
                self.push_error(at, format!("is less than {least}"));
            }
            if let Some(most) = number("maximum").filter(|most| *most < value) {
                self.push_error(at, format!("is more than {most}"));
            }
        }
        if let Value::Array(elements) = value
            && number("minItems").is_some_and(|least| (elements.len() as f64) < least)
        {
            self.push_error(at, "needs at least one element");
        }
    }

    fn matches_pattern(&mut self, part: &'a Map<String, Value>, text: &str) -> bool {
        let Some(pattern) = part.get("pattern").and_then(Value::as_str) else { return true };
        let regex = self.patterns.entry(pattern).or_insert_with(|| Regex::new(pattern).ok());
        regex.as_ref().is_none_or(|regex| regex.is_match(text))
    }

    fn check_fields(
        &mut self,
        at: &str,
        parts: &[&'a Map<String, Value>],
        members: &Map<String, Value>,
    ) {
        for part in parts {
            for name in array_keyword(part, "required").iter().filter_map(Value::as_str) {
                if !members.contains_key(name) {
                    self.push_error(&join_field_path(at, name), "is missing");
                }
            }
        }
        let says_members = |part: &&&Map<String, Value>| {
            part.contains_key("properties") || part.contains_key("additionalProperties")
        };
        let is_open = parts.iter().filter(says_members).count() == 0;
        for (name, value) in members {
            let mut known = parts.iter().filter_map(|part| part.get("properties")?.get(name));
            if let Some(schema) = known.next() {
                self.check_value(&join_field_path(at, name), schema, value);
                continue;
            }
            let mut others = parts.iter().filter_map(|part| part.get("additionalProperties"));
            match others.find(|schema| **schema != Value::Bool(false)) {
                Some(schema) => self.check_value(&join_field_path(at, name), schema, value),
                None if is_open => {}
                None => {
                    let names =
                        parts.iter().flat_map(|part| property_schemas(part)).map(|(name, _)| name);
                    let message = unknown_field_message(name, &names.collect::<Vec<_>>());
                    self.push_error(&join_field_path(at, name), message);
                }
            }
        }
    }

    fn check_elements(&mut self, at: &str, parts: &[&'a Map<String, Value>], elements: &[Value]) {
        for schema in parts.iter().filter_map(|part| part.get("items")) {
            for (number, element) in elements.iter().enumerate() {
                self.check_value(&format!("{at}[{number}]"), schema, element);
            }
        }
    }
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|name| name == "null")
}

fn array_keyword<'a>(part: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    part.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn array_keyword_of<'a>(schema: &'a Value, name: &str) -> &'a [Value] {
    schema.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn property_schemas(part: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    let properties = part.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().map(|(name, schema)| (name.as_str(), schema))
}

fn join_field_path(at: &str, name: &str) -> String {
    let name: String = name.chars().take(80).collect();
    if at.is_empty() { name } else { format!("{at}.{name}") }
}

fn type_names(part: &Map<String, Value>) -> Vec<&str> {
    match part.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn fits_type(part: &Map<String, Value>, value: &Value) -> bool {
    let types = type_names(part);
    let fits = |name: &&str| match value {
        Value::Null => *name == "null",
        Value::Bool(_) => *name == "boolean",
        Value::Number(number) => *name == "number" || (*name == "integer" && !number.is_f64()),
        Value::String(_) => *name == "string",
        Value::Array(_) => *name == "array",
        Value::Object(_) => *name == "object",
    };
    types.is_empty() || types.iter().any(fits)
}

#[cfg(test)]
mod tests;
