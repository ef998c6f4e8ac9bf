//! Seats for whoever stays: so many in all, and nobody takes them all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// How many there are.
pub(crate) struct Seats {
    all: usize,
    for_one: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by: HashMap<Box<str>, usize>,
}

/// One of them, until it is dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    whose: Box<str>,
}

impl Seats {
    /// So many, of which some are kept from any one caller for the others.
    pub(crate) fn new(all: usize, for_others: usize) -> Arc<Self> {
        let (for_one, taken) = (all.saturating_sub(for_others), Mutex::default());
        Arc::new(Self { all, for_one, taken })
    }

    /// None if all are taken, or as many as one may have.
    pub(crate) fn take(self: &Arc<Self>, whose: &str) -> Option<Seat> {
        let mut taken = self.taken();
        let own = taken.by.get(whose).copied().unwrap_or_default();
        if self.all <= taken.all || self.for_one <= own {
            return None;
        }
        taken.all += 1;
        taken.by.insert(whose.into(), own + 1);
        Some(Seat { seats: Arc::clone(self), whose: whose.into() })
    }

    /// How many are taken.
    pub(crate) fn in_use(&self) -> usize {
        self.taken().all
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().expect("no one panics while counting")
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
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
    fn nobody_takes_them_all_and_what_is_left_is_free_again() {
        let seats = Seats::new(4, 1);
        let of_ada: Vec<Seat> = (0..3).filter_map(|_| seats.take("ada")).collect();
        assert_eq!((of_ada.len(), seats.take("ada").is_none()), (3, true));
        let of_eve = seats.take("eve").unwrap();
        assert!(seats.take("bob").is_none());
        drop(of_ada);
        assert!(seats.take("ada").is_some() && seats.take("bob").is_some());
        drop(of_eve);
        assert!(seats.taken().by.is_empty());
    }
}
