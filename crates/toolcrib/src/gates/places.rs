//! Places for calls under way, and who waits for one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// How long one waits.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Places {
    free: Mutex<Free>,
    waiting: AtomicUsize,
}

/// How many places there are, and which of them are free.
struct Free {
    most: usize,
    /// Taken under a higher limit, and gone when they are given back.
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

/// A place of these, of which there are so many, and so many may wait.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) of: &'a Places,
    pub(super) most: usize,
    pub(super) waiting: usize,
}

/// A place of each; none if too many wait, or it takes too long. Who waits for the first has none of the second.
pub(super) async fn of_both(
    asked: [Asked<'_>; 2],
    until: Option<Instant>,
) -> Option<[OwnedSemaphorePermit; 2]> {
    let [one, two] = asked.map(Asked::free);
    if let Ok(first) = Arc::clone(&one).try_acquire_owned()
        && let Ok(second) = Arc::clone(&two).try_acquire_owned()
    {
        return Some([first, second]);
    }
    let waits = asked.map(|asked| Waits::new(&asked.of.waiting));
    if asked.iter().zip(&waits).any(|(asked, waits)| asked.waiting < waits.number) {
        return None;
    }
    let patience = Instant::now() + PATIENCE;
    let patience = until.map_or(patience, |until| until.min(patience));
    let both = async { Some([one.acquire_owned().await.ok()?, two.acquire_owned().await.ok()?]) };
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
    /// How many are taken, and how many wait.
    pub(super) fn taken(&self) -> (usize, usize) {
        let free = self.free.lock().expect("no one panics while holding it");
        (free.taken(), self.waiting.load(Ordering::Relaxed))
    }
}

/// One who waits.
struct Waits<'a> {
    waiting: &'a AtomicUsize,
    /// The how manieth.
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
    fn a_limit_that_is_lowered_counts_those_who_are_through() {
        let mut free = Free::default();
        free.limit(4);
        let mut through: Vec<_> =
            (0..4).map(|_| Arc::clone(&free.places).try_acquire_owned().unwrap()).collect();
        // Whoever still speaks of the old limit does not bring new places with it.
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
}
