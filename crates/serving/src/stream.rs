//! `/api/agents/stream`: an agent's tools, followed by their changes (requirement A2).
//!
//! Server-sent events. A client that reconnects with the id of its last event gets the changes since then, from any
//! node.

mod events;

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{Stream, unfold};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use self::events::{Mark, bye, changes, snapshot};
use crate::app::App;
use crate::problem::{Code, Problem};
use crate::query::Asked;
use crate::route::Route;
use crate::seats::Seat;
use crate::sight::Wanted;
use crate::watching::{Change, Gone, Standing, Watching};

/// Interval of heartbeats on an idle stream, which keep proxies from closing it.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Disables buffering in proxies.
const NO_BUFFER: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("stream_agent_tools", "/api/agents/stream", stream)
            .agent("agents", "Follow the tools that the caller may use")
            .asks::<Query>()
            .shows("text/event-stream"),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "AgentStreamQuery")]
struct Query {
    #[serde(flatten)]
    wanted: Wanted,
    /// The id of the last event that the caller has, if it cannot send the header `Last-Event-ID`.
    #[serde(default)]
    last_event_id: Option<String>,
}

async fn stream(
    who: Standing,
    State(app): State<App>,
    headers: HeaderMap,
    Asked(query): Asked<Query>,
) -> Result<Response, Problem> {
    let agent = who.identity.agent.clone();
    let seat = seat(&app, &who)?;
    let watching = Watching::new(&app, who, query.wanted.sight()?, seat);
    let watching = watching.ok_or_else(|| query.wanted.no_group())?;
    let last = last_event(&headers, query.last_event_id.as_deref()).and_then(Mark::read);
    let since = match last {
        Some(last) => events::since(&app, &agent, &watching, &last).await,
        None => None,
    };
    let mut open = Open { app, watching, ready: Vec::new(), is_over: false, beats_at: later() };
    open.ready =
        since.unwrap_or_else(|| snapshot(&open.app, open.watching.view(), open.watching.sight()));
    open.ready.reverse();
    Ok(streamed(unfold(open, next)))
}

/// Acquires a permit for a stream.
pub(crate) fn seat(app: &App, who: &Standing) -> Result<Seat, Problem> {
    let busy = || Problem::later(Code::Busy, "too many streams are open: try again later", 1);
    app.seat_for_stream(&who.principal()).ok_or_else(busy)
}

/// The id of the last event that the client received.
pub(crate) fn last_event<'a>(headers: &'a HeaderMap, asked: Option<&'a str>) -> Option<&'a str> {
    headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok()).or(asked)
}

/// An event stream as the response.
pub(crate) fn streamed(
    events: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (NO_BUFFER, HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(events)).into_response()
}

/// An open stream.
struct Open {
    app: App,
    watching: Watching,
    /// Events to send, the next one last.
    ready: Vec<Bytes>,
    is_over: bool,
    beats_at: Instant,
}

fn later() -> Instant {
    Instant::now() + HEARTBEAT
}

/// The next chunk. The body polls it only after the client has read the last one, so a slow client gets fewer, larger
/// updates.
async fn next(mut open: Open) -> Option<(Result<Bytes, Infallible>, Open)> {
    loop {
        if let Some(bytes) = open.ready.pop() {
            open.beats_at = later();
            return Some((Ok(bytes), open));
        }
        if open.is_over {
            return None;
        }
        tokio::select! {
            change = open.watching.changed() => open.tell(change),
            () = sleep_until(open.beats_at) => {
                open.ready.push(Bytes::from_static(b": heartbeat\n\n"));
            }
        }
    }
}

impl Open {
    fn tell(&mut self, change: Result<Change, Gone>) {
        let mut events = match change {
            Ok(Change { tools_before: Some(before), .. }) => {
                changes(&self.app, &before, self.watching.view(), self.watching.sight())
            }
            Ok(Change { tools_before: None, .. }) => Vec::new(),
            Err(gone) => {
                self.is_over = true;
                vec![bye(gone)]
            }
        };
        events.reverse();
        self.ready = events;
    }
}
