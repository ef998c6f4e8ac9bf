//! A parking lot for state that waits until its caller returns: for a limited time, and to be taken once.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use limits::LruCache;
use tokio::task::AbortHandle;

/// The most parked entries, and how long each is parked.
const MAX_PARKED: u64 = 1_000;
const PARKING_TIME: Duration = Duration::from_secs(10 * 60);

/// State that waits until its caller returns.
pub(crate) struct ParkingLot<T> {
    entries: LruCache<Box<str>, Arc<ParkedEntry<T>>>,
    /// The most entries of one owner.
    max_per_owner: usize,
}

/// A parked entry, until it is taken.
struct ParkedEntry<T> {
    owner: Box<str>,
    content: Mutex<Option<(T, ExpiryTimer)>>,
}

/// Aborts the expiry task when the entry is taken.
struct ExpiryTimer(AbortHandle);

impl Drop for ExpiryTimer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> ParkedEntry<T> {
    fn lock(&self) -> MutexGuard<'_, Option<(T, ExpiryTimer)>> {
        self.content.lock().expect("no one panics while holding it")
    }
}

impl<T: Send + 'static> ParkingLot<T> {
    /// With a limit on the entries of one owner.
    pub(crate) fn new(of_one: usize) -> Self {
        Self {
            entries: LruCache::new(MAX_PARKED).with_time_to_live(PARKING_TIME),
            max_per_owner: of_one,
        }
    }

    /// Parks a value, which may hold a connection or a program. It is dropped when its time is over, when its owner
    /// parks too many others, or when the parking lot is full. Returns the values that were evicted.
    pub(crate) fn park(&self, id: Box<str>, whose: Box<str>, parked: T) -> Vec<T> {
        let waiting = self.entries.entries();
        let of_one: Vec<_> = waiting.iter().filter(|(_, place)| place.owner == whose).collect();
        let too_many = (of_one.len() + 1).saturating_sub(self.max_per_owner);
        let oldest = match too_many {
            0 if MAX_PARKED <= waiting.len() as u64 => waiting.iter().take(1).collect(),
            too_many => of_one.into_iter().take(too_many).collect::<Vec<_>>(),
        };
        let mut gone = Vec::new();
        for (id, place) in oldest {
            self.entries.remove(id);
            gone.extend(place.lock().take().map(|(parked, _)| parked));
        }
        let place = Arc::new(ParkedEntry { owner: whose, content: Mutex::new(None) });
        let timer = tokio::spawn(expire_entry(Arc::downgrade(&place)));
        *place.lock() = Some((parked, ExpiryTimer(timer.abort_handle())));
        self.entries.insert(id, place);
        gone
    }

    /// Takes a value, once, if the owner matches and `is_wanted` accepts it.
    pub(crate) fn take_parked(
        &self,
        id: &str,
        whose: &str,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let place = self.entries.get(id).filter(|place| *place.owner == *whose)?;
        let (parked, _) = place.lock().take_if(|(parked, _)| is_wanted(parked))?;
        self.entries.remove(id);
        Some(parked)
    }

    /// Drops all entries, because no caller will return.
    pub(crate) fn clear(&self) {
        for (_, place) in self.entries.entries() {
            let over = place.lock().take();
            drop(over);
        }
    }
}

async fn expire_entry<T>(place: Weak<ParkedEntry<T>>) {
    tokio::time::sleep(PARKING_TIME).await;
    if let Some(place) = place.upgrade() {
        let over = place.lock().take();
        drop(over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_parked_value_is_taken_once_by_its_owner() {
        let parking = ParkingLot::new(4);
        parking.park("a".into(), "ada".into(), 7);
        assert_eq!(parking.take_parked("b", "ada", |_| true), None);
        assert_eq!(parking.take_parked("a", "eve", |_| true), None);
        assert_eq!(parking.take_parked("a", "ada", |it| *it == 8), None);
        assert_eq!(parking.take_parked("a", "ada", |it| *it == 7), Some(7));
        assert_eq!(parking.take_parked("a", "ada", |_| true), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_has_few_entries_and_evicts_none_of_others() {
        let parking = ParkingLot::new(4);
        parking.park("of eve".into(), "eve".into(), 0);
        for number in 0_u64..100 {
            let gone = parking.park(number.to_string().into(), "ada".into(), number);
            assert_eq!(gone, Vec::from_iter(number.checked_sub(4)));
        }
        assert_eq!(parking.entries.entries().len(), 1 + 4);
        assert_eq!(parking.take_parked("95", "ada", |_| true), None);
        assert_eq!(parking.take_parked("96", "ada", |_| true), Some(96));
        assert_eq!(parking.take_parked("of eve", "eve", |_| true), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn all_entries_together_are_bounded() {
        let parking = ParkingLot::new(4);
        for number in 0..MAX_PARKED {
            let gone = parking.park(number.to_string().into(), number.to_string().into(), number);
            assert_eq!(gone, Vec::<u64>::new());
        }
        assert_eq!(parking.park("one more".into(), "ada".into(), MAX_PARKED), [0]);
        assert_eq!(parking.take_parked("1", "1", |_| true), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_that_is_never_taken_expires() {
        let parking = ParkingLot::new(4);
        let held = Arc::new(());
        parking.park("a".into(), "ada".into(), Arc::clone(&held));
        tokio::time::sleep(PARKING_TIME - Duration::from_secs(1)).await;
        assert_eq!(Arc::strong_count(&held), 2);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(Arc::strong_count(&held), 1);
        assert_eq!(parking.take_parked("a", "ada", |_| true), None);
    }
}
