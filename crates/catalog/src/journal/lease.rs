//! Leases: whoever has one is alone with what it names, among all nodes of a journal.
//!
//! A lease is no event and leaves nothing behind: it ends when it is dropped, and with the process at the latest.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

#[cfg(feature = "postgres")]
use super::postgres::Lock;

/// The right to be the only one at something. Ends when it is dropped.
pub struct Lease(Held);

enum Held {
    /// Only one process has the journal.
    Here(#[expect(dead_code, reason = "held for its drop")] Place),
    /// The database keeps it for one connection.
    #[cfg(feature = "postgres")]
    Postgres(Lock),
}

impl Lease {
    /// Whether it is still ours: a connection may break, and then somebody else may have it.
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

/// What this process has leased.
#[derive(Clone, Default)]
pub(super) struct Leases(Arc<Mutex<HashSet<String>>>);

/// A name that is taken in this process.
pub(super) struct Place {
    leases: Leases,
    name: String,
}

impl Leases {
    fn names(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().expect("no one panics while holding the names")
    }

    /// The place of a name, unless somebody here has it.
    pub(super) fn place(&self, name: String) -> Option<Place> {
        let is_free = self.names().insert(name.clone());
        is_free.then(|| Place { leases: self.clone(), name })
    }

    /// A lease where only one process has the journal.
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
