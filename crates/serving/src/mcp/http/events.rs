//! Event streams over HTTP: messages of a call, and change notifications.

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
/// Interval of heartbeats on an idle stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Reconnection delay for clients, in milliseconds.
const RETRY: u32 = 1_000;

pub(super) fn events(stream: impl futures_util::Stream<Item = Bytes> + Send + 'static) -> Response {
    let body = Body::from_stream(stream.map(Ok::<Bytes, std::convert::Infallible>));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    headers.insert(CACHE_CONTROL, PRIVATE);
    headers.insert(VARY, BY_CREDENTIAL);
    // Disable buffering in proxies: a stream that arrives in one go would be useless.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Waits for the next item: `Some(None)` if none arrived within a heartbeat interval, `None` at the end.
pub(super) async fn within_a_heartbeat<T>(
    next: impl Future<Output = Option<T>>,
) -> Option<Option<T>> {
    match tokio::time::timeout(HEARTBEAT, next).await {
        Ok(Some(next)) => Some(Some(next)),
        Ok(None) => None,
        Err(_) => Some(None),
    }
}

/// The events of a call's stream, from this event on.
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

/// The events of a stream of changes.
pub(super) fn heard(listen: Box<Listen>) -> impl futures_util::Stream<Item = Bytes> {
    stream::unfold((listen, true), |(mut listen, is_new)| async move {
        // Send a heartbeat at once: a client can wait for the stream to be open without waiting for a change.
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
