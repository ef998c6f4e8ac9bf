//! An upstream's answer becomes an outcome.
//!
//! JSON is the result; anything else becomes content in the shapes of MCP. A status that does not mean success is a
//! failure, told with the beginning of what the upstream said. All text of the upstream is made harmless to terminals
//! and visible to people (`plain.rs`), and keeps its meaning.

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

/// How much of a failed answer's body is told, in characters.
const EXCERPT: usize = 2_000;

/// What an upstream answered to a request.
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

/// Which request was answered, and when.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// The tool that was called.
    pub tool_id: ToolId,
    /// `GET`, `POST`, …
    pub method: &'a str,
    /// Where the request went.
    pub url: Url,
    /// What was in the request, and must not be in what is made of the answer.
    pub credentials: &'a Credentials,
    /// How long the answer took.
    pub execution_time: Duration,
}

/// The outcome of a request to an API: any JSON is its result.
pub fn outcome(asked: Asked<'_>, answer: Answer<'_>) -> Outcome {
    let status = answer.status;
    let read = read(&asked, answer);
    finished(asked, status, read)
}

/// The outcome of a request to an upstream that may answer in the shape of an MCP tool result,
/// `{content, structuredContent, isError}` (requirement H2). Any other answer is taken as from an API.
pub fn outcome_of_tool_result(asked: Asked<'_>, answer: Answer<'_>) -> Outcome {
    let status = answer.status;
    let read = read(&asked, answer).and_then(|read| {
        let result = read.result.as_ref();
        let as_tool_result = result.and_then(|result| tool_result::read(&asked, result));
        as_tool_result.unwrap_or(Ok(read))
    });
    finished(asked, status, read)
}

/// The outcome of a request for a document: JSON too is the text that came.
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

/// What an answer says.
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

/// Whether the same call may well succeed later, and does no harm if the first was carried out after all.
pub fn is_retryable(method: &str, status: u16) -> bool {
    match status {
        425 | 429 | 503 => true,
        408 | 502 | 504 => {
            Method::from_bytes(method.as_bytes()).is_ok_and(|method| method.is_idempotent())
        }
        _ => false,
    }
}

/// Where an answer pointed, without a query: it may hold secrets.
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

/// How an answer begins. One that is long may have been cut off.
fn excerpt(asked: &Asked<'_>, answer: &Answer<'_>) -> String {
    let text = || body::text(answer.content_type, Cow::Borrowed(&answer.body));
    match Body::read(answer.content_type, &answer.body) {
        Body::Json(value) => beginning(asked, &plain::json(&value)),
        Body::Text if answer.body.len() < LONG => beginning(asked, &text()),
        Body::Text => cut(masked_of_cut_off(&text(), asked.credentials)),
        Body::Empty | Body::Bytes(_) => String::new(),
    }
}

/// The beginning of an answer, for a failure.
pub(crate) fn beginning_of(answer: &Value, hidden: &Credentials) -> String {
    cut(masked(&plain::json(answer), hidden))
}

/// The beginning of what an upstream said, without the credentials it repeats: they are hidden before it is cut.
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
