//! Change notifications of a server, counted and rate-limited: a flood of notifications becomes one change.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How often each part of a server has changed. The numbers only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerChanges {
    pub tools: u64,
    pub prompts: u64,
    /// The list of resources or of resource templates.
    pub resources: u64,
    /// The most recently updated resources, newest last, each with a growing number.
    pub updated_resources: Vec<(u64, Arc<str>)>,
}

/// The shortest interval between two notifications to subscribers.
const MIN_NOTIFY_INTERVAL: Duration = Duration::from_millis(100);
const MAX_UPDATED_RESOURCES: usize = 64;
const MAX_URI_BYTES: usize = 2048;

/// Publishes changes: at once if the last notification is old enough, otherwise after the rest of the interval.
#[derive(Clone, Default)]
pub(crate) struct ChangeNotifier {
    shared: Arc<ChangeNotifierShared>,
}

struct ChangeNotifierShared {
    published: watch::Sender<ServerChanges>,
    state: Mutex<ChangeNotifierState>,
}

#[derive(Default)]
struct ChangeNotifierState {
    changes: ServerChanges,
    last_published: Option<Instant>,
    is_scheduled: bool,
}

impl Default for ChangeNotifierShared {
    fn default() -> Self {
        Self { published: watch::Sender::new(ServerChanges::default()), state: Mutex::default() }
    }
}

impl ServerChanges {
    /// Counts a change of every list, because some may have changed while no stream was open.
    pub(super) fn mark_all_lists(&mut self) {
        self.tools += 1;
        self.prompts += 1;
        self.resources += 1;
    }

    pub(super) fn mark_resource(&mut self, uri: &str) {
        if MAX_URI_BYTES < uri.len() {
            return;
        }
        let number = self.updated_resources.last().map_or(0, |(number, _)| *number) + 1;
        self.updated_resources.retain(|(_, known)| **known != *uri);
        if self.updated_resources.len() == MAX_UPDATED_RESOURCES {
            self.updated_resources.remove(0);
        }
        self.updated_resources.push((number, uri.into()));
    }
}

impl ChangeNotifier {
    pub(crate) fn subscribe_changes(&self) -> watch::Receiver<ServerChanges> {
        self.shared.published.subscribe()
    }

    pub(crate) fn record_change(&self, change: impl FnOnce(&mut ServerChanges)) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state.changes);
        if state.is_scheduled {
            return;
        }
        let now = Instant::now();
        let next = state.last_published.map_or(now, |last| last + MIN_NOTIFY_INTERVAL);
        if next <= now {
            state.last_published = Some(now);
            self.shared.published.send_replace(state.changes.clone());
            return;
        }
        state.is_scheduled = true;
        let later = Arc::downgrade(&self.shared);
        tokio::spawn(async move {
            tokio::time::sleep_until(next).await;
            let Some(shared) = later.upgrade() else { return };
            let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.is_scheduled, state.last_published) = (false, Some(Instant::now()));
            shared.published.send_replace(state.changes.clone());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_changes_is_published_at_intervals_and_completely() {
        let bell = ChangeNotifier::default();
        let mut told = bell.subscribe_changes();
        let mut times = 0;
        for _ in 0..1000 {
            bell.record_change(|changes| changes.tools += 1);
            tokio::time::sleep(Duration::from_millis(1)).await;
            times += u32::from(told.has_changed().unwrap());
            told.mark_unchanged();
        }
        tokio::time::sleep(MIN_NOTIFY_INTERVAL).await;
        assert!((9..=12).contains(&times), "{times}");
        assert_eq!(told.borrow().tools, 1000);
    }

    #[tokio::test]
    async fn the_most_recently_updated_resources_are_kept() {
        let mut changes = ServerChanges::default();
        for number in 0..100 {
            changes.mark_resource(&format!("test://{number}"));
        }
        changes.mark_resource("test://50");
        changes.mark_resource(&"x".repeat(MAX_URI_BYTES + 1));
        assert_eq!(changes.updated_resources.len(), MAX_UPDATED_RESOURCES);
        assert_eq!(changes.updated_resources.last().unwrap(), &(101, "test://50".into()));
    }
}
