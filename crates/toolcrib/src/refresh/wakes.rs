//! Wakes: somebody has heard that a source offers something else. How often it is said does not matter.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use catalog::source::Source;
use jiff::Timestamp;
use model::SourceId;
use tokio::sync::Notify;

/// Sources that somebody wants refreshed, each with the begin of its last refresh as it was known then. A later begin
/// means that it was asked since, here or on another node.
#[derive(Default)]
pub(super) struct Wakes {
    wanted: Mutex<HashMap<SourceId, Option<Timestamp>>>,
    signal: Notify,
}

impl Wakes {
    fn wanted(&self) -> MutexGuard<'_, HashMap<SourceId, Option<Timestamp>>> {
        self.wanted.lock().expect("no one panics while holding the wakes")
    }

    pub(super) fn add(&self, source: &Source) {
        let begun = source.last_sync_started_at;
        let before = self.wanted().insert(source.id.clone(), begun);
        // A flood gives one signal.
        if before != Some(begun) {
            self.signal.notify_one();
        }
    }

    /// Returns when there is one that was not there before.
    pub(super) async fn added(&self) {
        self.signal.notified().await;
    }

    /// Whether somebody wants the source refreshed and nobody has begun since.
    pub(super) fn wants(&self, source: &Source) -> bool {
        self.wanted().get(&source.id) == Some(&source.last_sync_started_at)
    }

    /// The source is about to be asked: whoever wanted that until now gets it.
    pub(super) fn answer(&self, source: &SourceId) {
        self.wanted().remove(source);
    }
}
