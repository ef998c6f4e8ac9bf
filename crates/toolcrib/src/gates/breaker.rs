//! A circuit breaker: after repeated failures a source is not called for a while, and its callers get an error at once.
//!
//! The breaker measures whether the source works, not whether a caller is satisfied: a rejected token or invalid
//! arguments tell nothing. No caller can open it for others, and none can keep it open. While only one caller sees
//! failures, only that caller is blocked. A caller whose probe was inconclusive leaves the next probe to another. Calls
//! from before the breaker opened tell nothing about the source's present state.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// The breaker opens after this many consecutive failures, at least `FROM_OTHER_CALLERS` of them not from the worst
/// caller; or at a failure rate of 50 % over at least `MIN_CALLS` calls within `RATE_WINDOW`, where one caller's
/// failures count no more than those of all others together.
pub(super) const FAILURES: u32 = 5;
const OF_OTHERS: usize = 2;
const FEWEST: u32 = 20;
const WHILE: Duration = Duration::from_secs(10);
/// Older failures are not consecutive. A caller that waits two minutes for each of five answers is still counted.
const ROW: Duration = Duration::from_secs(10 * 60);
/// How long the breaker stays open.
pub(super) const REST: Duration = Duration::from_secs(30);
/// How long the breaker waits for a probe; then another call may probe.
const PROBE: Duration = Duration::from_secs(10);
/// The most callers whose individual state, or recent results, are remembered.
const ALONE: usize = 1_000;

/// What the result of a call tells about its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The source answered.
    Works,
    /// The source did not answer, or reported that it is broken.
    Fails,
    /// The source answered, but rejected the caller: that does not show whether it works for others.
    Answers,
    /// Nothing is known: the call failed before the source, or the caller went away.
    Nothing,
}

/// The caller of an admitted call, and the time of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) whose: u64,
    pub(super) since: Instant,
}

#[derive(Debug)]
pub(super) struct Breaker {
    /// The state for all callers.
    all: State,
    /// Additional states of callers that alone see failures.
    alone: HashMap<u64, State>,
    /// The last caller that probed for all, and until when it must leave the probe to others.
    last: Option<(u64, Instant)>,
    /// Failures since the last success, or since the breaker opened.
    row: Row,
    seen: Seen,
    /// When the source last answered any caller.
    answered: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Closed,
    Open {
        until: Instant,
    },
    /// One call at a time probes; every call admitted since then counts as a probe. Calls with a short deadline, which
    /// may end before the source answers, probe only once in a while.
    HalfOpen {
        since: Instant,
        probe: Option<Call>,
        next_brief: Instant,
    },
}

impl State {
    fn opened(now: Instant) -> Self {
        Self::Open { until: now + REST }
    }

    /// How long no call is admitted; `None` if one may be now.
    fn wait(self, is_brief: bool, now: Instant) -> Option<Duration> {
        let until = match self {
            Self::Closed => return None,
            Self::Open { until } => until,
            Self::HalfOpen { next_brief, .. } if is_brief && now < next_brief => next_brief,
            Self::HalfOpen { probe, .. } => probe?.since + PROBE,
        };
        until.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    /// Admits a call and returns whether it is a probe.
    fn enter(&mut self, whose: u64, is_brief: bool, now: Instant) -> bool {
        let (since, next_brief) = match *self {
            Self::Closed => return false,
            Self::Open { .. } => (now, now),
            Self::HalfOpen { since, next_brief, .. } => (since, next_brief),
        };
        let next_brief = if is_brief { now + PROBE } else { next_brief };
        *self = Self::HalfOpen { since, probe: Some(Call { whose, since: now }), next_brief };
        true
    }

    /// If this call is the probe, lets the next call probe.
    fn give_up(&mut self, call: Call) -> bool {
        match self {
            Self::HalfOpen { probe, .. } if *probe == Some(call) => {
                *probe = None;
                true
            }
            _ => false,
        }
    }

    /// Whether this call was admitted as a probe.
    fn is_found_out_by(self, call: Call) -> bool {
        matches!(self, Self::HalfOpen { since, .. } if since <= call.since)
    }

    /// How long the breaker stays open, if it is open.
    fn left(self, now: Instant) -> Option<Duration> {
        if let Self::Open { .. } = self { self.wait(false, now) } else { None }
    }

    /// The state as published: `closed`, `open` or `half_open`.
    fn word(self, now: Instant) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { until } if now < until => "open",
            Self::Open { .. } | Self::HalfOpen { .. } => "half_open",
        }
    }

    /// Whether the state is too old to matter.
    fn is_old(self, now: Instant) -> bool {
        match self {
            Self::Closed => true,
            Self::Open { until: at } | Self::HalfOpen { next_brief: at, .. } => at + ROW <= now,
        }
    }
}

