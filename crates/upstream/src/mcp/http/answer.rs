//! The response to one request: a single message, or an event stream that ends with the answer.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::{HttpLink, Session, refused};
use crate::aside::LONG;
use crate::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use crate::http::{HttpError, Limits, Opened, Request, origin};
use crate::large::Large;
use crate::mcp::McpError;
use crate::mcp::Pauses;
use crate::mcp::hearing::{Next, Stream};
use crate::mcp::message::{self, Answer, Answers, Incoming, NoMessage};
use crate::mcp::settings::Call;
use crate::mcp::sse::Sse;
use crate::pieces::{Bounds, Pieces, TooMuch};

/// How often a stream is resumed without a new event in between.
const MAX_RESUMED: u32 = 5;
const RETRY: Duration = Duration::from_secs(1);
const MIN_RETRY: Duration = Duration::from_millis(100);
const MAX_RETRY: Duration = Duration::from_secs(30);

/// The longest pause within a long body, unless a third of the call's deadline is longer.
const SILENCE: Duration = Duration::from_secs(10);
const LAST_WORDS: Duration = Duration::from_millis(100);
const MAX_LAST_WORDS: u64 = 64 * 1024;

pub(super) const LAST_EVENT: &str = "last-event-id";

/// The answer to a request.
pub(super) struct Said {
    pub(super) answer: Answer,
    /// Whether the answer carries the id of the request.
    pub(super) is_numbered: bool,
}

pub(super) async fn read(
    link: &Arc<HttpLink>,
    mut opened: Opened,
    session: &Session,
    id: u64,
    method: &str,
    (begun, call): (Instant, &Call),
) -> Result<Said, McpError> {
    let is_fine = (200..300).contains(&opened.status);
    if is_stream(&opened) && is_fine {
        let answer = read_stream(link, opened, session, id, method, (begun, call)).await?;
        return Ok(Said { answer, is_numbered: true });
    }
    if matches!(opened.status, 401 | 403) || !is_json(&opened) {
        return Err(match is_fine {
            true => McpError::unreadable(method, "it is neither JSON nor a stream"),
            false => refused(&opened, &link.url),
        });
    }
    let bounds = link.settings.limits.message();
    let mut large = Large::not_yet(Some(&link.room), None);
    let body = match whole(&mut opened, bounds, method, &mut large, (begun, call)).await {
        Err(McpError::TooMuch { .. }) if !is_fine => return Err(refused(&opened, &link.url)),
        body => body?,
    };
    match message::read(body.into(), bounds).await {
        Ok(Incoming::Answer { id: theirs, answer }) => match answer {
            _ if theirs.as_u64() == Some(id) => Ok(Said { answer, is_numbered: true }),
            // An error may carry no id if the server could not parse the request.
            Answer::Error(_) if theirs.is_null() => Ok(Said { answer, is_numbered: false }),
            _ => Err(McpError::unreadable(method, "it answers another request")),
        },
        Err(NoMessage { too_much: Some(too_much), .. }) if is_fine => {
            Err(McpError::too_much(method, too_much))
        }
        _ if is_fine => Err(McpError::unreadable(method, "it is no answer")),
        _ => Err(refused(&opened, &link.url)),
    }
}

async fn whole(
    opened: &mut Opened,
    bounds: Bounds,
    method: &str,
    large: &mut Large,
    (begun, call): (Instant, &Call),
) -> Result<Pieces, McpError> {
    let too_much = |too_much| McpError::too_much(method, too_much);
    let announced = opened.announced().unwrap_or_default();
    bounds.take(usize::try_from(announced).unwrap_or(usize::MAX)).map_err(too_much)?;
    let mut body = Pieces::default();
    while let Some(chunk) = piece(opened, body.len(), call).await? {
        body.extend(chunk.as_ref(), bounds).map_err(too_much)?;
        hold(large, body.len(), opened, (begun, call)).await?;
    }
    Ok(body)
}

/// Reads the next chunk. A body that holds a permit for long bodies times out when it stalls.
async fn piece(
    opened: &mut Opened,
    held: usize,
    call: &Call,
) -> Result<Option<impl AsRef<[u8]> + Send + use<>>, HttpError> {
    let silence = if held <= LONG { Duration::MAX } else { SILENCE.max(call.time() / 3) };
    let next = timeout(silence, opened.chunk()).await;
    next.unwrap_or_else(|_| {
        Err(HttpError::Stalled { origin: opened.origin(), silence, repeatable: false })
    })
}

/// Acquires the permits for a body of `held` bytes before the call's deadline. A timeout here gets its own error,
/// because waiting for other answers does not mean that the server is down.
async fn hold(
    large: &mut Large,
    held: usize,
    opened: &Opened,
    (begun, call): (Instant, &Call),
) -> Result<(), HttpError> {
    let asked = call.pauses.as_ref().map_or(Duration::ZERO, Pauses::taken);
    let until = begun + call.time().mul_f64(0.95) + asked;
    let (origin, repeatable) = (opened.origin(), false);
    timeout_at(until, large.holds(held)).await.map_err(|_| match large.has_waited() {
        true => HttpError::Crowded { origin, repeatable },
        false => HttpError::Lengthy { origin, repeatable },
    })
}

pub(super) fn is_stream(opened: &Opened) -> bool {
    has_type(opened, "text/event-stream")
}

fn is_json(opened: &Opened) -> bool {
    has_type(opened, "application/json")
}

fn has_type(opened: &Opened, wanted: &str) -> bool {
    let kind = opened.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(wanted)
}

