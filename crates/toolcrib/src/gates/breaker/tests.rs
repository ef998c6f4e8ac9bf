//! Which callers the breaker blocks, for how long, and which call is the probe.

use Verdict::{Fails, Nothing, Works};

use super::*;

/// A call that is admitted and ends at once.
fn at(whose: u64, now: Instant) -> Call {
    Call { whose, since: now }
}

fn told(breaker: &mut Breaker, verdicts: &[Verdict], now: Instant) {
    for verdict in verdicts {
        breaker.end(*verdict, at(1, now), now);
    }
}

/// Two callers see failures.
fn broken(breaker: &mut Breaker, now: Instant) {
    for whose in [1, 2, 1, 2, 1] {
        breaker.end(Fails, at(whose, now), now);
    }
}

#[tokio::test]
async fn consecutive_failures_open_it_and_inconclusive_calls_do_not_count() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    told(&mut breaker, &[Fails, Fails, Fails, Fails, Works, Fails, Fails, Fails, Fails], now);
    told(&mut breaker, &[Nothing; 50], now);
    assert_eq!(breaker.enter(1, now), Ok(()));
    told(&mut breaker, &[Fails], now);
    assert_eq!(breaker.enter(1, now), Err(REST));
}

#[tokio::test]
async fn after_the_cooldown_one_call_probes() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    told(&mut breaker, &[Fails; 5], now);
    let later = now + REST;
    assert_eq!(breaker.enter(1, later), Ok(()));
    assert_eq!(breaker.enter(1, later), Err(PROBE));
    // The probe was inconclusive: the next call probes.
    told(&mut breaker, &[Nothing], later);
    assert_eq!(breaker.enter(1, later), Ok(()));
    told(&mut breaker, &[Fails], later);
    assert_eq!(breaker.enter(1, later), Err(REST));
    let later = later + REST;
    assert_eq!(breaker.enter(1, later), Ok(()));
    // A probe that hangs does not block others indefinitely.
    assert_eq!(breaker.enter(1, later + PROBE), Ok(()));
    told(&mut breaker, &[Works], later + PROBE);
    assert!(breaker.alone.is_empty());
    told(&mut breaker, &[Fails; 4], later + PROBE);
    assert_eq!(breaker.enter(1, later + PROBE), Ok(()));
}

#[tokio::test]
async fn callers_with_a_short_deadline_leave_probes_to_others() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    broken(&mut breaker, now);
    let mut later = now + REST;
    assert_eq!(breaker.enter_briefly(1, later), Ok(()));
    let first = at(1, later);
    later += PROBE / 10;
    breaker.end(Nothing, first, later);
    // Another caller with a short deadline would learn as little.
    assert_eq!(breaker.enter_briefly(2, later), Err(PROBE - PROBE / 10));
    assert_eq!(breaker.enter(2, later), Ok(()));
    breaker.end(Nothing, at(2, later), later);
    // If there are no other callers, they probe after all.
    later += PROBE;
    assert_eq!(breaker.enter_briefly(2, later), Ok(()));
    breaker.end(Works, at(2, later), later);
    assert_eq!((breaker.standing(later).word, breaker.enter_briefly(1, later)), ("closed", Ok(())));
}

#[tokio::test]
async fn a_failure_rate_opens_it_only_if_more_than_one_caller_fails() {
    for (other, is_broken) in [(1, false), (2, true)] {
        let now = Instant::now();
        let mut breaker = Breaker::new(now);
        for round in 0..10 {
            breaker.end(Fails, at(if round % 2 == 0 { 1 } else { other }, now), now);
            breaker.end(Works, at(3, now), now);
        }
        breaker.end(Fails, at(4, now), now);
        assert_eq!(breaker.enter(3, now).is_err(), is_broken, "{other}");
        assert_eq!(breaker.standing(now).alone, 0);
    }
}

#[tokio::test]
async fn old_failures_are_forgotten() {
    let mut now = Instant::now();
    let mut breaker = Breaker::new(now);
    for round in 0..100 {
        now += WHILE / 10;
        breaker.end(Fails, at(round, now), now);
        breaker.end(Works, at(round, now), now);
        breaker.end(Works, at(round, now), now);
    }
    assert_eq!(breaker.enter(1, now), Ok(()));
}

