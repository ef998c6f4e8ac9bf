//! The events of a tool stream, in their text form.
//!
//! Of several events that belong together, only the last one has an id: a client that disconnects in between still has
//! the previous id and gets all of them again.

use std::fmt;

use axum::body::Bytes;
use model::{Agent, Digest};
use serde_json::{Value, json};
use toolcrib::{AgentView, Changed, Position, ViewedTool};

use crate::app::App;
use crate::format::Format;
use crate::prepared::Form;
use crate::sight::Sight;
use crate::watching::{Gone, Watching};

/// Above this number of changes, the whole list is sent instead.
const MOST: usize = 256;
/// Replaces the changes; the whole list follows.
const RESYNC: &[u8] = b"event: resync\ndata: {}\n\n";

/// The id of an event: the journal position, and a digest of the agent's list. It identifies the client's list on any
/// node and with any claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    position: Position,
    shown: Digest,
}

impl Mark {
    pub(super) fn read(text: &str) -> Option<Self> {
        let (position, shown) = text.split_once('-')?;
        Some(Self { position: Position(position.parse().ok()?), shown: shown.parse().ok()? })
    }

    /// The id for a view. The version of a catalog tool identifies its content on every node.
    fn of(view: &AgentView, format: Format) -> Self {
        let mut text = format!("{format:?}");
        for tool in view.list() {
            let what = match tool.entry() {
                Some(entry) => format!("{} {}", entry.tool.version.0, entry.tool.id),
                None => format.tool(view, &tool).to_string(),
            };
            text += &format!("\n{}\t{what}", tool.name());
        }
        Self { position: view.snapshot().position(), shown: Digest::of(text) }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.position.0, self.shown)
    }
}

/// The snapshot event with all tools.
pub(super) fn snapshot(app: &App, view: &AgentView, sight: &Sight) -> Vec<Bytes> {
    let mark = Mark::of(view, sight.format);
    let start = format!("event: snapshot\nid: {mark}\ndata: ");
    vec![start.into(), sight.format.list(app, view).bytes, Bytes::from_static(b"\n\n")]
}

/// The events for the changes between two views. Many streams send the same changes, so they are cached.
pub(super) fn changes(app: &App, before: &AgentView, now: &AgentView, sight: &Sight) -> Vec<Bytes> {
    let format = sight.format;
    let form = Form::new("changes").after(format!("{format:?} {:?}", before.stamp()));
    let events = app.prepared.get(now, form, || write(before, now, format)).bytes;
    match () {
        () if events.is_empty() => Vec::new(),
        () if events == RESYNC => [events].into_iter().chain(snapshot(app, now, sight)).collect(),
        () => vec![events],
    }
}

/// The events for the changes since the client's last event; `None` if its earlier list cannot be reconstructed.
pub(super) async fn since(
    app: &App,
    agent: &Agent,
    watching: &Watching,
    last: &Mark,
) -> Option<Vec<Bytes>> {
    let (now, sight) = (watching.view(), watching.sight());
    if Mark::of(now, sight.format).shown == last.shown {
        return Some(vec![Bytes::from_static(b": nothing happened since\n\n")]);
    }
    // With other claims or providers, the client may have had a different list at that position.
    let as_it_was = |then: AgentView| {
        let then = sight.within(app, then)?;
        (Mark::of(&then, sight.format).shown == last.shown).then_some(then)
    };
    let then = match app.crib.recent_view(agent, last.position).and_then(as_it_was) {
        Some(then) => then,
        None => Box::pin(app.crib.view_at(agent, last.position)).await.and_then(as_it_was)?,
    };
    Some(changes(app, &then, now, sight))
}

/// The last event of a stream, with the reason for its end.
pub(super) fn bye(gone: Gone) -> Bytes {
    let (reason, detail) = match gone {
        Gone::Credential => {
            ("unauthorized", "the credential is expired, revoked or no longer taken")
        }
        Gone::KeysUnavailable => {
            ("keys_unavailable", "the keys of the token's issuer cannot be had: come back later")
        }
        Gone::Group => ("not_found", "there is no such group, or it is no longer yours"),
        Gone::Server => ("server_stops", "the server stops: come back with the last id"),
    };
    let text = json!({"reason": reason, "detail": detail});
    format!("event: bye\ndata: {text}\n\n").into()
}

fn write(before: &AgentView, now: &AgentView, format: Format) -> Vec<u8> {
    // Removals come first: another tool may have taken over the name of a removed one.
    let (mut gone, mut others) = (Vec::new(), Vec::new());
    for changed in now.since(before) {
        match changed {
            Changed::Added(tool) => others.push(("tool_added", format.tool(now, &tool))),
            Changed::Removed(tool) => gone.push(removed(format, &tool)),
            Changed::Updated { before: tool, now: other } => {
                let shown = format.tool(now, &other);
                if format.tool(before, &tool) == shown {
                    continue;
                }
                // In formats without tool ids, clients cannot see that two names are the same tool.
                if format == Format::Data || format.name(&tool) == format.name(&other) {
                    others.push(("tool_updated", shown));
                } else {
                    gone.push(removed(format, &tool));
                    others.push(("tool_added", shown));
                }
            }
        }
        if MOST < gone.len() + others.len() {
            return RESYNC.to_vec();
        }
    }
    let count = gone.len() + others.len();
    let mut text = String::new();
    for (number, (name, tool)) in gone.into_iter().chain(others).enumerate() {
        let is_last = number + 1 == count;
        let id = is_last.then(|| format!("id: {}\n", Mark::of(now, format)));
        text += &format!("event: {name}\n{}data: {tool}\n\n", id.unwrap_or_default());
    }
    text.into_bytes()
}

fn removed(format: Format, tool: &ViewedTool) -> (&'static str, Value) {
    let mut shown = json!({"name": format.name(tool)});
    if let Some(id) = tool.id() {
        shown["tool_id"] = json!(id);
    }
    ("tool_removed", shown)
}
