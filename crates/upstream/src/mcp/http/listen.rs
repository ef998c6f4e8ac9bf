//! The stream for server-initiated messages before the modern era. It is reopened when it ends, and resumed if the
//! server numbers its events.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::answer::{get, is_stream, pause};
use super::{ASIDE, HttpLink};
use crate::http::header::HeaderMap;
use crate::http::{Limits, Opened};
use crate::mcp::hearing::Stream;
use crate::mcp::message;
use crate::mcp::pace::Pace;
use crate::mcp::sse::Sse;

/// Reopen the stream after this time without a byte, because the server may be gone without closing it.
const IDLE: Duration = Duration::from_secs(5 * 60);
/// The deadline for the rest of an event that has begun.
const EVENT: Duration = Duration::from_secs(30);

/// Listens until it is aborted, or the server turns out to have no such stream. Reports when the stream is first open
/// or refused, because messages sent before that may be lost.
pub(crate) async fn listen(link: Arc<HttpLink>, ready: oneshot::Sender<()>) {
    let mut ready = Some(ready);
    let mut sse = Sse::new(link.settings.limits.message());
    let mut generation = link.session().generation;
    let (mut times, mut was_open) = (0, false);
    let limits = Limits { deadline: ASIDE, max_bytes: u64::MAX };
    let mut pace = Pace::new(link.settings.limits.max_unasked);
    loop {
        let session = link.session();
        if session.generation != generation {
            generation = session.generation;
            sse.last_id = None;
        }
        let none = HeaderMap::new();
        let opened = get(&link, &session, sse.last_id.as_deref(), &none, limits).await;
        if let Some(ready) = ready.take() {
            // The receiver may have stopped waiting.
            ready.send(()).unwrap_or_default();
        }
        match opened {
            Ok(opened) if opened.status == 200 && is_stream(&opened) => {
                if std::mem::replace(&mut was_open, true) && sse.last_id.is_none() {
                    link.hearing.bell.ring(|changes| changes.all());
                }
                sse.restart();
                if read(&link, opened, &mut sse, &mut pace).await {
                    times = 0;
                }
            }
            Ok(opened) if (400..500).contains(&opened.status) && opened.status != 429 => {
                // The stream existed before, so the session has ended; the next call begins a new one.
                if !was_open {
                    return;
                }
            }
            Ok(_) | Err(_) => {}
        }
        times += 1;
        tokio::select! {
            () = sleep(pause(&sse, times)) => {}
            () = link.renewed.notified() => {}
        }
    }
}

/// Reads events until the stream ends. Returns whether any arrived.
async fn read(link: &Arc<HttpLink>, mut opened: Opened, sse: &mut Sse, pace: &mut Pace) -> bool {
    let mut came = false;
    loop {
        let time = sse.begun().map_or(IDLE, |begun| EVENT.saturating_sub(begun.elapsed()));
        let chunk = tokio::select! {
            chunk = timeout(time, opened.chunk()) => chunk,
            () = link.renewed.notified() => return came,
        };
        let Ok(Ok(Some(chunk))) = chunk else { return came };
        let mut bytes = chunk.as_ref();
        pace.count_bytes(bytes.len());
        while let Some(event) = sse.next(&mut bytes) {
            came = true;
            pace.count();
            pace.keep().await;
            if event.says_nothing() {
                continue;
            }
            match message::of(event, link.settings.limits.message()).await {
                Ok(message) => {
                    link.react(link.hearing.hear(message, Stream::Shared), &HeaderMap::new());
                }
                Err(no_message) => link.hearing.garbage(&no_message.to_nobody()),
            }
        }
        pace.keep().await;
    }
}
