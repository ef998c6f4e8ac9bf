//! Converts the response of an upstream to an outcome.
//!
//! JSON is the result; anything else becomes MCP content. A status other than success is a failure with an excerpt of
//! the body. Characters that are invisible or control a terminal are escaped in all text of the upstream (module
//! `escaping`); its meaning does not change.

mod escaping;
mod mcp_result;
mod response_body;
mod tool_result;

use std::borrow::Cow;
use std::time::Duration;

use limits::MAX_INLINE_BYTES;
use model::{CallFailure, CallStatus, Content, ErrorCode, Outcome, ToolId};
use serde_json::Value;
use upstream::http::Method;
use url::Url;

use crate::credentials::{mask_credentials, mask_truncated};
use crate::{CredentialMask, Credentials};
pub use escaping::escape_dangerous;
pub use escaping::escape_hidden as plain_text;
pub use escaping::{escape_for_terminal, escape_json, is_hidden_char};
pub use mcp_result::outcome_of_mcp_result;
use response_body::ResponseBody;
pub use tool_result::{to_tool_result, untrusted_source_meta};

/// The maximum length of a failed response's body in the message, in characters.
const EXCERPT_CHARS: usize = 2_000;

/// The response of an upstream to a request.
#[derive(Debug)]
pub struct ResponseParts<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The `Content-Type` header.
    pub content_type: Option<&'a str>,
    /// The `Location` header.
    pub location: Option<&'a str>,
    /// The whole body, decoded.
    pub body: Cow<'a, [u8]>,
}

/// The request that was answered, and how long that took.
#[derive(Clone, Debug)]
pub struct AnsweredRequest<'a> {
    /// The tool that was called.
    pub tool_id: ToolId,
    /// `GET`, `POST`, …
    pub method: &'a str,
    /// The URL of the request.
    pub url: Url,
    /// The credentials of the request, which must not appear in the outcome.
    pub credentials: &'a Credentials,
    /// The time from the request to the response.
    pub execution_time: Duration,
}

/// The outcome of a request to an API: any JSON is its result.
pub fn outcome_of_api(asked: AnsweredRequest<'_>, answer: ResponseParts<'_>) -> Outcome {
    let status = answer.status;
    let read = read_response(&asked, answer);
    build_outcome(asked, status, read)
}

/// The outcome of a request to an upstream that may respond in the shape of an MCP tool result,
/// `{content, structuredContent, isError}` (requirement H2). Any other response is treated as one of an API.
pub fn outcome_of_tool_result(asked: AnsweredRequest<'_>, answer: ResponseParts<'_>) -> Outcome {
    let status = answer.status;
    let read = read_response(&asked, answer).and_then(|read| {
        let result = read.result.as_ref();
        let as_tool_result =
            result.and_then(|result| tool_result::read_tool_result(&asked, result));
        as_tool_result.unwrap_or(Ok(read))
    });
    build_outcome(asked, status, read)
}

/// The outcome of a request for a document: JSON, too, stays the received text.
pub fn outcome_of_document(asked: AnsweredRequest<'_>, answer: ResponseParts<'_>) -> Outcome {
    let status = answer.status;
    let read = match status {
        200..=299 => {
            let body = ResponseBody::classify_document(answer.content_type, &answer.body);
            Ok(success_content(&asked, answer, body))
        }
        _ => read_response(&asked, answer),
    };
    build_outcome(asked, status, read)
}

/// The result and the content of a successful response.
#[derive(Debug, Default)]
struct ResponseContent {
    result: Option<Value>,
    content: Vec<Content>,
}

fn read_response(
    asked: &AnsweredRequest<'_>,
    answer: ResponseParts<'_>,
) -> Result<ResponseContent, CallFailure> {
    match answer.status {
        200..=299 => {
            let body = ResponseBody::classify(answer.content_type, &answer.body);
            Ok(success_content(asked, answer, body))
        }
        300..=399 => Err(upstream_failure(asked, &answer, describe_redirect(asked, &answer))),
        _ => Err(upstream_failure(asked, &answer, body_excerpt(asked, &answer))),
    }
}

