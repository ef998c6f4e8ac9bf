//! `docs/reference/rest.md`, generated from the server's OpenAPI document.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use serde_json::{Map, Value};

use super::server::{Ask, Server};
use crate::reference_page::assert_page;

const OPENING: &str = "\
# REST

<!-- Made from the code by a test; change it there. -->

What a server answers over HTTP, from its own `/api/openapi.json`; `/api/docs` is the same as a page of the server.
";

#[test]
fn the_page_of_the_api_has_every_request_and_every_shape() {
    let document = Server::start().send(&Ask::new("GET", "/api/openapi.json")).ok();
    let mut page = format!("{OPENING}\n{}\n", text(&document["info"], "description"));
    for tag in list(&document["tags"]) {
        let (name, about) = (text(tag, "name"), text(tag, "description"));
        page += &format!("\n## Requests: {name}\n\n{about}\n\n");
        page += "| Request | For | What it does | Takes | Answers |\n|---|---|---|---|---|\n";
        for (path, methods) in members(&document["paths"]) {
            let of_tag = members(methods).filter(|(_, operation)| operation["tags"][0] == name);
            for (method, operation) in of_tag {
                page += &request(&document, path, method, operation);
            }
        }
    }
    page += "\n## Shapes\n\nA member without `required` may be left out.\n";
    for (name, schema) in members(&document["components"]["schemas"]) {
        page += &shape(name, schema);
    }
    assert_page("rest.md", &page);
}

fn request(document: &Value, path: &str, method: &str, operation: &Value) -> String {
    let (who, what) = (text(operation, "x-toolcrib-for"), cell(text(operation, "summary")));
    let method = method.to_uppercase();
    let mut takes: Vec<String> = list(&operation["parameters"])
        .map(|parameter| resolve_reference(document, parameter))
        .filter(|parameter| parameter["in"] != "path")
        .map(|parameter| format!("`{}`", text(parameter, "name")))
        .collect();
    let body = operation.pointer("/requestBody/content/application~1json/schema");
    takes.extend(body.map(type_description));
    let answers =
        members(&operation["responses"]).filter(|(status, _)| status.starts_with(['2', '3']));
    let answers: Vec<String> =
        answers.map(|(status, answer)| response_description(status, answer)).collect();
    let (takes, answers) = (takes.join(", "), answers.join("; "));
    format!("| `{method} {path}` | {who} | {what} | {takes} | {answers} |\n")
}

fn response_description(status: &str, answer: &Value) -> String {
    let mut contents = members(&answer["content"]);
    match contents.next() {
        Some((_, content)) if !content["schema"].is_null() => {
            format!("{status} {}", type_description(&content["schema"]))
        }
        Some((media_type, _)) => format!("{status} `{media_type}`"),
        None => status.to_owned(),
    }
}

fn shape(name: &str, schema: &Value) -> String {
    let mut shape = format!("\n### {name}\n");
    if !text(schema, "description").is_empty() {
        shape += &format!("\n{}\n", cell(text(schema, "description")));
    }
    let choices: Vec<&Value> = list(&schema["oneOf"]).chain(list(&schema["anyOf"])).collect();
    let (words, others): (Vec<&Value>, _) =
        choices.into_iter().partition(|choice| choice.get("const").is_some());
    if !words.is_empty() {
        shape += "\n| Word | Means |\n|---|---|\n";
        for word in words {
            shape +=
                &format!("| {} | {} |\n", type_description(word), cell(text(word, "description")));
        }
    }
    for (number, choice) in others.into_iter().enumerate() {
        let or = if number == 0 { "Either" } else { "Or" };
        let mut parts = vec![cell(text(choice, "description"))];
        if choice.get("$ref").is_some() || choice.get("properties").is_none() {
            parts.push(format!("As {}.", type_description(choice)));
        }
        shape += &format!("\n{or}: {}\n{}", parts.join(" ").trim(), table(choice));
    }
    if schema.get("oneOf").or(schema.get("anyOf")).is_none() && schema.get("properties").is_none() {
        shape += &format!("\n{}\n", type_description(schema));
    }
    shape + &table(schema)
}

/// Table of an object's properties; empty if it has none.
fn table(schema: &Value) -> String {
    let required: Vec<&Value> = list(&schema["required"]).collect();
    let mut rows = String::new();
    for (name, member) in members(&schema["properties"]) {
        let needed = if required.iter().any(|it| *it == name) { ", required" } else { "" };
        let mut about = cell(text(member, "description"));
        if let Some(usual) = member.get("default").filter(|usual| is_notable_default(usual)) {
            about += &format!(" Usually `{usual}`.");
        }
        rows +=
            &format!("| `{name}`{needed} | {} | {} |\n", type_description(member), about.trim());
    }
    if rows.is_empty() {
        return rows;
    }
    format!("\n| Member | Type | Means |\n|---|---|---|\n{rows}")
}

/// Short description of a type; a named schema links to its own section.
fn type_description(schema: &Value) -> String {
    let choices = schema.get("anyOf").or(schema.get("oneOf"));
    if let Some(place) = schema.get("$ref").and_then(Value::as_str) {
        let name = place.rsplit('/').next().unwrap();
        format!("[{name}](#{})", name.to_lowercase())
    } else if let Some(word) = schema.get("const") {
        format!("`{word}`").replace('"', "")
    } else if let Some(words) = schema.get("enum") {
        let words = list(words).map(|word| format!("`{word}`").replace('"', ""));
        words.collect::<Vec<_>>().join(", ")
    } else if let Some(items) = schema.get("items") {
        format!("list of {}", type_description(items))
    } else if let Some(choices) = choices {
        list(choices).map(type_description).collect::<Vec<_>>().join(" or ")
    } else {
        match schema.get("type") {
            Some(Value::String(one)) => one.clone(),
            Some(several @ Value::Array(_)) => {
                list(several).filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
            }
            _ => "anything".to_owned(),
        }
    }
}

/// False for defaults that a reader expects anyway: null, false, and empty values.
fn is_notable_default(usual: &Value) -> bool {
    match usual {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter).map(|(name, value)| (name.as_str(), value))
}

fn resolve_reference<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let place = value.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
    place.and_then(|place| document.pointer(place)).unwrap_or(value)
}
