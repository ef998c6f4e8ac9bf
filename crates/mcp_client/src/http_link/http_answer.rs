//! The response to one request: a single message, or an event stream that ends with the answer.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use limits::low_priority::MAX_INLINE_BYTES;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use upstream::chunked::{ChunkedBuffer, MessageBounds, MessageTooLarge};
use upstream::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use upstream::http::{ExchangeLimits, HttpError, StreamingResponse, UpstreamRequest, origin_text};
use upstream::large_bodies::LargeBodyLease;

use super::{HttpSession, StreamableHttpLink, refusal_error};
use crate::connection_settings::McpCallOptions;
use crate::dispatch::{DispatchStep, MessageStream};
use crate::json_rpc::{AnswerTarget, BrokenMessage, McpAnswer, ServerMessage};
use crate::sse_parser::SseParser;
use crate::{DeadlinePauses, McpError, json_rpc};

/// How often a stream is resumed without a new event in between.
const MAX_RESUMPTIONS: u32 = 5;
const DEFAULT_RECONNECT_DELAY: Duration = Duration::from_secs(1);
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(100);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(30);

/// The longest pause within a long body, unless a third of the call's deadline is longer.
const MIN_BODY_SILENCE: Duration = Duration::from_secs(10);
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
const MAX_DRAIN_BYTES: u64 = 64 * 1024;

pub(super) const LAST_EVENT_ID: &str = "last-event-id";

/// The answer to a request.
pub(super) struct HttpAnswer {
    pub(super) answer: McpAnswer,
    /// Whether the answer carries the id of the request.
    pub(super) has_request_id: bool,
}

pub(super) async fn read_answer(
    link: &Arc<StreamableHttpLink>,
    mut opened: StreamingResponse,
    session: &HttpSession,
    id: u64,
    method: &str,
    (begun, call): (Instant, &McpCallOptions),
) -> Result<HttpAnswer, McpError> {
    let is_fine = (200..300).contains(&opened.status);
    if is_event_stream(&opened) && is_fine {
        let answer = read_event_stream(link, opened, session, id, method, (begun, call)).await?;
        return Ok(HttpAnswer { answer, has_request_id: true });
    }
    if matches!(opened.status, 401 | 403) || !has_json_type(&opened) {
        return Err(match is_fine {
            true => McpError::unreadable(method, "it is neither JSON nor a stream"),
            false => refusal_error(&opened, &link.url),
        });
    }
    let bounds = link.settings.limits.message_bounds();
    let mut large = LargeBodyLease::unacquired(Some(&link.body_limiter), None);
    let body = match read_body(&mut opened, bounds, method, &mut large, (begun, call)).await {
        Err(McpError::AnswerTooLarge { .. }) if !is_fine => {
            return Err(refusal_error(&opened, &link.url));
        }
        body => body?,
    };
    match json_rpc::parse_message(body.into(), bounds).await {
        Ok(ServerMessage::Answer { id: theirs, answer }) => match answer {
            _ if theirs.as_u64() == Some(id) => Ok(HttpAnswer { answer, has_request_id: true }),
            // An error may carry no id if the server could not parse the request.
            McpAnswer::Error(_) if theirs.is_null() => {
                Ok(HttpAnswer { answer, has_request_id: false })
            }
            _ => Err(McpError::unreadable(method, "it answers another request")),
        },
        Err(BrokenMessage { exceeded: Some(too_much), .. }) if is_fine => {
            Err(McpError::too_much(method, too_much))
        }
        _ if is_fine => Err(McpError::unreadable(method, "it is no answer")),
        _ => Err(refusal_error(&opened, &link.url)),
    }
}

async fn read_body(
    opened: &mut StreamingResponse,
    bounds: MessageBounds,
    method: &str,
    large: &mut LargeBodyLease,
    (begun, call): (Instant, &McpCallOptions),
) -> Result<ChunkedBuffer, McpError> {
    let too_much = |too_much| McpError::too_much(method, too_much);
    let announced = opened.announced_length().unwrap_or_default();
    bounds.check_bytes(usize::try_from(announced).unwrap_or(usize::MAX)).map_err(too_much)?;
    let mut body = ChunkedBuffer::default();
    while let Some(chunk) = next_chunk(opened, body.len(), call).await? {
        body.extend(chunk.as_ref(), bounds).map_err(too_much)?;
        reserve_body(large, body.len(), opened, (begun, call)).await?;
    }
    Ok(body)
}

