//! What waits until somebody comes again for it: for a while, and once.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use model::Cache;
use tokio::task::AbortHandle;

/// How much waits, and for how long.
const PARKED: u64 = 1_000;
const PARKED_FOR: Duration = Duration::from_secs(10 * 60);

/// What waits until somebody comes again for it.
pub(crate) struct Parking<T> {
    places: Cache<Box<str>, Arc<Place<T>>>,
    /// How much of one.
    of_one: usize,
}

/// Where one waits, until it is taken.
struct Place<T> {
    whose: Box<str>,
    holds: Mutex<Option<(T, Timer)>>,
}

/// Ends what waits; stops when that is gone.
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
    /// With so much of one at most.
    pub(crate) fn new(of_one: usize) -> Self {
        Self { places: Cache::new(PARKED).lasting(PARKED_FOR), of_one }
    }

    /// It may hold a connection or a program, and is let go when its time is over, whether or not anybody comes; or when the
    /// same one has more waiting than a few, or all together have. Says what had to go for it.
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

    /// Once, only by whose it is, and only if it is what is wanted.
    pub(crate) fn take(&self, id: &str, whose: &str, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        let place = self.places.get(id).filter(|place| *place.whose == *whose)?;
        let (parked, _) = place.lock().take_if(|(parked, _)| is_wanted(parked))?;
        self.places.remove(id);
        Some(parked)
    }

    /// Nobody comes any more.
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
    async fn what_waits_is_taken_once_by_whose_it_is() {
        let parking = Parking::new(4);
        parking.put("a".into(), "ada".into(), 7);
        assert_eq!(parking.take("b", "ada", |_| true), None);
        assert_eq!(parking.take("a", "eve", |_| true), None);
        assert_eq!(parking.take("a", "ada", |it| *it == 8), None);
        assert_eq!(parking.take("a", "ada", |it| *it == 7), Some(7));
        assert_eq!(parking.take("a", "ada", |_| true), None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_has_only_a_few_waiting_and_takes_nothing_from_others() {
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
    async fn all_together_have_only_so_much_waiting() {
        let parking = Parking::new(4);
        for number in 0..PARKED {
            let gone = parking.put(number.to_string().into(), number.to_string().into(), number);
            assert_eq!(gone, Vec::<u64>::new());
        }
        assert_eq!(parking.put("one more".into(), "ada".into(), PARKED), [0]);
        assert_eq!(parking.take("1", "1", |_| true), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_comes_for_is_let_go() {
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