#[tokio::test]
async fn a_caller_that_alone_sees_failures_is_blocked_alone() {
    let mut now = Instant::now();
    let mut breaker = Breaker::new(now);
    for _ in 0..3 {
        assert_eq!(breaker.enter(1, now), Ok(()));
        told(&mut breaker, &[Fails; FAILURES as usize], now);
        assert_eq!(breaker.enter(1, now), Err(REST));
        assert_eq!(breaker.enter(2, now), Ok(()));
        breaker.end(Works, at(2, now), now);
        assert_eq!((breaker.enter(1, now), breaker.enter(2, now)), (Err(REST), Ok(())));
        // A probe for a single blocked caller does not delay others.
        now += REST;
        assert_eq!((breaker.enter(1, now), breaker.enter(2, now)), (Ok(()), Ok(())));
        breaker.end(Fails, at(1, now), now);
        assert_eq!((breaker.enter(1, now), breaker.enter(2, now)), (Err(REST), Ok(())));
        now += REST;
    }
    // If another caller fails too, the source fails for all.
    breaker.end(Fails, at(2, now), now);
    told(&mut breaker, &[Fails; FAILURES as usize], now);
    assert_eq!(breaker.enter(3, now), Ok(()), "one failure may be bad luck");
    for _ in 0..2 {
        breaker.end(Fails, at(2, now), now);
    }
    assert_eq!(breaker.enter(3, now), Err(REST));
}

#[tokio::test]
async fn a_caller_whose_probes_fail_does_not_block_others() {
    let mut now = Instant::now();
    let mut breaker = Breaker::new(now);
    broken(&mut breaker, now);
    for _ in 0..10 {
        now += REST;
        // Its request comes first each time, and makes the source fail.
        assert_eq!(breaker.enter(1, now), Ok(()));
        breaker.end(Fails, at(1, now), now);
        assert_eq!((breaker.enter(1, now), breaker.standing(now).alone), (Err(REST), 1));
    }
    // At last another caller comes.
    assert_eq!(breaker.enter(3, now), Ok(()));
    breaker.end(Works, at(3, now), now);
    assert_eq!((breaker.enter(4, now), breaker.enter(1, now)), (Ok(()), Err(REST)));
}

#[tokio::test]
async fn if_probes_of_two_callers_fail_it_opens_for_all() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    broken(&mut breaker, now);
    let later = now + REST;
    for whose in [3, 4] {
        assert_eq!(breaker.enter(whose, later), Ok(()));
        breaker.end(Fails, at(whose, later), later);
    }
    assert_eq!(breaker.enter(5, later), Err(REST));
    assert_eq!(breaker.standing(later).word, "open");
}

#[tokio::test]
async fn a_caller_with_an_inconclusive_probe_leaves_the_next_one_to_others() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    broken(&mut breaker, now);
    let later = now + REST;
    assert_eq!(breaker.enter(1, later), Ok(()));
    // Verdicts of earlier calls do not let other callers probe.
    breaker.end(Nothing, at(2, later), later);
    assert_eq!(breaker.enter(2, later), Err(PROBE));
    breaker.end(Nothing, at(1, later), later);
    assert_eq!((breaker.enter(1, later), breaker.enter(2, later)), (Err(PROBE), Ok(())));
    // A probe that hangs blocks others no longer than an inconclusive one.
    let later = later + PROBE;
    assert_eq!((breaker.enter(2, later), breaker.enter(1, later)), (Err(PROBE), Ok(())));
}

#[tokio::test]
async fn failures_from_long_ago_are_not_consecutive() {
    let mut now = Instant::now();
    let mut breaker = Breaker::new(now);
    told(&mut breaker, &[Fails; 4], now);
    now += ROW;
    told(&mut breaker, &[Fails; 4], now);
    assert_eq!(breaker.enter(1, now), Ok(()));
    told(&mut breaker, &[Fails], now);
    assert_eq!(breaker.enter(1, now), Err(REST));
}

