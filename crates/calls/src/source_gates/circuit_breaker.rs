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
pub(super) const FAILURE_THRESHOLD: u32 = 5;
const FROM_OTHER_CALLERS: usize = 2;
const MIN_CALLS: u32 = 20;
const RATE_WINDOW: Duration = Duration::from_secs(10);
/// Older failures are not consecutive. A caller that waits two minutes for each of five answers is still counted.
const FAILURE_MEMORY: Duration = Duration::from_secs(10 * 60);
/// How long the breaker stays open.
pub(super) const COOLDOWN: Duration = Duration::from_secs(30);
/// How long the breaker waits for a probe; then another call may probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most callers whose individual state, or recent results, are remembered.
const MAX_CALLERS: usize = 1_000;

/// What the result of a call tells about its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceVerdict {
    /// The source answered.
    Works,
    /// The source did not answer, or reported that it is broken.
    Fails,
    /// The source answered, but rejected the caller: that does not show whether it works for others.
    OnlyAnswers,
    /// Nothing is known: the call failed before the source, or the caller went away.
    Inconclusive,
}

/// The caller of an admitted call, and the time of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BreakerCall {
    pub(super) caller: u64,
    pub(super) admitted_at: Instant,
}

#[derive(Debug)]
pub(super) struct CircuitBreaker {
    /// The state for all callers.
    shared: BreakerState,
    /// Additional states of callers that alone see failures.
    by_caller: HashMap<u64, BreakerState>,
    /// The last caller that probed for all, and until when it must leave the probe to others.
    last_prober: Option<(u64, Instant)>,
    /// Failures since the last success, or since the breaker opened.
    recent_failures: RecentFailures,
    window: FailureWindow,
    /// When the source last answered any caller.
    answered_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum BreakerState {
    Closed,
    Open {
        until: Instant,
    },
    /// One call at a time probes; every call admitted since then counts as a probe. Calls with a short deadline, which
    /// may end before the source answers, probe only once in a while.
    HalfOpen {
        since: Instant,
        probe: Option<BreakerCall>,
        next_brief: Instant,
    },
}

impl BreakerState {
    fn opened(now: Instant) -> Self {
        Self::Open { until: now + COOLDOWN }
    }

    /// How long no call is admitted; `None` if one may be now.
    fn remaining_wait(self, is_brief: bool, now: Instant) -> Option<Duration> {
        let until = match self {
            Self::Closed => return None,
            Self::Open { until } => until,
            Self::HalfOpen { next_brief, .. } if is_brief && now < next_brief => next_brief,
            Self::HalfOpen { probe, .. } => probe?.admitted_at + PROBE_TIMEOUT,
        };
        until.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    /// Admits a call and returns whether it is a probe.
    fn admit_call(&mut self, whose: u64, is_brief: bool, now: Instant) -> bool {
        let (since, next_brief) = match *self {
            Self::Closed => return false,
            Self::Open { .. } => (now, now),
            Self::HalfOpen { since, next_brief, .. } => (since, next_brief),
        };
        let next_brief = if is_brief { now + PROBE_TIMEOUT } else { next_brief };
        *self = Self::HalfOpen {
            since,
            probe: Some(BreakerCall { caller: whose, admitted_at: now }),
            next_brief,
        };
        true
    }

    /// If this call is the probe, lets the next call probe.
    fn release_probe(&mut self, call: BreakerCall) -> bool {
        match self {
            Self::HalfOpen { probe, .. } if *probe == Some(call) => {
                *probe = None;
                true
            }
            _ => false,
        }
    }

    /// Whether this call was admitted as a probe.
    fn is_probe(self, call: BreakerCall) -> bool {
        matches!(self, Self::HalfOpen { since, .. } if since <= call.admitted_at)
    }

    /// How long the breaker stays open, if it is open.
    fn remaining_cooldown(self, now: Instant) -> Option<Duration> {
        if let Self::Open { .. } = self { self.remaining_wait(false, now) } else { None }
    }

    /// The state as published: `closed`, `open` or `half_open`.
    fn as_label(self, now: Instant) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { until } if now < until => "open",
            Self::Open { .. } | Self::HalfOpen { .. } => "half_open",
        }
    }

    /// Whether the state is too old to matter.
    fn is_expired(self, now: Instant) -> bool {
        match self {
            Self::Closed => true,
            Self::Open { until: at } | Self::HalfOpen { next_brief: at, .. } => {
                at + FAILURE_MEMORY <= now
            }
        }
    }
}

/// The last failures, each with its caller.
#[derive(Debug, Default)]
struct RecentFailures(VecDeque<(u64, Instant)>);

impl RecentFailures {
    fn record_failure(&mut self, whose: u64, now: Instant) {
        self.0.retain(|(_, at)| now < *at + FAILURE_MEMORY);
        if self.is_full() {
            self.0.pop_front();
        }
        self.0.push_back((whose, now));
    }

