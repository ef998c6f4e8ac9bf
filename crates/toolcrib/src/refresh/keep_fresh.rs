//! A reconciler that keeps sources fresh automatically (requirements S2 and S5).
//!
//! Each step is idempotent, and a signal or a timer wakes it. The signal carries no data: the step reads the snapshot,
//! starts the due refreshes and sleeps until the next one. So a start, a source that another node registered and a lost
//! signal take the same path. A step does not retry; a failure only makes the source due later.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use catalog::journal::Context;
use catalog::source::{Source, SyncError};
use catalog::{CommandError, Refusal, Snapshot};
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use jiff::Timestamp;
use model::SourceId;
use tokio::time::Instant;

use super::Refresher;
use super::due::{can_be_asked, due};
use super::rests::Rests;

/// How many sources are refreshed at once.
const AT_ONCE: usize = 8;
/// How many of them may have failed the last time, so that sources that hang leave capacity for the others.
const FAILING_AT_ONCE: usize = 4;
/// The longest time between two steps, in case a signal was lost or the clock was set.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(60);
/// The pause after a journal failure: no result could be recorded, so no source is refreshed.
const PAUSE: Duration = Duration::from_secs(5);
/// The delay after a catalog change, so that changes made together take one step.
const SETTLED: Duration = Duration::from_millis(20);

/// The result of an attempted refresh.
enum Tried {
    /// It was carried out, successfully or not, or was no longer needed.
    Done,
    /// Another refresh of the source is running.
    NotNow,
    /// The journal fails, so other refreshes would fail too.
    NoJournal,
}

/// The state that this node keeps between two steps. It need not outlive the process.
#[derive(Default)]
struct Memory {
    /// The sources being refreshed, and whether each failed the last time.
    going: HashMap<SourceId, bool>,
    rests: Rests,
    /// No refresh starts before this time.
    paused_until: Option<Instant>,
}

/// A source to be refreshed now.
struct Candidate {
    source: SourceId,
    is_woken: bool,
    has_failed: bool,
    since: Timestamp,
}

impl Refresher {
    /// Refreshes every source when it is due, for as long as it is polled: after it was registered, enabled or
    /// reconfigured, on its schedule, after failures, and on [request](Self::wake). Dropping the future cancels running
    /// refreshes.
    pub async fn keep_fresh(&self) {
        let mut changes = self.catalog.changes();
        let mut memory = Memory::default();
        let mut going = FuturesUnordered::new();
        loop {
            changes.mark_unchanged();
            self.upstreams.retain(&self.catalog.snapshot());
            let now = Instant::now();
            let (candidates, next) = self.look(&memory, now);
            for Candidate { source, is_woken, has_failed, .. } in candidates {
                if memory.has_place(has_failed) {
                    memory.begin(&source, is_woken, has_failed, now);
                    going.push(self.try_to_refresh(source));
                }
            }
            memory.rests.forget(now, |source| memory.going.contains_key(source));
            let changed = async {
                // `self` holds the catalog, so the channel stays open.
                changes.changed().await.ok();
                tokio::time::sleep(SETTLED).await;
            };
            tokio::select! {
                () = tokio::time::sleep(next) => {}
                () = changed => {}
                () = self.wakes.added() => {}
                news = self.upstreams.news() => news.iter().for_each(|source| self.wake(source)),
                Some((source, tried)) = going.next(), if !going.is_empty() => {
                    memory.end(&source, &tried, Instant::now());
                }
            }
        }
    }

    /// Requests a refresh because a source may have changed: it happens soon. An unknown source is ignored, and
    /// repeated requests are harmless.
    pub fn wake(&self, source: &SourceId) {
        if let Some(entry) = self.catalog.snapshot().source(source) {
            self.wakes.add(&entry.source);
        }
    }

    /// The due sources, the longest overdue first, and the time until the next source is due.
    fn look(&self, memory: &Memory, now: Instant) -> (Vec<Candidate>, Duration) {
        let (snapshot, time) = (self.catalog.snapshot(), self.clock.now());
        let (mut candidates, mut next) = (Vec::new(), LOOK_AT_LEAST_EVERY);
        if let Some(until) = memory.paused_until.filter(|until| now < *until) {
            return (candidates, until.duration_since(now));
        }
        for entry in snapshot.sources() {
            let source = &entry.source;
            if memory.going.contains_key(&source.id) {
                continue;
            }
            let (rest, rest_if_woken) = memory.rests.left(&source.id, now);
            let left = due(source).map(|due| left(due, time).max(rest));
            let left_if_woken = self.is_wanted(source).then_some(rest_if_woken);
            let Some(first) = left.into_iter().chain(left_if_woken).min() else { continue };
            if !first.is_zero() {
                next = next.min(first);
                continue;
            }
            candidates.push(Candidate {
                source: source.id.clone(),
                is_woken: left.is_none_or(|left| !left.is_zero()),
                has_failed: 0 < source.failures,
                since: due(source).unwrap_or(time).min(time),
            });
        }
        candidates.sort_by_key(|candidate| candidate.since);
        (candidates, next)
    }

