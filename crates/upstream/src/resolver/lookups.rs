//! Names that are being looked up: each of them once, a few at a time, and none of those who ask takes all places.
//!
//! The system is asked on a thread, which stays until there is an answer, however soon nobody waits for it any more. A
//! domain whose servers are silent keeps it for many seconds. Without a bound, whoever names many such would take all
//! threads for blocking work, which files, the journal and searches need too.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Asks for the addresses of a name, and may block. It is a value so that tests can answer themselves.
pub(crate) type Lookup = fn(&str) -> io::Result<Vec<IpAddr>>;

/// How many are asked for at the same time; far fewer than there are threads for blocking work.
const PLACES: usize = 64;
/// How many of them one share takes at most.
const SHARE: usize = PLACES / 4;
/// How long to wait for a place: less than there is time to connect, so that what is said is why.
const PATIENCE: Duration = Duration::from_secs(2);

/// Who says which name it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A source, an issuer or an operator. Names of the same domain have a share.
    Sources,
    /// An agent, which may name any. All of them together have one share: domains cost little.
    Agents,
}

/// What is known of a name when it was asked for; nothing until then.
type Answer = Option<Result<Arc<[IpAddr]>, Arc<io::Error>>>;

/// There was no place in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many names are being looked up, so try again in a moment")]
pub(crate) struct TooManyLookups;

/// All lookups that are under way.
pub(crate) struct Lookups {
    lookup: Lookup,
    places: Arc<Semaphore>,
    /// Those that somebody has a place of, or waits for one.
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

    /// Of the process, as its threads are.
    pub(crate) fn of_the_system() -> Arc<Self> {
        static SYSTEM: OnceLock<Arc<Lookups>> = OnceLock::new();
        Arc::clone(SYSTEM.get_or_init(|| Self::new(ask_the_system)))
    }

    /// All addresses of the name.
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
            // No name is empty.
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

    /// Asks, unless somebody else began to in the meantime.
    fn ask(self: &Arc<Self>, name: &str, place: Place) -> watch::Receiver<Answer> {
        let mut asked = locked(&self.asked);
        if let Some(asked) = asked.get(name) {
            return asked.clone();
        }
        let (tell, answer) = watch::channel(None);
        asked.insert(name.into(), answer.clone());
        // A runtime that stops drops what it is given at once, and that takes this lock.
        drop(asked);
        let under_way = UnderWay { lookups: Arc::clone(self), name: name.into(), _place: place };
        tokio::task::spawn_blocking(move || {
            let found = (under_way.lookups.lookup)(&under_way.name);
            // Whoever comes after there is an answer wants one of then.
            drop(under_way);
            tell.send_replace(Some(found.map(Arc::from).map_err(Arc::new)));
        });
        answer
    }
}

/// One of all places, and one of its share.
struct Place {
    _share: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

/// A name that is being asked for: on a thread, or for as long as there is none. It ends with that, whatever happens.
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

/// The last two labels: about what somebody owns, as far as can be said without a list of all registries.
fn domain(name: &str) -> &str {
    let name = name.trim_end_matches('.');
    let mut dots = name.rmatch_indices('.').map(|(at, _)| at);
    dots.nth(1).and_then(|at| name.get(at + 1..)).unwrap_or(name)
}

/// What the system says: its hosts file, then DNS.
fn ask_the_system(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

#[cfg(test)]
mod tests;
