//! Limits for long response bodies, per upstream: a few long ones and one large one at a time, at a bounded rate.
//!
//! Reading many at once would take more memory than one upstream may use. A response that has to wait therefore waits
//! only for others of the same upstream. The rate limit exists because large bodies occupy the machine, and most of
//! them are of no use to the caller.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::aside::LONG;

/// Bodies with more bytes than this are large.
pub(crate) const LARGE: usize = 1024 * 1024;
/// Large bodies are read at 8 MiB per second, after a burst of `READ_BURST_BYTES` at full speed.
const SECONDS_OF_BYTE: f64 = 1.0 / (8 * 1024 * 1024) as f64;
const AT_ONCE: usize = 2 * LARGE;

/// The limits on long response bodies of one upstream. A clone shares the same permits.
#[derive(Clone)]
pub struct Room(Arc<Places>);

struct Places {
    long: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// One body at a time is parsed on the low-priority pool, so that one upstream cannot fill the pool's queue.
    turn: Arc<Semaphore>,
    /// The time at which everything read so far would have been read at the limited rate.
    paid: Mutex<Instant>,
}

impl Room {
    /// Allows `long` long bodies at a time, of which one may be large.
    pub fn of(long: usize) -> Self {
        let places = |number| Arc::new(Semaphore::new(number));
        let paid = Mutex::new(Instant::now());
        Self(Arc::new(Places { long: places(long), large: places(1), turn: places(1), paid }))
    }
}

impl Places {
    /// Accounts for `bytes` more and returns the earliest time at which more may be read.
    fn pay(&self, bytes: usize) -> Instant {
        let time = |bytes: usize| Duration::from_secs_f64(bytes as f64 * SECONDS_OF_BYTE);
        let earliest = Instant::now().checked_sub(time(AT_ONCE)).unwrap_or_else(Instant::now);
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        *paid = (*paid).max(earliest) + time(bytes);
        *paid
    }