/// Reads the next chunk. A body that holds a permit for long bodies times out when it stalls.
async fn next_chunk(
    opened: &mut StreamingResponse,
    held: usize,
    call: &McpCallOptions,
) -> Result<Option<impl AsRef<[u8]> + Send + use<>>, HttpError> {
    let silence = if held <= MAX_INLINE_BYTES {
        Duration::MAX
    } else {
        MIN_BODY_SILENCE.max(call.deadline_or_default() / 3)
    };
    let next = timeout(silence, opened.next_chunk()).await;
    next.unwrap_or_else(|_| {
        Err(HttpError::Stalled { origin: opened.origin(), silence, repeatable: false })
    })
}

/// Acquires the permits for a body of `held` bytes before the call's deadline. A timeout here gets its own error,
/// because waiting for other answers does not mean that the server is down.
async fn reserve_body(
    large: &mut LargeBodyLease,
    held: usize,
    opened: &StreamingResponse,
    (begun, call): (Instant, &McpCallOptions),
) -> Result<(), HttpError> {
    let asked = call.pauses.as_ref().map_or(Duration::ZERO, DeadlinePauses::total_paused);
    let until = begun + call.deadline_or_default().mul_f64(0.95) + asked;
    let (origin, repeatable) = (opened.origin(), false);
    timeout_at(until, large.grow_to(held)).await.map_err(|_| match large.has_waited() {
        true => HttpError::QueuedTooLong { origin, repeatable },
        false => HttpError::TooLongToRead { origin, repeatable },
    })
}

pub(super) fn is_event_stream(opened: &StreamingResponse) -> bool {
    has_content_type(opened, "text/event-stream")
}

fn has_json_type(opened: &StreamingResponse) -> bool {
    has_content_type(opened, "application/json")
}

fn has_content_type(opened: &StreamingResponse, wanted: &str) -> bool {
    let kind = opened.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(wanted)
}

async fn read_event_stream(
    link: &Arc<StreamableHttpLink>,
    mut opened: StreamingResponse,
    session: &HttpSession,
    id: u64,
    method: &str,
    (begun, call): (Instant, &McpCallOptions),
) -> Result<McpAnswer, McpError> {
    let mut sse = SseParser::new(link.settings.limits.message_bounds());
    let (mut resumed, mut left) = (0, link.settings.limits.max_stream_bytes);
    let mut large = LargeBodyLease::unacquired(Some(&link.body_limiter), None);
    loop {
        match next_chunk(&mut opened, sse.buffered_bytes(), call).await {
            Ok(Some(chunk)) => {
                let before = sse.last_id.clone();
                let chunk = chunk.as_ref();
                left = left.saturating_sub(chunk.len() as u64);
                if let Some(answer) = process_chunk(link, &mut sse, chunk, id, method, call).await?
                {
                    drain_body(opened);
                    return Ok(answer);
                }
                if before != sse.last_id {
                    resumed = 0;
                }
                reserve_body(&mut large, sse.buffered_bytes(), &opened, (begun, call)).await?;
            }
            Err(stalled @ HttpError::Stalled { .. }) => return Err(stalled.into()),
            Err(HttpError::TooLarge { .. }) => {
                let limit =
                    usize::try_from(link.settings.limits.max_stream_bytes).unwrap_or(usize::MAX);
                return Err(McpError::too_much(method, MessageTooLarge { what: "bytes", limit }));
            }
            Ok(None) | Err(_) => {
                let last = sse.last_id.clone().filter(|_| !session.is_modern);
                let Some(last) = last.filter(|_| resumed < MAX_RESUMPTIONS) else {
                    return Err(McpError::StreamBroken { origin: origin_text(&link.url) });
                };
                resumed += 1;
                sse.restart();
                large.grow_to(0).await;
                sleep(reconnect_delay(&sse, resumed)).await;
                opened = resume_stream(link, session, &last, call, left).await?;
            }
        }
    }
}

/// Reads the rest of the body, so that the connection can be reused. The rest usually has arrived already; otherwise it
/// is read briefly in the background.
fn drain_body(mut opened: StreamingResponse) {
    let mut rest = Box::pin(async move { opened.read_rest(MAX_DRAIN_BYTES).await.map(drop) });
    if rest.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        tokio::spawn(timeout(DRAIN_TIMEOUT, rest));
    }
}

