//! Why a server is not ready for requests.

use schemars::JsonSchema;
use serde::Serialize;

/// Why a server should not be sent requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "NotReadyReason")]
pub enum NotReadyReason {
    /// It is about to stop.
    Draining,
    /// The journal cannot be written now.
    JournalUnavailable,
    /// It does not show what happened lately.
    CatalogBehind,
}
