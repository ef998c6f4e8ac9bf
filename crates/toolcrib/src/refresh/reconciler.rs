//! A reconciler that keeps sources fresh automatically (requirements S2 and S5).
//!
//! Each step is idempotent, and a signal or a timer wakes it. The signal carries no data: the step reads the snapshot,
//! starts the due refreshes and sleeps until the next one. So a start, a source that another node registered and a lost
//! signal take the same path. A step does not retry; a failure only makes the source due later.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use catalog::journal::ChangeContext;
use catalog::source::{Source, SyncError};
use catalog::{CommandError, CommandRefusal, Snapshot};
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use jiff::Timestamp;
use model::SourceId;
use tokio::time::Instant;

use super::SourceRefresher;
use super::refresh_pacing::Cooldowns;
use super::refresh_schedule::{can_be_refreshed, refresh_due_at};

/// How many sources are refreshed at once.
const MAX_REFRESHES: usize = 8;
/// How many of them may have failed the last time, so that sources that hang leave capacity for the others.
const MAX_FAILING_REFRESHES: usize = 4;
/// The longest time between two steps, in case a signal was lost or the clock was set.
const MAX_STEP_INTERVAL: Duration = Duration::from_secs(60);
/// The pause after a journal failure: no result could be recorded, so no source is refreshed.
const JOURNAL_PAUSE: Duration = Duration::from_secs(5);
/// The delay after a catalog change, so that changes made together take one step.
const DEBOUNCE: Duration = Duration::from_millis(20);

/// The result of an attempted refresh.
enum RefreshAttempt {
    /// It was carried out, successfully or not, or was no longer needed.
    Done,
    /// Another refresh of the source is running.
    AlreadyRunning,
    /// The journal fails, so other refreshes would fail too.
    JournalFailed,
}

/// The state that this node keeps between two steps. It need not outlive the process.
#[derive(Default)]
struct ReconcilerState {
    /// The sources being refreshed, and whether each failed the last time.
    running: HashMap<SourceId, bool>,
    cooldowns: Cooldowns,
    /// No refresh starts before this time.
    paused_until: Option<Instant>,
}

/// A source to be refreshed now.
struct RefreshCandidate {
    source: SourceId,
    is_requested: bool,
    has_failed: bool,
    due_since: Timestamp,
}

impl SourceRefresher {
    /// Refreshes every source when it is due, for as long as it is polled: after it was registered, enabled or
    /// reconfigured, on its schedule, after failures, and on [request](Self::request_refresh). Dropping the future cancels running
    /// refreshes.
    pub async fn keep_fresh(&self) {
        let mut changes = self.catalog.subscribe();
        let mut memory = ReconcilerState::default();
        let mut going = FuturesUnordered::new();
        loop {
            changes.mark_unchanged();
            self.upstreams.retain_current(&self.catalog.snapshot());
            let now = Instant::now();
            let (candidates, next) = self.find_due_sources(&memory, now);
            for RefreshCandidate { source, is_requested: is_woken, has_failed, .. } in candidates {
                if memory.has_capacity(has_failed) {
                    memory.start_refresh(&source, is_woken, has_failed, now);
                    going.push(self.try_to_refresh(source));
                }
            }
            memory.cooldowns.remove_expired(now, |source| memory.running.contains_key(source));
            let changed = async {
                // `self` holds the catalog, so the channel stays open.
                changes.changed().await.ok();
                tokio::time::sleep(DEBOUNCE).await;
            };
            tokio::select! {
                () = tokio::time::sleep(next) => {}
                () = changed => {}
                () = self.refresh_requests.wait_for_request() => {}
                news = self.upstreams.wait_for_changes() => news.iter().for_each(|source| self.request_refresh(source)),
                Some((source, tried)) = going.next(), if !going.is_empty() => {
                    memory.finish_refresh(&source, &tried, Instant::now());
                }
            }
        }
    }

    /// Requests a refresh because a source may have changed: it happens soon. An unknown source is ignored, and
    /// repeated requests are harmless.
    pub fn request_refresh(&self, source: &SourceId) {
        if let Some(entry) = self.catalog.snapshot().source(source) {
            self.refresh_requests.add_request(&entry.source);
        }
    }

    /// The due sources, the longest overdue first, and the time until the next source is due.
    fn find_due_sources(
        &self,
        memory: &ReconcilerState,
        now: Instant,
    ) -> (Vec<RefreshCandidate>, Duration) {
        let (snapshot, time) = (self.catalog.snapshot(), self.clock.now());
        let (mut candidates, mut next) = (Vec::new(), MAX_STEP_INTERVAL);
        if let Some(until) = memory.paused_until.filter(|until| now < *until) {
            return (candidates, until.duration_since(now));
        }
        for entry in snapshot.sources() {
            let source = &entry.source;
            if memory.running.contains_key(&source.id) {
                continue;
            }
            let (rest, rest_if_woken) = memory.cooldowns.remaining_cooldown(&source.id, now);
            let left = refresh_due_at(source).map(|due| time_until(due, time).max(rest));
            let left_if_woken = self.is_refresh_requested(source).then_some(rest_if_woken);
            let Some(first) = left.into_iter().chain(left_if_woken).min() else { continue };
            if !first.is_zero() {
                next = next.min(first);
                continue;
            }
            candidates.push(RefreshCandidate {
                source: source.id.clone(),
                is_requested: left.is_none_or(|left| !left.is_zero()),
                has_failed: 0 < source.failures,
                due_since: refresh_due_at(source).unwrap_or(time).min(time),
            });
        }
        candidates.sort_by_key(|candidate| candidate.due_since);
        (candidates, next)
    }

