//! Leases: exclusive ownership of a name among all nodes of a journal.
//!
//! A lease is not an event and leaves no trace: it ends when it is dropped, and with the process at the latest.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

#[cfg(feature = "postgres")]
use super::postgres_journal::AdvisoryLock;

/// Exclusive ownership of a name. Ends when it is dropped.
pub struct JournalLease(LeaseBackend);

enum LeaseBackend {
    /// Only one process uses the journal.
    Local(#[expect(dead_code, reason = "held for its drop")] LocalLease),
    /// The database holds the lease for one connection.
    #[cfg(feature = "postgres")]
    Postgres(AdvisoryLock),
}

impl JournalLease {
    /// True if the lease is still ours: if its connection broke, another node may have acquired it.
    pub fn is_held(&self) -> bool {
        match &self.0 {
            LeaseBackend::Local(_) => true,
            #[cfg(feature = "postgres")]
            LeaseBackend::Postgres(lock) => lock.is_held(),
        }
    }
}

#[cfg(feature = "postgres")]
impl From<AdvisoryLock> for JournalLease {
    fn from(lock: AdvisoryLock) -> Self {
        Self(LeaseBackend::Postgres(lock))
    }
}

/// The names that this process has leased.
#[derive(Clone, Default)]
pub(super) struct LocalLeases(Arc<Mutex<HashSet<String>>>);

/// A name that is reserved within this process.
pub(super) struct LocalLease {
    leases: LocalLeases,
    name: String,
}

impl LocalLeases {
    fn lock_names(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().expect("no one panics while holding the names")
    }

    /// Reserves a name, unless it is already reserved in this process.
    pub(super) fn reserve_name(&self, name: String) -> Option<LocalLease> {
        let is_free = self.lock_names().insert(name.clone());
        is_free.then(|| LocalLease { leases: self.clone(), name })
    }

    /// Acquires a lease for a journal that only one process uses.
    pub(super) fn acquire_lease(&self, name: String) -> Option<JournalLease> {
        Some(JournalLease(LeaseBackend::Local(self.reserve_name(name)?)))
    }
}

impl LocalLease {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for LocalLease {
    fn drop(&mut self) {
        self.leases.lock_names().remove(&self.name);
    }
}
