//! The stream for server-initiated messages before the modern era. It is reopened when it ends, and resumed if the
//! server numbers its events.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use upstream::http::header::HeaderMap;
use upstream::http::{ExchangeLimits, StreamingResponse};

use super::http_answer::{is_event_stream, open_event_stream, reconnect_delay};
use super::{BACKGROUND_DEADLINE, StreamableHttpLink};
use crate::dispatch::MessageStream;
use crate::json_rpc;
use crate::sse_parser::SseParser;
use crate::unsolicited_rate::UnsolicitedRate;

/// Reopen the stream after this time without a byte, because the server may be gone without closing it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// The deadline for the rest of an event that has begun.
const EVENT_DEADLINE: Duration = Duration::from_secs(30);

/// Listens until it is aborted, or the server turns out to have no such stream. Reports when the stream is first open
/// or refused, because messages sent before that may be lost.
pub(crate) async fn listen_for_notifications(
    link: Arc<StreamableHttpLink>,
    ready: oneshot::Sender<()>,
) {
    let mut ready = Some(ready);
    let mut sse = SseParser::new(link.settings.limits.message_bounds());
    let mut generation = link.current_session().generation;
    let (mut times, mut was_open) = (0, false);
    let limits = ExchangeLimits { deadline: BACKGROUND_DEADLINE, max_bytes: u64::MAX };
    let mut pace = UnsolicitedRate::new(link.settings.limits.max_unsolicited);
    loop {
        let session = link.current_session();
        if session.generation != generation {
            generation = session.generation;
            sse.last_id = None;
        }
        let none = HeaderMap::new();
        let opened =
            open_event_stream(&link, &session, sse.last_id.as_deref(), &none, limits).await;
        if let Some(ready) = ready.take() {
            // The receiver may have stopped waiting.
            ready.send(()).unwrap_or_default();
        }
        match opened {
            Ok(opened) if opened.status == 200 && is_event_stream(&opened) => {
                if std::mem::replace(&mut was_open, true) && sse.last_id.is_none() {
                    link.dispatcher
                        .change_notifier
                        .record_change(|changes| changes.mark_all_lists());
                }
                sse.restart();
                if read_events(&link, opened, &mut sse, &mut pace).await {
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
            () = sleep(reconnect_delay(&sse, times)) => {}
            () = link.renewed.notified() => {}
        }
    }
}

/// Reads events until the stream ends. Returns whether any arrived.
async fn read_events(
    link: &Arc<StreamableHttpLink>,
    mut opened: StreamingResponse,
    sse: &mut SseParser,
    pace: &mut UnsolicitedRate,
) -> bool {
    let mut came = false;
    loop {
        let time = sse
            .event_started()
            .map_or(IDLE_TIMEOUT, |begun| EVENT_DEADLINE.saturating_sub(begun.elapsed()));
        let chunk = tokio::select! {
            chunk = timeout(time, opened.next_chunk()) => chunk,
            () = link.renewed.notified() => return came,
        };
        let Ok(Ok(Some(chunk))) = chunk else { return came };
        let mut bytes = chunk.as_ref();
        pace.count_bytes(bytes.len());
        while let Some(event) = sse.next_event(&mut bytes) {
            came = true;
            pace.count_message();
            pace.wait_if_exceeded().await;
            if event.has_empty_data() {
                continue;
            }
            match json_rpc::parse_event(event, link.settings.limits.message_bounds()).await {
                Ok(message) => {
                    link.send_reply(
                        link.dispatcher.dispatch(message, MessageStream::Shared),
                        &HeaderMap::new(),
                    );
                }
                Err(no_message) => link.dispatcher.record_garbage(&no_message.without_target()),
            }
        }
        pace.wait_if_exceeded().await;
    }
}
