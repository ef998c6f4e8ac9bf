//! Validates a value against the published schema and reports all errors at once, each with its field path.
//!
//! Not a complete JSON Schema validator: it knows the keywords that our own types generate. Deserializing the value
//! afterwards catches the rest.

mod say;

use std::collections::HashMap;

use regex::Regex;
use serde_json::{Map, Value};

use self::say::{a, article, one_of, quoted, unknown};
use crate::problem::{FieldError, Problem};
use crate::schemas::{Schemas, Shape, resolve};

/// Most errors in one report.
const MOST_ERRORS: usize = 50;

/// Rejects a value that does not match the schema of a type.
pub(crate) fn against(shape: Shape, value: &Value) -> Result<(), Problem> {
    let errors = all(&shape.schemas(), shape, value);
    if errors.is_empty() { Ok(()) } else { Err(Problem::fields(errors)) }
}

/// All errors in a value.
pub(crate) fn all(schemas: &Schemas, shape: Shape, value: &Value) -> Vec<FieldError> {
    errors(&schemas.components, schemas.get(shape), value)
}

fn errors(components: &Map<String, Value>, schema: &Value, value: &Value) -> Vec<FieldError> {
    let mut check = Check { components, patterns: HashMap::new(), errors: Vec::new() };
    check.visit("", schema, value);
    check.errors.truncate(MOST_ERRORS);
    check.errors
}

struct Check<'a> {
    components: &'a Map<String, Value>,
    patterns: HashMap<&'a str, Option<Regex>>,
    errors: Vec<FieldError>,
}

impl<'a> Check<'a> {
    fn say(&mut self, field: &str, message: impl Into<String>) {
        if self.errors.len() <= MOST_ERRORS {
            self.errors.push(FieldError { field: field.to_owned(), message: message.into() });
        }
    }