/// The last failures, each with its caller.
#[derive(Debug, Default)]
struct Row(VecDeque<(u64, Instant)>);

impl Row {
    fn add(&mut self, whose: u64, now: Instant) {
        self.0.retain(|(_, at)| now < *at + ROW);
        if self.is_long() {
            self.0.pop_front();
        }
        self.0.push_back((whose, now));
    }

    fn is_long(&self) -> bool {
        FAILURES as usize <= self.0.len()
    }

    fn callers(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(whose, _)| *whose)
    }

    fn of(&self, wanted: u64) -> usize {
        self.callers().filter(|whose| *whose == wanted).count()
    }

    /// How many failures are not from the worst caller.
    fn of_others(&self) -> usize {
        let most = self.callers().map(|whose| self.of(whose)).max();
        self.0.len() - most.unwrap_or_default()
    }

    /// Whether the list is full, and more than half of it is from this caller.
    fn is_mostly_of(&self, whose: u64) -> bool {
        self.is_long() && self.0.len() < 2 * self.of(whose)
    }
}

/// Results within the current window, for the failure rate.
#[derive(Debug)]
struct Seen {
    since: Instant,
    all: Tally,
    by: HashMap<u64, Tally>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    calls: u32,
    failed: u32,
}

impl Tally {
    fn add(&mut self, failed: u32) {
        self.calls = self.calls.saturating_add(1);
        self.failed = self.failed.saturating_add(failed);
    }

    fn is_half_failed(self) -> bool {
        FEWEST <= self.calls && self.calls <= self.failed.saturating_mul(2)
    }
}

impl Seen {
    fn new(now: Instant) -> Self {
        Self { since: now, all: Tally::default(), by: HashMap::new() }
    }

    fn works(&mut self, whose: u64, now: Instant) {
        self.add(whose, 0, now);
    }

    fn fails(&mut self, whose: u64, now: Instant) {
        self.add(whose, 1, now);
    }

    fn add(&mut self, whose: u64, failed: u32, now: Instant) {
        if WHILE <= now - self.since {
            *self = Self::new(now);
        }
        self.all.add(failed);
        if self.by.len() < ALONE || self.by.contains_key(&whose) {
            self.by.entry(whose).or_default().add(failed);
        }
    }

    fn is_broken(&self) -> bool {
        let Tally { calls, failed } = self.all;
        // One caller's failures count no more than those of all others together.
        let most = self.by.values().map(|tally| tally.failed).max().unwrap_or_default();
        let others = failed - most;
        Tally { calls, failed: others + most.min(others) }.is_half_failed()
    }

    fn is_broken_for(&self, whose: u64) -> bool {
        self.by.get(&whose).is_some_and(|tally| tally.is_half_failed())
    }
}

/// The status of the breaker, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// For all known callers together: `closed`, `open` or `half_open`.
    pub(super) word: &'static str,
    /// How many callers are blocked individually.
    pub(super) alone: usize,
    /// The time until no caller is blocked any more; `None` if none is.
    pub(super) left: Option<Duration>,
}

impl Breaker {
    pub(super) fn new(now: Instant) -> Self {
        let (all, alone, last) = (State::Closed, HashMap::new(), None);
        Self { all, alone, last, row: Row::default(), seen: Seen::new(now), answered: None }
    }

    /// Whether the source has answered any caller since then.
    pub(super) fn has_answered_since(&self, then: Instant) -> bool {
        self.answered.is_some_and(|at| then <= at)
    }

    /// Admits a call, or returns how long this caller has to wait.
    pub(super) fn enter(&mut self, whose: u64, now: Instant) -> Result<(), Duration> {
        self.let_in(whose, false, now)
    }

    /// Admits a caller whose deadline is shorter than the source's timeout, so that its probe of a slow source would be
    /// inconclusive. Such callers leave probes to others; otherwise no probe might ever succeed.
    pub(super) fn enter_briefly(&mut self, whose: u64, now: Instant) -> Result<(), Duration> {
        self.let_in(whose, true, now)
    }

    /// How long this caller has to wait, without admitting a call; `None` if it need not.
    pub(super) fn wait(&self, whose: u64, is_brief: bool, now: Instant) -> Option<Duration> {
        let own = self.alone.get(&whose).copied().unwrap_or(State::Closed);
        let last = self.last.filter(|(last, until)| *last == whose && now < *until);
        let waits = [
            own.wait(is_brief, now),
            self.all.wait(is_brief, now),
            last.map(|(_, until)| until - now),
        ];
        waits.into_iter().flatten().max()
    }