    fn is_refresh_requested(&self, source: &Source) -> bool {
        can_be_refreshed(source) && self.refresh_requests.is_requested(source)
    }

    async fn try_to_refresh(&self, source: SourceId) -> (SourceId, RefreshAttempt) {
        let refreshed = AssertUnwindSafe(self.refresh_if_due(&source)).catch_unwind().await;
        let tried = match refreshed {
            Ok(Ok(tried)) => tried,
            Ok(Err(error)) => {
                tracing::warn!(%source, %error, "source `{source}` was not refreshed: {error}");
                match error {
                    CommandError::Journal(_) | CommandError::SnapshotBehind { .. } => {
                        RefreshAttempt::JournalFailed
                    }
                    CommandError::Refused(_) | CommandError::Busy { .. } => {
                        RefreshAttempt::AlreadyRunning
                    }
                }
            }
            Err(_panic) => self.record_panic(&source).await,
        };
        (source, tried)
    }

    /// Records a panic as a failure, so that no upstream's answer can stop the refreshes of other sources.
    async fn record_panic(&self, source: &SourceId) -> RefreshAttempt {
        let message = "this is a bug in toolcrib, and its log says where".into();
        let error = SyncError { code: "internal_error".into(), message };
        match self.record_failure(source, error, &ChangeContext::default()).await {
            Ok(_) => RefreshAttempt::Done,
            Err(_) => RefreshAttempt::JournalFailed,
        }
    }

    /// Refreshes a source if it is still due when its turn comes. If it is not, or another refresh is running, the
    /// catalog will show that refresh's result.
    async fn refresh_if_due(&self, source: &SourceId) -> Result<RefreshAttempt, CommandError> {
        let turn = self.source_turn(source);
        let Ok(_turn) = turn.try_lock() else { return Ok(RefreshAttempt::AlreadyRunning) };
        let Some(lease) = self.catalog.journal().acquire_lease(super::lease_name(source)).await?
        else {
            return Ok(RefreshAttempt::AlreadyRunning);
        };
        // Checked against the stored state when the refresh begins: another node may have refreshed the source
        // meanwhile.
        let still_due = |snapshot: &Snapshot| {
            let entry = snapshot.source(source).filter(|entry| self.is_due(&entry.source));
            let nothing_to_do =
                || CommandRefusal::HasChanged { what: "source", id: source.to_string() };
            entry.map(drop).ok_or_else(nothing_to_do)
        };
        let context = ChangeContext::default();
        match self.refresh_with_lease(source, false, &context, &lease, still_due).await {
            Ok(_) | Err(CommandError::Refused(_)) => Ok(RefreshAttempt::Done),
            Err(error) => Err(error),
        }
    }

    fn is_due(&self, source: &Source) -> bool {
        self.is_refresh_requested(source)
            || refresh_due_at(source).is_some_and(|due| due <= self.clock.now())
    }
}

impl ReconcilerState {
    fn has_capacity(&self, has_failed: bool) -> bool {
        let failing = self.running.values().filter(|has_failed| **has_failed).count();
        self.running.len() < MAX_REFRESHES && (!has_failed || failing < MAX_FAILING_REFRESHES)
    }

    fn start_refresh(&mut self, source: &SourceId, is_woken: bool, has_failed: bool, now: Instant) {
        self.running.insert(source.clone(), has_failed);
        self.cooldowns.start_refresh(source, is_woken, now);
    }

    fn finish_refresh(&mut self, source: &SourceId, tried: &RefreshAttempt, now: Instant) {
        self.running.remove(source);
        match tried {
            RefreshAttempt::Done => self.cooldowns.finish_refresh(source, now),
            RefreshAttempt::AlreadyRunning => self.cooldowns.postpone(source, now),
            RefreshAttempt::JournalFailed => self.paused_until = Some(now + JOURNAL_PAUSE),
        }
    }
}

/// The time until then; zero if it has passed.
fn time_until(until: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failing_sources_leave_capacity_for_the_others() {
        let (mut memory, now) = (ReconcilerState::default(), Instant::now());
        let id = |number: usize| -> SourceId { format!("source-{number}").parse().unwrap() };
        for number in 0..MAX_FAILING_REFRESHES {
            assert!(memory.has_capacity(true));
            memory.start_refresh(&id(number), false, true, now);
        }
        assert!(!memory.has_capacity(true));
        for number in MAX_FAILING_REFRESHES..MAX_REFRESHES {
            assert!(memory.has_capacity(false));
            memory.start_refresh(&id(number), false, false, now);
        }
        assert!(!memory.has_capacity(false));
        memory.finish_refresh(&id(MAX_REFRESHES - 1), &RefreshAttempt::Done, now);
        assert!(memory.has_capacity(false) && !memory.has_capacity(true));
        memory.finish_refresh(&id(0), &RefreshAttempt::AlreadyRunning, now);
        assert!(memory.has_capacity(true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_journal_that_fails_pauses_everything() {
        let (mut memory, now) = (ReconcilerState::default(), Instant::now());
        let id: SourceId = "pets".parse().unwrap();
        memory.start_refresh(&id, false, false, now);
        memory.finish_refresh(&id, &RefreshAttempt::JournalFailed, now);
        assert_eq!(memory.paused_until, Some(now + JOURNAL_PAUSE));
    }
}
