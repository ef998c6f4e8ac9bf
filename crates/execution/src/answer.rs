//! Converts the response of an upstream to an outcome.
//!
//! JSON is the result; anything else becomes MCP content. A status other than success is a failure with an excerpt of
//! the body. Characters that are invisible or control a terminal are escaped in all text of the upstream (module
//! `escaping`); its meaning does not change.

mod body;
mod of_server;
mod plain;
mod tool_result;

use std::borrow::Cow;
use std::time::Duration;

use model::{CallStatus, Content, ErrorCode, Failure, Outcome, ToolId};
use serde_json::Value;
use upstream::LONG;
use upstream::http::Method;
use url::Url;

use crate::credentials::{masked, masked_of_cut_off};
use crate::{Credentials, Mask};
use body::Body;
pub use of_server::outcome_of_server;
pub use plain::tame;
pub use plain::text as plain_text;
pub use plain::{is_hidden, plain_json};
pub use tool_result::{tool_result, whose_words};

/// The maximum length of a failed response's body in the message, in characters.
const EXCERPT: usize = 2_000;

/// The response of an upstream to a request.
#[derive(Debug)]
pub struct Answer<'a> {
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
pub struct Asked<'a> {
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
pub fn outcome(asked: Asked<'_>, answer: Answer<'_>) -> Outcome {
    let status = answer.status;
    let read = read(&asked, answer);
    finished(asked, status, read)
}

/// The outcome of a request to an upstream that may respond in the shape of an MCP tool result,
/// `{content, structuredContent, isError}` (requirement H2). Any other response is treated as one of an API.
pub fn outcome_of_tool_result(asked: Asked<'_>, answer: Answer<'_>) -> Outcome {
    let status = answer.status;
    let read = read(&asked, answer).and_then(|read| {
        let result = read.result.as_ref();
        let as_tool_result = result.and_then(|result| tool_result::read(&asked, result));
        as_tool_result.unwrap_or(Ok(read))
    });
    finished(asked, status, read)
}

/// The outcome of a request for a document: JSON, too, stays the received text.
pub fn outcome_of_document(asked: Asked<'_>, answer: Answer<'_>) -> Outcome {
    let status = answer.status;
    let read = match status {
        200..=299 => {
            let body = Body::of_document(answer.content_type, &answer.body);
            Ok(content(&asked, answer, body))
        }
        _ => read(&asked, answer),
    };
    finished(asked, status, read)
}

/// The result and the content of a successful response.
#[derive(Debug, Default)]
struct Read {
    result: Option<Value>,
    content: Vec<Content>,
}

fn read(asked: &Asked<'_>, answer: Answer<'_>) -> Result<Read, Failure> {
    match answer.status {
        200..=299 => {
            let body = Body::read(answer.content_type, &answer.body);
            Ok(content(asked, answer, body))
        }
        300..=399 => Err(failure(asked, &answer, redirection(asked, &answer))),
        _ => Err(failure(asked, &answer, excerpt(asked, &answer))),
    }
}

fn content(asked: &Asked<'_>, answer: Answer<'_>, body: Body) -> Read {
    let mask = Mask::of(asked.credentials.values());
    let content = match body {
        Body::Json(mut result) => {
            if mask.may_be_in_json(&answer.body) {
                mask.json(&mut result);
            }
            return Read { result: Some(result), content: Vec::new() };
        }
        Body::Empty => {
            Content::Text { text: format!("done (status {}, nothing to say)", answer.status) }
        }
        Body::Text => {
            let mut text = body::text(answer.content_type, answer.body);
            mask.text(&mut text);
            Content::Text { text }
        }
        Body::Bytes(content_type) => {
            body::bytes(&asked.url, &content_type, &mask.bytes(&answer.body))
        }
    };
    Read { result: None, content: vec![content] }
}

fn failure(asked: &Asked<'_>, answer: &Answer<'_>, details: String) -> Failure {
    let status = answer.status;
    let message = match details.is_empty() {
        true => format!("the upstream answered with status {status}"),
        false => format!("the upstream answered with status {status}: {details}"),
    };
    let retryable = is_retryable(asked.method, status);
    Failure::new(ErrorCode::UpstreamError, message, retryable)
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
fn redirection(asked: &Asked<'_>, answer: &Answer<'_>) -> String {
    let target = answer.location.and_then(|location| asked.url.join(location).ok());
    match target {
        Some(target) => {
            let origin = target.origin().ascii_serialization();
            let path = beginning(asked, target.path());
            format!("it points to {origin}{path}, which was not followed")
        }
        None => "it points elsewhere, which was not followed".to_owned(),
    }
}

/// The start of a body. A long body may have been truncated.
fn excerpt(asked: &Asked<'_>, answer: &Answer<'_>) -> String {
    let text = || body::text(answer.content_type, Cow::Borrowed(&answer.body));
    match Body::read(answer.content_type, &answer.body) {
        Body::Json(value) => beginning(asked, &plain::json(&value)),
        Body::Text if answer.body.len() < LONG => beginning(asked, &text()),
        Body::Text => cut(masked_of_cut_off(&text(), asked.credentials)),
        Body::Empty | Body::Bytes(_) => String::new(),
    }
}

/// The start of a JSON response for a failure message, with credentials masked.
pub(crate) fn beginning_of(answer: &Value, hidden: &Credentials) -> String {
    cut(masked(&plain::json(answer), hidden))
}

/// The start of an upstream's text. Credentials are masked before the text is truncated.
fn beginning(asked: &Asked<'_>, text: &str) -> String {
    cut(masked(text, asked.credentials))
}

fn cut(text: Cow<'_, str>) -> String {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{} …", text.split_at(end).0),
        None => text.into_owned(),
    }
}

fn finished(asked: Asked<'_>, status: u16, read: Result<Read, Failure>) -> Outcome {
    let (read, error) = match read {
        Ok(read) => (read, None),
        Err(failure) => (Read::default(), Some(failure)),
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
