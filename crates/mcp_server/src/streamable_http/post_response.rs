//! The response to a POST: JSON if the first message is the answer, otherwise an event stream.

use std::sync::Arc;
use std::time::Duration;

use api_types::problem::{Problem, ProblemCode};
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, VARY, WWW_AUTHENTICATE,
};
use axum::response::{IntoResponse as _, Response};
use endpoint::lazy_timeout::with_lazy_timeout;
use futures_util::stream;

use super::event_streams::{
    EVENT_STREAM_TYPE, event_stream_response, heartbeat_event, message_event,
    next_within_heartbeat, resume_stream,
};
use crate::McpEndpoint;
use crate::error_response::RpcErrorResponse;
use crate::outgoing_message::OutgoingMessage;
use crate::segmented_body::SegmentedBody;
use crate::shared_methods::McpReply;

pub(super) const JSON_TYPE: &str = "application/json";
/// Time limit of a call for clients that accept no event stream.
pub(super) const JSON_DEADLINE: Duration = Duration::from_secs(300);
/// Time after which an unanswered request gets an event stream.
const STREAM_AFTER: Duration = Duration::from_secs(5);

/// The content types that a client accepts.
#[derive(Clone, Copy)]
pub(super) struct AcceptedResponses {
    json: bool,
    pub(super) events: bool,
}

impl AcceptedResponses {
    pub(super) fn from_headers(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut given = headers.get_all(ACCEPT).iter().peekable();
        if given.peek().is_none() {
            return Ok(Self { json: true, events: true });
        }
        let mut accepted = Self { json: false, events: false };
        for kind in given.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(',')) {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            let is = |known: &[&str]| known.iter().any(|known| kind.eq_ignore_ascii_case(known));
            accepted.json |= is(&["*/*", JSON_TYPE, "application/*"]);
            accepted.events |= is(&["*/*", EVENT_STREAM_TYPE, "text/*"]);
        }
        if !accepted.json && !accepted.events {
            let detail = "send `Accept: application/json, text/event-stream`";
            return Err(Problem::new(ProblemCode::NotAcceptable, detail));
        }
        Ok(accepted)
    }
}

/// Settings of a stream that a client can resume.
pub(super) struct StreamResumption<'a> {
    pub(super) mcp: &'a McpEndpoint,
    pub(super) principal: &'a str,
    pub(super) is_primed: bool,
}

/// Waits for the answer and drops the messages before it, which only event streams carry.
async fn await_answer(mut answer: McpReply) -> Option<OutgoingMessage> {
    loop {
        let sent = answer.next_message().await?;
        if sent.is_last {
            return Some(sent);
        }
    }
}

pub(super) async fn write_response(
    mut answer: McpReply,
    accepted: AcceptedResponses,
    kept: Option<StreamResumption<'_>>,
) -> Response {
    if !accepted.events {
        let id = answer.id().cloned();
        return match with_lazy_timeout(JSON_DEADLINE, await_answer(answer)).await {
            Ok(Some(sent)) => json_response(sent),
            Ok(None) => accepted_response(),
            Err(_) => json_response(OutgoingMessage::error_response(
                id.as_ref(),
                &RpcErrorResponse::deadline_exceeded(JSON_DEADLINE),
            )),
        };
    }
    let first = match with_lazy_timeout(STREAM_AFTER, answer.next_message()).await {
        Ok(Some(sent)) if sent.challenge.is_some() => return json_response(sent),
        Ok(Some(sent)) if sent.is_last && accepted.json => return json_response(sent),
        Ok(None) => return accepted_response(),
        Ok(first) => first,
        Err(_) => None,
    };
    let place = kept.and_then(|keeping| {
        let stream = keeping.mcp.streams.open_stream(keeping.principal)?;
        Some((stream, keeping))
    });
    match place {
        Some((stream, keeping)) => {
            keeping.mcp.streams.run_in_background(
                Arc::clone(&stream),
                &keeping.mcp.background_work,
                first,
                answer,
            );
            event_stream_response(resume_stream(stream, 0, keeping.is_primed))
        }
        None => event_stream_response(stream::unfold(
            (first, Some(answer)),
            |(first, answer)| async move {
                let mut answer = answer?;
                let next = match first {
                    Some(first) => Some(first),
                    None => next_within_heartbeat(answer.next_message()).await?,
                };
                Some(match next {
                    None => (heartbeat_event(), (None, Some(answer))),
                    Some(sent) if sent.is_last => {
                        (message_event(None, &sent.to_bytes()), (None, None))
                    }
                    Some(sent) => (message_event(None, &sent.to_bytes()), (None, Some(answer))),
                })
            },
        )),
    }
}

/// Forbids caching: the response is for one agent.
pub(super) const PRIVATE_NO_STORE: HeaderValue = HeaderValue::from_static("private, no-store");
pub(super) const VARY_BY_CREDENTIAL: HeaderValue = HeaderValue::from_static("Authorization");

pub(super) fn json_response(sent: OutgoingMessage) -> Response {
    let mut response = Response::new(Body::new(SegmentedBody::new(sent.segments)));
    *response.status_mut() = StatusCode::from_u16(sent.status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    // Includes the headers that every response gets.
    headers.reserve(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_TYPE));
    headers.insert(CACHE_CONTROL, PRIVATE_NO_STORE);
    headers.insert(VARY, VARY_BY_CREDENTIAL);
    if let Some(challenge) = sent.challenge {
        headers.insert(WWW_AUTHENTICATE, *challenge);
    }
    response
}

/// The message was accepted and has no answer.
pub(super) fn accepted_response() -> Response {
    StatusCode::ACCEPTED.into_response()
}

pub(super) fn method_not_allowed() -> Response {
    let allowed = [(ALLOW, HeaderValue::from_static("POST"))];
    (StatusCode::METHOD_NOT_ALLOWED, allowed).into_response()
}
