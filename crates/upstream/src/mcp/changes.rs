//! Change notifications of a server, counted and rate-limited: a flood of notifications becomes one change.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How often each part of a server has changed. The numbers only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub tools: u64,
    pub prompts: u64,
    /// The list of resources or of resource templates.
    pub resources: u64,
    /// The most recently updated resources, newest last, each with a growing number.
    pub updated: Vec<(u64, Arc<str>)>,
}

/// The shortest interval between two notifications to subscribers.
const PAUSE: Duration = Duration::from_millis(100);
const MAX_UPDATED: usize = 64;
const MAX_URI: usize = 2048;

/// Publishes changes: at once if the last notification is old enough, otherwise after the rest of the interval.
#[derive(Clone, Default)]
pub(crate) struct Bell {
    shared: Arc<Shared>,
}

struct Shared {
    told: watch::Sender<Changes>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    changes: Changes,
    last: Option<Instant>,
    is_set: bool,
}

impl Default for Shared {
    fn default() -> Self {
        Self { told: watch::Sender::new(Changes::default()), state: Mutex::default() }
    }
}

impl Changes {
    /// Counts a change of every list, because some may have changed while no stream was open.
    pub(super) fn all(&mut self) {
        self.tools += 1;
        self.prompts += 1;
        self.resources += 1;
    }

    pub(super) fn update(&mut self, uri: &str) {
        if MAX_URI < uri.len() {
            return;
        }
        let number = self.updated.last().map_or(0, |(number, _)| *number) + 1;
        self.updated.retain(|(_, known)| **known != *uri);
        if self.updated.len() == MAX_UPDATED {
            self.updated.remove(0);
        }
        self.updated.push((number, uri.into()));
    }
}

impl Bell {
    pub(crate) fn listen(&self) -> watch::Receiver<Changes> {
        self.shared.told.subscribe()
    }

    pub(crate) fn ring(&self, change: impl FnOnce(&mut Changes)) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state.changes);
        if state.is_set {
            return;
        }
        let now = Instant::now();
        let next = state.last.map_or(now, |last| last + PAUSE);
        if next <= now {
            state.last = Some(now);
            self.shared.told.send_replace(state.changes.clone());
            return;
        }
        state.is_set = true;
        let later = Arc::downgrade(&self.shared);
        tokio::spawn(async move {
            tokio::time::sleep_until(next).await;
            let Some(shared) = later.upgrade() else { return };
            let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.is_set, state.last) = (false, Some(Instant::now()));
            shared.told.send_replace(state.changes.clone());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_changes_is_published_at_intervals_and_completely() {
        let bell = Bell::default();
        let mut told = bell.listen();
        let mut times = 0;
        for _ in 0..1000 {
            bell.ring(|changes| changes.tools += 1);
            tokio::time::sleep(Duration::from_millis(1)).await;
            times += u32::from(told.has_changed().unwrap());
            told.mark_unchanged();
        }
        tokio::time::sleep(PAUSE).await;
        assert!((9..=12).contains(&times), "{times}");
        assert_eq!(told.borrow().tools, 1000);
    }

    #[tokio::test]
    async fn the_most_recently_updated_resources_are_kept() {
        let mut changes = Changes::default();
        for number in 0..100 {
            changes.update(&format!("test://{number}"));
        }
        changes.update("test://50");
        changes.update(&"x".repeat(MAX_URI + 1));
        assert_eq!(changes.updated.len(), MAX_UPDATED);
        assert_eq!(changes.updated.last().unwrap(), &(101, "test://50".into()));
    }
}
