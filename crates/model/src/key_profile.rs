//! The profile of an API key: the claims that its holder acts with. The key itself is not stored.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Claims, DisplayName};

/// What an admin says of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyProfile {
    /// For people, and for the record of who did what.
    pub name: DisplayName,
    /// For people.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub description: Box<str>,
    /// What policies see of its holder, as if a token said so. Shared: it is handed to every request.
    #[serde(default)]
    pub claims: Arc<Claims>,
    /// Whether its holder is an admin, whatever policies say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admin: bool,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}
