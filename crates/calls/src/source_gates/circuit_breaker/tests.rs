//! Which callers the breaker blocks, for how long, and which call is the probe.

use SourceVerdict::{Fails, Inconclusive, Works};

use super::*;

/// A call that is admitted and ends at once.
fn at(whose: u64, now: Instant) -> BreakerCall {
    BreakerCall { caller: whose, admitted_at: now }
}

fn told(breaker: &mut CircuitBreaker, verdicts: &[SourceVerdict], now: Instant) {
    for verdict in verdicts {
        breaker.record_verdict(*verdict, at(1, now), now);
    }
}

/// Two callers see failures.
fn broken(breaker: &mut CircuitBreaker, now: Instant) {
    for whose in [1, 2, 1, 2, 1] {
        breaker.record_verdict(Fails, at(whose, now), now);
    }
}

#[tokio::test]
async fn consecutive_failures_open_it_and_inconclusive_calls_do_not_count() {
    let now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    told(&mut breaker, &[Fails, Fails, Fails, Fails, Works, Fails, Fails, Fails, Fails], now);
    told(&mut breaker, &[Inconclusive; 50], now);
    assert_eq!(breaker.admit(1, now), Ok(()));
    told(&mut breaker, &[Fails], now);
    assert_eq!(breaker.admit(1, now), Err(COOLDOWN));
}

#[tokio::test]
async fn after_the_cooldown_one_call_probes() {
    let now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    told(&mut breaker, &[Fails; 5], now);
    let later = now + COOLDOWN;
    assert_eq!(breaker.admit(1, later), Ok(()));
    assert_eq!(breaker.admit(1, later), Err(PROBE_TIMEOUT));
    // The probe was inconclusive: the next call probes.
    told(&mut breaker, &[Inconclusive], later);
    assert_eq!(breaker.admit(1, later), Ok(()));
    told(&mut breaker, &[Fails], later);
    assert_eq!(breaker.admit(1, later), Err(COOLDOWN));
    let later = later + COOLDOWN;
    assert_eq!(breaker.admit(1, later), Ok(()));
    // A probe that hangs does not block others indefinitely.
    assert_eq!(breaker.admit(1, later + PROBE_TIMEOUT), Ok(()));
    told(&mut breaker, &[Works], later + PROBE_TIMEOUT);
    assert!(breaker.by_caller.is_empty());
    told(&mut breaker, &[Fails; 4], later + PROBE_TIMEOUT);
    assert_eq!(breaker.admit(1, later + PROBE_TIMEOUT), Ok(()));
}

#[tokio::test]
async fn callers_with_a_short_deadline_leave_probes_to_others() {
    let now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    broken(&mut breaker, now);
    let mut later = now + COOLDOWN;
    assert_eq!(breaker.admit_with_short_deadline(1, later), Ok(()));
    let first = at(1, later);
    later += PROBE_TIMEOUT / 10;
    breaker.record_verdict(Inconclusive, first, later);
    // Another caller with a short deadline would learn as little.
    assert_eq!(
        breaker.admit_with_short_deadline(2, later),
        Err(PROBE_TIMEOUT - PROBE_TIMEOUT / 10)
    );
    assert_eq!(breaker.admit(2, later), Ok(()));
    breaker.record_verdict(Inconclusive, at(2, later), later);
    // If there are no other callers, they probe after all.
    later += PROBE_TIMEOUT;
    assert_eq!(breaker.admit_with_short_deadline(2, later), Ok(()));
    breaker.record_verdict(Works, at(2, later), later);
    assert_eq!(
        (breaker.status(later).label, breaker.admit_with_short_deadline(1, later)),
        ("closed", Ok(()))
    );
}

#[tokio::test]
async fn a_failure_rate_opens_it_only_if_more_than_one_caller_fails() {
    for (other, is_broken) in [(1, false), (2, true)] {
        let now = Instant::now();
        let mut breaker = CircuitBreaker::new(now);
        for round in 0..10 {
            breaker.record_verdict(Fails, at(if round % 2 == 0 { 1 } else { other }, now), now);
            breaker.record_verdict(Works, at(3, now), now);
        }
        breaker.record_verdict(Fails, at(4, now), now);
        assert_eq!(breaker.admit(3, now).is_err(), is_broken, "{other}");
        assert_eq!(breaker.status(now).blocked_callers, 0);
    }
}

#[tokio::test]
async fn old_failures_are_forgotten() {
    let mut now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    for round in 0..100 {
        now += RATE_WINDOW / 10;
        breaker.record_verdict(Fails, at(round, now), now);
        breaker.record_verdict(Works, at(round, now), now);
        breaker.record_verdict(Works, at(round, now), now);
    }
    assert_eq!(breaker.admit(1, now), Ok(()));
}