    /// Whether more was read than the rate allows, so that the next reader has to wait.
    fn is_ahead(&self) -> bool {
        Instant::now() < *self.paid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permits of one response body, which may turn out to be large. They are held until this is dropped: keep it
/// together with any value made from the body.
pub struct Large {
    room: Option<Room>,
    /// The slots of one caller, and the one that this body occupies.
    share: Option<Arc<Semaphore>>,
    own: Option<OwnedSemaphorePermit>,
    long: Option<OwnedSemaphorePermit>,
    large: Option<OwnedSemaphorePermit>,
    /// How many bytes of the body the rate limit has accounted for.
    paid: usize,
    has_waited: bool,
}

impl Large {
    /// A lease without permits. Without a limiter it never waits.
    pub(crate) fn not_yet(room: Option<&Room>, share: Option<&Arc<Semaphore>>) -> Self {
        let (room, share) = (room.cloned(), share.cloned());
        let (own, long, large) = (None, None, None);
        Self { room, share, own, long, large, paid: LARGE, has_waited: false }
    }

    /// Acquires the permits that a body of `bytes` needs, and waits for the rate limit.
    pub(crate) async fn holds(&mut self, bytes: usize) {
        if bytes <= LONG {
            (self.own, self.long, self.large, self.paid) = (None, None, None, LARGE);
            return;
        }
        let Some(Room(places)) = self.room.clone() else { return };
        if let Some(share) = self.share.as_ref().filter(|_| self.own.is_none()) {
            self.has_waited |= share.available_permits() == 0;
            self.own = place(share).await;
        }
        if self.long.is_none() {
            self.has_waited |= places.long.available_permits() == 0;
            self.long = place(&places.long).await;
        }
        if bytes <= LARGE {
            return;
        }
        if self.large.is_none() {
            self.has_waited |= places.large.available_permits() == 0 || places.is_ahead();
            self.large = place(&places.large).await;
        }
        let until = places.pay(bytes.saturating_sub(self.paid));
        self.paid = bytes;
        if Instant::now() < until {
            sleep_until(until).await;
        }
    }

    /// Whether another response of the same upstream or caller has delayed this one.
    pub(crate) fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Waits for the upstream's turn to parse a body on the low-priority pool.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let Room(places) = self.room.as_ref()?;
        place(&places.turn).await
    }
}

async fn place(of: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(of).acquire_owned().await.ok()
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    /// Grows one lease per length, one after the other, and returns whether each could grow without waiting.
    async fn read_on<const N: usize>(room: &Room, lengths: [usize; N]) -> [bool; N] {
        let mut answers = lengths.map(|length| (Large::not_yet(Some(room), None), length, false));
        for (answer, length, goes_on) in &mut answers {
            *goes_on = timeout(Duration::from_secs(1), answer.holds(*length)).await.is_ok();
        }
        answers.map(|(_, _, goes_on)| goes_on)
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_long_bodies_and_one_large_body_are_read_at_once() {
        let room = Room::of(3);
        let lengths = [LONG, LONG + 1, LARGE, LARGE, LONG + 1, LONG];
        assert_eq!(read_on(&room, lengths).await, [true, true, true, true, false, true]);
        let lengths = [LARGE + 1, LARGE + 1, LARGE];
        assert_eq!(read_on(&room, lengths).await, [true, false, true]);
        assert_eq!(read_on(&room, lengths).await, [true, false, true], "nothing is left taken");
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_leaves_slots_for_the_others() {
        let (room, share) = (Room::of(3), Arc::new(Semaphore::new(2)));
        let of = |share| Large::not_yet(Some(&room), share);
        let mut own = [of(Some(&share)), of(Some(&share)), of(Some(&share))];
        for (answer, goes_on) in own.iter_mut().zip([true, true, false]) {
            let held = timeout(Duration::from_secs(1), answer.holds(LONG + 1)).await;
            assert_eq!((held.is_ok(), answer.has_waited()), (goes_on, !goes_on));
        }
        let mut other = of(None);
        assert!(timeout(Duration::from_secs(1), other.holds(LONG + 1)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn upstreams_do_not_share_a_limiter_and_a_lease_without_one_never_waits() {
        let (one, other) = (Room::of(1), Room::of(1));
        let mut large = Large::not_yet(Some(&one), None);
        large.holds(2 * LARGE).await;
        assert_eq!(read_on(&one, [LONG + 1]).await, [false]);
        assert_eq!(read_on(&other, [2 * LARGE]).await, [true]);
        Large::not_yet(None, None).holds(2 * LARGE).await;
        large.holds(0).await;
        assert_eq!(read_on(&one, [2 * LARGE]).await, [true], "what follows is another answer");
    }

    /// The milliseconds it takes to read this many bodies chunk by chunk.
    async fn read(room: &Room, answers: usize, length: usize, piece: usize) -> u128 {
        let start = Instant::now();
        for _ in 0..answers {
            let mut answer = Large::not_yet(Some(room), None);
            for held in (piece..=length).step_by(piece) {
                answer.holds(held).await;
            }
        }
        start.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_are_read_at_a_limited_rate_and_shorter_or_rare_ones_at_full_speed() {
        let (one, other) = (Room::of(8), Room::of(8));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(read(&one, 10_000, LARGE, LONG).await, 0);
        assert_eq!(read(&one, 1, LARGE + AT_ONCE, LONG).await, 0);
        let millis = read(&one, 8, 2 * LARGE, LONG).await;
        assert!((990..=1_010).contains(&millis), "{millis}");
        assert_eq!(read(&one, 8, LARGE, LONG).await, 0, "of the same upstream, too");
        assert_eq!(read(&other, 1, AT_ONCE, LONG).await, 0, "others have a pace of their own");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(read(&one, 1, LARGE + AT_ONCE, LONG).await, 0);
    }
}