    fn is_wanted(&self, source: &Source) -> bool {
        can_be_asked(source) && self.wakes.wants(source)
    }

    async fn try_to_refresh(&self, source: SourceId) -> (SourceId, Tried) {
        let refreshed = AssertUnwindSafe(self.refresh_if_due(&source)).catch_unwind().await;
        let tried = match refreshed {
            Ok(Ok(tried)) => tried,
            Ok(Err(error)) => {
                tracing::warn!(%source, %error, "source `{source}` was not refreshed: {error}");
                match error {
                    CommandError::Journal(_) | CommandError::NotShown { .. } => Tried::NoJournal,
                    CommandError::Refused(_) | CommandError::Busy { .. } => Tried::NotNow,
                }
            }
            Err(_panic) => self.failed_by_a_bug(&source).await,
        };
        (source, tried)
    }

    /// Records a panic as a failure, so that no upstream's answer can stop the refreshes of other sources.
    async fn failed_by_a_bug(&self, source: &SourceId) -> Tried {
        let message = "this is a bug in toolcrib, and its log says where".into();
        let error = SyncError { code: "internal_error".into(), message };
        match self.fail(source, error, &Context::default()).await {
            Ok(_) => Tried::Done,
            Err(_) => Tried::NoJournal,
        }
    }

    /// Refreshes a source if it is still due when its turn comes. If it is not, or another refresh is running, the
    /// catalog will show that refresh's result.
    async fn refresh_if_due(&self, source: &SourceId) -> Result<Tried, CommandError> {
        let turn = self.turn(source);
        let Ok(_turn) = turn.try_lock() else { return Ok(Tried::NotNow) };
        let Some(lease) = self.catalog.journal().lease(super::lease_name(source)).await? else {
            return Ok(Tried::NotNow);
        };
        // Checked against the stored state when the refresh begins: another node may have refreshed the source
        // meanwhile.
        let still_due = |snapshot: &Snapshot| {
            let entry = snapshot.source(source).filter(|entry| self.is_due(&entry.source));
            let nothing_to_do = || Refusal::HasChanged { what: "source", id: source.to_string() };
            entry.map(drop).ok_or_else(nothing_to_do)
        };
        let context = Context::default();
        match self.carry_out(source, false, &context, &lease, still_due).await {
            Ok(_) | Err(CommandError::Refused(_)) => Ok(Tried::Done),
            Err(error) => Err(error),
        }
    }

    fn is_due(&self, source: &Source) -> bool {
        self.is_wanted(source) || due(source).is_some_and(|due| due <= self.clock.now())
    }
}

impl Memory {
    fn has_place(&self, has_failed: bool) -> bool {
        let failing = self.going.values().filter(|has_failed| **has_failed).count();
        self.going.len() < AT_ONCE && (!has_failed || failing < FAILING_AT_ONCE)
    }

    fn begin(&mut self, source: &SourceId, is_woken: bool, has_failed: bool, now: Instant) {
        self.going.insert(source.clone(), has_failed);
        self.rests.begin(source, is_woken, now);
    }

    fn end(&mut self, source: &SourceId, tried: &Tried, now: Instant) {
        self.going.remove(source);
        match tried {
            Tried::Done => self.rests.end(source, now),
            Tried::NotNow => self.rests.put_off(source, now),
            Tried::NoJournal => self.paused_until = Some(now + PAUSE),
        }
    }
}

/// The time until then; zero if it has passed.
fn left(until: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failing_sources_leave_capacity_for_the_others() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        let id = |number: usize| -> SourceId { format!("source-{number}").parse().unwrap() };
        for number in 0..FAILING_AT_ONCE {
            assert!(memory.has_place(true));
            memory.begin(&id(number), false, true, now);
        }
        assert!(!memory.has_place(true));
        for number in FAILING_AT_ONCE..AT_ONCE {
            assert!(memory.has_place(false));
            memory.begin(&id(number), false, false, now);
        }
        assert!(!memory.has_place(false));
        memory.end(&id(AT_ONCE - 1), &Tried::Done, now);
        assert!(memory.has_place(false) && !memory.has_place(true));
        memory.end(&id(0), &Tried::NotNow, now);
        assert!(memory.has_place(true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_journal_that_fails_pauses_everything() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        let id: SourceId = "pets".parse().unwrap();
        memory.begin(&id, false, false, now);
        memory.end(&id, &Tried::NoJournal, now);
        assert_eq!(memory.paused_until, Some(now + PAUSE));
    }
}
