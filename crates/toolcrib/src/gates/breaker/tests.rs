//! Who is left out, for how long, and who finds out.

use Verdict::{Fails, Nothing, Works};

use super::*;

/// A call that is let through and ends at once.
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
async fn failures_in_a_row_break_it_and_what_says_nothing_does_not_count() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    told(&mut breaker, &[Fails, Fails, Fails, Fails, Works, Fails, Fails, Fails, Fails], now);
    told(&mut breaker, &[Nothing; 50], now);
    assert_eq!(breaker.enter(1, now), Ok(()));
    told(&mut breaker, &[Fails], now);
    assert_eq!(breaker.enter(1, now), Err(REST));
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
    assert_eq!(breaker.enter(1, later), Ok(()));
    told(&mut breaker, &[Fails], later);
    assert_eq!(breaker.enter(1, later), Err(REST));
    let later = later + REST;
    assert_eq!(breaker.enter(1, later), Ok(()));
    // One that hangs does not stand in the way for ever.
    assert_eq!(breaker.enter(1, later + PROBE), Ok(()));
    told(&mut breaker, &[Works], later + PROBE);
    assert!(breaker.alone.is_empty());
    told(&mut breaker, &[Fails; 4], later + PROBE);
    assert_eq!(breaker.enter(1, later + PROBE), Ok(()));
}

#[tokio::test]
async fn who_waits_only_briefly_leaves_it_to_others_to_find_out() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    broken(&mut breaker, now);
    let mut later = now + REST;
    assert_eq!(breaker.enter_briefly(1, later), Ok(()));
    let first = at(1, later);
    later += PROBE / 10;
    breaker.end(Nothing, first, later);
    // Another that waits as briefly would find out as little.
    assert_eq!(breaker.enter_briefly(2, later), Err(PROBE - PROBE / 10));
    assert_eq!(breaker.enter(2, later), Ok(()));
    breaker.end(Nothing, at(2, later), later);
    // Where there are no others, they find out all the same.
    later += PROBE;
    assert_eq!(breaker.enter_briefly(2, later), Ok(()));
    breaker.end(Works, at(2, later), later);
    assert_eq!((breaker.standing(later).word, breaker.enter_briefly(1, later)), ("closed", Ok(())));
}

#[tokio::test]
async fn a_failure_rate_breaks_it_only_if_it_is_not_one_caller_alone() {
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
async fn what_failed_long_ago_is_forgotten() {
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
async fn who_alone_sees_failures_is_alone_left_out() {
    let mut now = Instant::now();
    let mut breaker = Breaker::new(now);
    for _ in 0..3 {
        assert_eq!(breaker.enter(1, now), Ok(()));
        told(&mut breaker, &[Fails; FAILURES as usize], now);
        assert_eq!(breaker.enter(1, now), Err(REST));
        assert_eq!(breaker.enter(2, now), Ok(()));
        breaker.end(Works, at(2, now), now);
        assert_eq!((breaker.enter(1, now), breaker.enter(2, now)), (Err(REST), Ok(())));
        // Whoever finds out for itself alone stands in nobody's way.
        now += REST;
        assert_eq!((breaker.enter(1, now), breaker.enter(2, now)), (Ok(()), Ok(())));
        breaker.end(Fails, at(1, now), now);
        assert_eq!((breaker.enter(1, now), breaker.enter(2, now)), (Err(REST), Ok(())));
        now += REST;
    }
    // What fails for somebody else too fails for all.
    breaker.end(Fails, at(2, now), now);
    told(&mut breaker, &[Fails; FAILURES as usize], now);
    assert_eq!(breaker.enter(3, now), Ok(()), "one failure may be bad luck");
    for _ in 0..2 {
        breaker.end(Fails, at(2, now), now);
    }
    assert_eq!(breaker.enter(3, now), Err(REST));
}

#[tokio::test]
async fn who_fails_to_find_out_keeps_nobody_else_out() {
    let mut now = Instant::now();
    let mut breaker = Breaker::new(now);
    broken(&mut breaker, now);
    for _ in 0..10 {
        now += REST;
        // It comes first each time, and with what makes the source fail.
        assert_eq!(breaker.enter(1, now), Ok(()));
        breaker.end(Fails, at(1, now), now);
        assert_eq!((breaker.enter(1, now), breaker.standing(now).alone), (Err(REST), 1));
    }
    // Somebody else comes at last.
    assert_eq!(breaker.enter(3, now), Ok(()));
    breaker.end(Works, at(3, now), now);
    assert_eq!((breaker.enter(4, now), breaker.enter(1, now)), (Ok(()), Err(REST)));
}

#[tokio::test]
async fn what_two_find_broken_is_left_alone_by_all() {
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
async fn who_found_out_nothing_leaves_the_next_turn_to_others() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    broken(&mut breaker, now);
    let later = now + REST;
    assert_eq!(breaker.enter(1, later), Ok(()));
    // Others are not let in for that, whatever they say of earlier calls.
    breaker.end(Nothing, at(2, later), later);
    assert_eq!(breaker.enter(2, later), Err(PROBE));
    breaker.end(Nothing, at(1, later), later);
    assert_eq!((breaker.enter(1, later), breaker.enter(2, later)), (Err(PROBE), Ok(())));
    // One that hangs is no longer in the way than one that says nothing.
    let later = later + PROBE;
    assert_eq!((breaker.enter(2, later), breaker.enter(1, later)), (Err(PROBE), Ok(())));
}

#[tokio::test]
async fn failures_of_yesterday_are_no_part_of_a_row() {
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
async fn it_says_for_whom_it_is_open_and_for_how_long() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    let standing = |breaker: &Breaker, now| {
        let Standing { word, alone, left } = breaker.standing(now);
        (word, alone, left.map(|left| left.as_secs()))
    };
    assert_eq!(standing(&breaker, now), ("closed", 0, None));
    told(&mut breaker, &[Fails; 5], now);
    // All who called are left out, as far as is known.
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
async fn of_those_who_are_left_out_only_so_many_are_remembered() {
    let mut now = Instant::now();
    let mut breaker = Breaker::new(now);
    for whose in 0..2_000 {
        // More often than not it works.
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
async fn what_was_asked_before_says_nothing_about_how_it_is_now() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    let before = [at(7, now), at(8, now)];
    broken(&mut breaker, now);
    let later = now + REST;
    assert_eq!(breaker.enter(3, later), Ok(()));
    // They waited all the time, and one of them is of whoever finds out.
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
async fn an_answer_to_whoever_is_not_left_out_says_that_it_is_closed() {
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
async fn one_that_finds_out_late_counts_all_the_same() {
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
async fn who_fails_at_half_of_its_calls_is_left_out_although_others_are_well() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    for _ in 0..FEWEST {
        breaker.end(Works, at(2, now), now);
        breaker.end(Fails, at(1, now), now);
    }
    // One failure of somebody else makes it nobody else's trouble.
    breaker.end(Fails, at(2, now), now);
    assert_eq!((breaker.enter(1, now), breaker.enter(2, now)), (Err(REST), Ok(())));
}
