//! Sources are kept fresh by themselves (requirements S2 and S5).
//!
//! A reconciler: an idempotent step, woken by a signal or a timer. The signal carries no data: the step looks at the
//! snapshot, begins what is due and sleeps until the next is. So a start, a source that another node registered and a lost
//! signal are one path. It does not retry inside; a failure only makes the source due later.

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
/// How many of them may be such that failed the last time: those that hang leave room for the others.
const FAILING_AT_ONCE: usize = 4;
/// The longest time without looking, in case a signal got lost or somebody has set the clock.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(60);
/// After the journal has failed: nothing can be recorded, so nobody is asked.
const PAUSE: Duration = Duration::from_secs(5);
/// After the catalog has changed: what changes in one go is looked at once.
const SETTLED: Duration = Duration::from_millis(20);

/// What came of a refresh that was tried.
enum Tried {
    /// It was carried through, well or not, or was not needed any more.
    Done,
    /// Somebody else is at it.
    NotNow,
    /// The journal does not work: neither would anything else.
    NoJournal,
}

/// What this node remembers between two steps. Nothing of it needs to outlive the process.
#[derive(Default)]
struct Memory {
    /// What is being refreshed, and whether it failed the last time.
    going: HashMap<SourceId, bool>,
    rests: Rests,
    /// Nothing begins before.
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
    /// Refreshes every source when it is due, for as long as it is polled: after it was registered, enabled or told to ask
    /// otherwise, on its schedule, after failures, and when somebody [wakes](Self::wake) it. Dropping it ends what goes on.
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
                // The catalog is held here, so it goes on.
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

    /// Says that a source may offer something else by now: it is refreshed soon. Says nothing if there is no such source,
    /// and saying it often does no harm.
    pub fn wake(&self, source: &SourceId) {
        if let Some(entry) = self.catalog.snapshot().source(source) {
            self.wakes.add(&entry.source);
        }
    }

    /// What is due, the longest first, and how long until something else will be.
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

    /// What an upstream says must not end the refreshes of all others, whatever it has brought to light.
    async fn failed_by_a_bug(&self, source: &SourceId) -> Tried {
        let message = "this is a bug in toolcrib, and its log says where".into();
        let error = SyncError { code: "internal_error".into(), message };
        match self.fail(source, error, &Context::default()).await {
            Ok(_) => Tried::Done,
            Err(_) => Tried::NoJournal,
        }
    }

    /// Refreshes a source if it still is due when it is our turn. If it is not, or somebody else is at it, what they
    /// record reaches us.
    async fn refresh_if_due(&self, source: &SourceId) -> Result<Tried, CommandError> {
        let turn = self.turn(source);
        let Ok(_turn) = turn.try_lock() else { return Ok(Tried::NotNow) };
        let Some(lease) = self.catalog.journal().lease(super::lease_name(source)).await? else {
            return Ok(Tried::NotNow);
        };
        // Held against what is stored when the refresh begins: who was faster has made it needless.
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

/// How long until then; nothing if that is over.
fn left(until: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_that_failed_leave_room_for_the_others() {
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
