//! A circuit breaker: a source that fails again and again is left alone for a while, and its callers are told at once.
//!
//! What counts is whether the source works, not whether a caller is pleased: a refused token or wrong arguments say nothing
//! about it. Nobody can break it for others: while one caller alone sees failures, that one alone is not let through.

use std::time::Duration;

use tokio::time::Instant;

/// So many failures in a row, or half of at least so many calls in a while, for more than one caller.
pub(super) const FAILURES: u32 = 5;
const FEWEST: u32 = 20;
const WHILE: Duration = Duration::from_secs(10);
/// How long it is left alone.
pub(super) const REST: Duration = Duration::from_secs(30);
/// A call that finds out whether it works again is waited for so long; then another may.
const PROBE: Duration = Duration::from_secs(10);

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
    state: State,
    /// Failures since something last succeeded.
    row: Row,
    seen: Seen,
}

#[derive(Debug, PartialEq)]
enum State {
    Closed,
    Open {
        until: Instant,
        whom: Whom,
    },
    /// One call at a time finds out; when it began. Who may go away before that is known does so only now and then.
    HalfOpen {
        probe: Option<Instant>,
        whom: Whom,
        next_brief: Instant,
    },
}

/// Who is not let through. Where one caller alone sees failures, all others go on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Whom {
    All,
    Only(u64),
}

impl Whom {
    fn is(self, whose: u64) -> bool {
        match self {
            Self::All => true,
            Self::Only(one) => one == whose,
        }
    }
}

/// Failures, and whose.
#[derive(Debug, Default)]
struct Row {
    failures: u32,
    /// Who failed first, and whether somebody else did too.
    first: Option<u64>,
    is_many: bool,
}

impl Row {
    fn add(&mut self, whose: u64) {
        self.failures = self.failures.saturating_add(1);
        self.is_many |= *self.first.get_or_insert(whose) != whose;
    }
}

/// What happened in a while.
#[derive(Debug)]
struct Seen {
    since: Instant,
    calls: u32,
    failed: Row,
}

impl Seen {
    fn new(now: Instant) -> Self {
        Self { since: now, calls: 0, failed: Row::default() }
    }
}

impl Breaker {
    pub(super) fn new(now: Instant) -> Self {
        Self { state: State::Closed, row: Row::default(), seen: Seen::new(now) }
    }

    /// Whether a call may go through, or how long this caller may not.
    pub(super) fn enter(&mut self, whose: u64, now: Instant) -> Result<(), Duration> {
        let (whom, next_brief) = match self.state {
            State::Closed => return Ok(()),
            State::Open { whom, .. } | State::HalfOpen { whom, .. } if !whom.is(whose) => {
                return Ok(());
            }
            State::Open { until, .. } if now < until => return Err(until - now),
            State::HalfOpen { probe: Some(since), .. } if now - since < PROBE => {
                return Err(PROBE - (now - since));
            }
            State::Open { whom, .. } => (whom, now),
            State::HalfOpen { whom, next_brief, .. } => (whom, next_brief),
        };
        self.state = State::HalfOpen { probe: Some(now), whom, next_brief };
        Ok(())
    }

    /// The same for a caller who waits less than the source may take, and would find out nothing of one that is slow. Such
    /// callers leave room for others to find out, or nobody ever would.
    pub(super) fn enter_briefly(&mut self, whose: u64, now: Instant) -> Result<(), Duration> {
        if let State::HalfOpen { whom, next_brief, .. } = self.state
            && whom.is(whose)
            && now < next_brief
        {
            return Err(next_brief - now);
        }
        self.enter(whose, now)?;
        if let State::HalfOpen { whom, next_brief, .. } = &mut self.state
            && whom.is(whose)
        {
            *next_brief = now + PROBE;
        }
        Ok(())
    }

    /// Takes what a call says, and whether the source is left alone from now on. `whose` tells callers apart.
    pub(super) fn end(&mut self, verdict: Verdict, whose: u64, now: Instant) -> bool {
        let finds_out = matches!(self.state, State::HalfOpen { whom, .. } if whom.is(whose));
        match verdict {
            Verdict::Nothing => {
                if let State::HalfOpen { probe, whom, .. } = &mut self.state
                    && whom.is(whose)
                {
                    *probe = None;
                }
            }
            Verdict::Works => {
                self.row = Row::default();
                self.seen_one(false, whose, now);
                if finds_out {
                    *self = Self::new(now);
                }
            }
            Verdict::Fails => {
                self.row.add(whose);
                self.seen_one(true, whose, now);
                let Seen { calls, failed, .. } = &self.seen;
                let often = FEWEST <= *calls && *calls <= failed.failures * 2 && failed.is_many;
                if !(finds_out || FAILURES <= self.row.failures || often) {
                    return false;
                }
                let is_many = self.row.is_many || often;
                let whom = if is_many { Whom::All } else { Whom::Only(whose) };
                match self.state {
                    // Calls that were let through before do not prolong it.
                    State::Open { whom: before, .. } if before == whom || before == Whom::All => {}
                    _ => {
                        self.state = State::Open { until: now + REST, whom };
                        self.seen = Seen::new(now);
                        return true;
                    }
                }
            }
        }
        false
    }

    fn seen_one(&mut self, fails: bool, whose: u64, now: Instant) {
        if WHILE <= now - self.seen.since {
            self.seen = Seen::new(now);
        }
        self.seen.calls = self.seen.calls.saturating_add(1);
        if fails {
            self.seen.failed.add(whose);
        }
    }