async fn read_stream(
    link: &Arc<HttpLink>,
    mut opened: Opened,
    session: &Session,
    id: u64,
    method: &str,
    (begun, call): (Instant, &Call),
) -> Result<Answer, McpError> {
    let mut sse = Sse::new(link.settings.limits.message());
    let (mut resumed, mut left) = (0, link.settings.limits.max_stream);
    let mut large = Large::not_yet(Some(&link.room), None);
    loop {
        match piece(&mut opened, sse.held(), call).await {
            Ok(Some(chunk)) => {
                let before = sse.last_id.clone();
                let chunk = chunk.as_ref();
                left = left.saturating_sub(chunk.len() as u64);
                if let Some(answer) = take(link, &mut sse, chunk, id, method, call).await? {
                    finish(opened);
                    return Ok(answer);
                }
                if before != sse.last_id {
                    resumed = 0;
                }
                hold(&mut large, sse.held(), &opened, (begun, call)).await?;
            }
            Err(stalled @ HttpError::Stalled { .. }) => return Err(stalled.into()),
            Err(HttpError::TooLarge { .. }) => {
                let limit = usize::try_from(link.settings.limits.max_stream).unwrap_or(usize::MAX);
                return Err(McpError::too_much(method, TooMuch { what: "bytes", limit }));
            }
            Ok(None) | Err(_) => {
                let last = sse.last_id.clone().filter(|_| !session.is_modern);
                let Some(last) = last.filter(|_| resumed < MAX_RESUMED) else {
                    return Err(McpError::Broken { origin: origin(&link.url) });
                };
                resumed += 1;
                sse.restart();
                large.holds(0).await;
                sleep(pause(&sse, resumed)).await;
                opened = resume(link, session, &last, call, left).await?;
            }
        }
    }
}

/// Reads the rest of the body, so that the connection can be reused. The rest usually has arrived already; otherwise it
/// is read briefly in the background.
fn finish(mut opened: Opened) {
    let mut rest = Box::pin(async move { opened.rest(MAX_LAST_WORDS).await.map(drop) });
    if rest.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        tokio::spawn(timeout(LAST_WORDS, rest));
    }
}

async fn take(
    link: &Arc<HttpLink>,
    sse: &mut Sse,
    mut chunk: &[u8],
    id: u64,
    method: &str,
    call: &Call,
) -> Result<Option<Answer>, McpError> {
    while let Some(event) = sse.next(&mut chunk) {
        let length = event.len();
        let message = match event.says_nothing() {
            true => None,
            false => Some(message::of(event, link.settings.limits.message()).await),
        };
        match message {
            None => {}
            Some(Ok(message)) => match link.hearing.hear(message, Stream::Of(id)) {
                Next::Answered(answer) => return Ok(Some(answer)),
                next => link.react(next, &call.headers),
            },
            Some(Err(no_message)) => match no_message.answers {
                Answers::Call(theirs) if theirs == id => {
                    return Err(no_message.error().about(method));
                }
                // It most likely is the answer, and the message may be endless.
                Answers::Unknown if no_message.too_much.is_some() => {
                    return Err(no_message.error().about(method));
                }
                _ => link.hearing.garbage(&no_message.to_nobody()),
            },
        }
        link.pace().count();
        link.pace().count_bytes(length);
        keep_pace(link).await;
    }
    let useless = sse.take_useless();
    if 0 < useless {
        link.pace().count_bytes(useless);
        keep_pace(link).await;
    }
    Ok(None)
}

async fn keep_pace(link: &HttpLink) {
    let until = link.pace().enough();
    if let Some(until) = until {
        sleep_until(until).await;
    }
}

/// The delay the server requested, within bounds, multiplied by the number of attempts without an event.
pub(super) fn pause(sse: &Sse, times: u32) -> Duration {
    let wished = sse.retry.map_or(RETRY, Duration::from_millis).max(MIN_RETRY);
    wished.saturating_mul(times.max(1)).min(MAX_RETRY)
}

/// Resumes a broken stream after its last event (2025-03-26 to 2025-11-25). All resumed streams share one byte limit.
async fn resume(
    link: &HttpLink,
    session: &Session,
    last: &str,
    call: &Call,
    max_bytes: u64,
) -> Result<Opened, McpError> {
    let limits = Limits { deadline: call.longest(), max_bytes };
    let opened = get(link, session, Some(last), &call.headers, limits).await?;
    match opened.status {
        200..300 if is_stream(&opened) => Ok(opened),
        _ => Err(McpError::Broken { origin: origin(&link.url) }),
    }
}

pub(super) async fn get(
    link: &HttpLink,
    session: &Session,
    last: Option<&str>,
    more: &HeaderMap,
    limits: Limits,
) -> Result<Opened, McpError> {
    link.renew_token().await;
    let mut headers = link.head(session, more);
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(last) = last.and_then(|last| HeaderValue::from_bytes(last.as_bytes()).ok()) {
        headers.insert(LAST_EVENT, last);
    }
    let request = Request { headers, ..Request::get(link.url.clone()) };
    Ok(link.client.open(request, limits).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reconnect_delay_is_bounded_whatever_the_server_requests() {
        let mut sse = Sse::new(Bounds { bytes: 100, parts: 100 });
        sse.next(&mut b"retry: 0\n\n".as_slice());
        assert_eq!([pause(&sse, 0), pause(&sse, 3)], [MIN_RETRY, 3 * MIN_RETRY]);
        sse.next(&mut b"retry: 99999999\n\n".as_slice());
        assert_eq!(pause(&sse, 1), MAX_RETRY);
    }
}