#[tokio::test]
async fn a_caller_that_alone_sees_failures_is_blocked_alone() {
    let mut now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    for _ in 0..3 {
        assert_eq!(breaker.admit(1, now), Ok(()));
        told(&mut breaker, &[Fails; FAILURE_THRESHOLD as usize], now);
        assert_eq!(breaker.admit(1, now), Err(COOLDOWN));
        assert_eq!(breaker.admit(2, now), Ok(()));
        breaker.record_verdict(Works, at(2, now), now);
        assert_eq!((breaker.admit(1, now), breaker.admit(2, now)), (Err(COOLDOWN), Ok(())));
        // A probe for a single blocked caller does not delay others.
        now += COOLDOWN;
        assert_eq!((breaker.admit(1, now), breaker.admit(2, now)), (Ok(()), Ok(())));
        breaker.record_verdict(Fails, at(1, now), now);
        assert_eq!((breaker.admit(1, now), breaker.admit(2, now)), (Err(COOLDOWN), Ok(())));
        now += COOLDOWN;
    }
    // If another caller fails too, the source fails for all.
    breaker.record_verdict(Fails, at(2, now), now);
    told(&mut breaker, &[Fails; FAILURE_THRESHOLD as usize], now);
    assert_eq!(breaker.admit(3, now), Ok(()), "one failure may be bad luck");
    for _ in 0..2 {
        breaker.record_verdict(Fails, at(2, now), now);
    }
    assert_eq!(breaker.admit(3, now), Err(COOLDOWN));
}

#[tokio::test]
async fn a_caller_whose_probes_fail_does_not_block_others() {
    let mut now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    broken(&mut breaker, now);
    for _ in 0..10 {
        now += COOLDOWN;
        // Its request comes first each time, and makes the source fail.
        assert_eq!(breaker.admit(1, now), Ok(()));
        breaker.record_verdict(Fails, at(1, now), now);
        assert_eq!(
            (breaker.admit(1, now), breaker.status(now).blocked_callers),
            (Err(COOLDOWN), 1)
        );
    }
    // At last another caller comes.
    assert_eq!(breaker.admit(3, now), Ok(()));
    breaker.record_verdict(Works, at(3, now), now);
    assert_eq!((breaker.admit(4, now), breaker.admit(1, now)), (Ok(()), Err(COOLDOWN)));
}

#[tokio::test]
async fn if_probes_of_two_callers_fail_it_opens_for_all() {
    let now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    broken(&mut breaker, now);
    let later = now + COOLDOWN;
    for whose in [3, 4] {
        assert_eq!(breaker.admit(whose, later), Ok(()));
        breaker.record_verdict(Fails, at(whose, later), later);
    }
    assert_eq!(breaker.admit(5, later), Err(COOLDOWN));
    assert_eq!(breaker.status(later).label, "open");
}

#[tokio::test]
async fn a_caller_with_an_inconclusive_probe_leaves_the_next_one_to_others() {
    let now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    broken(&mut breaker, now);
    let later = now + COOLDOWN;
    assert_eq!(breaker.admit(1, later), Ok(()));
    // Verdicts of earlier calls do not let other callers probe.
    breaker.record_verdict(Inconclusive, at(2, later), later);
    assert_eq!(breaker.admit(2, later), Err(PROBE_TIMEOUT));
    breaker.record_verdict(Inconclusive, at(1, later), later);
    assert_eq!((breaker.admit(1, later), breaker.admit(2, later)), (Err(PROBE_TIMEOUT), Ok(())));
    // A probe that hangs blocks others no longer than an inconclusive one.
    let later = later + PROBE_TIMEOUT;
    assert_eq!((breaker.admit(2, later), breaker.admit(1, later)), (Err(PROBE_TIMEOUT), Ok(())));
}

#[tokio::test]
async fn failures_from_long_ago_are_not_consecutive() {
    let mut now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    told(&mut breaker, &[Fails; 4], now);
    now += FAILURE_MEMORY;
    told(&mut breaker, &[Fails; 4], now);
    assert_eq!(breaker.admit(1, now), Ok(()));
    told(&mut breaker, &[Fails], now);
    assert_eq!(breaker.admit(1, now), Err(COOLDOWN));
}

