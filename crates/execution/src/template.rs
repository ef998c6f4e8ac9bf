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

mod address_template;
mod attachment_uri;
mod body_template;
mod compiled_template;
mod direct_expression;
mod encoded_piece;
mod follow_up_address;
mod header_template;
mod multipart;
mod template_context;
mod template_error;
mod template_functions;
mod template_scan;
mod value_style;

use address_template::AddressTemplate;
use body_template::{BodyTemplate, RenderedBody};
use encoded_piece::TemplatePosition;
use model::HttpRequest;
use serde_json::{Map, Value};

use crate::RenderedRequest;
pub(crate) use follow_up_address::{FollowUpAddress, resolve_within_origin};
use header_template::HeaderTemplate;
pub(crate) use header_template::is_header_text;
pub(crate) use template_context::PreviousResponse;
use template_context::TemplateArguments;
pub use template_error::TemplateError;
pub(crate) use value_style::{cookie_encoded, percent_encoded};

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
        if !model::header_names::is_header_name(method) {
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
            url: self.address.render(&shared.with_budget(address_template::ADDRESS_BUDGET))?,
            headers: Vec::new(),
            body: None,
        };
        let small = shared.with_budget(header_template::MAX_HEADER_BYTES);
        for header in &self.headers {
            if let Some(value) = header.render(&small)? {
                request.headers.push((header.name.to_string(), value));
            }
        }
        let large = shared.with_budget(body_template::MAX_BODY_BYTES);
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