fn success_content(
    asked: &AnsweredRequest<'_>,
    answer: ResponseParts<'_>,
    body: ResponseBody,
) -> ResponseContent {
    let mask = CredentialMask::from_secrets(asked.credentials.values());
    let content = match body {
        ResponseBody::Json(mut result) => {
            if mask.may_occur_in_json(&answer.body) {
                mask.mask_json(&mut result);
            }
            return ResponseContent { result: Some(result), content: Vec::new() };
        }
        ResponseBody::Empty => {
            Content::Text { text: format!("done (status {}, nothing to say)", answer.status) }
        }
        ResponseBody::Text => {
            let mut text = response_body::decode_text(answer.content_type, answer.body);
            mask.mask_text(&mut text);
            Content::Text { text }
        }
        ResponseBody::Bytes(content_type) => {
            response_body::binary_content(&asked.url, &content_type, &mask.mask_bytes(&answer.body))
        }
    };
    ResponseContent { result: None, content: vec![content] }
}

fn upstream_failure(
    asked: &AnsweredRequest<'_>,
    answer: &ResponseParts<'_>,
    details: String,
) -> CallFailure {
    let status = answer.status;
    let message = match details.is_empty() {
        true => format!("the upstream answered with status {status}"),
        false => format!("the upstream answered with status {status}: {details}"),
    };
    let retryable = is_retryable(asked.method, status);
    CallFailure::new(ErrorCode::UpstreamError, message, retryable)
}

/// Whether the call may succeed later, and retrying does no harm if the first attempt was executed.
pub fn is_retryable(method: &str, status: u16) -> bool {
    match status {
        425 | 429 | 503 => true,
        408 | 502 | 504 => {
            Method::from_bytes(method.as_bytes()).is_ok_and(|method| method.is_idempotent())
        }
        _ => false,
    }
}

/// The redirect target without its query, which may contain secrets.
fn describe_redirect(asked: &AnsweredRequest<'_>, answer: &ResponseParts<'_>) -> String {
    let target = answer.location.and_then(|location| asked.url.join(location).ok());
    match target {
        Some(target) => {
            let origin = target.origin().ascii_serialization();
            let path = masked_excerpt(asked, target.path());
            format!("it points to {origin}{path}, which was not followed")
        }
        None => "it points elsewhere, which was not followed".to_owned(),
    }
}

/// The start of a body. A long body may have been truncated.
fn body_excerpt(asked: &AnsweredRequest<'_>, answer: &ResponseParts<'_>) -> String {
    let text = || response_body::decode_text(answer.content_type, Cow::Borrowed(&answer.body));
    match ResponseBody::classify(answer.content_type, &answer.body) {
        ResponseBody::Json(value) => masked_excerpt(asked, &escaping::plain_json_of(&value)),
        ResponseBody::Text if answer.body.len() < MAX_INLINE_BYTES => {
            masked_excerpt(asked, &text())
        }
        ResponseBody::Text => truncate_excerpt(mask_truncated(&text(), asked.credentials)),
        ResponseBody::Empty | ResponseBody::Bytes(_) => String::new(),
    }
}

/// The start of a JSON response for a failure message, with credentials masked.
pub(crate) fn masked_json_excerpt(answer: &Value, hidden: &Credentials) -> String {
    truncate_excerpt(mask_credentials(&escaping::plain_json_of(answer), hidden))
}

/// The start of an upstream's text. Credentials are masked before the text is truncated.
fn masked_excerpt(asked: &AnsweredRequest<'_>, text: &str) -> String {
    truncate_excerpt(mask_credentials(text, asked.credentials))
}

fn truncate_excerpt(text: Cow<'_, str>) -> String {
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{} …", text.split_at(end).0),
        None => text.into_owned(),
    }
}

fn build_outcome(
    asked: AnsweredRequest<'_>,
    status: u16,
    read: Result<ResponseContent, CallFailure>,
) -> Outcome {
    let (read, error) = match read {
        Ok(read) => (read, None),
        Err(failure) => (ResponseContent::default(), Some(failure)),
    };
    Outcome {
        tool_id: asked.tool_id,
        status: if error.is_some() { CallStatus::Failed } else { CallStatus::Completed },
        result: read.result,
        content: read.content,
        error,
        execution_time_ms: u64::try_from(asked.execution_time.as_millis()).unwrap_or(u64::MAX),
        upstream_status: Some(status),
    }
}

#[cfg(test)]
mod tests;
