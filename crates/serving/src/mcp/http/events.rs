//! Answers as streams of events: of a call that speaks or takes a while, of changes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, VARY};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};

use super::written::{BY_CREDENTIAL, PRIVATE};
use crate::mcp::kept::Stream;
use crate::mcp::listen::Listen;

pub(super) const EVENTS: &str = "text/event-stream";
/// How often a stream that has nothing to say shows that it is there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long a client waits before it takes a stream up again, in milliseconds.
const RETRY: u32 = 1_000;

pub(super) fn events(stream: impl futures_util::Stream<Item = Bytes> + Send + 'static) -> Response {
    let body = Body::from_stream(stream.map(Ok::<Bytes, std::convert::Infallible>));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    headers.insert(CACHE_CONTROL, PRIVATE);
    headers.insert(VARY, BY_CREDENTIAL);
    // Proxies that gather an answer before they pass it on would make a stream useless.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// What comes, or nothing in time; none when nothing comes any more.
pub(super) async fn within_a_heartbeat<T>(
    next: impl Future<Output = Option<T>>,
) -> Option<Option<T>> {
    match tokio::time::timeout(HEARTBEAT, next).await {
        Ok(Some(next)) => Some(Some(next)),
        Ok(None) => None,
        Err(_) => Some(None),
    }
}

/// A stream of a call, from an event on.
pub(super) fn taken_up(
    stream: Arc<Stream>,
    after: usize,
    is_primed: bool,
) -> impl futures_util::Stream<Item = Bytes> {
    stream::unfold((stream, after, is_primed), |(stream, after, is_primed)| async move {
        if is_primed {
            let text = format!("id: {}\nretry: {RETRY}\ndata: \n\n", stream.start());
            return Some((text.into(), (stream, after, false)));
        }
        Some(match within_a_heartbeat(stream.next(after)).await? {
            None => (heartbeat(), (stream, after, false)),
            Some((id, message, number)) => (event(Some(&id), &message), (stream, number, false)),
        })
    })
}

/// A stream of changes.
pub(super) fn heard(listen: Box<Listen>) -> impl futures_util::Stream<Item = Bytes> {
    stream::unfold((listen, true), |(mut listen, is_new)| async move {
        // At once, so that whoever waits for the stream to be there need not wait for a change.
        if is_new {
            return Some((heartbeat(), (listen, false)));
        }
        Some(match within_a_heartbeat(listen.next()).await? {
            None => (heartbeat(), (listen, false)),
            Some(sent) => {
                let id = format!("at-{}", listen.position());
                (event(Some(&id), &sent.to_bytes()), (listen, false))
            }
        })
    })
}

pub(super) fn heartbeat() -> Bytes {
    Bytes::from_static(b": still here\n\n")
}

pub(super) fn event(id: Option<&str>, message: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(message.len() + 64);
    if let Some(id) = id {
        event.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    event.extend_from_slice(b"event: message\ndata: ");
    event.extend_from_slice(message);
    event.extend_from_slice(b"\n\n");
    event.into()
}
