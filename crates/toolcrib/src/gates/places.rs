//! Concurrency permits with a limit that may change, and a bounded queue for them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The longest wait for a permit.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Places {
    free: Arc<Mutex<Free>>,
    waiting: AtomicUsize,
}

/// How many permits exist, and which of them are free.
struct Free {
    most: usize,
    /// Permits above the current limit that are still in use; they are destroyed when they are released.
    owed: usize,
    places: Arc<Semaphore>,
}

impl Default for Free {
    fn default() -> Self {
        Self { most: 0, owed: 0, places: Arc::new(Semaphore::new(0)) }
    }
}

impl Free {
    fn limit(&mut self, most: usize) {
        let most = most.min(Semaphore::MAX_PERMITS);
        match most.checked_sub(self.most) {
            Some(more) => {
                let paid = more.min(self.owed);
                self.owed -= paid;
                self.places.add_permits(more - paid);
            }
            None => self.owed += self.most - most,
        }
        self.most = most;
        self.owed -= self.places.forget_permits(self.owed);
    }

    fn taken(&self) -> usize {
        self.most + self.owed - self.places.available_permits()
    }
}

/// An acquired permit. If the limit was lowered meanwhile, its release destroys it, even if a call waits for it.
pub(super) struct Place {
    permit: Option<OwnedSemaphorePermit>,
    of: Arc<Mutex<Free>>,
}

impl Place {
    fn new(permit: OwnedSemaphorePermit, of: &Arc<Mutex<Free>>) -> Self {
        Self { permit: Some(permit), of: Arc::clone(of) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut free = self.of.lock().expect("no one panics while holding it");
        if let Some(owed) = free.owed.checked_sub(1)
            && let Some(permit) = self.permit.take()
        {
            free.owed = owed;
            permit.forget();
        }
    }
}

/// A request for a permit of a pool, with the pool's limit and the length of its queue.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) of: &'a Places,
    pub(super) most: usize,
    pub(super) waiting: usize,
}

/// Acquires one permit of each pool; `None` if a queue is full or the wait is too long. A call that waits for the first
/// permit does not hold the second.
pub(super) async fn of_both(asked: [Asked<'_>; 2], until: Option<Instant>) -> Option<[Place; 2]> {
    let [one, two] = asked.map(Asked::free);
    if let Ok(first) = Arc::clone(&one).try_acquire_owned()
        && let Ok(second) = Arc::clone(&two).try_acquire_owned()
    {
        return Some([Place::new(first, &asked[0].of.free), Place::new(second, &asked[1].of.free)]);
    }
    let waits = asked.map(|asked| Waits::new(&asked.of.waiting));
    if asked.iter().zip(&waits).any(|(asked, waits)| asked.waiting < waits.number) {
        return None;
    }
    let patience = Instant::now() + PATIENCE;
    let patience = until.map_or(patience, |until| until.min(patience));
    let both = async {
        let first = Place::new(one.acquire_owned().await.ok()?, &asked[0].of.free);
        Some([first, Place::new(two.acquire_owned().await.ok()?, &asked[1].of.free)])
    };
    timeout_at(patience, both).await.ok().flatten()
}

impl Asked<'_> {
    fn free(self) -> Arc<Semaphore> {
        let mut free = self.of.free.lock().expect("no one panics while holding it");
        free.limit(self.most);
        Arc::clone(&free.places)
    }
}

impl Places {
    /// How many permits are in use, and how many calls wait.
    pub(super) fn taken(&self) -> (usize, usize) {
        let free = self.free.lock().expect("no one panics while holding it");
        (free.taken(), self.waiting.load(Ordering::Relaxed))
    }
}

/// An entry in the queue.
struct Waits<'a> {
    waiting: &'a AtomicUsize,
    /// 1-based position in the queue.
    number: usize,
}

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        Self { waiting, number: waiting.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lowered_limit_counts_permits_that_are_in_use() {
        let mut free = Free::default();
        free.limit(4);
        let mut through: Vec<_> =
            (0..4).map(|_| Arc::clone(&free.places).try_acquire_owned().unwrap()).collect();
        // A caller that still uses the old limit does not create new permits.
        for most in [1, 4, 1, 4, 1] {
            free.limit(most);
            assert!(free.places.try_acquire().is_err());
            assert_eq!(free.taken(), 4);
        }
        through.truncate(1);
        free.limit(1);
        assert!(free.places.try_acquire().is_err());
        through.clear();
        free.limit(1);
        assert!(free.places.try_acquire().is_ok());
        assert_eq!((free.taken(), free.owed), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_call_gets_no_permit_that_was_destroyed() {
        let (all, own) = (Places::default(), Places::default());
        let ask = |most| {
            let asked = |of| Asked { of, most, waiting: 8 };
            of_both([asked(&all), asked(&own)], None)
        };
        let mut through = Vec::new();
        for _ in 0..4 {
            through.push(ask(4).await.unwrap());
        }
        let mut waiting = std::pin::pin!(ask(1));
        let soon = Duration::from_secs(1);
        for left in (1..4).rev() {
            through.truncate(left);
            assert!(tokio::time::timeout(soon, waiting.as_mut()).await.is_err());
            assert_eq!((all.taken(), own.taken()), ((left, 1), (left, 1)));
        }
        through.clear();
        assert!(waiting.await.is_some());
        assert_eq!((all.taken(), own.taken()), ((0, 0), (0, 0)));
    }
}
