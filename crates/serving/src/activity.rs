//! `/api/activity`: journal events and call log entries for admins, as they happen (requirement X5).
//!
//! Server-sent events. A client that reconnects with the id of its last event receives everything since, on any node.
//! Events omit their content: the client reads the entity itself, which by then reflects the event.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::HeaderMap;
use axum::response::Response;
use futures_util::stream::unfold;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use toolcrib::{CallFilter, Position, Recorded, StreamName};

use crate::app::App;
use crate::caller::Admin;
use crate::problem::Problem;
use crate::query::Asked;
use crate::route::Route;
use crate::seats::Seat;
use crate::stream::{HEARTBEAT, last_event, seat, streamed};
use crate::watching::Standing;

/// Most journal events or call log entries per read.
const PIECE: usize = 256;
/// Poll interval of the call log: a new call wakes no stream.
const LOOK: Duration = Duration::from_secs(1);
/// How often the credential is checked again if nothing happens.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("stream_activity", "/api/activity", stream)
            .admin("activity", "Follow what happens: changes of the catalog, and recorded calls")
            .asks::<Query>()
            .shows("text/event-stream"),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ActivityQuery")]
struct Query {
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
struct Mark {
    position: u64,
    call: u64,
}

impl Mark {
    fn read(text: &str) -> Option<Self> {
        let (position, call) = text.split_once('-')?;
        Some(Self { position: position.parse().ok()?, call: call.parse().ok()? })
    }

    fn id(self) -> String {
        format!("{}-{}", self.position, self.call)
    }
}

async fn stream(
    Admin(_): Admin,
    who: Standing,
    State(app): State<App>,
    headers: HeaderMap,
    Asked(query): Asked<Query>,
) -> Result<Response, Problem> {
    let seat = seat(&app, &who)?;
    let mut catalog = app.crib.catalog().changes();
    let shown = catalog.borrow_and_update().0;
    let calls = match app.crib.recorder() {
        Some(recorder) => recorder.records().chain().await?.head.id,
        None => 0,
    };
    let last = query.last.unwrap_or_default();
    let mark = last_event(&headers, query.last_event_id.as_deref()).and_then(Mark::read);
    // The client may come from a node that has applied more of the journal than this one.
    let mark = mark.map_or(
        Mark { position: shown.saturating_sub(last), call: calls.saturating_sub(last) },
        |mark| Mark { position: mark.position.min(shown), call: mark.call.min(calls) },
    );
    let open = Open {
        app,
        who,
        catalog,
        mark,
        ready: VecDeque::from([hello(mark, Mark { position: shown, call: calls })]),
        is_over: false,
        beats_at: Instant::now() + HEARTBEAT,
        trusted_until: Instant::now() + LOOK_AGAIN,
        is_behind: true,
        _seat: seat,
    };
    Ok(streamed(unfold(open, next)))
}

struct Open {
    app: App,
    who: Standing,
    catalog: watch::Receiver<Position>,
    mark: Mark,
    ready: VecDeque<Bytes>,
    is_over: bool,
    beats_at: Instant,
    trusted_until: Instant,
    /// Whether there may be more to read at once.
    is_behind: bool,
    /// Permit of this open stream.
    _seat: Seat,
}

/// The next chunk. The server polls only after the client took the previous one, so nothing queues for a slow client.
async fn next(mut open: Open) -> Option<(Result<Bytes, Infallible>, Open)> {
    loop {
        if let Some(bytes) = open.ready.pop_front() {
            open.beats_at = Instant::now() + HEARTBEAT;
            return Some((Ok(bytes), open));
        }
        if open.is_over {
            return None;
        }
        if !open.is_behind {
            tokio::select! {
                _ = open.catalog.changed() => {}
                () = sleep(LOOK) => {}
                () = sleep_until(open.beats_at) => {
                    open.ready.push_back(Bytes::from_static(b": heartbeat\n\n"));
                }
                () = open.app.draining() => open.end("server_stops"),
            }
        }
        if !open.is_over {
            open.look().await;
        }
    }
}

impl Open {
    /// Reads new entries, and ends the stream if the caller is no longer an admin.
    async fn look(&mut self) {
        let mut told = Vec::new();
        self.is_behind = false;
        let shown = self.catalog.borrow_and_update().0;
        if self.mark.position < shown {
            let journal = self.app.crib.catalog().journal();
            match journal.read_after(Position(self.mark.position), PIECE).await {
                Ok(events) => {
                    for event in events.iter().filter(|event| event.position.0 <= shown) {
                        self.mark.position = event.position.0;
                        told.push(change(event, self.mark));
                    }
                    self.is_behind |= self.mark.position < shown && !told.is_empty();
                }
                Err(error) => tracing::warn!(%error, "the journal cannot be read: {error}"),
            }
        }
        told.extend(self.calls().await);
        if told.is_empty() && Instant::now() < self.trusted_until {
            return;
        }
        let identity = Box::pin(self.who.again(&self.app)).await;
        if !identity.is_ok_and(|identity| self.app.crib.is_admin(&identity)) {
            return self.end("unauthorized");
        }
        self.trusted_until = Instant::now() + LOOK_AGAIN;
        self.ready.extend(told);
    }