#[tokio::test]
async fn the_status_shows_for_how_many_callers_it_is_open_and_for_how_long() {
    let now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    let standing = |breaker: &CircuitBreaker, now| {
        let BreakerStatus { label, blocked_callers, blocked_for } = breaker.status(now);
        (label, blocked_callers, blocked_for.map(|left| left.as_secs()))
    };
    assert_eq!(standing(&breaker, now), ("closed", 0, None));
    told(&mut breaker, &[Fails; 5], now);
    // All known callers are blocked.
    assert_eq!(standing(&breaker, now), ("open", 1, Some(30)));
    assert_eq!(standing(&breaker, now + COOLDOWN), ("half_open", 0, None));
    let later = now + COOLDOWN / 2;
    breaker.record_verdict(Fails, at(2, later), later);
    assert_eq!(standing(&breaker, later), ("closed", 1, Some(15)));
    breaker.record_verdict(Fails, at(2, later), later);
    assert_eq!(standing(&breaker, later), ("open", 1, Some(30)));
    assert_eq!(standing(&breaker, later + COOLDOWN), ("half_open", 0, None));
}

#[tokio::test]
async fn the_number_of_remembered_callers_is_bounded() {
    let mut now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    for whose in 0..2_000 {
        // It works more often than it fails.
        for _ in 0..=FAILURE_THRESHOLD {
            breaker.record_verdict(Works, at(5_000, now), now);
        }
        for _ in 0..FAILURE_THRESHOLD {
            breaker.record_verdict(Fails, at(whose, now), now);
        }
    }
    assert_eq!(breaker.by_caller.len(), MAX_CALLERS);
    now += COOLDOWN + FAILURE_MEMORY;
    for _ in 0..FAILURE_THRESHOLD {
        breaker.record_verdict(Fails, at(5_000, now), now);
    }
    assert_eq!(breaker.by_caller.len(), 1);
}

#[tokio::test]
async fn calls_from_before_it_opened_do_not_count() {
    let now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    let before = [at(7, now), at(8, now)];
    broken(&mut breaker, now);
    let later = now + COOLDOWN;
    assert_eq!(breaker.admit(3, later), Ok(()));
    // They waited all the time, and one of them belongs to the caller of the probe.
    for call in [before[0], before[1], at(3, now)] {
        breaker.record_verdict(Fails, call, later);
        breaker.record_verdict(Inconclusive, call, later);
    }
    assert_eq!(breaker.status(later).blocked_callers, 0);
    assert_eq!(breaker.admit(4, later), Err(PROBE_TIMEOUT), "one is finding out");
    breaker.record_verdict(Works, before[0], later);
    assert_eq!(breaker.admit(4, later), Err(PROBE_TIMEOUT), "nor do they end it");
    breaker.record_verdict(Works, at(3, later), later);
    assert_eq!(breaker.admit(4, later), Ok(()));
}

#[tokio::test]
async fn an_answer_to_a_caller_that_is_not_blocked_makes_the_status_closed() {
    let now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    told(&mut breaker, &[Fails; 5], now);
    breaker.record_verdict(Works, at(2, now), now);
    let BreakerStatus { label, blocked_callers, .. } = breaker.status(now);
    assert_eq!((label, blocked_callers), ("closed", 1));
    assert_eq!(breaker.admit(1, now + COOLDOWN), Ok(()));
    breaker.record_verdict(Works, at(1, now + COOLDOWN), now + COOLDOWN);
    assert_eq!(breaker.status(now + COOLDOWN).blocked_callers, 0);
}

#[tokio::test]
async fn a_late_probe_still_counts() {
    let now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    broken(&mut breaker, now);
    let (first, second) = (now + COOLDOWN, now + COOLDOWN + PROBE_TIMEOUT);
    assert_eq!((breaker.admit(3, first), breaker.admit(4, second)), (Ok(()), Ok(())));
    let late = second + PROBE_TIMEOUT / 2;
    breaker.record_verdict(Fails, at(3, first), late);
    assert_eq!(breaker.status(late).blocked_callers, 1);
    breaker.record_verdict(Fails, at(4, second), late);
    assert_eq!(breaker.status(late).label, "open");
}

#[tokio::test]
async fn a_caller_with_half_of_its_calls_failing_is_blocked_while_others_succeed() {
    let now = Instant::now();
    let mut breaker = CircuitBreaker::new(now);
    for _ in 0..MIN_CALLS {
        breaker.record_verdict(Works, at(2, now), now);
        breaker.record_verdict(Fails, at(1, now), now);
    }
    // A single failure of another caller affects no other callers.
    breaker.record_verdict(Fails, at(2, now), now);
    assert_eq!((breaker.admit(1, now), breaker.admit(2, now)), (Err(COOLDOWN), Ok(())));
}
