//! DNS lookups in progress: each name once, a bounded number at a time, and fair shares between domains.
//!
//! A lookup blocks its thread until the system resolver answers, even if its caller has stopped waiting. A
//! domain whose name servers are silent blocks it for many seconds. Without a bound, naming many such domains would
//! exhaust the blocking pool, which files, the journal and searches need too.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Resolves a name and may block. A function pointer, so that tests can replace the system resolver.
pub(crate) type LookupFn = fn(&str) -> io::Result<Vec<IpAddr>>;

/// Concurrent lookups; far fewer than the blocking pool has threads.
const MAX_LOOKUPS: usize = 64;
/// Concurrent lookups of one share.
const MAX_LOOKUPS_PER_SHARE: usize = MAX_LOOKUPS / 4;
/// How long to wait for a permit: shorter than the connect timeout, so that the error names the real cause.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The origin of a name, which decides on its share of the lookups.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookupOwner {
    /// A source, an issuer or an operator. Names of the same domain use one share.
    Sources,
    /// An agent, which may name any host. All agents together use one share, because domains are cheap to register.
    Agents,
}

/// The result of a lookup; `None` while it is in progress.
type LookupResult = Option<Result<Arc<[IpAddr]>, Arc<io::Error>>>;

/// No permit became available in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many names are being looked up, so try again in a moment")]
pub(crate) struct TooManyLookups;

/// All lookups in progress.
pub(crate) struct DnsLookups {
    lookup: LookupFn,
    permits: Arc<Semaphore>,
    /// The shares with a lookup that holds a permit or waits for one.
    shares: Mutex<HashMap<Box<str>, Weak<Semaphore>>>,
    pending: Mutex<HashMap<Box<str>, watch::Receiver<LookupResult>>>,
}

impl DnsLookups {
    pub(crate) fn new(lookup: LookupFn) -> Arc<Self> {
        Arc::new(Self {
            lookup,
            permits: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            shares: Mutex::default(),
            pending: Mutex::default(),
        })
    }

    /// The lookups of the process, shared by all clients like the threads they use.
    pub(crate) fn shared_system() -> Arc<Self> {
        static SYSTEM: OnceLock<Arc<DnsLookups>> = OnceLock::new();
        Arc::clone(SYSTEM.get_or_init(|| Self::new(system_lookup)))
    }

    pub(crate) async fn look_up(
        self: &Arc<Self>,
        name: &str,
        whose: LookupOwner,
    ) -> Result<Arc<[IpAddr]>, Box<dyn Error + Send + Sync>> {
        let under_way = lock_mutex(&self.pending).get(name).cloned();
        let mut asked = match under_way {
            Some(asked) => asked,
            None => {
                let place = tokio::time::timeout(PERMIT_TIMEOUT, self.acquire_permit(name, whose));
                self.start_lookup(name, place.await.map_err(|_| TooManyLookups)??)
            }
        };
        match asked.wait_for(LookupResult::is_some).await.as_deref() {
            Ok(Some(Ok(addresses))) => Ok(Arc::clone(addresses)),
            Ok(Some(Err(error))) => Err(Arc::clone(error).into()),
            Ok(None) | Err(_) => Err("the lookup was given up".into()),
        }
    }

    async fn acquire_permit(
        &self,
        name: &str,
        whose: LookupOwner,
    ) -> Result<LookupPermit, tokio::sync::AcquireError> {
        let share = self.share_of(name, whose).acquire_owned().await?;
        Ok(LookupPermit {
            _share: share,
            _permit: Arc::clone(&self.permits).acquire_owned().await?,
        })
    }

    fn share_of(&self, name: &str, whose: LookupOwner) -> Arc<Semaphore> {
        let key = match whose {
            LookupOwner::Sources => registered_domain(name),
            // The empty string cannot be a domain.
            LookupOwner::Agents => "",
        };
        let mut shares = lock_mutex(&self.shares);
        if let Some(share) = shares.get(key).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| 0 < share.strong_count());
        let share = Arc::new(Semaphore::new(MAX_LOOKUPS_PER_SHARE));
        shares.insert(key.into(), Arc::downgrade(&share));
        share
    }

    /// Starts the lookup, unless another caller has started it in the meantime.
    fn start_lookup(
        self: &Arc<Self>,
        name: &str,
        place: LookupPermit,
    ) -> watch::Receiver<LookupResult> {
        let mut asked = lock_mutex(&self.pending);
        if let Some(asked) = asked.get(name) {
            return asked.clone();
        }
        let (tell, answer) = watch::channel(None);
        asked.insert(name.into(), answer.clone());
        // A runtime that is shutting down drops the task at once, and its drop takes this lock.
        drop(asked);
        let under_way =
            PendingLookup { lookups: Arc::clone(self), name: name.into(), _permit: place };
        tokio::task::spawn_blocking(move || {
            let found = (under_way.lookups.lookup)(&under_way.name);
            // A caller that arrives after the result needs a new lookup.
            drop(under_way);
            tell.send_replace(Some(found.map(Arc::from).map_err(Arc::new)));
        });
        answer
    }
}

/// A permit for one lookup and for one lookup of its share.
struct LookupPermit {
    _share: OwnedSemaphorePermit,
    _permit: OwnedSemaphorePermit,
}

/// A pending lookup, queued for a thread or running on one. Dropping it removes it from the pending lookups.
struct PendingLookup {
    lookups: Arc<DnsLookups>,
    name: Box<str>,
    _permit: LookupPermit,
}

impl Drop for PendingLookup {
    fn drop(&mut self) {
        lock_mutex(&self.lookups.pending).remove(&self.name);
    }
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last two labels of a name: roughly the registered domain, without a public suffix list.
fn registered_domain(name: &str) -> &str {
    let name = name.trim_end_matches('.');
    let mut dots = name.rmatch_indices('.').map(|(at, _)| at);
    dots.nth(1).and_then(|at| name.get(at + 1..)).unwrap_or(name)
}

/// Asks the system resolver, which reads its hosts file and then uses DNS.
fn system_lookup(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

#[cfg(test)]
mod tests;