    fn let_in(&mut self, whose: u64, is_brief: bool, now: Instant) -> Result<(), Duration> {
        if let Some(wait) = self.wait(whose, is_brief, now) {
            return Err(wait);
        }
        if let Some(own) = self.alone.get_mut(&whose) {
            own.enter(whose, is_brief, now);
        }
        if self.all.enter(whose, is_brief, now) {
            // A probe that hangs also leaves time for another caller's probe.
            self.last = Some((whose, now + PROBE + PROBE));
        }
        Ok(())
    }

    /// Records the verdict of a call; returns whether a caller is blocked from now on that was not before.
    pub(super) fn end(&mut self, verdict: Verdict, call: Call, now: Instant) -> bool {
        match verdict {
            Verdict::Answers | Verdict::Nothing => {
                if verdict == Verdict::Answers {
                    self.answered = Some(now);
                }
                if let Some(own) = self.alone.get_mut(&call.whose) {
                    own.give_up(call);
                }
                self.give_up(call, now);
                false
            }
            Verdict::Works => {
                self.works(call, now);
                false
            }
            Verdict::Fails => self.fails(call, now),
        }
    }

    fn works(&mut self, call: Call, now: Instant) {
        self.answered = Some(now);
        let finds_out = self.all.is_found_out_by(call);
        // Calls that were admitted before the breaker opened do not close it.
        if self.all != State::Closed && !finds_out {
            return;
        }
        self.row = Row::default();
        self.seen.works(call.whose, now);
        if self.alone.get(&call.whose).is_some_and(|own| own.is_found_out_by(call)) {
            self.alone.remove(&call.whose);
        }
        if finds_out {
            (self.all, self.last, self.seen) = (State::Closed, None, Seen::new(now));
        }
    }

    fn fails(&mut self, call: Call, now: Instant) -> bool {
        let whose = call.whose;
        let finds_out = self.all.is_found_out_by(call);
        // Calls that were admitted before the breaker opened do not prolong the cooldown.
        if self.all != State::Closed && !finds_out {
            return false;
        }
        self.row.add(whose, now);
        self.seen.fails(whose, now);
        let of_others = self.row.of_others();
        let in_a_row = match finds_out {
            true => of_others != 0,
            false => self.row.is_long() && OF_OTHERS <= of_others,
        };
        if in_a_row || self.seen.is_broken() {
            (self.all, self.last) = (State::opened(now), None);
            (self.row, self.seen) = (Row::default(), Seen::new(now));
            return true;
        }
        self.give_up(call, now);
        let is_alone = match self.alone.get(&whose) {
            Some(State::Open { .. }) => false,
            Some(own @ State::HalfOpen { .. }) => own.is_found_out_by(call),
            Some(State::Closed) | None => {
                finds_out || self.row.is_mostly_of(whose) || self.seen.is_broken_for(whose)
            }
        };
        is_alone && self.leave_out(whose, now)
    }

    /// A caller with an inconclusive probe leaves the next probe to another caller.
    fn give_up(&mut self, call: Call, now: Instant) {
        if self.all.give_up(call) {
            self.last = Some((call.whose, now + PROBE));
        }
    }

    fn leave_out(&mut self, whose: u64, now: Instant) -> bool {
        self.alone.retain(|_, state| !state.is_old(now));
        let has_room = self.alone.len() < ALONE || self.alone.contains_key(&whose);
        if has_room {
            self.alone.insert(whose, State::opened(now));
        }
        has_room
    }

    /// The status for display. If no caller had an answer since the blocked callers failed, no caller is known for whom
    /// the breaker is closed.
    pub(super) fn standing(&self, now: Instant) -> Standing {
        let of_alone = |whose: u64| self.alone.get(&whose).map_or("closed", |own| own.word(now));
        let words = || self.row.callers().map(of_alone);
        let word = match self.all {
            State::Closed if !self.row.is_long() || words().any(|word| word == "closed") => {
                "closed"
            }
            State::Closed if words().all(|word| word == "open") => "open",
            State::Closed => "half_open",
            all => all.word(now),
        };
        let alone: Vec<_> = self.alone.values().filter_map(|state| state.left(now)).collect();
        let left = alone.iter().copied().chain(self.all.left(now)).max();
        Standing { word, alone: alone.len(), left }
    }
}

#[cfg(test)]
mod tests;
