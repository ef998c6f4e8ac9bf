//! Who is left out, for how long, and who finds out.

use Verdict::{Fails, Nothing, Works};

use super::*;

fn told(breaker: &mut Breaker, verdicts: &[Verdict], now: Instant) {
    for verdict in verdicts {
        breaker.end(*verdict, 1, now);
    }
}

/// Two callers see failures.
fn broken(breaker: &mut Breaker, now: Instant) {
    for whose in [1, 2, 1, 2, 1] {
        breaker.end(Fails, whose, now);
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
    assert_eq!((breaker.standing(later).word, breaker.enter_briefly(1, later)), ("closed", Ok(())));
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

#[tokio::test]
async fn who_fails_to_find_out_keeps_nobody_else_out() {
    let mut now = Instant::now();
    let mut breaker = Breaker::new(now);
    broken(&mut breaker, now);
    for _ in 0..10 {
        now += REST;
        // It comes first each time, and with what makes the source fail.
        assert_eq!(breaker.enter(1, now), Ok(()));
        breaker.end(Fails, 1, now);
        assert_eq!((breaker.enter(1, now), breaker.standing(now).alone), (Err(REST), 1));
    }
    // Somebody else comes at last.
    assert_eq!(breaker.enter(3, now), Ok(()));
    breaker.end(Works, 3, now);
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
        breaker.end(Fails, whose, later);
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
    breaker.end(Nothing, 2, later);
    assert_eq!(breaker.enter(2, later), Err(PROBE));
    breaker.end(Nothing, 1, later);
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
    assert_eq!(standing(&breaker, now), ("closed", 1, Some(30)));
    assert_eq!(standing(&breaker, now + REST), ("closed", 0, None));
    let later = now + REST / 2;
    breaker.end(Fails, 2, later);
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
            breaker.end(Works, 5_000, now);
        }
        for _ in 0..FAILURES {
            breaker.end(Fails, whose, now);
        }
    }
    assert_eq!(breaker.alone.len(), ALONE);
    now += REST + ROW;
    for _ in 0..FAILURES {
        breaker.end(Fails, 5_000, now);
    }
    assert_eq!(breaker.alone.len(), 1);
}