    async fn calls(&mut self) -> Vec<Bytes> {
        let Some(recorder) = self.app.crib.recorder() else { return Vec::new() };
        let (after, limit) = (Some(self.mark.call), PIECE);
        let filter = CallFilter { after, limit, oldest_first: true, ..CallFilter::default() };
        let rows = match recorder.records().read(filter).await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(%error, "the record cannot be read: {error}");
                return Vec::new();
            }
        };
        self.is_behind |= rows.len() == PIECE;
        let mut told = Vec::new();
        for row in rows {
            self.mark.call = row.id;
            if let Some(call) = row.call() {
                told.push(format!(
                    "event: call\nid: {}\ndata: {}\n\n",
                    self.mark.id(),
                    json!(call)
                ));
            }
        }
        told.into_iter().map(Bytes::from).collect()
    }

    fn end(&mut self, reason: &str) {
        self.is_over = true;
        let text = json!({"reason": reason});
        self.ready.push_back(format!("event: bye\ndata: {text}\n\n").into());
    }
}

/// The first event. Its id lets a client reconnect even if nothing else happens; it marks which later events are old.
fn hello(mark: Mark, now: Mark) -> Bytes {
    let text = json!({"position": now.position, "call": now.call});
    format!("event: hello\nid: {}\ndata: {text}\n\n", mark.id()).into()
}

fn change(event: &Recorded, mark: Mark) -> Bytes {
    let (kind, id) = whose(event.stream.as_str());
    let text = json!({
        "position": event.position.0,
        "time": event.time,
        "type": event.kind,
        "kind": kind,
        "id": id,
        "actor": event.actor,
        "correlation_id": event.correlation_id,
    });
    format!("event: change\nid: {}\ndata: {text}\n\n", mark.id()).into()
}

/// The kind of entity in the words of the API, and its id, from the name of an event stream.
fn whose(stream: &str) -> (&'static str, &str) {
    let kinds = [
        (StreamName::SOURCE, "source"),
        (StreamName::TOOL, "tool"),
        (StreamName::GROUP, "group"),
        (StreamName::POLICY, "policy"),
        (StreamName::LABEL, "label"),
        (StreamName::KEY, "key"),
    ];
    let named = |(prefix, kind)| Some((kind, stream.strip_prefix(prefix)?));
    kinds.into_iter().find_map(named).unwrap_or(("other", stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_formatting_and_parsing() {
        let mark = Mark { position: 12, call: 3 };
        assert_eq!(Mark::read(&mark.id()), Some(mark));
        assert_eq!(["", "12", "12-", "-3", "a-b"].map(Mark::read), [None; 5]);
    }

    #[test]
    fn stream_names_map_to_the_kinds_of_the_api() {
        assert_eq!(whose("source_tool-pets:get/pet"), ("tool", "pets:get/pet"));
        assert_eq!(whose("api_key-first-admin"), ("key", "first-admin"));
        assert_eq!(whose("something-else"), ("other", "something-else"));
    }
}