    fn visit(&mut self, at: &str, schema: &'a Value, value: &Value) {
        let mut parts = Vec::new();
        if !self.collect(at, schema, value, &mut parts) {
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
            self.check_words(at, part, value);
        }
        match value {
            Value::Object(members) => self.visit_members(at, &parts, members),
            Value::Array(elements) => self.visit_elements(at, &parts, elements),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Collects all schemas that apply to the value: `$ref` targets, all of `allOf`, and the intended choice.
    fn collect(
        &mut self,
        at: &str,
        schema: &'a Value,
        value: &Value,
        parts: &mut Vec<&'a Map<String, Value>>,
    ) -> bool {
        let Some(part) = schema.as_object() else { return true };
        parts.push(part);
        let target = resolve(self.components, schema);
        if !std::ptr::eq(target, schema) && !self.collect(at, target, value, parts) {
            return false;
        }
        for every in list(part, "allOf") {
            if !self.collect(at, every, value, parts) {
                return false;
            }
        }
        for choice in ["oneOf", "anyOf"] {
            let choices = list(part, choice);
            if choices.is_empty() {
                continue;
            }
            // An optional field is `anyOf` a schema and null. That schema may be a choice itself, which hides whether
            // it accepts null, so match null first.
            let null = choices.iter().find(|choice| value.is_null() && is_null(choice));
            let meant = || choices.iter().find(|choice| self.is_meant(choice, value));
            match null.or_else(meant) {
                Some(chosen) if !self.collect(at, chosen, value, parts) => return false,
                Some(_) => {}
                None => {
                    self.say_choices(at, choices, value);
                    return false;
                }
            }
        }
        true
    }

    /// Whether a choice is the intended one: its type fits, and so do the constants that distinguish the choices.
    fn is_meant(&self, schema: &Value, value: &Value) -> bool {
        let Some(part) = resolve(self.components, schema).as_object() else { return true };
        let beside = schema.as_object().into_iter();
        beside.chain([part]).all(|part| {
            let tags =
                properties(part).filter_map(|(name, member)| Some((name, member.get("const")?)));
            let required = list(part, "required").iter().filter_map(Value::as_str);
            let is_closed = part.get("additionalProperties") == Some(&Value::Bool(false));
            fits_type(part, value)
                && part.get("const").is_none_or(|word| word == value)
                && (list(part, "enum").is_empty() || list(part, "enum").contains(value))
                && tags.into_iter().all(|(name, word)| value.get(name) == Some(word))
                // `{"url": …}` or `{"text": …}`: the single required field identifies the choice.
                && (!is_closed || required.into_iter().all(|name| value.get(name).is_some()))
        })
    }

    fn say_choices(&mut self, at: &str, choices: &'a [Value], value: &Value) {
        let mut tag = None;
        let mut words = Vec::new();
        for choice in choices {
            let part = choice.as_object();
            let consts = part.into_iter().flat_map(properties);
            if let Some((name, word)) =
                consts.filter_map(|(n, m)| Some((n, m.get("const")?))).next()
            {
                tag = Some(name);
                words.extend(word.as_str());
            }
            words.extend(choice.get("const").and_then(Value::as_str));
            words.extend(list_of(choice, "enum").iter().filter_map(Value::as_str));
        }
        match (tag, value.as_object()) {
            (Some(tag), Some(members)) => {
                let given = members.get(tag);
                self.say(&joined(at, tag), one_of(given.and_then(Value::as_str), &words));
            }
            (None, _) if !words.is_empty() => self.say(at, one_of(value.as_str(), &words)),
            (Some(_), None) => self.say(at, format!("is to be an object, not {}", a(value))),
            (None, _) => {
                let closed = choices.iter().flat_map(|choice| list_of(choice, "required"));
                let names: Vec<_> = closed.filter_map(Value::as_str).collect();
                self.say(
                    at,
                    match names.as_slice() {
                        [] => format!("cannot be {}", a(value)),
                        names => format!("is to have one of the members {}", quoted(names)),
                    },
                );
            }
        }
    }

    fn check_type(&mut self, at: &str, part: &Map<String, Value>, value: &Value) {
        if !fits_type(part, value) {
            let names: Vec<_> = types(part).into_iter().map(article).collect();
            self.say(at, format!("is to be {}, not {}", names.join(" or "), a(value)));
        }
    }

    fn check_words(&mut self, at: &str, part: &'a Map<String, Value>, value: &Value) {
        let words = list(part, "enum");
        if !words.is_empty() && !words.contains(value) {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            self.say(at, one_of(value.as_str(), &words));
        }
        let number = |name: &str| part.get(name).and_then(Value::as_f64);
        if let Value::String(text) = value {
            // Many limits are in bytes; the type checks those. Text with too many characters exceeds them too.
            let length = text.chars().count() as f64;
            if number("minLength").is_some_and(|least| length < least) {
                self.say(at, "is empty");
            } else if let Some(most) = number("maxLength").filter(|most| *most < length) {
                self.say(at, format!("is longer than {most} characters"));
            } else if part.get("format").is_some_and(|format| format == "date-time")
                && text.parse::<jiff::Timestamp>().is_err()
            {
                self.say(at, "is to be a time, such as `2026-05-01T12:00:00Z`");
            } else if !self.matches(part, text) {
                let meant = part.get("title").and_then(Value::as_str);
                self.say(
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
                self.say(at, format!("is less than {least}"));
            }
            if let Some(most) = number("maximum").filter(|most| *most < value) {
                self.say(at, format!("is more than {most}"));
            }
        }
        if let Value::Array(elements) = value
            && number("minItems").is_some_and(|least| (elements.len() as f64) < least)
        {
            self.say(at, "needs at least one element");
        }
    }

    fn matches(&mut self, part: &'a Map<String, Value>, text: &str) -> bool {
        let Some(pattern) = part.get("pattern").and_then(Value::as_str) else { return true };
        let regex = self.patterns.entry(pattern).or_insert_with(|| Regex::new(pattern).ok());
        regex.as_ref().is_none_or(|regex| regex.is_match(text))
    }

    fn visit_members(
        &mut self,
        at: &str,
        parts: &[&'a Map<String, Value>],
        members: &Map<String, Value>,
    ) {
        for part in parts {
            for name in list(part, "required").iter().filter_map(Value::as_str) {
                if !members.contains_key(name) {
                    self.say(&joined(at, name), "is missing");
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
                self.visit(&joined(at, name), schema, value);
                continue;
            }
            let mut others = parts.iter().filter_map(|part| part.get("additionalProperties"));
            match others.find(|schema| **schema != Value::Bool(false)) {
                Some(schema) => self.visit(&joined(at, name), schema, value),
                None if is_open => {}
                None => {
                    let names =
                        parts.iter().flat_map(|part| properties(part)).map(|(name, _)| name);
                    let message = unknown(name, &names.collect::<Vec<_>>());
                    self.say(&joined(at, name), message);
                }
            }
        }
    }

    fn visit_elements(&mut self, at: &str, parts: &[&'a Map<String, Value>], elements: &[Value]) {
        for schema in parts.iter().filter_map(|part| part.get("items")) {
            for (number, element) in elements.iter().enumerate() {
                self.visit(&format!("{at}[{number}]"), schema, element);
            }
        }
    }
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|name| name == "null")
}

fn list<'a>(part: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    part.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn list_of<'a>(schema: &'a Value, name: &str) -> &'a [Value] {
    schema.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn properties(part: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    let properties = part.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().map(|(name, schema)| (name.as_str(), schema))
}

fn joined(at: &str, name: &str) -> String {
    let name: String = name.chars().take(80).collect();
    if at.is_empty() { name } else { format!("{at}.{name}") }
}

fn types(part: &Map<String, Value>) -> Vec<&str> {
    match part.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn fits_type(part: &Map<String, Value>, value: &Value) -> bool {
    let types = types(part);
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
