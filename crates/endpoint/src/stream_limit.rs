//! Concurrency limit for streams, with a share that no single caller can use up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Limit on concurrently open streams.
pub(crate) struct StreamLimit {
    all: usize,
    for_one: usize,
    taken: Mutex<OpenStreamCounts>,
}

#[derive(Default)]
struct OpenStreamCounts {
    all: usize,
    by: HashMap<Box<str>, usize>,
}

/// A permit for one stream, returned on drop.
pub struct StreamPermit {
    seats: Arc<StreamLimit>,
    whose: Box<str>,
}

impl StreamLimit {
    /// A limit of `all` permits; `for_others` of them are unavailable to any single caller.
    pub(crate) fn new(all: usize, for_others: usize) -> Arc<Self> {
        let (for_one, taken) = (all.saturating_sub(for_others), Mutex::default());
        Arc::new(Self { all, for_one, taken })
    }

    /// Acquires a permit; `None` if all permits, or the caller's share, are in use.
    pub(crate) fn try_acquire(self: &Arc<Self>, whose: &str) -> Option<StreamPermit> {
        let mut taken = self.lock_counts();
        let own = taken.by.get(whose).copied().unwrap_or_default();
        if self.all <= taken.all || self.for_one <= own {
            return None;
        }
        taken.all += 1;
        taken.by.insert(whose.into(), own + 1);
        Some(StreamPermit { seats: Arc::clone(self), whose: whose.into() })
    }

    /// Number of permits in use.
    pub(crate) fn in_use(&self) -> usize {
        self.lock_counts().all
    }

    fn lock_counts(&self) -> MutexGuard<'_, OpenStreamCounts> {
        self.taken.lock().expect("no one panics while counting")
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut taken = self.seats.lock_counts();
        taken.all -= 1;
        match taken.by.get_mut(&self.whose) {
            Some(own) if 1 < *own => *own -= 1,
            _ => drop(taken.by.remove(&self.whose)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_caller_can_take_all_permits_and_dropped_permits_are_free_again() {
        let seats = StreamLimit::new(4, 1);
        let of_ada: Vec<StreamPermit> = (0..3).filter_map(|_| seats.try_acquire("ada")).collect();
        assert_eq!((of_ada.len(), seats.try_acquire("ada").is_none()), (3, true));
        let of_eve = seats.try_acquire("eve").unwrap();
        assert!(seats.try_acquire("bob").is_none());
        drop(of_ada);
        assert!(seats.try_acquire("ada").is_some() && seats.try_acquire("bob").is_some());
        drop(of_eve);
        assert!(seats.lock_counts().by.is_empty());
    }
}
