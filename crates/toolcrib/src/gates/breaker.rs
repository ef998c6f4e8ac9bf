//! A circuit breaker: a source that fails again and again is left alone for a while, and its callers are told at once.
//!
//! What counts is whether the source works, not whether a caller is pleased: a refused token or wrong arguments say nothing
//! about it. Nobody can break it for others, and nobody can keep it broken: while one caller alone sees failures, that one
//! alone is not let through, whoever found out leaves the next turn to somebody else, and what was asked before the source was
//! left alone says nothing about how it is now.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// So many failures in a row, so many of them of others than who failed most; or half of at least so many calls in a while, of
/// which one caller's failures count no more than those of all others together.
pub(super) const FAILURES: u32 = 5;
const OF_OTHERS: usize = 2;
const FEWEST: u32 = 20;
const WHILE: Duration = Duration::from_secs(10);
/// What failed before that is no part of a row. A caller who waits two minutes for each of five answers is in time.
const ROW: Duration = Duration::from_secs(10 * 60);
/// How long it is left alone.
pub(super) const REST: Duration = Duration::from_secs(30);
/// A call that finds out whether it works again is waited for so long; then another may.
const PROBE: Duration = Duration::from_secs(10);
/// Of how many it is remembered that they alone are left out, or what came of their calls in a while.
const ALONE: usize = 1_000;

/// What a call says about its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It answered.
    Works,
    /// It did not answer, or said itself that it is broken.
    Fails,
    /// It answered, and refused whoever called: that says nothing about whether it works for others.
    Answers,
    /// It says nothing: whoever called was told so here, or went away.
    Nothing,
}

/// Whose call it is, and when it was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) whose: u64,
    pub(super) since: Instant,
}

#[derive(Debug)]
pub(super) struct Breaker {
    /// For everybody.
    all: State,
    /// Beside that, for those who alone see failures.
    alone: HashMap<u64, State>,
    /// Who found out last for everybody, and until when it leaves that to others.
    last: Option<(u64, Instant)>,
    /// Failures since something last succeeded, or since it was left alone.
    row: Row,
    seen: Seen,
    /// When it last answered anybody.
    answered: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Closed,
    Open {
        until: Instant,
    },
    /// One call at a time finds out, and all that were let through since then do. Who may go away before that is known does
    /// so only now and then.
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

    /// How long nobody is let through, if so.
    fn wait(self, is_brief: bool, now: Instant) -> Option<Duration> {
        let until = match self {
            Self::Closed => return None,
            Self::Open { until } => until,
            Self::HalfOpen { next_brief, .. } if is_brief && now < next_brief => next_brief,
            Self::HalfOpen { probe, .. } => probe?.since + PROBE,
        };
        until.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    /// Lets one through. Says whether that one finds out.
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

    /// Makes room for the next to find out, if it is this call that does.
    fn give_up(&mut self, call: Call) -> bool {
        match self {
            Self::HalfOpen { probe, .. } if *probe == Some(call) => {
                *probe = None;
                true
            }
            _ => false,
        }
    }

    /// Whether this call was let through to find out.
    fn is_found_out_by(self, call: Call) -> bool {
        matches!(self, Self::HalfOpen { since, .. } if since <= call.since)
    }

    /// How long it is left alone yet, if it is.
    fn left(self, now: Instant) -> Option<Duration> {
        if let Self::Open { .. } = self { self.wait(false, now) } else { None }
    }

    /// For people.
    fn word(self, now: Instant) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { until } if now < until => "open",
            Self::Open { .. } | Self::HalfOpen { .. } => "half_open",
        }
    }

    /// Whether it is so long over that it says nothing any more.
    fn is_old(self, now: Instant) -> bool {
        match self {
            Self::Closed => true,
            Self::Open { until: at } | Self::HalfOpen { next_brief: at, .. } => at + ROW <= now,
        }
    }
}

/// The last failures, and whose.
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

    /// How many are of others than who failed most.
    fn of_others(&self) -> usize {
        let most = self.callers().map(|whose| self.of(whose)).max();
        self.0.len() - most.unwrap_or_default()
    }

    /// Whether it is long, and most of it is of this caller.
    fn is_mostly_of(&self, whose: u64) -> bool {
        self.is_long() && self.0.len() < 2 * self.of(whose)
    }
}

/// What happened in a while.
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
        // Nobody's failures weigh more than those of all others together.
        let most = self.by.values().map(|tally| tally.failed).max().unwrap_or_default();
        let others = failed - most;
        Tally { calls, failed: others + most.min(others) }.is_half_failed()
    }

    fn is_broken_for(&self, whose: u64) -> bool {
        self.by.get(&whose).is_some_and(|tally| tally.is_half_failed())
    }
}

/// How it stands, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// For all who are known to have called: `closed`, `open` or `half_open`.
    pub(super) word: &'static str,
    /// How many alone are left out.
    pub(super) alone: usize,
    /// Until nobody is left out any more, if anybody is.
    pub(super) left: Option<Duration>,
}

impl Breaker {
    pub(super) fn new(now: Instant) -> Self {
        let (all, alone, last) = (State::Closed, HashMap::new(), None);
        Self { all, alone, last, row: Row::default(), seen: Seen::new(now), answered: None }
    }

    /// Whether it has answered anybody since then.
    pub(super) fn has_answered_since(&self, then: Instant) -> bool {
        self.answered.is_some_and(|at| then <= at)
    }

    /// Whether a call may go through, or how long this caller may not.
    pub(super) fn enter(&mut self, whose: u64, now: Instant) -> Result<(), Duration> {
        self.let_in(whose, false, now)
    }

    /// The same for a caller who waits less than the source may take, and would find out nothing of one that is slow. Such
    /// callers leave room for others to find out, or nobody ever would.
    pub(super) fn enter_briefly(&mut self, whose: u64, now: Instant) -> Result<(), Duration> {
        self.let_in(whose, true, now)
    }

    /// How long this caller may not, if so, without going through.
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
            // Also one that hangs leaves time for another after that.
            self.last = Some((whose, now + PROBE + PROBE));
        }
        Ok(())
    }

    /// Takes what a call says, and whether somebody is left out from now on who was not before.
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
        // Nor do they end it.
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
        // Calls that were let through before do not prolong it.
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

    /// Whoever found out nothing for the others leaves it to one of them.
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

    /// For people. Where nobody has had an answer since those failed who are left out, nobody is known to whom it is closed.
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
