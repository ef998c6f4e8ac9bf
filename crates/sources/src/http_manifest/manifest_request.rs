//! Builds the request of an http manifest tool: GET and DELETE send the arguments as query, others as JSON (requirement
//! H2).

use std::collections::BTreeMap;

use model::{BodyEncoding, HttpRequest, has_indirect_properties};
use serde_json::Value;
use url::Url;

/// The templates of a tool. Without a base, the URL is only a path and the tool cannot be called.
pub(super) fn build_manifest_request(
    base: Option<&Url>,
    method: &str,
    endpoint: &str,
    input_schema: &Value,
) -> HttpRequest {
    let base = base.map(url_prefix).unwrap_or_default();
    let (url_template, body_template) = match method {
        "GET" | "DELETE" => (format!("{base}{}", append_query(endpoint, input_schema)), None),
        _ => (format!("{base}{endpoint}"), Some("{{ json(rest(required=true)) }}".into())),
    };
    HttpRequest {
        url_template: url_template.into(),
        headers_template: BTreeMap::new(),
        body_template,
        body_encoding: BodyEncoding::Json,
    }
}

/// A base URL without query, fragment and trailing slash; endpoints start with a slash.
pub(crate) fn url_prefix(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.as_str().trim_end_matches('/').to_owned()
}

/// Appends the arguments as query pairs, after the endpoint's own query.
fn append_query(endpoint: &str, input_schema: &Value) -> String {
    let (path, fixed) = endpoint.split_once('?').unwrap_or((endpoint, ""));
    let fixed = fixed.split('&').filter(|pair| !pair.is_empty()).map(string_literal);
    let names = input_schema["properties"].as_object().into_iter().flatten();
    let names: Vec<String> = names.map(|(name, _)| string_literal(name)).collect();
    let pairs = names.iter().map(|name| format!("form({name}, args[{name}])"));
    // Undeclared arguments that the schema accepts are sent under their own names.
    let rest =
        accepts_undeclared(input_schema).then(|| format!("form(\"\", rest({}))", names.join(", ")));
    let all: Vec<String> = fixed.chain(pairs).chain(rest).collect();
    match all.is_empty() {
        true => path.to_owned(),
        false => format!("{path}{{{{ query({}) }}}}", all.join(", ")),
    }
}

/// Whether the schema accepts arguments that are not among its own `properties`.
fn accepts_undeclared(schema: &Value) -> bool {
    match schema.get("additionalProperties") {
        Some(others) if *others != false => true,
        _ => has_indirect_properties(schema),
    }
}

/// A string literal of the template language; braces are escaped, so nothing in it looks like code.
fn string_literal(text: &str) -> String {
    Value::from(text).to_string().replace('{', "\\u007b").replace('}', "\\u007d")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn templates(method: &str, endpoint: &str, names: &[&str]) -> (String, Option<String>) {
        let properties: serde_json::Map<_, _> =
            names.iter().map(|name| (name.to_string(), json!({}))).collect();
        let base = "https://travel.test/api/?a=b".parse().unwrap();
        let request = build_manifest_request(
            Some(&base),
            method,
            endpoint,
            &json!({"properties": properties}),
        );
        (request.url_template.into(), request.body_template.map(Into::into))
    }

    #[test]
    fn get_and_delete_send_a_query_and_other_methods_send_json() {
        let query = "https://travel.test/api/weather{{ query(\"unit=c\", form(\"city\", args[\"city\"])) }}";
        for method in ["GET", "DELETE"] {
            let expected = (query.to_owned(), None);
            assert_eq!(templates(method, "/weather?unit=c", &["city"]), expected);
        }
        let body = Some("{{ json(rest(required=true)) }}".to_owned());
        let expected = ("https://travel.test/api/weather?unit=c".to_owned(), body);
        assert_eq!(templates("POST", "/weather?unit=c", &["city"]), expected);
    }

    #[test]
    fn a_parameter_name_is_never_template_code() {
        let (url, _) = templates("GET", "/a", &["\") }}{{ 7 }}\n"]);
        let name = r#""\") \u007d\u007d\u007b\u007b 7 \u007d\u007d\n""#;
        let expected =
            format!("https://travel.test/api/a{{{{ query(form({name}, args[{name}])) }}}}");
        assert_eq!(url, expected);
    }
}
