//! The stream for what a server says by itself, before the modern era. It is opened again when it ends, and taken up
//! where it was if the server numbers its events.

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

/// After so long without a word the stream is opened again: whoever is at the other end may be gone.
const IDLE: Duration = Duration::from_secs(5 * 60);
/// An event that was begun is done by then.
const EVENT: Duration = Duration::from_secs(30);

/// Listens until it is aborted, or the server turns out to have no such stream. Says when it is open or refused for the
/// first time: what a server says before that may be lost.
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
            // Nobody may wait for it.
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
                // If it had one, it is the session that is gone; the next call begins another.
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

/// Says whether anything came.
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
