//! Renders the templates of a manifest with the arguments of a call into a request.
//!
//! A template is text with Jinja expressions in `{{ … }}`. Expressions see one variable, `args`, and these functions,
//! each of which encodes for one position:
//!
//! | position | functions |
//! |---|---|
//! | path | `simple(value, explode=false)`, `label(…)`, `matrix(name, …)` |
//! | query, form body | `form(name, value, explode=true, reserved=false, whole=false)`, `space_delimited(…)`, `pipe_delimited(…)`, `deep_object(name, value)`, `json_pair(name, value)`, joined by `query(…)` or `pairs(…)` |
//! | header | `header(value, explode=false)`, `header_json(value)`, `cookies(cookie(name, value, explode=true, whole=false), …)` |
//! | body | `json(value)`, `rest("not", "these", required=false)`, `text(value)`, `bytes(value)`, `multipart(part(name, value, type=none), file(…), …)` |
//! | any | `join(value, …)`, a plain string; `object(name, value, …)`, an object without missing values |
//!
//! A plain value is encoded for its position; a value encoded for another position is rejected. If a value is missing,
//! a query pair is omitted, or the whole header, or the whole body with its `Content-Type`. A path needs all of its
//! values. With `whole`, an object is one JSON value; exploded, its fields would be pairs whose names the agent
//! chooses.
//!
//! The URL of a request that follows a first response also sees `answer` (its JSON), `headers` and `location`.

mod address;
mod attachment;
mod body;
mod context;
mod direct;
mod error;
mod functions;
mod header;
mod multipart;
mod next;
mod piece;
mod scan;
mod style;
mod text;

use model::HttpRequest;
use serde_json::{Map, Value};

use crate::RenderedRequest;
use address::AddressTemplate;
use body::{BodyTemplate, RenderedBody};
pub(crate) use context::PreviousResponse;
use context::TemplateArguments;
pub use error::TemplateError;
use header::HeaderTemplate;
pub(crate) use header::is_header_text;
pub(crate) use next::{FollowUpAddress, resolve_within_origin};
use piece::TemplatePosition;
pub(crate) use style::{cookie_encoded, percent_encoded};

/// The parsed, checked and compiled templates of one request.
pub struct RequestTemplate {
    method: Box<str>,
    address: AddressTemplate,
    headers: Vec<HeaderTemplate>,
    body: Option<BodyTemplate>,
}

impl RequestTemplate {
    /// Rejects templates that could send arguments to a wrong position.
    pub fn compile(method: &str, request: &HttpRequest) -> Result<Self, TemplateError> {
        if !model::header::is_header_name(method) {
            return Err(TemplateError::Method { method: method.escape_debug().collect() });
        }
        let headers = request.headers_template.iter();
        let body = request.body_template.as_deref();
        Ok(Self {
            method: method.into(),
            address: AddressTemplate::compile(&request.url_template, TemplatePosition::Address)?,
            headers: headers
                .map(|(name, text)| HeaderTemplate::compile(name, text))
                .collect::<Result<_, _>>()?,
            body: body
                .map(|body| BodyTemplate::compile(body, request.body_encoding))
                .transpose()?,
        })
    }

    /// Whether undeclared arguments are sent too; only a body can hold them.
    pub fn takes_rest(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.uses_name("rest"))
    }

    /// The request for these arguments.
    pub fn render(&self, arguments: &Map<String, Value>) -> Result<RenderedRequest, TemplateError> {
        let shared = TemplateArguments::new(arguments);
        let mut request = RenderedRequest {
            method: self.method.clone().into(),
            url: self.address.render(&shared.with_budget(address::ADDRESS_BUDGET))?,
            headers: Vec::new(),
            body: None,
        };
        let small = shared.with_budget(header::MAX_HEADER_BYTES);
        for header in &self.headers {
            if let Some(value) = header.render(&small)? {
                request.headers.push((header.name.to_string(), value));
            }
        }
        let large = shared.with_budget(body::MAX_BODY_BYTES);
        match self.body.as_ref().map(|body| body.render(&large)).transpose()?.flatten() {
            Some(sent) => set_body(&mut request, sent),
            None => request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type")),
        }
        Ok(request)
    }
}

fn set_body(request: &mut RenderedRequest, sent: RenderedBody) {
    let mut content_type = request.content_type().unwrap_or(sent.content_type).to_owned();
    if let Some(boundary) = sent.boundary {
        content_type.push_str(&format!("; boundary={boundary}"));
    }
    request.set_header("Content-Type", content_type);
    request.body = Some(sent.bytes);
}

#[cfg(test)]
mod tests;
