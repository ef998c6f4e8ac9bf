//! Limits for long response bodies, per upstream: a few long ones and one large one at a time, at a bounded rate.
//!
//! Reading many at once would take more memory than one upstream may use. A response that has to wait therefore waits
//! only for others of the same upstream. The rate limit exists because large bodies occupy the machine, and most of
//! them are of no use to the caller.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use limits::low_priority::MAX_INLINE_BYTES;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// Bodies with more bytes than this are large.
pub(crate) const LARGE_BODY_BYTES: usize = 1024 * 1024;
/// Large bodies are read at 8 MiB per second, after a burst of `READ_BURST_BYTES` at full speed.
const SECONDS_PER_BYTE: f64 = 1.0 / (8 * 1024 * 1024) as f64;
const READ_BURST_BYTES: usize = 2 * LARGE_BODY_BYTES;

/// The limits on long response bodies of one upstream. A clone shares the same permits.
#[derive(Clone)]
pub struct LargeBodyLimiter(Arc<LargeBodyPermits>);

struct LargeBodyPermits {
    long: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// One body at a time is parsed on the low-priority pool, so that one upstream cannot fill the pool's queue.
    parse_turn: Arc<Semaphore>,
    /// The time at which everything read so far would have been read at the limited rate.
    read_until: Mutex<Instant>,
}

impl LargeBodyLimiter {
    /// Allows `long` long bodies at a time, of which one may be large.
    pub fn with_slots(long: usize) -> Self {
        let places = |number| Arc::new(Semaphore::new(number));
        let paid = Mutex::new(Instant::now());
        Self(Arc::new(LargeBodyPermits {
            long: places(long),
            large: places(1),
            parse_turn: places(1),
            read_until: paid,
        }))
    }
}

impl LargeBodyPermits {
    /// Accounts for `bytes` more and returns the earliest time at which more may be read.
    fn reserve_read_time(&self, bytes: usize) -> Instant {
        let time = |bytes: usize| Duration::from_secs_f64(bytes as f64 * SECONDS_PER_BYTE);
        let earliest =
            Instant::now().checked_sub(time(READ_BURST_BYTES)).unwrap_or_else(Instant::now);
        let mut paid = self.read_until.lock().unwrap_or_else(PoisonError::into_inner);
        *paid = (*paid).max(earliest) + time(bytes);
        *paid
    }

