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
pub(crate) type Lookup = fn(&str) -> io::Result<Vec<IpAddr>>;

/// Concurrent lookups; far fewer than the blocking pool has threads.
const PLACES: usize = 64;
/// Concurrent lookups of one share.
const SHARE: usize = PLACES / 4;
/// How long to wait for a permit: shorter than the connect timeout, so that the error names the real cause.
const PATIENCE: Duration = Duration::from_secs(2);

/// The origin of a name, which decides on its share of the lookups.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A source, an issuer or an operator. Names of the same domain use one share.
    Sources,
    /// An agent, which may name any host. All agents together use one share, because domains are cheap to register.
    Agents,
}

/// The result of a lookup; `None` while it is in progress.
type Answer = Option<Result<Arc<[IpAddr]>, Arc<io::Error>>>;

/// No permit became available in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many names are being looked up, so try again in a moment")]
pub(crate) struct TooManyLookups;

/// All lookups in progress.
pub(crate) struct Lookups {
    lookup: Lookup,
    places: Arc<Semaphore>,
    /// The shares with a lookup that holds a permit or waits for one.
    shares: Mutex<HashMap<Box<str>, Weak<Semaphore>>>,
    asked: Mutex<HashMap<Box<str>, watch::Receiver<Answer>>>,
}

impl Lookups {
    pub(crate) fn new(lookup: Lookup) -> Arc<Self> {
        Arc::new(Self {
            lookup,
            places: Arc::new(Semaphore::new(PLACES)),
            shares: Mutex::default(),
            asked: Mutex::default(),
        })
    }

    /// The lookups of the process, shared by all clients like the threads they use.
    pub(crate) fn of_the_system() -> Arc<Self> {
        static SYSTEM: OnceLock<Arc<Lookups>> = OnceLock::new();
        Arc::clone(SYSTEM.get_or_init(|| Self::new(ask_the_system)))
    }

    pub(crate) async fn addresses(
        self: &Arc<Self>,
        name: &str,
        whose: Whose,
    ) -> Result<Arc<[IpAddr]>, Box<dyn Error + Send + Sync>> {
        let under_way = locked(&self.asked).get(name).cloned();
        let mut asked = match under_way {
            Some(asked) => asked,
            None => {
                let place = tokio::time::timeout(PATIENCE, self.place(name, whose));
                self.ask(name, place.await.map_err(|_| TooManyLookups)??)
            }
        };
        match asked.wait_for(Answer::is_some).await.as_deref() {
            Ok(Some(Ok(addresses))) => Ok(Arc::clone(addresses)),
            Ok(Some(Err(error))) => Err(Arc::clone(error).into()),
            Ok(None) | Err(_) => Err("the lookup was given up".into()),
        }
    }

    async fn place(&self, name: &str, whose: Whose) -> Result<Place, tokio::sync::AcquireError> {
        let share = self.share(name, whose).acquire_owned().await?;
        Ok(Place { _share: share, _place: Arc::clone(&self.places).acquire_owned().await? })
    }

    fn share(&self, name: &str, whose: Whose) -> Arc<Semaphore> {
        let key = match whose {
            Whose::Sources => domain(name),
            // The empty string cannot be a domain.
            Whose::Agents => "",
        };
        let mut shares = locked(&self.shares);
        if let Some(share) = shares.get(key).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| 0 < share.strong_count());
        let share = Arc::new(Semaphore::new(SHARE));
        shares.insert(key.into(), Arc::downgrade(&share));
        share
    }

    /// Starts the lookup, unless another caller has started it in the meantime.
    fn ask(self: &Arc<Self>, name: &str, place: Place) -> watch::Receiver<Answer> {
        let mut asked = locked(&self.asked);
        if let Some(asked) = asked.get(name) {
            return asked.clone();
        }
        let (tell, answer) = watch::channel(None);
        asked.insert(name.into(), answer.clone());
        // A runtime that is shutting down drops the task at once, and its drop takes this lock.
        drop(asked);
        let under_way = UnderWay { lookups: Arc::clone(self), name: name.into(), _place: place };
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
struct Place {
    _share: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

/// A pending lookup, queued for a thread or running on one. Dropping it removes it from the pending lookups.
struct UnderWay {
    lookups: Arc<Lookups>,
    name: Box<str>,
    _place: Place,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        locked(&self.lookups.asked).remove(&self.name);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last two labels of a name: roughly the registered domain, without a public suffix list.
fn domain(name: &str) -> &str {
    let name = name.trim_end_matches('.');
    let mut dots = name.rmatch_indices('.').map(|(at, _)| at);
    dots.nth(1).and_then(|at| name.get(at + 1..)).unwrap_or(name)
}

/// Asks the system resolver, which reads its hosts file and then uses DNS.
fn ask_the_system(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

#[cfg(test)]
mod tests;
