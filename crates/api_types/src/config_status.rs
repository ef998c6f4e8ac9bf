//! The state of the followed configuration file, as the API reports it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib::Position;

/// How a configuration file is followed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Configuration")]
pub struct FollowedConfig {
    /// Which.
    pub file: String,
    /// Whether what it says now is in force.
    pub is_applied: bool,
    /// When a version of it was last applied.
    pub applied_at: Timestamp,
    /// Of the catalog that was as it said.
    pub position: Position,
    /// What is declared of tools that are not known yet.
    pub waiting: Vec<String>,
    /// Why the version that is there now is not applied.
    pub problems: Vec<String>,
    /// What the server reads when it starts, and what now stands otherwise in the file.
    pub needs_restart: BTreeSet<String>,
}

/// The shared state of the follower, for the admin API.
#[derive(Clone)]
pub struct FollowerState(Arc<Mutex<FollowedConfig>>);

impl FollowerState {
    /// The state right after the start.
    pub fn new(status: FollowedConfig) -> Self {
        Self(Arc::new(Mutex::new(status)))
    }

    /// Locks the state for a change.
    pub fn lock(&self) -> MutexGuard<'_, FollowedConfig> {
        self.0.lock().expect("no one panics while holding what is followed")
    }

    pub fn current_status(&self) -> FollowedConfig {
        self.lock().clone()
    }
}