    /// Whether more was read than the rate allows, so that the next reader has to wait.
    fn is_ahead_of_rate(&self) -> bool {
        Instant::now() < *self.read_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permits of one response body, which may turn out to be large. They are held until this is dropped: keep it
/// together with any value made from the body.
pub struct LargeBodyLease {
    limiter: Option<LargeBodyLimiter>,
    /// The slots of one caller, and the one that this body occupies.
    caller_slots: Option<Arc<Semaphore>>,
    caller_permit: Option<OwnedSemaphorePermit>,
    long_permit: Option<OwnedSemaphorePermit>,
    large_permit: Option<OwnedSemaphorePermit>,
    /// How many bytes of the body the rate limit has accounted for.
    accounted_bytes: usize,
    has_waited: bool,
}

impl LargeBodyLease {
    /// A lease without permits. Without a limiter it never waits.
    pub fn unacquired(room: Option<&LargeBodyLimiter>, share: Option<&Arc<Semaphore>>) -> Self {
        let (room, share) = (room.cloned(), share.cloned());
        let (own, long, large) = (None, None, None);
        Self {
            limiter: room,
            caller_slots: share,
            caller_permit: own,
            long_permit: long,
            large_permit: large,
            accounted_bytes: LARGE_BODY_BYTES,
            has_waited: false,
        }
    }

    /// Acquires the permits that a body of `bytes` needs, and waits for the rate limit.
    pub async fn grow_to(&mut self, bytes: usize) {
        if bytes <= MAX_INLINE_BYTES {
            (self.caller_permit, self.long_permit, self.large_permit, self.accounted_bytes) =
                (None, None, None, LARGE_BODY_BYTES);
            return;
        }
        let Some(LargeBodyLimiter(places)) = self.limiter.clone() else { return };
        if let Some(share) = self.caller_slots.as_ref().filter(|_| self.caller_permit.is_none()) {
            self.has_waited |= share.available_permits() == 0;
            self.caller_permit = acquire_slot(share).await;
        }
        if self.long_permit.is_none() {
            self.has_waited |= places.long.available_permits() == 0;
            self.long_permit = acquire_slot(&places.long).await;
        }
        if bytes <= LARGE_BODY_BYTES {
            return;
        }
        if self.large_permit.is_none() {
            self.has_waited |= places.large.available_permits() == 0 || places.is_ahead_of_rate();
            self.large_permit = acquire_slot(&places.large).await;
        }
        let until = places.reserve_read_time(bytes.saturating_sub(self.accounted_bytes));
        self.accounted_bytes = bytes;
        if Instant::now() < until {
            sleep_until(until).await;
        }
    }

    /// Whether another response of the same upstream or caller has delayed this one.
    pub fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Waits for the upstream's turn to parse a body on the low-priority pool.
    pub(crate) async fn acquire_parse_turn(&self) -> Option<OwnedSemaphorePermit> {
        let LargeBodyLimiter(places) = self.limiter.as_ref()?;
        acquire_slot(&places.parse_turn).await
    }
}

async fn acquire_slot(of: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(of).acquire_owned().await.ok()
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    /// Grows one lease per length, one after the other, and returns whether each could grow without waiting.
    async fn read_on<const N: usize>(room: &LargeBodyLimiter, lengths: [usize; N]) -> [bool; N] {
        let mut answers =
            lengths.map(|length| (LargeBodyLease::unacquired(Some(room), None), length, false));
        for (answer, length, goes_on) in &mut answers {
            *goes_on = timeout(Duration::from_secs(1), answer.grow_to(*length)).await.is_ok();
        }
        answers.map(|(_, _, goes_on)| goes_on)
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_long_bodies_and_one_large_body_are_read_at_once() {
        let room = LargeBodyLimiter::with_slots(3);
        let lengths = [
            MAX_INLINE_BYTES,
            MAX_INLINE_BYTES + 1,
            LARGE_BODY_BYTES,
            LARGE_BODY_BYTES,
            MAX_INLINE_BYTES + 1,
            MAX_INLINE_BYTES,
        ];
        assert_eq!(read_on(&room, lengths).await, [true, true, true, true, false, true]);
        let lengths = [LARGE_BODY_BYTES + 1, LARGE_BODY_BYTES + 1, LARGE_BODY_BYTES];
        assert_eq!(read_on(&room, lengths).await, [true, false, true]);
        assert_eq!(read_on(&room, lengths).await, [true, false, true], "nothing is left taken");
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_leaves_slots_for_the_others() {
        let (room, share) = (LargeBodyLimiter::with_slots(3), Arc::new(Semaphore::new(2)));
        let of = |share| LargeBodyLease::unacquired(Some(&room), share);
        let mut own = [of(Some(&share)), of(Some(&share)), of(Some(&share))];
        for (answer, goes_on) in own.iter_mut().zip([true, true, false]) {
            let held = timeout(Duration::from_secs(1), answer.grow_to(MAX_INLINE_BYTES + 1)).await;
            assert_eq!((held.is_ok(), answer.has_waited()), (goes_on, !goes_on));
        }
        let mut other = of(None);
        assert!(timeout(Duration::from_secs(1), other.grow_to(MAX_INLINE_BYTES + 1)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn upstreams_do_not_share_a_limiter_and_a_lease_without_one_never_waits() {
        let (one, other) = (LargeBodyLimiter::with_slots(1), LargeBodyLimiter::with_slots(1));
        let mut large = LargeBodyLease::unacquired(Some(&one), None);
        large.grow_to(2 * LARGE_BODY_BYTES).await;
        assert_eq!(read_on(&one, [MAX_INLINE_BYTES + 1]).await, [false]);
        assert_eq!(read_on(&other, [2 * LARGE_BODY_BYTES]).await, [true]);
        LargeBodyLease::unacquired(None, None).grow_to(2 * LARGE_BODY_BYTES).await;
        large.grow_to(0).await;
        assert_eq!(
            read_on(&one, [2 * LARGE_BODY_BYTES]).await,
            [true],
            "what follows is another answer"
        );
    }

    /// The milliseconds it takes to read this many bodies chunk by chunk.
    async fn read(room: &LargeBodyLimiter, answers: usize, length: usize, piece: usize) -> u128 {
        let start = Instant::now();
        for _ in 0..answers {
            let mut answer = LargeBodyLease::unacquired(Some(room), None);
            for held in (piece..=length).step_by(piece) {
                answer.grow_to(held).await;
            }
        }
        start.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_are_read_at_a_limited_rate_and_shorter_or_rare_ones_at_full_speed() {
        let (one, other) = (LargeBodyLimiter::with_slots(8), LargeBodyLimiter::with_slots(8));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(read(&one, 10_000, LARGE_BODY_BYTES, MAX_INLINE_BYTES).await, 0);
        assert_eq!(read(&one, 1, LARGE_BODY_BYTES + READ_BURST_BYTES, MAX_INLINE_BYTES).await, 0);
        let millis = read(&one, 8, 2 * LARGE_BODY_BYTES, MAX_INLINE_BYTES).await;
        assert!((990..=1_010).contains(&millis), "{millis}");
        assert_eq!(
            read(&one, 8, LARGE_BODY_BYTES, MAX_INLINE_BYTES).await,
            0,
            "of the same upstream, too"
        );
        assert_eq!(
            read(&other, 1, READ_BURST_BYTES, MAX_INLINE_BYTES).await,
            0,
            "others have a pace of their own"
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(read(&one, 1, LARGE_BODY_BYTES + READ_BURST_BYTES, MAX_INLINE_BYTES).await, 0);
    }
}
