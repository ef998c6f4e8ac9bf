//! Event streams over HTTP: messages of a call, and change notifications.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, VARY};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};

use super::post_response::{PRIVATE_NO_STORE, VARY_BY_CREDENTIAL};
use crate::listen::ListenStream;
use crate::resumable_streams::ResumableStream;

pub(super) const EVENT_STREAM_TYPE: &str = "text/event-stream";
/// Interval of heartbeats on an idle stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Reconnection delay for clients, in milliseconds.
const RETRY: u32 = 1_000;

pub(super) fn event_stream_response(
    stream: impl futures_util::Stream<Item = Bytes> + Send + 'static,
) -> Response {
    let body = Body::from_stream(stream.map(Ok::<Bytes, std::convert::Infallible>));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM_TYPE));
    headers.insert(CACHE_CONTROL, PRIVATE_NO_STORE);
    headers.insert(VARY, VARY_BY_CREDENTIAL);
    // Disable buffering in proxies: a stream that arrives in one go would be useless.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Waits for the next item: `Some(None)` if none arrived within a heartbeat interval, `None` at the end.
pub(super) async fn next_within_heartbeat<T>(
    next: impl Future<Output = Option<T>>,
) -> Option<Option<T>> {
    match tokio::time::timeout(HEARTBEAT, next).await {
        Ok(Some(next)) => Some(Some(next)),
        Ok(None) => None,
        Err(_) => Some(None),
    }
}

/// The events of a call's stream, from this event on.
pub(super) fn resume_stream(
    stream: Arc<ResumableStream>,
    after: usize,
    is_primed: bool,
) -> impl futures_util::Stream<Item = Bytes> {
    stream::unfold((stream, after, is_primed), |(stream, after, is_primed)| async move {
        if is_primed {
            let text = format!("id: {}\nretry: {RETRY}\ndata: \n\n", stream.start_event_id());
            return Some((text.into(), (stream, after, false)));
        }
        Some(match next_within_heartbeat(stream.next_message(after)).await? {
            None => (heartbeat_event(), (stream, after, false)),
            Some((id, message, number)) => {
                (message_event(Some(&id), &message), (stream, number, false))
            }
        })
    })
}

/// The events of a stream of changes.
pub(super) fn change_events(listen: Box<ListenStream>) -> impl futures_util::Stream<Item = Bytes> {
    stream::unfold((listen, true), |(mut listen, is_new)| async move {
        // Send a heartbeat at once: a client can wait for the stream to be open without waiting for a change.
        if is_new {
            return Some((heartbeat_event(), (listen, false)));
        }
        Some(match next_within_heartbeat(listen.next_message()).await? {
            None => (heartbeat_event(), (listen, false)),
            Some(sent) => {
                let id = format!("at-{}", listen.journal_position());
                (message_event(Some(&id), &sent.to_bytes()), (listen, false))
            }
        })
    })
}

pub(super) fn heartbeat_event() -> Bytes {
    Bytes::from_static(b": still here\n\n")
}

pub(super) fn message_event(id: Option<&str>, message: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(message.len() + 64);
    if let Some(id) = id {
        event.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    event.extend_from_slice(b"event: message\ndata: ");
    event.extend_from_slice(message);
    event.extend_from_slice(b"\n\n");
    event.into()
}
