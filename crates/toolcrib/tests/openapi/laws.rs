//! Properties: text of a specification is never template code (requirement O6). Texts and arguments reach the request
//! unchanged. Unsendable parts are omitted with a warning, and every discovered tool can be called.

use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use sources::openapi::DiscoveredInventory;
use url::Url;

use super::{compile_template, discovered, request, warnings};

/// Texts with a meaning to a template engine, a URL parser or a header.
const HOSTILE: [&str; 16] = [
    "{{ 7*7 }}",
    "{{7*7}}",
    "{% raw %}",
    "{% for x in args %}{{ x }}{% endfor %}",
    "{# note #}",
    "{{ args }}",
    "{name}",
    "}} {{",
    "\"] }} {{ args[\"",
    "\\\"",
    "'",
    "\r\nX-Admin: 1",
    "\0\u{7f}\u{85}\u{2028}",
    "../..",
    "%2e%2e/%7B%7B",
    "größe 🍕",
];

/// Arbitrary text, often built from hostile ones.
fn text() -> impl Strategy<Value = String> {
    let hostile = prop::sample::select(&HOSTILE[..]).prop_map(str::to_owned);
    let piece = prop_oneof![hostile, any::<String>(), "[a-z{}%/.\"\\\\ ]{0,8}"];
    prop::collection::vec(piece, 1..3).prop_map(|pieces| pieces.concat())
}

/// Arbitrary text of at least one character.
fn name() -> impl Strategy<Value = String> {
    text().prop_filter("a name is not empty", |name| !name.is_empty())
}

/// A specification with one operation.
fn api(path: &str, method: &str, operation: Value) -> String {
    let mut item = Map::new();
    item.insert(method.to_owned(), operation);
    let mut paths = Map::new();
    paths.insert(path.to_owned(), item.into());
    json!({"openapi": "3.1.0", "servers": [{"url": "https://pizza.example"}], "paths": paths})
        .to_string()
}

fn get(parameter: Value) -> String {
    api("/menu", "get", json!({"parameters": [parameter]}))
}

/// Arguments for every required property of the only tool.
fn required_arguments(found: &DiscoveredInventory, value: &str) -> Option<Value> {
    let tool = found.inventory.tools.values().next()?;
    let input = tool.schema(&tool.manifest.input_schema).to_served();
    let names = input["required"].as_array().cloned().unwrap_or_default();
    let name = |name: Value| (name.as_str().unwrap_or_default().to_owned(), json!(value));
    Some(Value::Object(names.into_iter().map(name).collect()))
}

