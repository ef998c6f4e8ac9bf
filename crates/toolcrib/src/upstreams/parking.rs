//! A parking lot for state that waits until its caller returns: for a limited time, and to be taken once.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use model::Cache;
use tokio::task::AbortHandle;

/// The most parked entries, and how long each is parked.
const PARKED: u64 = 1_000;
const PARKED_FOR: Duration = Duration::from_secs(10 * 60);

/// State that waits until its caller returns.
pub(crate) struct Parking<T> {
    places: Cache<Box<str>, Arc<Place<T>>>,
    /// The most entries of one owner.
    of_one: usize,
}

/// A parked entry, until it is taken.
struct Place<T> {
    whose: Box<str>,
    holds: Mutex<Option<(T, Timer)>>,
}

/// Aborts the expiry task when the entry is taken.
struct Timer(AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> Place<T> {
    fn lock(&self) -> MutexGuard<'_, Option<(T, Timer)>> {
        self.holds.lock().expect("no one panics while holding it")
    }
}

impl<T: Send + 'static> Parking<T> {
    /// With a limit on the entries of one owner.
    pub(crate) fn new(of_one: usize) -> Self {
        Self { places: Cache::new(PARKED).lasting(PARKED_FOR), of_one }
    }

    /// Parks a value, which may hold a connection or a program. It is dropped when its time is over, when its owner
    /// parks too many others, or when the parking lot is full. Returns the values that were evicted.
    pub(crate) fn put(&self, id: Box<str>, whose: Box<str>, parked: T) -> Vec<T> {
        let waiting = self.places.entries();
        let of_one: Vec<_> = waiting.iter().filter(|(_, place)| place.whose == whose).collect();
        let too_many = (of_one.len() + 1).saturating_sub(self.of_one);
        let oldest = match too_many {
            0 if PARKED <= waiting.len() as u64 => waiting.iter().take(1).collect(),
            too_many => of_one.into_iter().take(too_many).collect::<Vec<_>>(),
        };
        let mut gone = Vec::new();
        for (id, place) in oldest {
            self.places.remove(id);
            gone.extend(place.lock().take().map(|(parked, _)| parked));
        }
        let place = Arc::new(Place { whose, holds: Mutex::new(None) });
        let timer = tokio::spawn(give_up(Arc::downgrade(&place)));
        *place.lock() = Some((parked, Timer(timer.abort_handle())));
        self.places.insert(id, place);
        gone
    }

    /// Takes a value, once, if the owner matches and `is_wanted` accepts it.
    pub(crate) fn take(&self, id: &str, whose: &str, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        let place = self.places.get(id).filter(|place| *place.whose == *whose)?;
        let (parked, _) = place.lock().take_if(|(parked, _)| is_wanted(parked))?;
        self.places.remove(id);
        Some(parked)
    }

    /// Drops all entries, because no caller will return.
    pub(crate) fn clear(&self) {
        for (_, place) in self.places.entries() {
            let over = place.lock().take();
            drop(over);
        }
    }
}

async fn give_up<T>(place: Weak<Place<T>>) {
    tokio::time::sleep(PARKED_FOR).await;
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
        let parking = Parking::new(4);
        parking.put("a".into(), "ada".into(), 7);
        assert_eq!(parking.take("b", "ada", |_| true), None);
        assert_eq!(parking.take("a", "eve", |_| true), None);
        assert_eq!(parking.take("a", "ada", |it| *it == 8), None);
        assert_eq!(parking.take("a", "ada", |it| *it == 7), Some(7));
        assert_eq!(parking.take("a", "ada", |_| true), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_has_few_entries_and_evicts_none_of_others() {
        let parking = Parking::new(4);
        parking.put("of eve".into(), "eve".into(), 0);
        for number in 0_u64..100 {
            let gone = parking.put(number.to_string().into(), "ada".into(), number);
            assert_eq!(gone, Vec::from_iter(number.checked_sub(4)));
        }
        assert_eq!(parking.places.entries().len(), 1 + 4);
        assert_eq!(parking.take("95", "ada", |_| true), None);
        assert_eq!(parking.take("96", "ada", |_| true), Some(96));
        assert_eq!(parking.take("of eve", "eve", |_| true), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn all_entries_together_are_bounded() {
        let parking = Parking::new(4);
        for number in 0..PARKED {
            let gone = parking.put(number.to_string().into(), number.to_string().into(), number);
            assert_eq!(gone, Vec::<u64>::new());
        }
        assert_eq!(parking.put("one more".into(), "ada".into(), PARKED), [0]);
        assert_eq!(parking.take("1", "1", |_| true), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_that_is_never_taken_expires() {
        let parking = Parking::new(4);
        let held = Arc::new(());
        parking.put("a".into(), "ada".into(), Arc::clone(&held));
        tokio::time::sleep(PARKED_FOR - Duration::from_secs(1)).await;
        assert_eq!(Arc::strong_count(&held), 2);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(Arc::strong_count(&held), 1);
        assert_eq!(parking.take("a", "ada", |_| true), None);
    }
}
