//! Renders the OpenAPI document as one HTML page, without scripts or external resources.

use axum::http::HeaderValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::Digest;
use serde_json::{Map, Value};

const STYLE: &str = include_str!("docs_page.css");

/// The page, and its content security policy: only its own style may load.
#[derive(Clone)]
pub(crate) struct DocsPage {
    pub(crate) html: String,
    pub(crate) policy: HeaderValue,
}

/// Renders the page.
pub(crate) fn of(document: &Value) -> DocsPage {
    let hash = STANDARD.encode(Digest::of(STYLE).as_bytes());
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let policy = HeaderValue::try_from(policy).expect("a policy is ASCII");
    let mut page = Page { html: String::new() };
    page.write(document);
    DocsPage { html: page.html, policy }
}

struct Page {
    html: String,
}

impl Page {
    fn put(&mut self, html: &str) {
        self.html.push_str(html);
    }

    /// Writes escaped text, for element content and attribute values.
    fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.put("&amp;"),
                '<' => self.put("&lt;"),
                '>' => self.put("&gt;"),
                '"' => self.put("&quot;"),
                '\'' => self.put("&#39;"),
                c => self.html.push(c),
            }
        }
    }

    fn element(&mut self, name: &str, text: &str) {
        self.put(&format!("<{name}>"));
        self.text(text);
        self.put(&format!("</{name}>"));
    }

    /// Writes text in which backticks mark code.
    fn prose(&mut self, text: &str) {
        for (number, part) in text.split('`').enumerate() {
            if number % 2 == 1 { self.element("code", part) } else { self.text(part) }
        }
    }

    fn write(&mut self, document: &Value) {
        let info = &document["info"];
        self.put("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
        self.put("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
        self.put("<title>toolcrib API</title><style>");
        self.put(STYLE);
        self.put("</style></head><body>");
        self.element("h1", "toolcrib API");
        self.put("<p>");
        self.text(&format!("{}, version {}. ", string(info, "summary"), string(info, "version")));
        self.put("<a href=\"/api/openapi.json\">The same as OpenAPI</a>.</p>");
        for paragraph in string(info, "description").split("\n\n") {
            self.put("<p>");
            self.prose(paragraph);
            self.put("</p>");
        }
        self.put("<nav>");
        let tags = document["tags"].as_array();
        let tags = || tags.into_iter().flatten();
        for name in tags().map(|tag| string(tag, "name")).chain(["schemas"]) {
            self.put("<a href=\"#");
            self.text(name);
            self.put("\">");
            self.text(name);
            self.put("</a>");
        }
        self.put("</nav>");
        for tag in tags() {
            self.write_tag(document, tag);
        }
        self.write_schemas(document);
        self.put("</body></html>");
    }

    fn write_tag(&mut self, document: &Value, tag: &Value) {
        let name = string(tag, "name");
        self.heading(name);
        self.put("<p>");
        self.prose(string(tag, "description"));
        self.put("</p>");
        for (path, methods) in members(&document["paths"]) {
            for (method, operation) in members(methods) {
                if operation["tags"][0] == name {
                    self.write_operation(document, path, method, operation);
                }
            }
        }
    }

    fn heading(&mut self, name: &str) {
        self.put("<h2 id=\"");
        self.text(name);
        self.put("\">");
        self.text(name);
        self.put("</h2>");
    }

    fn write_operation(&mut self, document: &Value, path: &str, method: &str, operation: &Value) {
        self.put("<details><summary>");
        self.element("b", &method.to_uppercase());
        self.element("code", path);
        self.element("span", string(operation, "summary"));
        self.put("</summary><div><p><small>");
        self.text(&format!(
            "{}, for {}",
            string(operation, "operationId"),
            string(operation, "x-toolcrib-for")
        ));
        self.put("</small></p>");
        let parameters: Vec<&Value> =
            operation["parameters"].as_array().into_iter().flatten().collect();
        if !parameters.is_empty() {
            self.element("h3", "Parameters");
            self.put("<table>");
            for parameter in parameters {
                self.write_parameter(resolved(document, parameter));
            }
            self.put("</table>");
        }
        if let Some(schema) = operation.pointer("/requestBody/content/application~1json/schema") {
            self.element("h3", "Body");
            self.write_fields(document, schema);
        }
        if let Some(example) = operation.pointer("/requestBody/content/application~1json/example") {
            self.element("pre", &format!("{example:#}"));
        }
        self.element("h3", "Answers");
        self.put("<table>");
        for (status, answer) in members(&operation["responses"]) {
            let answer = resolved(document, answer);
            self.put("<tr><td>");
            self.element("code", status);
            self.put("</td><td>");
            self.prose(string(answer, "description"));
            for (media_type, content) in members(&answer["content"]) {
                self.put(" <small>");
                self.text(media_type);
                self.put("</small> ");
                self.write_type(&content["schema"]);
            }
            self.put("</td></tr>");
        }
        self.put("</table></div></details>");
    }

    fn write_parameter(&mut self, parameter: &Value) {
        self.put("<tr><td>");
        self.element("code", string(parameter, "name"));
        self.put(" <small>");
        self.text(string(parameter, "in"));
        self.put("</small></td><td>");
        self.write_type(&parameter["schema"]);
        self.put("</td><td>");
        self.prose(string(parameter, "description"));
        self.put("</td></tr>");
    }

    /// Writes the fields of an object; for any other schema, its type.
    fn write_fields(&mut self, document: &Value, schema: &Value) {
        let target = resolved(document, schema);
        let Some(properties) = target.get("properties").and_then(Value::as_object) else {
            self.put("<p>");
            self.write_type(schema);
            self.put("</p>");
            return;
        };
        let required: Vec<&Value> = target["required"].as_array().into_iter().flatten().collect();
        self.put("<table>");
        for (name, member) in properties {
            self.put("<tr><td>");
            self.element("code", name);
            if required.iter().any(|required| *required == name) {
                self.put(" <small>required</small>");
            }
            self.put("</td><td>");
            self.write_type(member);
            self.put("</td><td>");
            self.prose(string(member, "description"));
            self.put("</td></tr>");
        }
        self.put("</table>");
    }

    fn write_schemas(&mut self, document: &Value) {
        self.heading("schemas");
        for (name, schema) in members(&document["components"]["schemas"]) {
            self.put("<details id=\"schema-");
            self.text(name);
            self.put("\"><summary>");
            self.element("code", name);
            self.element("span", string(schema, "description"));
            self.put("</summary><div>");
            for choice in ["oneOf", "anyOf"] {
                for one in schema[choice].as_array().into_iter().flatten() {
                    self.put("<p>");
                    self.prose(string(one, "description"));
                    self.put("</p>");
                    self.write_fields(document, one);
                }
            }
            if schema.get("properties").is_some() || schema.get("oneOf").is_none() {
                self.write_fields(document, schema);
            }
            self.put("</div></details>");
        }
    }

    /// Writes a short form of the type; a named type links to its entry.
    fn write_type(&mut self, schema: &Value) {
        if let Some(name) =
            schema.get("$ref").and_then(Value::as_str).and_then(|to| to.rsplit('/').next())
        {
            self.put("<a href=\"#schema-");
            self.text(name);
            self.put("\">");
            self.text(name);
            self.put("</a>");
        } else if let Some(word) = schema.get("const") {
            self.element("code", &word.to_string());
        } else if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            self.element("code", &words.join(" | "));
        } else if let Some(items) = schema.get("items") {
            self.text("array of ");
            self.write_type(items);
        } else if let Some(choices) =
            schema.get("anyOf").or(schema.get("oneOf")).and_then(Value::as_array)
        {
            for (number, choice) in choices.iter().enumerate() {
                self.text(if 0 < number { " or " } else { "" });
                self.write_type(choice);
            }
        } else {
            match schema.get("type") {
                Some(Value::String(one)) => self.text(one),
                Some(Value::Array(several)) => {
                    let names: Vec<_> = several.iter().filter_map(Value::as_str).collect();
                    self.text(&names.join(" or "));
                }
                _ => self.text(if schema.is_null() { "" } else { "anything" }),
            }
        }
    }
}

fn string<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter).map(|(name, value)| (name.as_str(), value))
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let pointer = value.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
    pointer.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_text_of_the_document_becomes_markup() {
        let evil = "<img src=x onerror=alert(1)>\"'&";
        let document = json!({
            "info": {"summary": evil, "version": evil, "description": format!("{evil} `{evil}`")},
            "tags": [{"name": evil, "description": evil}],
            "paths": {evil: {evil: {
                "tags": [evil], "summary": evil, "operationId": evil, "x-toolcrib-for": evil,
                "parameters": [{"name": evil, "in": evil, "schema": {"type": evil}, "description": evil}],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": format!("#/x/{evil}")}, "example": evil}}},
                "responses": {evil: {"description": evil, "content": {evil: {"schema": {"enum": [evil]}}}}},
            }}},
            "components": {"schemas": {evil: {"description": evil, "properties": {evil: {"const": evil}}, "required": [evil]}}},
        });
        let page = of(&document).html;
        assert!(page.contains("&lt;img"), "{page}");
        for part in ["<img", "\"'&", "<script"] {
            assert!(!page.contains(part), "{page}");
        }
    }
}
