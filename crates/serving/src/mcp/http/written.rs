//! The response to a POST: JSON if the first message is the answer, otherwise an event stream.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, VARY, WWW_AUTHENTICATE,
};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;

use super::events::{EVENTS, event, events, heartbeat, taken_up, within_a_heartbeat};
use crate::in_time::in_time;
use crate::mcp::Mcp;
use crate::mcp::answer::Sent;
use crate::mcp::error::RpcError;
use crate::mcp::methods::Answer;
use crate::mcp::pieces::Pieces;
use crate::problem::{Code, Problem};

pub(super) const JSON: &str = "application/json";
/// Time limit of a call for clients that accept no event stream.
pub(super) const DEADLINE: Duration = Duration::from_secs(300);
/// Time after which an unanswered request gets an event stream.
const PATIENCE: Duration = Duration::from_secs(5);

/// The content types that a client accepts.
#[derive(Clone, Copy)]
pub(super) struct Accepted {
    json: bool,
    pub(super) events: bool,
}

impl Accepted {
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut given = headers.get_all(ACCEPT).iter().peekable();
        if given.peek().is_none() {
            return Ok(Self { json: true, events: true });
        }
        let mut accepted = Self { json: false, events: false };
        for kind in given.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(',')) {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            let is = |known: &[&str]| known.iter().any(|known| kind.eq_ignore_ascii_case(known));
            accepted.json |= is(&["*/*", JSON, "application/*"]);
            accepted.events |= is(&["*/*", EVENTS, "text/*"]);
        }
        if !accepted.json && !accepted.events {
            let detail = "send `Accept: application/json, text/event-stream`";
            return Err(Problem::new(Code::NotAcceptable, detail));
        }
        Ok(accepted)
    }
}

/// Settings of a stream that a client can resume.
pub(super) struct Keeping<'a> {
    pub(super) mcp: &'a Mcp,
    pub(super) principal: &'a str,
    pub(super) is_primed: bool,
}

/// Waits for the answer and drops the messages before it, which only event streams carry.
async fn last(mut answer: Answer) -> Option<Sent> {
    loop {
        let sent = answer.next().await?;
        if sent.is_last {
            return Some(sent);
        }
    }
}

pub(super) async fn write(
    mut answer: Answer,
    accepted: Accepted,
    kept: Option<Keeping<'_>>,
) -> Response {
    if !accepted.events {
        let id = answer.id().cloned();
        return match in_time(DEADLINE, last(answer)).await {
            Ok(Some(sent)) => plain(sent),
            Ok(None) => taken(),
            Err(_) => plain(Sent::error(id.as_ref(), &RpcError::too_late(DEADLINE))),
        };
    }
    let first = match in_time(PATIENCE, answer.next()).await {
        Ok(Some(sent)) if sent.challenge.is_some() => return plain(sent),
        Ok(Some(sent)) if sent.is_last && accepted.json => return plain(sent),
        Ok(None) => return taken(),
        Ok(first) => first,
        Err(_) => None,
    };
    let place = kept.and_then(|keeping| {
        let stream = keeping.mcp.streams.place(keeping.principal)?;
        Some((stream, keeping))
    });
    match place {
        Some((stream, keeping)) => {
            keeping.mcp.streams.carry(Arc::clone(&stream), &keeping.mcp.work, first, answer);
            events(taken_up(stream, 0, keeping.is_primed))
        }
        None => events(stream::unfold((first, Some(answer)), |(first, answer)| async move {
            let mut answer = answer?;
            let next = match first {
                Some(first) => Some(first),
                None => within_a_heartbeat(answer.next()).await?,
            };
            Some(match next {
                None => (heartbeat(), (None, Some(answer))),
                Some(sent) if sent.is_last => (event(None, &sent.to_bytes()), (None, None)),
                Some(sent) => (event(None, &sent.to_bytes()), (None, Some(answer))),
            })
        })),
    }
}

/// Forbids caching: the response is for one agent.
pub(super) const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-store");
pub(super) const BY_CREDENTIAL: HeaderValue = HeaderValue::from_static("Authorization");

pub(super) fn plain(sent: Sent) -> Response {
    let mut response = Response::new(Body::new(Pieces::new(sent.pieces)));
    *response.status_mut() = StatusCode::from_u16(sent.status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    // Includes the headers that every response gets.
    headers.reserve(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(CACHE_CONTROL, PRIVATE);
    headers.insert(VARY, BY_CREDENTIAL);
    if let Some(challenge) = sent.challenge {
        headers.insert(WWW_AUTHENTICATE, *challenge);
    }
    response
}

/// The message was accepted and has no answer.
pub(super) fn taken() -> Response {
    StatusCode::ACCEPTED.into_response()
}

pub(super) fn not_in_this_era() -> Response {
    let allowed = [(ALLOW, HeaderValue::from_static("POST"))];
    (StatusCode::METHOD_NOT_ALLOWED, allowed).into_response()
}