    fn is_full(&self) -> bool {
        FAILURE_THRESHOLD as usize <= self.0.len()
    }

    fn callers(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(whose, _)| *whose)
    }

    fn count_from(&self, wanted: u64) -> usize {
        self.callers().filter(|whose| *whose == wanted).count()
    }

    /// How many failures are not from the worst caller.
    fn count_from_others(&self) -> usize {
        let most = self.callers().map(|whose| self.count_from(whose)).max();
        self.0.len() - most.unwrap_or_default()
    }

    /// Whether the list is full, and more than half of it is from this caller.
    fn is_mostly_from(&self, whose: u64) -> bool {
        self.is_full() && self.0.len() < 2 * self.count_from(whose)
    }
}

/// Results within the current window, for the failure rate.
#[derive(Debug)]
struct FailureWindow {
    since: Instant,
    all: CallTally,
    by_caller: HashMap<u64, CallTally>,
}

#[derive(Clone, Copy, Debug, Default)]
struct CallTally {
    calls: u32,
    failed: u32,
}

impl CallTally {
    fn add_call(&mut self, failed: u32) {
        self.calls = self.calls.saturating_add(1);
        self.failed = self.failed.saturating_add(failed);
    }

    fn is_half_failed(self) -> bool {
        MIN_CALLS <= self.calls && self.calls <= self.failed.saturating_mul(2)
    }
}

impl FailureWindow {
    fn new(now: Instant) -> Self {
        Self { since: now, all: CallTally::default(), by_caller: HashMap::new() }
    }

    fn record_success(&mut self, whose: u64, now: Instant) {
        self.record_call(whose, 0, now);
    }

    fn record_failure(&mut self, whose: u64, now: Instant) {
        self.record_call(whose, 1, now);
    }

    fn record_call(&mut self, whose: u64, failed: u32, now: Instant) {
        if RATE_WINDOW <= now - self.since {
            *self = Self::new(now);
        }
        self.all.add_call(failed);
        if self.by_caller.len() < MAX_CALLERS || self.by_caller.contains_key(&whose) {
            self.by_caller.entry(whose).or_default().add_call(failed);
        }
    }

    fn is_broken(&self) -> bool {
        let CallTally { calls, failed } = self.all;
        // One caller's failures count no more than those of all others together.
        let most = self.by_caller.values().map(|tally| tally.failed).max().unwrap_or_default();
        let others = failed - most;
        CallTally { calls, failed: others + most.min(others) }.is_half_failed()
    }

    fn is_broken_for(&self, whose: u64) -> bool {
        self.by_caller.get(&whose).is_some_and(|tally| tally.is_half_failed())
    }
}

/// The status of the breaker, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BreakerStatus {
    /// For all known callers together: `closed`, `open` or `half_open`.
    pub(super) label: &'static str,
    /// How many callers are blocked individually.
    pub(super) blocked_callers: usize,
    /// The time until no caller is blocked any more; `None` if none is.
    pub(super) blocked_for: Option<Duration>,
}

impl CircuitBreaker {
    pub(super) fn new(now: Instant) -> Self {
        let (all, alone, last) = (BreakerState::Closed, HashMap::new(), None);
        Self {
            shared: all,
            by_caller: alone,
            last_prober: last,
            recent_failures: RecentFailures::default(),
            window: FailureWindow::new(now),
            answered_at: None,
        }
    }

    /// Whether the source has answered any caller since then.
    pub(super) fn has_answered_since(&self, then: Instant) -> bool {
        self.answered_at.is_some_and(|at| then <= at)
    }

    /// Admits a call, or returns how long this caller has to wait.
    pub(super) fn admit(&mut self, whose: u64, now: Instant) -> Result<(), Duration> {
        self.admit_caller(whose, false, now)
    }

    /// Admits a caller whose deadline is shorter than the source's timeout, so that its probe of a slow source would be
    /// inconclusive. Such callers leave probes to others; otherwise no probe might ever succeed.
    pub(super) fn admit_with_short_deadline(
        &mut self,
        whose: u64,
        now: Instant,
    ) -> Result<(), Duration> {
        self.admit_caller(whose, true, now)
    }

    /// How long this caller has to wait, without admitting a call; `None` if it need not.
    pub(super) fn remaining_wait(
        &self,
        whose: u64,
        is_brief: bool,
        now: Instant,
    ) -> Option<Duration> {
        let own = self.by_caller.get(&whose).copied().unwrap_or(BreakerState::Closed);
        let last = self.last_prober.filter(|(last, until)| *last == whose && now < *until);
        let waits = [
            own.remaining_wait(is_brief, now),
            self.shared.remaining_wait(is_brief, now),
            last.map(|(_, until)| until - now),
        ];
        waits.into_iter().flatten().max()
    }

