//! Output of `toolcrib call`: requests and outcomes, as text and as JSON.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use execution::{RenderedRequest, escape_json};
use model::{BlobContent, Content, MediaContent, Outcome};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::VerbOutcome;
use crate::cli_error::CliError;
use crate::output;

/// Replaces secrets in a request; it consists of characters that no encoding changes.
pub(super) const PLACEHOLDER: &str = "toolcrib.hides.this.secret";
const HIDDEN: &str = "***";

/// A request, exactly as it would be sent.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ShownRequest")]
pub(crate) struct RequestPreview {
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
    pub(crate) fn from_request(request: &RenderedRequest) -> Self {
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
    pub(super) fn without_secrets(request: &RenderedRequest) -> Self {
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
    fn to_text(&self) -> String {
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

pub(super) fn print_request(shown: &RequestPreview, json: bool) -> Result<(), CliError> {
    match json {
        true => output::print_json(shown),
        false => output::print_text(&shown.to_text()),
    }
}

/// Prints the result to stdout. A failed call is returned as a failure: message on stderr, exit code 1.
pub(super) fn print_outcome(outcome: &Outcome, json: bool) -> Result<VerbOutcome, CliError> {
    if json {
        output::print_json(outcome)?;
    }
    if let Some(failure) = &outcome.error {
        return Err(CliError::CallFailed { message: failure.message.clone() });
    }
    if !json {
        output::print_text(&outcome_text(outcome))?;
    }
    Ok(VerbOutcome::Success)
}

fn outcome_text(outcome: &Outcome) -> String {
    let mut parts = Vec::new();
    if let Some(result) = &outcome.result {
        let pretty = serde_json::to_string_pretty(result).expect("a value is JSON");
        parts.push(escape_json(&pretty));
    }
    // Servers repeat the structured result, or its main field, as text for clients without structured output.
    let says_it_again = |content: &&Content| match (content, &outcome.result) {
        (Content::Text { text }, Some(result)) => {
            let mut members = result.as_object().into_iter().flat_map(Map::values);
            serde_json::from_str::<Value>(text).is_ok_and(|said| {
                said == *result || (said.is_array() && members.any(|member| *member == said))
            })
        }
        _ => false,
    };
    let rest = outcome.content.iter().filter(|content| !says_it_again(content));
    parts.extend(rest.map(content_text));
    parts.join("\n")
}

fn content_text(content: &Content) -> String {
    let bytes = |base64: &str, kind: &str| {
        let length = BASE64_STANDARD.decode(base64).map_or(0, |bytes| bytes.len());
        format!(
            "({length} bytes of {}; --json has them in Base64)",
            output::escape_for_terminal(kind)
        )
    };
    match content {
        Content::Text { text } => plain_lines(text),
        Content::Image(MediaContent { data, mime_type })
        | Content::Audio(MediaContent { data, mime_type }) => bytes(data, mime_type),
        Content::Resource { resource: BlobContent { mime_type, blob, .. } } => {
            bytes(blob, mime_type)
        }
        Content::Other(value) => escape_json(&value.to_string()),
    }
}

/// Text of several lines without control characters that could manipulate the terminal.
fn plain_lines(text: &str) -> String {
    text.split('\n').map(output::escape_for_terminal).collect::<Vec<_>>().join("\n")
}
