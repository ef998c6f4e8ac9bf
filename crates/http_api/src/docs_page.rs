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
pub(crate) fn render_page(document: &Value) -> DocsPage {
    let hash = STANDARD.encode(Digest::of_bytes(STYLE).as_bytes());
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let policy = HeaderValue::try_from(policy).expect("a policy is ASCII");
    let mut page = HtmlWriter { html: String::new() };
    page.write_page(document);
    DocsPage { html: page.html, policy }
}

struct HtmlWriter {
    html: String,
}

impl HtmlWriter {
    fn push_html(&mut self, html: &str) {
        self.html.push_str(html);
    }

    /// Writes escaped text, for element content and attribute values.
    fn write_text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.push_html("&amp;"),
                '<' => self.push_html("&lt;"),
                '>' => self.push_html("&gt;"),
                '"' => self.push_html("&quot;"),
                '\'' => self.push_html("&#39;"),
                c => self.html.push(c),
            }
        }
    }

    fn write_element(&mut self, name: &str, text: &str) {
        self.push_html(&format!("<{name}>"));
        self.write_text(text);
        self.push_html(&format!("</{name}>"));
    }

    /// Writes text in which backticks mark code.
    fn write_prose(&mut self, text: &str) {
        for (number, part) in text.split('`').enumerate() {
            if number % 2 == 1 { self.write_element("code", part) } else { self.write_text(part) }
        }
    }

    fn write_page(&mut self, document: &Value) {
        let info = &document["info"];
        self.push_html("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
        self.push_html("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
        self.push_html("<title>toolcrib API</title><style>");
        self.push_html(STYLE);
        self.push_html("</style></head><body>");
        self.write_element("h1", "toolcrib API");
        self.push_html("<p>");
        self.write_text(&format!(
            "{}, version {}. ",
            string_field(info, "summary"),
            string_field(info, "version")
        ));
        self.push_html("<a href=\"/api/openapi.json\">The same as OpenAPI</a>.</p>");
        for paragraph in string_field(info, "description").split("\n\n") {
            self.push_html("<p>");
            self.write_prose(paragraph);
            self.push_html("</p>");
        }
        self.push_html("<nav>");
        let tags = document["tags"].as_array();
        let tags = || tags.into_iter().flatten();
        for name in tags().map(|tag| string_field(tag, "name")).chain(["schemas"]) {
            self.push_html("<a href=\"#");
            self.write_text(name);
            self.push_html("\">");
            self.write_text(name);
            self.push_html("</a>");
        }
        self.push_html("</nav>");
        for tag in tags() {
            self.write_tag(document, tag);
        }
        self.write_schemas(document);
        self.push_html("</body></html>");
    }

    fn write_tag(&mut self, document: &Value, tag: &Value) {
        let name = string_field(tag, "name");
        self.write_heading(name);
        self.push_html("<p>");
        self.write_prose(string_field(tag, "description"));
        self.push_html("</p>");
        for (path, methods) in object_fields(&document["paths"]) {
            for (method, operation) in object_fields(methods) {
                if operation["tags"][0] == name {
                    self.write_operation(document, path, method, operation);
                }
            }
        }
    }

    fn write_heading(&mut self, name: &str) {
        self.push_html("<h2 id=\"");
        self.write_text(name);
        self.push_html("\">");
        self.write_text(name);
        self.push_html("</h2>");
    }

    fn write_operation(&mut self, document: &Value, path: &str, method: &str, operation: &Value) {
        self.push_html("<details><summary>");
        self.write_element("b", &method.to_uppercase());
        self.write_element("code", path);
        self.write_element("span", string_field(operation, "summary"));
        self.push_html("</summary><div><p><small>");
        self.write_text(&format!(
            "{}, for {}",
            string_field(operation, "operationId"),
            string_field(operation, "x-toolcrib-for")
        ));
        self.push_html("</small></p>");
        let parameters: Vec<&Value> =
            operation["parameters"].as_array().into_iter().flatten().collect();
        if !parameters.is_empty() {
            self.write_element("h3", "Parameters");
            self.push_html("<table>");
            for parameter in parameters {
                self.write_parameter(resolve_pointer(document, parameter));
            }
            self.push_html("</table>");
        }
        if let Some(schema) = operation.pointer("/requestBody/content/application~1json/schema") {
            self.write_element("h3", "Body");
            self.write_fields(document, schema);
        }
        if let Some(example) = operation.pointer("/requestBody/content/application~1json/example") {
            self.write_element("pre", &format!("{example:#}"));
        }
        self.write_element("h3", "Answers");
        self.push_html("<table>");
        for (status, answer) in object_fields(&operation["responses"]) {
            let answer = resolve_pointer(document, answer);
            self.push_html("<tr><td>");
            self.write_element("code", status);
            self.push_html("</td><td>");
            self.write_prose(string_field(answer, "description"));
            for (media_type, content) in object_fields(&answer["content"]) {
                self.push_html(" <small>");
                self.write_text(media_type);
                self.push_html("</small> ");
                self.write_type(&content["schema"]);
            }
            self.push_html("</td></tr>");
        }
        self.push_html("</table></div></details>");
    }

    fn write_parameter(&mut self, parameter: &Value) {
        self.push_html("<tr><td>");
        self.write_element("code", string_field(parameter, "name"));
        self.push_html(" <small>");
        self.write_text(string_field(parameter, "in"));
        self.push_html("</small></td><td>");
        self.write_type(&parameter["schema"]);
        self.push_html("</td><td>");
        self.write_prose(string_field(parameter, "description"));
        self.push_html("</td></tr>");
    }

    /// Writes the fields of an object; for any other schema, its type.
    fn write_fields(&mut self, document: &Value, schema: &Value) {
        let target = resolve_pointer(document, schema);
        let Some(properties) = target.get("properties").and_then(Value::as_object) else {
            self.push_html("<p>");
            self.write_type(schema);
            self.push_html("</p>");
            return;
        };
        let required: Vec<&Value> = target["required"].as_array().into_iter().flatten().collect();
        self.push_html("<table>");
        for (name, member) in properties {
            self.push_html("<tr><td>");
            self.write_element("code", name);
            if required.iter().any(|required| *required == name) {
                self.push_html(" <small>required</small>");
            }
            self.push_html("</td><td>");
            self.write_type(member);
            self.push_html("</td><td>");
            self.write_prose(string_field(member, "description"));
            self.push_html("</td></tr>");
        }
        self.push_html("</table>");
    }

    fn write_schemas(&mut self, document: &Value) {
        self.write_heading("schemas");
        for (name, schema) in object_fields(&document["components"]["schemas"]) {
            self.push_html("<details id=\"schema-");
            self.write_text(name);
            self.push_html("\"><summary>");
            self.write_element("code", name);
            self.write_element("span", string_field(schema, "description"));
            self.push_html("</summary><div>");
            for choice in ["oneOf", "anyOf"] {
                for one in schema[choice].as_array().into_iter().flatten() {
                    self.push_html("<p>");
                    self.write_prose(string_field(one, "description"));
                    self.push_html("</p>");
                    self.write_fields(document, one);
                }
            }
            if schema.get("properties").is_some() || schema.get("oneOf").is_none() {
                self.write_fields(document, schema);
            }
            self.push_html("</div></details>");
        }
    }

    /// Writes a short form of the type; a named type links to its entry.
    fn write_type(&mut self, schema: &Value) {
        if let Some(name) =
            schema.get("$ref").and_then(Value::as_str).and_then(|to| to.rsplit('/').next())
        {
            self.push_html("<a href=\"#schema-");
            self.write_text(name);
            self.push_html("\">");
            self.write_text(name);
            self.push_html("</a>");
        } else if let Some(word) = schema.get("const") {
            self.write_element("code", &word.to_string());
        } else if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            self.write_element("code", &words.join(" | "));
        } else if let Some(items) = schema.get("items") {
            self.write_text("array of ");
            self.write_type(items);
        } else if let Some(choices) =
            schema.get("anyOf").or(schema.get("oneOf")).and_then(Value::as_array)
        {
            for (number, choice) in choices.iter().enumerate() {
                self.write_text(if 0 < number { " or " } else { "" });
                self.write_type(choice);
            }
        } else {
            match schema.get("type") {
                Some(Value::String(one)) => self.write_text(one),
                Some(Value::Array(several)) => {
                    let names: Vec<_> = several.iter().filter_map(Value::as_str).collect();
                    self.write_text(&names.join(" or "));
                }
                _ => self.write_text(if schema.is_null() { "" } else { "anything" }),
            }
        }
    }
}

fn string_field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn object_fields(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter).map(|(name, value)| (name.as_str(), value))
}

fn resolve_pointer<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
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
        let page = render_page(&document).html;
        assert!(page.contains("&lt;img"), "{page}");
        for part in ["<img", "\"'&", "<script"] {
            assert!(!page.contains(part), "{page}");
        }
    }
}