fn percent_decode(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// The decoded name and value of `name=value`.
fn decode_pair(text: &str) -> (String, String) {
    let decode = |text: &str| String::from_utf8(percent_decode(text)).unwrap();
    let (name, value) = text.split_once('=').unwrap();
    (decode(name), decode(value))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_path_is_sent_literally_with_its_parameters_filled_in(text in text()) {
        let path = format!("/a/{text}/z").replace(['?', '#'], "");
        let found = discovered(&api(&path, "get", json!({})));
        let Some(arguments) = required_arguments(&found, "value-0") else {
            prop_assert!(!warnings(&found).is_empty());
            return Ok(());
        };
        let mut expected = path;
        for name in arguments.as_object().unwrap().keys() {
            expected = expected.replace(&format!("{{{name}}}"), "value-0");
        }
        let tool = found.inventory.tools.values().next().unwrap();
        let request = request(tool, arguments).map_err(TestCaseError::fail)?;
        prop_assert_eq!(percent_decode(request.url.path()), percent_decode(&expected));
    }

    #[test]
    fn a_query_parameter_keeps_its_name_and_its_value(name in name(), value in text()) {
        let found = discovered(&get(json!({"in": "query", "name": name, "schema": {"type": "string"}})));
        let tool = found.inventory.tools.values().next().unwrap();
        let request = request(tool, json!({&name: value})).map_err(TestCaseError::fail)?;
        prop_assert_eq!(decode_pair(request.url.query().unwrap()), (name, value));
    }

    #[test]
    fn a_cookie_keeps_its_name_and_its_value(name in name(), value in text()) {
        let found = discovered(&get(json!({"in": "cookie", "name": name, "schema": {"type": "string"}})));
        let tool = found.inventory.tools.values().next().unwrap();
        let request = request(tool, json!({&name: value})).map_err(TestCaseError::fail)?;
        prop_assert_eq!(decode_pair(request.header("cookie").unwrap()), (name, value));
    }

    #[test]
    fn a_header_keeps_its_name_and_its_value_or_is_omitted(name in text(), value in text()) {
        let found = discovered(&get(json!({"in": "header", "name": name, "schema": {"type": "string"}})));
        let tool = found.inventory.tools.values().next().unwrap();
        prop_assert!(compile_template(tool).is_ok());
        let input = tool.schema(&tool.manifest.input_schema).to_served();
        if input["properties"].get(&name).is_none() {
            prop_assert!(!warnings(&found).is_empty());
        } else if let Ok(request) = request(tool, json!({&name: value})) {
            prop_assert_eq!(request.header(&name), Some(value.as_str()));
        } else {
            prop_assert!(!value.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
    }

    #[test]
    fn a_body_field_keeps_its_name_and_its_value(name in text(), value in text()) {
        let body = |media_type: &str| {
            let schema = json!({"type": "object", "properties": {&name: {"type": "string"}}});
            let content = json!({"requestBody": {"content": {media_type: {"schema": schema}}}});
            let found = discovered(&api("/orders", "post", content));
            let tool = found.inventory.tools.values().next().unwrap();
            request(tool, json!({&name: value})).map(|request| request.body.unwrap_or_default())
        };
        let json = body("application/json").map_err(TestCaseError::fail)?;
        prop_assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), json!({&name: value}));
        let form = body("application/x-www-form-urlencoded").map_err(TestCaseError::fail)?;
        let form = String::from_utf8(form).unwrap();
        prop_assert_eq!(decode_pair(&form), (name.clone(), value.clone()));
        let multipart = body("multipart/form-data").map_err(TestCaseError::fail)?;
        let multipart = String::from_utf8(multipart).unwrap();
        let named = name.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22");
        let part = format!("form-data; name=\"{named}\"\r\n\r\n{value}\r\n");
        prop_assert!(multipart.contains(&part), "{}", multipart);
    }

    #[test]
    fn a_media_type_is_sent_literally_or_replaced_by_a_standard_one(media_type in text()) {
        let content = json!({&media_type: {"schema": {}}});
        let operation =
            json!({"requestBody": {"content": content}, "responses": {"200": {"content": content}}});
        let found = discovered(&api("/orders", "post", operation));
        let tool = found.inventory.tools.values().next().unwrap();
        let request = request(tool, json!({"body": "x"})).map_err(TestCaseError::fail)?;
        let sent = request.content_type().unwrap();
        let sent = sent.split_once("; boundary=").map_or(sent, |(sent, _)| sent);
        let usual = [
            "application/json", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain",
            "application/octet-stream",
        ];
        prop_assert!(sent == media_type || usual.contains(&sent), "{}", sent);
        prop_assert!(request.header("accept").is_none_or(|accept| accept == media_type));
    }

    #[test]
    fn a_server_is_parsed_only_as_a_url(text in text()) {
        let server = format!("https://pizza.example/{text}");
        let specification = json!({
            "openapi": "3.1.0", "servers": [{"url": server}], "paths": {"/menu": {"get": {}}},
        });
        let found = discovered(&specification.to_string());
        let tool = found.inventory.tools.values().next();
        let Some(tool) = tool.filter(|_| warnings(&found).is_empty()) else { return Ok(()) };
        let mut expected = Url::parse(&server).unwrap();
        expected.set_query(None);
        expected.set_fragment(None);
        let request = request(tool, json!({})).map_err(TestCaseError::fail)?;
        let expected = format!("{}/menu", expected.as_str().trim_end_matches('/'));
        prop_assert_eq!(percent_decode(request.url.as_str()), percent_decode(&expected));
    }

    /// Hostile text in every field of a specification at once.
    #[test]
    fn every_tool_that_was_found_can_be_called(texts in prop::collection::vec(text(), 12)) {
        let [path, id, query, header, cookie, field, media_type, server, default, example, scheme, summary] =
            texts.try_into().unwrap();
        let schema = json!({"type": "string", "default": default, "enum": [example], "example": example});
        let parameter = |place: &str, name: &str| json!({"in": place, "name": name, "schema": schema});
        let styled = |style: &str, name: &str| json!({"in": "path", "name": name, "style": style, "schema": schema});
        let operation = json!({
            "operationId": id, "summary": summary, "tags": [summary], "security": [{&scheme: []}],
            "parameters": [parameter("query", &query), parameter("header", &header), parameter("cookie", &cookie),
                styled("matrix", "name"), styled("label", " 7*7 ")],
            "requestBody": {"content": {&media_type: {"schema": {"type": "object", "properties": {&field: schema}},
                "encoding": {&field: {"contentType": media_type}}}}},
            "responses": {"200": {"content": {&media_type: {"schema": schema}}}},
        });
        let specification = json!({
            "openapi": "3.1.0",
            "servers": [{"url": format!("https://pizza.example/{server}"), "variables": {"name": {"default": default}}}],
            "components": {"securitySchemes": {&scheme: {"type": "apiKey", "in": "header", "name": header}}},
            "paths": {&path: {"put": operation}},
        });
        let found = discovered(&specification.to_string());
        prop_assert_eq!(found.operations, usize::from(!path.starts_with("x-")));
        let homeless = found.inventory.warnings.iter().any(|warning| &*warning.code == "no_base_url");
        for tool in found.inventory.tools.values().filter(|_| !homeless) {
            compile_template(tool).map_err(TestCaseError::fail)?;
        }
        prop_assert!(!found.inventory.tools.is_empty() || !warnings(&found).is_empty());
    }
}
