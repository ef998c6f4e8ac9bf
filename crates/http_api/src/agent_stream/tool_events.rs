//! The events of a tool stream, in their text form.
//!
//! Of several events that belong together, only the last one has an id: a client that disconnects in between still has
//! the previous id and gets all of them again.

use std::fmt;

use axum::body::Bytes;
use endpoint::app_state::AppState;
use endpoint::list_cache::ListVariant;
use endpoint::tool_format::ToolFormat;
use endpoint::tool_listing::ListOptions;
use endpoint::view_subscription::{StreamEnd, ViewSubscription};
use model::{Agent, Digest};
use serde_json::{Value, json};
use toolcrib::{AgentView, ListChange, Position, ViewedTool};

/// Above this number of changes, the whole list is sent instead.
const MAX_CHANGE_EVENTS: usize = 256;
/// Replaces the changes; the whole list follows.
const RESYNC_EVENT: &[u8] = b"event: resync\ndata: {}\n\n";

/// The id of an event: the journal position, and a digest of the agent's list. It identifies the client's list on any
/// node and with any claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolEventId {
    position: Position,
    list_digest: Digest,
}

impl ToolEventId {
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let (position, shown) = text.split_once('-')?;
        Some(Self { position: Position(position.parse().ok()?), list_digest: shown.parse().ok()? })
    }

    /// The id for a view. The version of a catalog tool identifies its content on every node.
    fn for_view(view: &AgentView, format: ToolFormat) -> Self {
        let mut text = format!("{format:?}");
        for tool in view.list() {
            let what = match tool.catalog_entry() {
                Some(entry) => format!("{} {}", entry.tool.version.0, entry.tool.id),
                None => format.tool_to_json(view, &tool).to_string(),
            };
            text += &format!("\n{}\t{what}", tool.name());
        }
        Self { position: view.snapshot().position(), list_digest: Digest::of_bytes(text) }
    }
}

impl fmt::Display for ToolEventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.position.0, self.list_digest)
    }
}

/// The snapshot event with all tools.
pub(super) fn snapshot_event(app: &AppState, view: &AgentView, sight: &ListOptions) -> Vec<Bytes> {
    let mark = ToolEventId::for_view(view, sight.format);
    let start = format!("event: snapshot\nid: {mark}\ndata: ");
    vec![
        start.into(),
        sight.format.cached_list(&app.list_cache, view).bytes,
        Bytes::from_static(b"\n\n"),
    ]
}

/// The events for the changes between two views. Many streams send the same changes, so they are cached.
pub(super) fn change_events(
    app: &AppState,
    before: &AgentView,
    now: &AgentView,
    sight: &ListOptions,
) -> Vec<Bytes> {
    let format = sight.format;
    let form =
        ListVariant::new("changes").starting_after(format!("{format:?} {:?}", before.stamp()));
    let events =
        app.list_cache.get_or_serialize(now, form, || serialize_changes(before, now, format)).bytes;
    match () {
        () if events.is_empty() => Vec::new(),
        () if events == RESYNC_EVENT => {
            [events].into_iter().chain(snapshot_event(app, now, sight)).collect()
        }
        () => vec![events],
    }
}

/// The events for the changes since the client's last event; `None` if its earlier list cannot be reconstructed.
pub(super) async fn events_since(
    app: &AppState,
    agent: &Agent,
    watching: &ViewSubscription,
    last: &ToolEventId,
) -> Option<Vec<Bytes>> {
    let (now, sight) = (watching.view(), watching.list_options());
    if ToolEventId::for_view(now, sight.format).list_digest == last.list_digest {
        return Some(vec![Bytes::from_static(b": nothing happened since\n\n")]);
    }
    // With other claims or providers, the client may have had a different list at that position.
    let as_it_was = |then: AgentView| {
        let then = sight.apply_to(app, then)?;
        (ToolEventId::for_view(&then, sight.format).list_digest == last.list_digest).then_some(then)
    };
    let then = match app.crib.recent_view(agent, last.position).and_then(as_it_was) {
        Some(then) => then,
        None => Box::pin(app.crib.view_at(agent, last.position)).await.and_then(as_it_was)?,
    };
    Some(change_events(app, &then, now, sight))
}

/// The last event of a stream, with the reason for its end.
pub(super) fn closing_event(gone: StreamEnd) -> Bytes {
    let (reason, detail) = match gone {
        StreamEnd::Credential => {
            ("unauthorized", "the credential is expired, revoked or no longer taken")
        }
        StreamEnd::KeysUnavailable => {
            ("keys_unavailable", "the keys of the token's issuer cannot be had: come back later")
        }
        StreamEnd::Group => ("not_found", "there is no such group, or it is no longer yours"),
        StreamEnd::Server => ("server_stops", "the server stops: come back with the last id"),
    };
    let text = json!({"reason": reason, "detail": detail});
    format!("event: bye\ndata: {text}\n\n").into()
}

fn serialize_changes(before: &AgentView, now: &AgentView, format: ToolFormat) -> Vec<u8> {
    // Removals come first: another tool may have taken over the name of a removed one.
    let (mut gone, mut others) = (Vec::new(), Vec::new());
    for changed in now.changes_since(before) {
        match changed {
            ListChange::Added(tool) => others.push(("tool_added", format.tool_to_json(now, &tool))),
            ListChange::Removed(tool) => gone.push(removed_event(format, &tool)),
            ListChange::Updated { before: tool, now: other } => {
                let shown = format.tool_to_json(now, &other);
                if format.tool_to_json(before, &tool) == shown {
                    continue;
                }
                // In formats without tool ids, clients cannot see that two names are the same tool.
                if format == ToolFormat::Data || format.tool_name(&tool) == format.tool_name(&other)
                {
                    others.push(("tool_updated", shown));
                } else {
                    gone.push(removed_event(format, &tool));
                    others.push(("tool_added", shown));
                }
            }
        }
        if MAX_CHANGE_EVENTS < gone.len() + others.len() {
            return RESYNC_EVENT.to_vec();
        }
    }
    let count = gone.len() + others.len();
    let mut text = String::new();
    for (number, (name, tool)) in gone.into_iter().chain(others).enumerate() {
        let is_last = number + 1 == count;
        let id = is_last.then(|| format!("id: {}\n", ToolEventId::for_view(now, format)));
        text += &format!("event: {name}\n{}data: {tool}\n\n", id.unwrap_or_default());
    }
    text.into_bytes()
}

fn removed_event(format: ToolFormat, tool: &ViewedTool) -> (&'static str, Value) {
    let mut shown = json!({"name": format.tool_name(tool)});
    if let Some(id) = tool.id() {
        shown["tool_id"] = json!(id);
    }
    ("tool_removed", shown)
}
