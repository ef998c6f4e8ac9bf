//! `/api/activity`: journal events and call log entries for admins, as they happen (requirement X5).
//!
//! Server-sent events. A client that reconnects with the id of its last event receives everything since, on any node.
//! Events omit their content: the client reads the entity itself, which by then reflects the event.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use api_types::problem::Problem;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::HeaderMap;
use axum::response::Response;
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::query_params::QueryParams;
use endpoint::route::ApiRoute;
use endpoint::stream_limit::StreamPermit;
use endpoint::view_subscription::AuthenticatedCaller;
use futures_util::stream::unfold;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use toolcrib::{CallFilter, Position, RecordedEvent, StreamName};

use crate::agent_stream::{HEARTBEAT, acquire_stream_permit, event_stream_response, last_event_id};

/// Most journal events or call log entries per read.
const READ_BATCH: usize = 256;
/// Poll interval of the call log: a new call wakes no stream.
const CALL_LOG_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often the credential is checked again if nothing happens.
const CREDENTIAL_CHECK_INTERVAL: Duration = Duration::from_secs(60);

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("stream_activity", "/api/activity", stream_activity)
            .for_admins(
                "activity",
                "Follow what happens: changes of the catalog, and recorded calls",
            )
            .with_query::<ActivityQuery>()
            .returns_document("text/event-stream"),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ActivityQuery")]
struct ActivityQuery {
    /// How many of the last changes and of the last calls are told first; none if it is left out.
    #[serde(default)]
    #[schemars(range(max = 200))]
    last: Option<u64>,
    /// The id of the last event that the caller has, if it cannot send the header `Last-Event-ID`.
    #[serde(default)]
    last_event_id: Option<String>,
}

/// Position of a stream: the last journal event and the last call that were sent. Clients see it as the event id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ActivityCursor {
    position: u64,
    call: u64,
}

impl ActivityCursor {
    fn parse_cursor(text: &str) -> Option<Self> {
        let (position, call) = text.split_once('-')?;
        Some(Self { position: position.parse().ok()?, call: call.parse().ok()? })
    }

    fn event_id(self) -> String {
        format!("{}-{}", self.position, self.call)
    }
}

async fn stream_activity(
    Admin(_): Admin,
    who: AuthenticatedCaller,
    State(app): State<AppState>,
    headers: HeaderMap,
    QueryParams(query): QueryParams<ActivityQuery>,
) -> Result<Response, Problem> {
    let seat = acquire_stream_permit(&app, &who)?;
    let mut catalog = app.crib.catalog().subscribe();
    let shown = catalog.borrow_and_update().0;
    let calls = match app.crib.recorder() {
        Some(recorder) => recorder.records().chain_bounds().await?.head.id,
        None => 0,
    };
    let last = query.last.unwrap_or_default();
    let mark = last_event_id(&headers, query.last_event_id.as_deref())
        .and_then(ActivityCursor::parse_cursor);
    // The client may come from a node that has applied more of the journal than this one.
    let mark = mark.map_or(
        ActivityCursor { position: shown.saturating_sub(last), call: calls.saturating_sub(last) },
        |mark| ActivityCursor { position: mark.position.min(shown), call: mark.call.min(calls) },
    );
    let open = ActivityStream {
        app,
        caller: who,
        catalog,
        cursor: mark,
        outgoing: VecDeque::from([hello_event(
            mark,
            ActivityCursor { position: shown, call: calls },
        )]),
        is_ended: false,
        heartbeat_at: Instant::now() + HEARTBEAT,
        credential_valid_until: Instant::now() + CREDENTIAL_CHECK_INTERVAL,
        is_behind: true,
        _seat: seat,
    };
    Ok(event_stream_response(unfold(open, next_chunk)))
}

struct ActivityStream {
    app: AppState,
    caller: AuthenticatedCaller,
    catalog: watch::Receiver<Position>,
    cursor: ActivityCursor,
    outgoing: VecDeque<Bytes>,
    is_ended: bool,
    heartbeat_at: Instant,
    credential_valid_until: Instant,
    /// Whether there may be more to read at once.
    is_behind: bool,
    /// Permit of this open stream.
    _seat: StreamPermit,
}

/// The next chunk. The server polls only after the client took the previous one, so nothing queues for a slow client.
async fn next_chunk(
    mut open: ActivityStream,
) -> Option<(Result<Bytes, Infallible>, ActivityStream)> {
    loop {
        if let Some(bytes) = open.outgoing.pop_front() {
            open.heartbeat_at = Instant::now() + HEARTBEAT;
            return Some((Ok(bytes), open));
        }
        if open.is_ended {
            return None;
        }
        if !open.is_behind {
            tokio::select! {
                _ = open.catalog.changed() => {}
                () = sleep(CALL_LOG_POLL_INTERVAL) => {}
                () = sleep_until(open.heartbeat_at) => {
                    open.outgoing.push_back(Bytes::from_static(b": heartbeat\n\n"));
                }
                () = open.app.wait_for_draining() => open.end_stream("server_stops"),
            }
        }
        if !open.is_ended {
            open.read_new_entries().await;
        }
    }
}

