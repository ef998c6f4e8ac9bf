//! Requests to refresh a source, because it reported a change. Repeated requests for a source count once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use catalog::source::Source;
use jiff::Timestamp;
use model::SourceId;
use tokio::sync::Notify;

/// The sources with a request, each with the known start of its last refresh at that time. A later start means that the
/// source was refreshed since, here or on another node.
#[derive(Default)]
pub(super) struct RefreshRequests {
    requested: Mutex<HashMap<SourceId, Option<Timestamp>>>,
    signal: Notify,
}

impl RefreshRequests {
    fn lock_requested(&self) -> MutexGuard<'_, HashMap<SourceId, Option<Timestamp>>> {
        self.requested.lock().expect("no one panics while holding the wakes")
    }

    pub(super) fn add_request(&self, source: &Source) {
        let begun = source.last_sync_started_at;
        let before = self.lock_requested().insert(source.id.clone(), begun);
        // A flood of requests gives one signal.
        if before != Some(begun) {
            self.signal.notify_one();
        }
    }

    /// Waits until there is a new request.
    pub(super) async fn wait_for_request(&self) {
        self.signal.notified().await;
    }

    /// Whether the source has a request and no refresh has started since.
    pub(super) fn is_requested(&self, source: &Source) -> bool {
        self.lock_requested().get(&source.id) == Some(&source.last_sync_started_at)
    }

    /// Removes the request, because a refresh is about to start.
    pub(super) fn remove_request(&self, source: &SourceId) {
        self.lock_requested().remove(source);
    }
}
