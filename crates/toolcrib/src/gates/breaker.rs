//! A circuit breaker: a source that fails again and again is left alone for a while, and its callers are told at once.
//!
//! What counts is whether the source works, not whether a caller is pleased: a refused token or wrong arguments say nothing
//! about it. Nobody can break it for others, and nobody can keep it broken: while one caller alone sees failures, that one
//! alone is not let through, and whoever found out leaves the next turn to somebody else.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// So many failures in a row, or half of at least so many calls in a while, for more than one caller.
pub(super) const FAILURES: u32 = 5;
const FEWEST: u32 = 20;
const WHILE: Duration = Duration::from_secs(10);
/// What failed before that is no part of a row. A caller who waits two minutes for each of five answers is in time.
const ROW: Duration = Duration::from_secs(10 * 60);
/// How long it is left alone.
pub(super) const REST: Duration = Duration::from_secs(30);
/// A call that finds out whether it works again is waited for so long; then another may.
const PROBE: Duration = Duration::from_secs(10);
/// Of how many it is remembered that they alone are left out.
const ALONE: usize = 1_000;

/// What a call says about its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It answered.
    Works,
    /// It did not answer, or said itself that it is broken.
    Fails,
    /// It says nothing: whoever called was refused, or went away.
    Nothing,
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
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Closed,
    Open {
        until: Instant,
    },
    /// One call at a time finds out: whose, and when it began. Who may go away before that is known does so only now and
    /// then.
    HalfOpen {
        probe: Option<(u64, Instant)>,
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
            Self::HalfOpen { probe, .. } => probe?.1 + PROBE,
        };
        until.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    /// Lets one through. Says whether that one finds out.
    fn enter(&mut self, whose: u64, is_brief: bool, now: Instant) -> bool {
        let next_brief = match *self {
            Self::Closed => return false,
            _ if is_brief => now + PROBE,
            Self::Open { .. } => now,
            Self::HalfOpen { next_brief, .. } => next_brief,
        };
        *self = Self::HalfOpen { probe: Some((whose, now)), next_brief };
        true
    }

    /// Makes room for the next to find out, if it is this one who does.
    fn give_up(&mut self, whose: u64) -> bool {
        match self {
            Self::HalfOpen { probe, .. } if probe.is_some_and(|(one, _)| one == whose) => {
                *probe = None;
                true
            }
            _ => false,
        }
    }

    fn is_half_open(self) -> bool {
        matches!(self, Self::HalfOpen { .. })
    }

    /// How long it is left alone yet, if it is.
    fn left(self, now: Instant) -> Option<Duration> {
        if let Self::Open { .. } = self { self.wait(false, now) } else { None }
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

    fn is_many(&self) -> bool {
        self.0.iter().any(|(whose, _)| *whose != self.0[0].0)
    }
}

/// What happened in a while.
#[derive(Debug)]
struct Seen {
    since: Instant,
    calls: u32,
    failed: u32,
    /// Who failed first, and whether somebody else did too.
    first: Option<u64>,
    is_many: bool,
}

impl Seen {
    fn new(now: Instant) -> Self {
        Self { since: now, calls: 0, failed: 0, first: None, is_many: false }
    }

    fn works(&mut self, now: Instant) {
        if WHILE <= now - self.since {
            *self = Self::new(now);
        }
        self.calls = self.calls.saturating_add(1);
    }

    fn fails(&mut self, whose: u64, now: Instant) {
        self.works(now);
        self.failed = self.failed.saturating_add(1);
        self.is_many |= *self.first.get_or_insert(whose) != whose;
    }

    fn is_broken(&self) -> bool {
        FEWEST <= self.calls && self.calls <= self.failed.saturating_mul(2) && self.is_many
    }
}

/// How it stands, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// For everybody: `closed`, `open` or `half_open`.
    pub(super) word: &'static str,
    /// How many alone are left out.
    pub(super) alone: usize,
    /// Until nobody is left out any more, if anybody is.
    pub(super) left: Option<Duration>,
}

impl Breaker {
    pub(super) fn new(now: Instant) -> Self {
        let (all, alone, last) = (State::Closed, HashMap::new(), None);
        Self { all, alone, last, row: Row::default(), seen: Seen::new(now) }
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

    fn let_in(&mut self, whose: u64, is_brief: bool, now: Instant) -> Result<(), Duration> {
        let own = self.alone.get(&whose).copied().unwrap_or(State::Closed);
        let last = self.last.filter(|(last, until)| *last == whose && now < *until);
        let waits = [
            own.wait(is_brief, now),
            self.all.wait(is_brief, now),
            last.map(|(_, until)| until - now),
        ];
        if let Some(wait) = waits.into_iter().flatten().max() {
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

    /// Takes what a call says, and whether somebody is left out from now on who was not before. `whose` tells callers
    /// apart.
    pub(super) fn end(&mut self, verdict: Verdict, whose: u64, now: Instant) -> bool {
        match verdict {
            Verdict::Nothing => {
                if let Some(own) = self.alone.get_mut(&whose) {
                    own.give_up(whose);
                }
                self.give_up(whose, now);
                false
            }
            Verdict::Works => {
                self.works(whose, now);
                false
            }
            Verdict::Fails => self.fails(whose, now),
        }
    }

    fn works(&mut self, whose: u64, now: Instant) {
        self.row = Row::default();
        self.seen.works(now);
        if self.alone.get(&whose).is_some_and(|own| own.is_half_open()) {
            self.alone.remove(&whose);
        }
        if self.all.is_half_open() {
            (self.all, self.last, self.seen) = (State::Closed, None, Seen::new(now));
        }
    }

    fn fails(&mut self, whose: u64, now: Instant) -> bool {
        // Calls that were let through before do not prolong it.
        if let State::Open { .. } = self.all {
            return false;
        }
        self.row.add(whose, now);
        self.seen.fails(whose, now);
        let finds_out = self.all.is_half_open();
        let in_a_row = (finds_out || self.row.is_long()) && self.row.is_many();
        if in_a_row || self.seen.is_broken() {
            (self.all, self.last) = (State::opened(now), None);
            (self.row, self.seen) = (Row::default(), Seen::new(now));
            return true;
        }
        self.give_up(whose, now);
        match self.alone.get(&whose) {
            Some(State::Open { .. }) => false,
            Some(State::HalfOpen { .. }) => self.leave_out(whose, now),
            Some(State::Closed) | None if finds_out || self.row.is_long() => {
                self.leave_out(whose, now)
            }
            Some(State::Closed) | None => false,
        }
    }

    /// Whoever found out nothing for the others leaves it to one of them.
    fn give_up(&mut self, whose: u64, now: Instant) {
        if self.all.give_up(whose) {
            self.last = Some((whose, now + PROBE));
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

    /// For people.
    pub(super) fn standing(&self, now: Instant) -> Standing {
        let word = match self.all {
            State::Closed => "closed",
            State::Open { until } if now < until => "open",
            State::Open { .. } | State::HalfOpen { .. } => "half_open",
        };
        let alone: Vec<_> = self.alone.values().filter_map(|state| state.left(now)).collect();
        let left = alone.iter().copied().chain(self.all.left(now)).max();
        Standing { word, alone: alone.len(), left }
    }
}

#[cfg(test)]
mod tests;
