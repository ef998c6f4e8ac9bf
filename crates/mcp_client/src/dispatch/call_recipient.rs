//! The recipient of a request's messages, and the metadata that relates a message to a task.

use serde_json::{Map, Value, json};

/// The metadata key that names the task a message belongs to (2025-11-25).
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// The party on whose behalf a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallRecipient {
    Caller,
    /// This client itself: it receives no notifications and does not make other calls ambiguous.
    Internal,
    /// One request of a composite call, whose caller receives the notifications.
    PartOf(u64),
}

impl CallRecipient {
    /// The progress token of the call.
    pub(crate) fn progress_token(self, id: u64) -> u64 {
        match self {
            Self::Caller | Self::Internal => id,
            Self::PartOf(call) => call,
        }
    }
}

/// Removes and returns the related task's id, which is meaningless outside this client.
pub(crate) fn take_related_task(params: &mut Map<String, Value>) -> Option<Box<str>> {
    let meta = params.get_mut("_meta")?.as_object_mut()?;
    let related = meta.shift_remove(RELATED_TASK)?;
    if meta.is_empty() {
        params.shift_remove("_meta");
    }
    related.get("taskId")?.as_str().map(Into::into)
}

/// Adds the id of the related task to a result.
pub(crate) fn set_related_task(result: &mut Map<String, Value>, task: &str) {
    let meta = result.entry("_meta").or_insert_with(|| json!({}));
    if let Some(meta) = meta.as_object_mut() {
        meta.insert(RELATED_TASK.to_owned(), json!({"taskId": task}));
    }
}
