//! Long answers of one upstream are read a few at a time, and large ones one after another: many at once would take more
//! memory than one upstream may. Whoever has to wait for that waits for the same upstream. What is large is read slowly,
//! too: it takes up the machine otherwise, and most likely it is of no use.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use crate::aside::LONG;

/// More than this is large. Up to here it is read as fast as it comes, then with a rest after each piece.
pub(crate) const LARGE: usize = 1024 * 1024;
const REST: Duration = Duration::from_millis(1);

/// The places for long answers of one upstream. A copy is the same room.
#[derive(Clone)]
pub struct Room(Arc<Places>);

struct Places {
    long: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// To be read aside: of one upstream, no more than one stands before those of all others.
    turn: Arc<Semaphore>,
}

impl Room {
    /// For so many that are long, of which one may be large.
    pub fn of(long: usize) -> Self {
        let places = |number| Arc::new(Semaphore::new(number));
        Self(Arc::new(Places { long: places(long), large: places(1), turn: places(1) }))
    }
}

/// An answer that may turn out to be large. It has its places until it is dropped: whoever holds what was made of the
/// answer holds this too.
pub struct Large {
    room: Option<Room>,
    long: Option<OwnedSemaphorePermit>,
    large: Option<OwnedSemaphorePermit>,
    next_rest: usize,
}

impl Large {
    /// Without a room, nobody waits for anything.
    pub(crate) fn not_yet(room: Option<&Room>) -> Self {
        Self { room: room.cloned(), long: None, large: None, next_rest: LARGE }
    }

    /// So much of it is held now.
    pub(crate) async fn holds(&mut self, bytes: usize) {
        if bytes <= LONG {
            (self.long, self.large, self.next_rest) = (None, None, LARGE);
            return;
        }
        let Some(Room(places)) = &self.room else { return };
        if self.long.is_none() {
            self.long = place(&places.long).await;
        }
        if LARGE < bytes && self.large.is_none() {
            self.large = place(&places.large).await;
        }
        if self.next_rest <= bytes {
            self.next_rest = bytes + LONG;
            sleep(REST).await;
        }
    }

    /// Its turn to be read aside.
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

    /// Answers of these lengths, one after the other, and whether each may be read on.
    async fn read_on<const N: usize>(room: &Room, lengths: [usize; N]) -> [bool; N] {
        let mut answers = lengths.map(|length| (Large::not_yet(Some(room)), length, false));
        for (answer, length, goes_on) in &mut answers {
            *goes_on = timeout(10 * REST, answer.holds(*length)).await.is_ok();
        }
        answers.map(|(_, _, goes_on)| goes_on)
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_long_ones_are_read_at_once_and_one_that_is_large() {
        let room = Room::of(3);
        let lengths = [LONG, LONG + 1, LARGE, LARGE, LONG + 1, LONG];
        assert_eq!(read_on(&room, lengths).await, [true, true, true, true, false, true]);
        let lengths = [LARGE + 1, LARGE + 1, LARGE];
        assert_eq!(read_on(&room, lengths).await, [true, false, true]);
        assert_eq!(read_on(&room, lengths).await, [true, false, true], "nothing is left taken");
    }

    #[tokio::test(start_paused = true)]
    async fn another_upstream_has_a_room_of_its_own_and_who_has_none_waits_for_nobody() {
        let (one, other) = (Room::of(1), Room::of(1));
        let mut large = Large::not_yet(Some(&one));
        large.holds(2 * LARGE).await;
        assert_eq!(read_on(&one, [LONG + 1]).await, [false]);
        assert_eq!(read_on(&other, [2 * LARGE]).await, [true]);
        Large::not_yet(None).holds(2 * LARGE).await;
        large.holds(0).await;
        assert_eq!(read_on(&one, [2 * LARGE]).await, [true], "what follows is another answer");
    }
}