    fn admit_caller(&mut self, whose: u64, is_brief: bool, now: Instant) -> Result<(), Duration> {
        if let Some(wait) = self.remaining_wait(whose, is_brief, now) {
            return Err(wait);
        }
        if let Some(own) = self.by_caller.get_mut(&whose) {
            own.admit_call(whose, is_brief, now);
        }
        if self.shared.admit_call(whose, is_brief, now) {
            // A probe that hangs also leaves time for another caller's probe.
            self.last_prober = Some((whose, now + PROBE_TIMEOUT + PROBE_TIMEOUT));
        }
        Ok(())
    }

    /// Records the verdict of a call; returns whether a caller is blocked from now on that was not before.
    pub(super) fn record_verdict(
        &mut self,
        verdict: SourceVerdict,
        call: BreakerCall,
        now: Instant,
    ) -> bool {
        match verdict {
            SourceVerdict::OnlyAnswers | SourceVerdict::Inconclusive => {
                if verdict == SourceVerdict::OnlyAnswers {
                    self.answered_at = Some(now);
                }
                if let Some(own) = self.by_caller.get_mut(&call.caller) {
                    own.release_probe(call);
                }
                self.release_probe(call, now);
                false
            }
            SourceVerdict::Works => {
                self.record_success(call, now);
                false
            }
            SourceVerdict::Fails => self.record_failure(call, now),
        }
    }

    fn record_success(&mut self, call: BreakerCall, now: Instant) {
        self.answered_at = Some(now);
        let finds_out = self.shared.is_probe(call);
        // Calls that were admitted before the breaker opened do not close it.
        if self.shared != BreakerState::Closed && !finds_out {
            return;
        }
        self.recent_failures = RecentFailures::default();
        self.window.record_success(call.caller, now);
        if self.by_caller.get(&call.caller).is_some_and(|own| own.is_probe(call)) {
            self.by_caller.remove(&call.caller);
        }
        if finds_out {
            (self.shared, self.last_prober, self.window) =
                (BreakerState::Closed, None, FailureWindow::new(now));
        }
    }

    fn record_failure(&mut self, call: BreakerCall, now: Instant) -> bool {
        let whose = call.caller;
        let finds_out = self.shared.is_probe(call);
        // Calls that were admitted before the breaker opened do not prolong the cooldown.
        if self.shared != BreakerState::Closed && !finds_out {
            return false;
        }
        self.recent_failures.record_failure(whose, now);
        self.window.record_failure(whose, now);
        let of_others = self.recent_failures.count_from_others();
        let in_a_row = match finds_out {
            true => of_others != 0,
            false => self.recent_failures.is_full() && FROM_OTHER_CALLERS <= of_others,
        };
        if in_a_row || self.window.is_broken() {
            (self.shared, self.last_prober) = (BreakerState::opened(now), None);
            (self.recent_failures, self.window) =
                (RecentFailures::default(), FailureWindow::new(now));
            return true;
        }
        self.release_probe(call, now);
        let is_alone = match self.by_caller.get(&whose) {
            Some(BreakerState::Open { .. }) => false,
            Some(own @ BreakerState::HalfOpen { .. }) => own.is_probe(call),
            Some(BreakerState::Closed) | None => {
                finds_out
                    || self.recent_failures.is_mostly_from(whose)
                    || self.window.is_broken_for(whose)
            }
        };
        is_alone && self.block_caller(whose, now)
    }

    /// A caller with an inconclusive probe leaves the next probe to another caller.
    fn release_probe(&mut self, call: BreakerCall, now: Instant) {
        if self.shared.release_probe(call) {
            self.last_prober = Some((call.caller, now + PROBE_TIMEOUT));
        }
    }

    fn block_caller(&mut self, whose: u64, now: Instant) -> bool {
        self.by_caller.retain(|_, state| !state.is_expired(now));
        let has_room = self.by_caller.len() < MAX_CALLERS || self.by_caller.contains_key(&whose);
        if has_room {
            self.by_caller.insert(whose, BreakerState::opened(now));
        }
        has_room
    }

    /// The status for display. If no caller had an answer since the blocked callers failed, no caller is known for whom
    /// the breaker is closed.
    pub(super) fn status(&self, now: Instant) -> BreakerStatus {
        let of_alone =
            |whose: u64| self.by_caller.get(&whose).map_or("closed", |own| own.as_label(now));
        let words = || self.recent_failures.callers().map(of_alone);
        let word = match self.shared {
            BreakerState::Closed
                if !self.recent_failures.is_full() || words().any(|word| word == "closed") =>
            {
                "closed"
            }
            BreakerState::Closed if words().all(|word| word == "open") => "open",
            BreakerState::Closed => "half_open",
            all => all.as_label(now),
        };
        let alone: Vec<_> =
            self.by_caller.values().filter_map(|state| state.remaining_cooldown(now)).collect();
        let left = alone.iter().copied().chain(self.shared.remaining_cooldown(now)).max();
        BreakerStatus { label: word, blocked_callers: alone.len(), blocked_for: left }
    }
}

#[cfg(test)]
mod tests;
