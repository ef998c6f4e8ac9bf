//! Rate and concurrency limits of one agent, one tool or one source: calls per minute, and calls at the same time.
//!
//! The rate is stored as the time at which all admitted calls would be earned (generic cell rate algorithm): one
//! number, no timer, and exact.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use model::CallLimit;
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct CallQuota(Mutex<QuotaState>);

#[derive(Default)]
struct QuotaState {
    earned_at: Option<Instant>,
    running: u32,
}

/// The charge of a running call. Until it is committed, dropping it refunds the rate: a call that was rejected
/// elsewhere costs nothing.
pub struct QuotaCharge {
    quota: Arc<CallQuota>,
    /// The cost, and when it is earned again; until then it can be refunded. `None` once it is committed.
    cost: Option<(Duration, Instant)>,
}

/// Why a call is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotaExceeded {
    /// Too many calls in a minute; the next one may start after this time.
    Rate(Duration),
    /// Too many calls at the same time.
    Concurrent,
}

impl CallQuota {
    fn lock_state(&self) -> MutexGuard<'_, QuotaState> {
        self.0.lock().expect("no one panics while counting")
    }

    /// Charges a call, if it may start now.
    pub(super) fn charge_call(
        self: &Arc<Self>,
        limit: &CallLimit,
        now: Instant,
    ) -> Result<QuotaCharge, QuotaExceeded> {
        let mut state = self.lock_state();
        if limit.concurrent.is_some_and(|most| most.get() <= state.running) {
            return Err(QuotaExceeded::Concurrent);
        }
        let mut cost = None;
        if let Some(per_minute) = limit.per_minute {
            let each = MINUTE / per_minute.get();
            // Without an explicit burst, all calls of a minute may come at once.
            let burst = limit.burst.unwrap_or(per_minute).get();
            let earned_at = state.earned_at.map_or(now, |earned| earned.max(now)) + each;
            let ahead = earned_at - now;
            let allowed = each * burst;
            if allowed < ahead {
                return Err(QuotaExceeded::Rate(ahead - allowed));
            }
            state.earned_at = Some(earned_at);
            cost = Some((each, earned_at));
        }
        state.running += 1;
        Ok(QuotaCharge { quota: Arc::clone(self), cost })
    }
}

impl QuotaCharge {
    /// Commits the charge: the call is made, so its cost is not refunded.
    pub(super) fn commit(&mut self) {
        self.cost = None;
    }
}

impl Drop for QuotaCharge {
    fn drop(&mut self) {
        let mut state = self.quota.lock_state();
        state.running -= 1;
        if let (Some((each, until)), Some(earned_at)) = (self.cost, state.earned_at)
            && Instant::now() < until
        {
            state.earned_at = earned_at.checked_sub(each);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;

    fn limit(per_minute: u32, burst: u32, concurrent: u32) -> CallLimit {
        let [per_minute, burst, concurrent] = [per_minute, burst, concurrent].map(NonZeroU32::new);
        CallLimit { per_minute, burst, concurrent }
    }

    #[tokio::test]
    async fn a_burst_is_admitted_and_then_calls_at_the_rate() {
        let (quota, start) = (Arc::<CallQuota>::default(), Instant::now());
        let limit = limit(60, 3, 0);
        let mut counted = Vec::new();
        for _ in 0..3 {
            counted.push(quota.charge_call(&limit, start).unwrap());
        }
        let second = Duration::from_secs(1);
        assert_eq!(quota.charge_call(&limit, start).err(), Some(QuotaExceeded::Rate(second)));
        counted.iter_mut().for_each(QuotaCharge::commit);
        drop(counted);
        assert!(quota.charge_call(&limit, start + second).map(|mut one| one.commit()).is_ok());
        assert!(quota.charge_call(&limit, start + second).is_err());
    }

    #[tokio::test]
    async fn without_a_burst_all_calls_of_a_minute_are_admitted_at_once() {
        let (quota, start) = (Arc::<CallQuota>::default(), Instant::now());
        let counted: Vec<_> = (0..7).map(|_| quota.charge_call(&limit(6, 0, 0), start)).collect();
        assert_eq!(counted.iter().filter(|counted| counted.is_ok()).count(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_rejected_elsewhere_is_refunded_unless_it_was_earned_again() {
        let quota = Arc::<CallQuota>::default();
        let limit = limit(60, 1, 0);
        let enter = || quota.charge_call(&limit, Instant::now());
        drop(enter().unwrap());
        let late = enter().unwrap();
        assert!(enter().is_err());
        tokio::time::sleep(Duration::from_secs(5)).await;
        enter().unwrap().commit();
        drop(late);
        assert!(enter().is_err(), "it was earned again long ago");
    }

    #[tokio::test]
    async fn concurrency_is_limited_and_a_rejected_call_costs_nothing() {
        let (quota, now) = (Arc::<CallQuota>::default(), Instant::now());
        let limit = limit(0, 0, 1);
        let first = quota.charge_call(&limit, now).unwrap();
        assert_eq!(quota.charge_call(&limit, now).err(), Some(QuotaExceeded::Concurrent));
        drop(first);
        assert!(quota.charge_call(&limit, now).is_ok());
        assert!(quota.charge_call(&CallLimit::default(), now).is_ok());
    }

    proptest! {
        #[test]
        fn admitted_calls_never_exceed_the_rate_and_the_burst(
            per_minute in 1_u32..10_000,
            burst in 1_u32..100,
            steps in prop::collection::vec(0_u64..2_000, 1..200),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let _within = runtime.as_ref().unwrap().enter();
            let (quota, start) = (Arc::<CallQuota>::default(), Instant::now());
            let limit = limit(per_minute, burst, 0);
            let (mut now, mut let_through) = (start, 0_u32);
            for step in steps {
                now += Duration::from_millis(step);
                let entered = quota.charge_call(&limit, now).map(|mut one| one.commit());
                let_through += u32::from(entered.is_ok());
                let earned = (now - start).as_secs_f64() / 60.0 * f64::from(per_minute);
                prop_assert!(f64::from(let_through) <= earned + f64::from(burst) + 1.0);
            }
        }
    }
}
