//! Tests of rendering templates and arguments into requests.

mod address;
mod bodies;
mod direct;
mod headers;
mod laws;
mod limits;
mod styles;

use std::collections::BTreeMap;

use model::{BodyEncoding, HttpRequest};
use serde_json::Value;

use super::{RequestTemplate, TemplateError};
use crate::RenderedRequest;

/// Templates with only a URL.
fn get(url: &str) -> HttpRequest {
    HttpRequest {
        url_template: url.into(),
        headers_template: BTreeMap::new(),
        body_template: None,
        body_encoding: BodyEncoding::Json,
    }
}

fn with_header(name: &str, template: &str) -> HttpRequest {
    let headers = [(name.into(), template.into())];
    HttpRequest { headers_template: headers.into(), ..get("https://api.test/") }
}

fn with_body(template: &str, encoding: BodyEncoding) -> HttpRequest {
    HttpRequest {
        body_template: Some(template.into()),
        body_encoding: encoding,
        ..get("https://api.test/")
    }
}

fn render(templates: &HttpRequest, arguments: &Value) -> Result<RenderedRequest, TemplateError> {
    RequestTemplate::compile("POST", templates)?.render(arguments.as_object().unwrap())
}

/// The path and query of the rendered request.
fn target(url: &str, arguments: &Value) -> Result<String, TemplateError> {
    let sent = render(&get(url), arguments)?.url;
    Ok(sent.as_str().strip_prefix("https://api.test").unwrap().to_owned())
}

/// The reason why the templates are rejected.
fn refused(templates: &HttpRequest) -> String {
    RequestTemplate::compile("POST", templates).err().expect("it should be refused").to_string()
}