impl ActivityStream {
    /// Reads new entries, and ends the stream if the caller is no longer an admin.
    async fn read_new_entries(&mut self) {
        let mut told = Vec::new();
        self.is_behind = false;
        let shown = self.catalog.borrow_and_update().0;
        if self.cursor.position < shown {
            let journal = self.app.crib.catalog().journal();
            match journal.read_after(Position(self.cursor.position), READ_BATCH).await {
                Ok(events) => {
                    for event in events.iter().filter(|event| event.position.0 <= shown) {
                        self.cursor.position = event.position.0;
                        told.push(change_event(event, self.cursor));
                    }
                    self.is_behind |= self.cursor.position < shown && !told.is_empty();
                }
                Err(error) => tracing::warn!(%error, "the journal cannot be read: {error}"),
            }
        }
        told.extend(self.read_calls().await);
        if told.is_empty() && Instant::now() < self.credential_valid_until {
            return;
        }
        let identity = Box::pin(self.caller.reauthenticate(&self.app)).await;
        if !identity.is_ok_and(|identity| self.app.crib.is_admin(&identity)) {
            return self.end_stream("unauthorized");
        }
        self.credential_valid_until = Instant::now() + CREDENTIAL_CHECK_INTERVAL;
        self.outgoing.extend(told);
    }

    async fn read_calls(&mut self) -> Vec<Bytes> {
        let Some(recorder) = self.app.crib.recorder() else { return Vec::new() };
        let (after, limit) = (Some(self.cursor.call), READ_BATCH);
        let filter = CallFilter { after, limit, oldest_first: true, ..CallFilter::default() };
        let rows = match recorder.records().read_rows(filter).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%error, "the record cannot be read: {error}");
                return Vec::new();
            }
        };
        self.is_behind |= rows.len() == READ_BATCH;
        let mut told = Vec::new();
        for row in rows {
            self.cursor.call = row.id;
            if let Some(call) = row.parse_call() {
                told.push(format!(
                    "event: call\nid: {}\ndata: {}\n\n",
                    self.cursor.event_id(),
                    json!(call)
                ));
            }
        }
        told.into_iter().map(Bytes::from).collect()
    }

    fn end_stream(&mut self, reason: &str) {
        self.is_ended = true;
        let text = json!({"reason": reason});
        self.outgoing.push_back(format!("event: bye\ndata: {text}\n\n").into());
    }
}

/// The first event. Its id lets a client reconnect even if nothing else happens; it marks which later events are old.
fn hello_event(mark: ActivityCursor, now: ActivityCursor) -> Bytes {
    let text = json!({"position": now.position, "call": now.call});
    format!("event: hello\nid: {}\ndata: {text}\n\n", mark.event_id()).into()
}

fn change_event(event: &RecordedEvent, mark: ActivityCursor) -> Bytes {
    let (kind, id) = kind_and_id_of_stream(event.stream.as_str());
    let text = json!({
        "position": event.position.0,
        "time": event.time,
        "type": event.kind,
        "kind": kind,
        "id": id,
        "actor": event.actor,
        "correlation_id": event.correlation_id,
    });
    format!("event: change\nid: {}\ndata: {text}\n\n", mark.event_id()).into()
}

/// The kind of entity in the words of the API, and its id, from the name of an event stream.
fn kind_and_id_of_stream(stream: &str) -> (&'static str, &str) {
    let kinds = [
        (StreamName::SOURCE_PREFIX, "source"),
        (StreamName::TOOL_PREFIX, "tool"),
        (StreamName::GROUP_PREFIX, "group"),
        (StreamName::POLICY_PREFIX, "policy"),
        (StreamName::LABEL_PREFIX, "label"),
        (StreamName::API_KEY_PREFIX, "key"),
    ];
    let named = |(prefix, kind)| Some((kind, stream.strip_prefix(prefix)?));
    kinds.into_iter().find_map(named).unwrap_or(("other", stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_formatting_and_parsing() {
        let mark = ActivityCursor { position: 12, call: 3 };
        assert_eq!(ActivityCursor::parse_cursor(&mark.event_id()), Some(mark));
        assert_eq!(["", "12", "12-", "-3", "a-b"].map(ActivityCursor::parse_cursor), [None; 5]);
    }

    #[test]
    fn stream_names_map_to_the_kinds_of_the_api() {
        assert_eq!(kind_and_id_of_stream("source_tool-pets:get/pet"), ("tool", "pets:get/pet"));
        assert_eq!(kind_and_id_of_stream("api_key-first-admin"), ("key", "first-admin"));
        assert_eq!(kind_and_id_of_stream("something-else"), ("other", "something-else"));
    }
}
