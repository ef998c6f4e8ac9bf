//! A request of a tool, exactly as it would be sent.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use execution::RenderedRequest;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// Replaces secrets in a request; it consists of characters that no encoding changes.
pub const PLACEHOLDER: &str = "toolcrib.hides.this.secret";

const HIDDEN: &str = "***";

/// A request, exactly as it would be sent.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ShownRequest")]
pub struct RequestPreview {
    /// `GET`, `POST`, …
    method: String,
    /// The address.
    url: String,
    /// The headers, by name.
    headers: Map<String, Value>,
    /// The type of the body.
    content_type: Option<String>,
    /// The body, if it is text.
    body: Option<String>,
    /// The body, if it is not, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

impl RequestPreview {
    pub fn from_request(request: &RenderedRequest) -> Self {
        let headers = request.headers.iter();
        let (body, body_base64) = match request.body.clone().map(String::from_utf8) {
            None => (None, None),
            Some(Ok(text)) => (Some(text), None),
            Some(Err(error)) => (None, Some(BASE64_STANDARD.encode(error.as_bytes()))),
        };
        Self {
            method: request.method.clone(),
            url: request.url.to_string(),
            headers: headers.map(|(name, value)| (name.clone(), value.as_str().into())).collect(),
            content_type: request.content_type().map(str::to_owned),
            body,
            body_base64,
        }
    }

    /// The request with `***` for each placeholder, verbatim or in the Base64 of HTTP Basic.
    pub fn without_secrets(request: &RenderedRequest) -> Self {
        let basic = BASE64_STANDARD.encode(PLACEHOLDER);
        let hide = |text: &str| text.replace(PLACEHOLDER, HIDDEN).replace(&basic, HIDDEN);
        let mut shown = Self::from_request(request);
        shown.url = hide(&shown.url);
        for value in shown.headers.values_mut() {
            *value = hide(value.as_str().unwrap_or_default()).into();
        }
        shown
    }

    /// Formatted like an HTTP/1.1 request head, followed by the body.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} {}\n", self.method, self.url);
        for (name, value) in &self.headers {
            text += &format!("{name}: {}\n", value.as_str().unwrap_or_default());
        }
        if let Some(body) = &self.body {
            text += &format!("\n{}\n", plain_lines(body));
        }
        if let Some(body) = &self.body_base64 {
            text += &format!("\n(not text; in Base64:)\n{body}\n");
        }
        text
    }
}

/// Text of several lines without control characters that could manipulate the terminal.
pub fn plain_lines(text: &str) -> String {
    text.split('\n').map(execution::escape_for_terminal).collect::<Vec<_>>().join("\n")
}
