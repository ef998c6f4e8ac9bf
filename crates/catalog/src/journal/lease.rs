//! Leases: exclusive ownership of a name among all nodes of a journal.
//!
//! A lease is not an event and leaves no trace: it ends when it is dropped, and with the process at the latest.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

#[cfg(feature = "postgres")]
use super::postgres::Lock;

/// Exclusive ownership of a name. Ends when it is dropped.
pub struct Lease(Held);

enum Held {
    /// Only one process uses the journal.
    Here(#[expect(dead_code, reason = "held for its drop")] Place),
    /// The database holds the lease for one connection.
    #[cfg(feature = "postgres")]
    Postgres(Lock),
}

impl Lease {
    /// True if the lease is still ours: if its connection broke, another node may have acquired it.
    pub fn is_held(&self) -> bool {
        match &self.0 {
            Held::Here(_) => true,
            #[cfg(feature = "postgres")]
            Held::Postgres(lock) => lock.is_held(),
        }
    }
}

#[cfg(feature = "postgres")]
impl From<Lock> for Lease {
    fn from(lock: Lock) -> Self {
        Self(Held::Postgres(lock))
    }
}

/// The names that this process has leased.
#[derive(Clone, Default)]
pub(super) struct Leases(Arc<Mutex<HashSet<String>>>);

/// A name that is reserved within this process.
pub(super) struct Place {
    leases: Leases,
    name: String,
}

impl Leases {
    fn names(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().expect("no one panics while holding the names")
    }

    /// Reserves a name, unless it is already reserved in this process.
    pub(super) fn place(&self, name: String) -> Option<Place> {
        let is_free = self.names().insert(name.clone());
        is_free.then(|| Place { leases: self.clone(), name })
    }

    /// Acquires a lease for a journal that only one process uses.
    pub(super) fn take(&self, name: String) -> Option<Lease> {
        Some(Lease(Held::Here(self.place(name)?)))
    }
}

impl Place {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leases.names().remove(&self.name);
    }
}
