//! For whom a request is made, and what says so in the messages about it.

use serde_json::{Map, Value, json};

/// Names the task that a message is about (2025-11-25).
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// For whom a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// For somebody who called.
    Callers,
    /// For nobody in particular: it neither hears nor stands in the way.
    Ours,
    /// One of several that make up this call of somebody, who hears what is said on the way of each.
    PartOf(u64),
}

impl Whose {
    /// What names the call where it is said how far it is.
    pub(crate) fn token(self, id: u64) -> u64 {
        match self {
            Self::Callers | Self::Ours => id,
            Self::PartOf(call) => call,
        }
    }
}

/// Takes out which task a message or a result is about: its id says nothing to anybody but us.
pub(crate) fn take_related(params: &mut Map<String, Value>) -> Option<Box<str>> {
    let meta = params.get_mut("_meta")?.as_object_mut()?;
    let related = meta.shift_remove(RELATED)?;
    if meta.is_empty() {
        params.shift_remove("_meta");
    }
    related.get("taskId")?.as_str().map(Into::into)
}

/// Says which task a result is about.
pub(crate) fn put_related(result: &mut Map<String, Value>, task: &str) {
    let meta = result.entry("_meta").or_insert_with(|| json!({}));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert(RELATED.to_owned(), json!({"taskId": task}));
    }
}