    /// For people.
    pub(super) fn word(&self, now: Instant) -> &'static str {
        match self.state {
            State::Closed => "closed",
            State::Open { until, .. } if now < until => "open",
            State::Open { .. } | State::HalfOpen { .. } => "half_open",
        }
    }
}

#[cfg(test)]
mod tests {
    use Verdict::{Fails, Nothing, Works};

    use super::*;

    fn told(breaker: &mut Breaker, verdicts: &[Verdict], now: Instant) {
        for verdict in verdicts {
            breaker.end(*verdict, 1, now);
        }
    }

    #[tokio::test]
    async fn failures_in_a_row_break_it_and_what_says_nothing_does_not_count() {
        let now = Instant::now();
        let mut breaker = Breaker::new(now);
        told(&mut breaker, &[Fails, Fails, Fails, Fails, Works, Fails, Fails, Fails, Fails], now);
        told(&mut breaker, &[Nothing; 50], now);
        assert_eq!(breaker.enter(1, now), Ok(()));
        told(&mut breaker, &[Fails], now);
        assert_eq!(breaker.enter(1, now), Err(REST));
        assert_eq!(breaker.word(now), "open");
    }

    #[tokio::test]
    async fn after_a_rest_one_call_finds_out() {
        let now = Instant::now();
        let mut breaker = Breaker::new(now);
        told(&mut breaker, &[Fails; 5], now);
        let later = now + REST;
        assert_eq!(breaker.enter(1, later), Ok(()));
        assert_eq!(breaker.enter(1, later), Err(PROBE));
        // It said nothing: the next one finds out.
        told(&mut breaker, &[Nothing], later);
        assert_eq!((breaker.enter(1, later), breaker.word(later)), (Ok(()), "half_open"));
        told(&mut breaker, &[Fails], later);
        assert_eq!(breaker.enter(1, later), Err(REST));
        let later = later + REST;
        assert_eq!(breaker.enter(1, later), Ok(()));
        // One that hangs does not stand in the way for ever.
        assert_eq!(breaker.enter(1, later + PROBE), Ok(()));
        told(&mut breaker, &[Works], later + PROBE);
        assert_eq!(breaker.word(later + PROBE), "closed");
        told(&mut breaker, &[Fails; 4], later + PROBE);
        assert_eq!(breaker.enter(1, later + PROBE), Ok(()));
    }

    #[tokio::test]
    async fn who_waits_only_briefly_leaves_it_to_others_to_find_out() {
        let now = Instant::now();
        let mut breaker = Breaker::new(now);
        for whose in [1, 2, 1, 2, 1] {
            breaker.end(Fails, whose, now);
        }
        let mut later = now + REST;
        assert_eq!(breaker.enter_briefly(1, later), Ok(()));
        later += PROBE / 10;
        told(&mut breaker, &[Nothing], later);
        // Another that waits as briefly would find out as little.
        assert_eq!(breaker.enter_briefly(2, later), Err(PROBE - PROBE / 10));
        assert_eq!(breaker.enter(2, later), Ok(()));
        breaker.end(Nothing, 2, later);
        // Where there are no others, they find out all the same.
        later += PROBE;
        assert_eq!(breaker.enter_briefly(2, later), Ok(()));
        breaker.end(Works, 2, later);
        assert_eq!((breaker.word(later), breaker.enter_briefly(1, later)), ("closed", Ok(())));
    }

    #[tokio::test]
    async fn a_failure_rate_breaks_it_only_if_it_is_not_one_caller_alone() {
        for (other, is_broken) in [(1, false), (2, true)] {
            let now = Instant::now();
            let mut breaker = Breaker::new(now);
            for round in 0..10 {
                breaker.end(Fails, if round % 2 == 0 { 1 } else { other }, now);
                breaker.end(Works, 3, now);
            }
            breaker.end(Fails, other, now);
            assert_eq!(breaker.enter(3, now).is_err(), is_broken, "{other}");
        }
    }

    #[tokio::test]
    async fn what_failed_long_ago_is_forgotten() {
        let mut now = Instant::now();
        let mut breaker = Breaker::new(now);
        for round in 0..100 {
            now += WHILE / 10;
            breaker.end(Fails, round, now);
            breaker.end(Works, round, now);
            breaker.end(Works, round, now);
        }
        assert_eq!(breaker.enter(1, now), Ok(()));
    }

    #[tokio::test]
    async fn who_alone_sees_failures_is_alone_left_out() {
        let mut now = Instant::now();
        let mut breaker = Breaker::new(now);
        for _ in 0..3 {
            assert_eq!(breaker.enter(1, now), Ok(()));
            told(&mut breaker, &[Fails; FAILURES as usize], now);
            assert_eq!(breaker.enter(1, now), Err(REST));
            assert_eq!(breaker.enter(2, now), Ok(()));
            breaker.end(Works, 2, now);
            assert_eq!((breaker.enter(1, now), breaker.enter(2, now)), (Err(REST), Ok(())));
            // Whoever finds out for itself alone stands in nobody's way.
            now += REST;
            assert_eq!((breaker.enter(1, now), breaker.enter(2, now)), (Ok(()), Ok(())));
            breaker.end(Fails, 1, now);
            assert_eq!((breaker.enter(1, now), breaker.enter(2, now)), (Err(REST), Ok(())));
            now += REST;
        }
        // What fails for somebody else too fails for all.
        breaker.end(Fails, 2, now);
        told(&mut breaker, &[Fails; FAILURES as usize], now);
        assert_eq!(breaker.enter(3, now), Err(REST));
    }
}