async fn process_chunk(
    link: &Arc<StreamableHttpLink>,
    sse: &mut SseParser,
    mut chunk: &[u8],
    id: u64,
    method: &str,
    call: &McpCallOptions,
) -> Result<Option<McpAnswer>, McpError> {
    while let Some(event) = sse.next_event(&mut chunk) {
        let length = event.len();
        let message = match event.has_empty_data() {
            true => None,
            false => {
                Some(json_rpc::parse_event(event, link.settings.limits.message_bounds()).await)
            }
        };
        match message {
            None => {}
            Some(Ok(message)) => match link.dispatcher.dispatch(message, MessageStream::OfCall(id))
            {
                DispatchStep::Answered(answer) => return Ok(Some(answer)),
                next => link.send_reply(next, &call.headers),
            },
            Some(Err(no_message)) => match no_message.target {
                AnswerTarget::Call(theirs) if theirs == id => {
                    return Err(no_message.to_error().with_method(method));
                }
                // It most likely is the answer, and the message may be endless.
                AnswerTarget::Unknown if no_message.exceeded.is_some() => {
                    return Err(no_message.to_error().with_method(method));
                }
                _ => link.dispatcher.record_garbage(&no_message.without_target()),
            },
        }
        link.lock_unsolicited_rate().count_message();
        link.lock_unsolicited_rate().count_bytes(length);
        wait_for_rate(link).await;
    }
    let useless = sse.take_useless_bytes();
    if 0 < useless {
        link.lock_unsolicited_rate().count_bytes(useless);
        wait_for_rate(link).await;
    }
    Ok(None)
}

async fn wait_for_rate(link: &StreamableHttpLink) {
    let until = link.lock_unsolicited_rate().paused_until();
    if let Some(until) = until {
        sleep_until(until).await;
    }
}

/// The delay the server requested, within bounds, multiplied by the number of attempts without an event.
pub(super) fn reconnect_delay(sse: &SseParser, times: u32) -> Duration {
    let wished =
        sse.retry.map_or(DEFAULT_RECONNECT_DELAY, Duration::from_millis).max(MIN_RECONNECT_DELAY);
    wished.saturating_mul(times.max(1)).min(MAX_RECONNECT_DELAY)
}

/// Resumes a broken stream after its last event (2025-03-26 to 2025-11-25). All resumed streams share one byte limit.
async fn resume_stream(
    link: &StreamableHttpLink,
    session: &HttpSession,
    last: &str,
    call: &McpCallOptions,
    max_bytes: u64,
) -> Result<StreamingResponse, McpError> {
    let limits = ExchangeLimits { deadline: call.max_duration(), max_bytes };
    let opened = open_event_stream(link, session, Some(last), &call.headers, limits).await?;
    match opened.status {
        200..300 if is_event_stream(&opened) => Ok(opened),
        _ => Err(McpError::StreamBroken { origin: origin_text(&link.url) }),
    }
}

pub(super) async fn open_event_stream(
    link: &StreamableHttpLink,
    session: &HttpSession,
    last: Option<&str>,
    more: &HeaderMap,
    limits: ExchangeLimits,
) -> Result<StreamingResponse, McpError> {
    link.renew_token().await;
    let mut headers = link.request_headers(session, more);
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(last) = last.and_then(|last| HeaderValue::from_bytes(last.as_bytes()).ok()) {
        headers.insert(LAST_EVENT_ID, last);
    }
    let request = UpstreamRequest { headers, ..UpstreamRequest::get(link.url.clone()) };
    Ok(link.client.open_stream(request, limits).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reconnect_delay_is_bounded_whatever_the_server_requests() {
        let mut sse = SseParser::new(MessageBounds { bytes: 100, values: 100 });
        sse.next_event(&mut b"retry: 0\n\n".as_slice());
        assert_eq!(
            [reconnect_delay(&sse, 0), reconnect_delay(&sse, 3)],
            [MIN_RECONNECT_DELAY, 3 * MIN_RECONNECT_DELAY]
        );
        sse.next_event(&mut b"retry: 99999999\n\n".as_slice());
        assert_eq!(reconnect_delay(&sse, 1), MAX_RECONNECT_DELAY);
    }
}