#[tokio::test]
async fn the_status_shows_for_how_many_callers_it_is_open_and_for_how_long() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    let standing = |breaker: &Breaker, now| {
        let Standing { word, alone, left } = breaker.standing(now);
        (word, alone, left.map(|left| left.as_secs()))
    };
    assert_eq!(standing(&breaker, now), ("closed", 0, None));
    told(&mut breaker, &[Fails; 5], now);
    // All known callers are blocked.
    assert_eq!(standing(&breaker, now), ("open", 1, Some(30)));
    assert_eq!(standing(&breaker, now + REST), ("half_open", 0, None));
    let later = now + REST / 2;
    breaker.end(Fails, at(2, later), later);
    assert_eq!(standing(&breaker, later), ("closed", 1, Some(15)));
    breaker.end(Fails, at(2, later), later);
    assert_eq!(standing(&breaker, later), ("open", 1, Some(30)));
    assert_eq!(standing(&breaker, later + REST), ("half_open", 0, None));
}

#[tokio::test]
async fn the_number_of_remembered_callers_is_bounded() {
    let mut now = Instant::now();
    let mut breaker = Breaker::new(now);
    for whose in 0..2_000 {
        // It works more often than it fails.
        for _ in 0..=FAILURES {
            breaker.end(Works, at(5_000, now), now);
        }
        for _ in 0..FAILURES {
            breaker.end(Fails, at(whose, now), now);
        }
    }
    assert_eq!(breaker.alone.len(), ALONE);
    now += REST + ROW;
    for _ in 0..FAILURES {
        breaker.end(Fails, at(5_000, now), now);
    }
    assert_eq!(breaker.alone.len(), 1);
}

#[tokio::test]
async fn calls_from_before_it_opened_do_not_count() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    let before = [at(7, now), at(8, now)];
    broken(&mut breaker, now);
    let later = now + REST;
    assert_eq!(breaker.enter(3, later), Ok(()));
    // They waited all the time, and one of them belongs to the caller of the probe.
    for call in [before[0], before[1], at(3, now)] {
        breaker.end(Fails, call, later);
        breaker.end(Nothing, call, later);
    }
    assert_eq!(breaker.standing(later).alone, 0);
    assert_eq!(breaker.enter(4, later), Err(PROBE), "one is finding out");
    breaker.end(Works, before[0], later);
    assert_eq!(breaker.enter(4, later), Err(PROBE), "nor do they end it");
    breaker.end(Works, at(3, later), later);
    assert_eq!(breaker.enter(4, later), Ok(()));
}

#[tokio::test]
async fn an_answer_to_a_caller_that_is_not_blocked_makes_the_status_closed() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    told(&mut breaker, &[Fails; 5], now);
    breaker.end(Works, at(2, now), now);
    let Standing { word, alone, .. } = breaker.standing(now);
    assert_eq!((word, alone), ("closed", 1));
    assert_eq!(breaker.enter(1, now + REST), Ok(()));
    breaker.end(Works, at(1, now + REST), now + REST);
    assert_eq!(breaker.standing(now + REST).alone, 0);
}

#[tokio::test]
async fn a_late_probe_still_counts() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    broken(&mut breaker, now);
    let (first, second) = (now + REST, now + REST + PROBE);
    assert_eq!((breaker.enter(3, first), breaker.enter(4, second)), (Ok(()), Ok(())));
    let late = second + PROBE / 2;
    breaker.end(Fails, at(3, first), late);
    assert_eq!(breaker.standing(late).alone, 1);
    breaker.end(Fails, at(4, second), late);
    assert_eq!(breaker.standing(late).word, "open");
}

#[tokio::test]
async fn a_caller_with_half_of_its_calls_failing_is_blocked_while_others_succeed() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    for _ in 0..FEWEST {
        breaker.end(Works, at(2, now), now);
        breaker.end(Fails, at(1, now), now);
    }
    // A single failure of another caller affects no other callers.
    breaker.end(Fails, at(2, now), now);
    assert_eq!((breaker.enter(1, now), breaker.enter(2, now)), (Err(REST), Ok(())));
}
