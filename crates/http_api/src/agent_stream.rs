//! `/api/agents/stream`: an agent's tools, followed by their changes (requirement A2).
//!
//! Server-sent events. A client that reconnects with the id of its last event gets the changes since then, from any
//! node.

mod tool_events;

use std::convert::Infallible;
use std::time::Duration;

use api_types::problem::{Problem, ProblemCode};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use endpoint::app_state::AppState;
use endpoint::query_params::QueryParams;
use endpoint::route::ApiRoute;
use endpoint::stream_limit::StreamPermit;
use endpoint::tool_listing::ListQuery;
use endpoint::view_subscription::{AuthenticatedCaller, StreamEnd, ViewChange, ViewSubscription};
use futures_util::stream::{Stream, unfold};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use self::tool_events::{ToolEventId, change_events, closing_event, snapshot_event};

/// Interval of heartbeats on an idle stream, which keep proxies from closing it.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Disables buffering in proxies.
const NO_BUFFER: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("stream_agent_tools", "/api/agents/stream", stream_tools)
            .for_agents("agents", "Follow the tools that the caller may use")
            .with_query::<AgentStreamQuery>()
            .returns_document("text/event-stream"),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "AgentStreamQuery")]
struct AgentStreamQuery {
    #[serde(flatten)]
    wanted: ListQuery,
    /// The id of the last event that the caller has, if it cannot send the header `Last-Event-ID`.
    #[serde(default)]
    last_event_id: Option<String>,
}

async fn stream_tools(
    who: AuthenticatedCaller,
    State(app): State<AppState>,
    headers: HeaderMap,
    QueryParams(query): QueryParams<AgentStreamQuery>,
) -> Result<Response, Problem> {
    let agent = who.identity.agent.clone();
    let seat = acquire_stream_permit(&app, &who)?;
    let watching = ViewSubscription::new(&app, who, query.wanted.to_list_options()?, seat);
    let watching = watching.ok_or_else(|| query.wanted.group_not_found())?;
    let last =
        last_event_id(&headers, query.last_event_id.as_deref()).and_then(ToolEventId::from_text);
    let since = match last {
        Some(last) => tool_events::events_since(&app, &agent, &watching, &last).await,
        None => None,
    };
    let mut open = OpenAgentStream {
        app,
        watching,
        ready: Vec::new(),
        is_over: false,
        beats_at: next_heartbeat(),
    };
    open.ready = since.unwrap_or_else(|| {
        snapshot_event(&open.app, open.watching.view(), open.watching.list_options())
    });
    open.ready.reverse();
    Ok(event_stream_response(unfold(open, next_chunk)))
}

/// Acquires a permit for a stream.
pub(crate) fn acquire_stream_permit(
    app: &AppState,
    who: &AuthenticatedCaller,
) -> Result<StreamPermit, Problem> {
    let busy =
        || Problem::retry_after(ProblemCode::Busy, "too many streams are open: try again later", 1);
    app.acquire_stream_permit(&who.principal()).ok_or_else(busy)
}

/// The id of the last event that the client received.
pub(crate) fn last_event_id<'a>(headers: &'a HeaderMap, asked: Option<&'a str>) -> Option<&'a str> {
    headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok()).or(asked)
}

/// An event stream as the response.
pub(crate) fn event_stream_response(
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
struct OpenAgentStream {
    app: AppState,
    watching: ViewSubscription,
    /// Events to send, the next one last.
    ready: Vec<Bytes>,
    is_over: bool,
    beats_at: Instant,
}

fn next_heartbeat() -> Instant {
    Instant::now() + HEARTBEAT
}

/// The next chunk. The body polls it only after the client has read the last one, so a slow client gets fewer, larger
/// updates.
async fn next_chunk(
    mut open: OpenAgentStream,
) -> Option<(Result<Bytes, Infallible>, OpenAgentStream)> {
    loop {
        if let Some(bytes) = open.ready.pop() {
            open.beats_at = next_heartbeat();
            return Some((Ok(bytes), open));
        }
        if open.is_over {
            return None;
        }
        tokio::select! {
            change = open.watching.next_change() => open.queue_events(change),
            () = sleep_until(open.beats_at) => {
                open.ready.push(Bytes::from_static(b": heartbeat\n\n"));
            }
        }
    }
}

impl OpenAgentStream {
    fn queue_events(&mut self, change: Result<ViewChange, StreamEnd>) {
        let mut events = match change {
            Ok(ViewChange { tools_before: Some(before), .. }) => change_events(
                &self.app,
                &before,
                self.watching.view(),
                self.watching.list_options(),
            ),
            Ok(ViewChange { tools_before: None, .. }) => Vec::new(),
            Err(gone) => {
                self.is_over = true;
                vec![closing_event(gone)]
            }
        };
        events.reverse();
        self.ready = events;
    }
}
