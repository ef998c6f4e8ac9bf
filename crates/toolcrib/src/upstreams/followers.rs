//! Subscriptions to resources of MCP servers: each resource is subscribed once on a connection, while any client needs
//! it.
//!
//! One task for each connection reconciles the server's subscriptions with the wanted ones: when a client subscribes or
//! unsubscribes, and at intervals, because the connection may have been replaced.

mod following;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use model::Agent;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use upstream::mcp::{Call, Changes};

pub use self::following::{Following, NotFollowed};
use super::{Key, Upstream, whose};
use crate::credentials::Carried;
use crate::crib::{Toolcrib, WeakCrib};

/// The most subscriptions of an agent, and on one connection.
const OF_AGENT: usize = 1_000;
const OF_CONNECTION: usize = 5_000;
/// How often to reconcile, and the delay after a failure.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// The time limit of one request to a server.
const DEADLINE: Duration = Duration::from_secs(10);

/// All subscriptions at servers.
#[derive(Default)]
pub(crate) struct Followers {
    all: Mutex<HashMap<Key, Arc<Follower>>>,
    of_agents: Mutex<HashMap<Box<str>, usize>>,
}

/// The subscriptions on one connection.
struct Follower {
    key: Key,
    next: AtomicU64,
    wanted: Mutex<BTreeMap<Box<str>, Wanted>>,
    changed: Notify,
}

/// `None` until the server was asked.
type Outcome = Option<Result<(), String>>;

/// One resource, by the server's own URI.
#[derive(Default)]
struct Wanted {
    hearers: Vec<Hearer>,
    /// Whether the server accepted the subscription.
    outcome: watch::Sender<Outcome>,
}

struct Hearer {
    number: u64,
    /// The key of its agent.
    agent: Box<str>,
    /// The URI under which the agent knows the resource.
    uri: Box<str>,
    told: Arc<watch::Sender<crate::provider::Changes>>,
}

/// A connection with its subscriptions.
struct Asked {
    upstream: Upstream,
    session: u64,
    changes: watch::Receiver<Changes>,
    seen: u64,
}

impl Followers {
    fn all(&self) -> MutexGuard<'_, HashMap<Key, Arc<Follower>>> {
        self.all.lock().expect("no one panics while holding it")
    }

    fn of_agents(&self) -> MutexGuard<'_, HashMap<Box<str>, usize>> {
        self.of_agents.lock().expect("no one panics while holding it")
    }

    /// Reserves one more subscription of an agent; `false` if the limit is reached.
    fn enter(&self, agent: &str) -> bool {
        let mut all = self.of_agents();
        let count = all.entry(agent.into()).or_default();
        let has_room = *count < OF_AGENT;
        *count += usize::from(has_room);
        has_room
    }

    fn leave(&self, agent: &str) {
        let mut all = self.of_agents();
        if let Some(count) = all.get_mut(agent) {
            *count -= 1;
            if *count == 0 {
                all.remove(agent);
            }
        }
    }

    /// Adds a listener; returns the channel that reports the outcome.
    fn add(
        &self,
        crib: &Toolcrib,
        agent: &Agent,
        key: &Key,
        own: &str,
        hearer: Hearer,
    ) -> Option<(Arc<Follower>, u64, watch::Receiver<Outcome>)> {
        let mut all = self.all();
        let is_new = !all.contains_key(key);
        let follower = all.entry(key.clone()).or_insert_with(|| Arc::new(Follower::new(key)));
        let follower = Arc::clone(follower);
        let number = follower.next.fetch_add(1, Ordering::Relaxed);
        let outcome = {
            let mut wanted = follower.wanted();
            if !wanted.contains_key(own) && !has_room(&wanted, &hearer.agent) {
                return None;
            }
            let one = wanted.entry(own.into()).or_default();
            one.hearers.push(Hearer { number, ..hearer });
            one.outcome.subscribe()
        };
        follower.changed.notify_one();
        if is_new {
            tokio::spawn(see_to(Arc::clone(&follower), crib.downgrade(), agent.clone()));
        }
        Some((follower, number, outcome))
    }

    /// Removes the entry of a connection if it has no subscriptions left. Later ones create a new entry.
    fn is_over(&self, follower: &Follower) -> bool {
        let mut all = self.all();
        let is_over = follower.wanted().is_empty();
        if is_over {
            all.remove(&follower.key);
        }
        is_over
    }
}

/// Whether an agent may add a subscription on a connection: it may have no more than remain for all other agents.
fn has_room(wanted: &BTreeMap<Box<str>, Wanted>, agent: &str) -> bool {
    let is_its = |one: &&Wanted| one.hearers.iter().any(|hearer| *hearer.agent == *agent);
    wanted.values().filter(is_its).count() < OF_CONNECTION.saturating_sub(wanted.len())
}

impl Follower {
    fn new(key: &Key) -> Self {
        let (next, wanted, changed) = (AtomicU64::new(0), Mutex::default(), Notify::new());
        Self { key: key.clone(), next, wanted, changed }
    }

    fn wanted(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Wanted>> {
        self.wanted.lock().expect("no one panics while holding it")
    }

    fn leave(&self, own: &str, number: u64) {
        let mut wanted = self.wanted();
        if let Some(one) = wanted.get_mut(own) {
            one.hearers.retain(|hearer| hearer.number != number);
            if one.hearers.is_empty() {
                wanted.remove(own);
                self.changed.notify_one();
            }
        }
    }

    fn tell(&self, own: &str) {
        if let Some(one) = self.wanted().get(own) {
            one.hearers.iter().for_each(Hearer::tell);
        }
    }

    /// Publishes the outcome of a request once to every listener that waits for it.
    fn settle(&self, asked: &BTreeSet<Box<str>>, outcome: impl Fn(&str) -> Result<(), String>) {
        for (own, one) in self.wanted().iter().filter(|(own, _)| asked.contains(*own)) {
            one.outcome.send_if_modified(|known| {
                let is_new = known.is_none();
                if is_new {
                    *known = Some(outcome(own));
                }
                is_new
            });
        }
    }

    /// Subscribes the wanted resources at the server, on the current connection.
    async fn reconcile(
        &self,
        crib: &Toolcrib,
        agent: &Agent,
        asked: &mut Option<Asked>,
    ) -> Result<(), String> {
        let uris: BTreeSet<Box<str>> = self.wanted().keys().cloned().collect();
        let done = self.ask(crib, agent, asked, &uris).await;
        match &done {
            Ok(refused) => self.settle(&uris, |own| match refused.get(own) {
                Some(why) => Err(why.clone()),
                None => Ok(()),
            }),
            Err(why) => self.settle(&uris, |_| Err(why.clone())),
        }
        done.map(drop)
    }

    async fn ask(
        &self,
        crib: &Toolcrib,
        agent: &Agent,
        asked: &mut Option<Asked>,
        uris: &BTreeSet<Box<str>>,
    ) -> Result<HashMap<Box<str>, String>, String> {
        let mut is_lost = false;
        if !uris.is_empty() {
            let now = self.connected(crib, agent, asked.take()).await?;
            is_lost = now.session != now.upstream.connection.session() || now.seen == LOST;
            *asked = Some(now);
        }
        let Some(asked) = asked else { return Ok(HashMap::new()) };
        let connection = &asked.upstream.connection;
        let call = Call { deadline: Some(DEADLINE), ..Call::default() };
        let refused =
            connection.follow(uris.clone(), &call).await.map_err(|error| error.to_string())?;
        asked.session = connection.session();
        if is_lost {
            // Changes in between were missed, so report every resource as changed.
            asked.seen = newest(&asked.changes.borrow());
            uris.iter().for_each(|own| self.tell(own));
        }
        let mask = asked.upstream.mask();
        let told = refused.into_iter().map(|(own, error)| {
            let mut message = error.message().to_owned();
            mask.text(&mut message);
            (own, message)
        });
        Ok(told.collect())
    }

    /// The connection with the subscriptions, or its replacement.
    async fn connected(
        &self,
        crib: &Toolcrib,
        agent: &Agent,
        asked: Option<Asked>,
    ) -> Result<Asked, String> {
        let asked = match asked {
            Some(asked) if !asked.upstream.is_kept() => match asked.upstream.connection.ended() {
                None => return Ok(asked),
                Some(_) => Some(asked),
            },
            asked => asked,
        };
        let snapshot = crib.catalog().snapshot();
        let source = snapshot.source(&self.key.0).ok_or("the source is gone")?;
        let (upstreams, carried) = (crib.upstreams(), Carried::default());
        let opened = upstreams.for_agent(&source.source, agent, crib.secrets(), carried).await;
        let upstream = opened.map_err(|error| error.to_string())?;
        let was_there = asked.is_some();
        match asked {
            Some(asked) if asked.upstream.connection.is(&upstream.connection) => {
                Ok(Asked { upstream, ..asked })
            }
            _ => {
                let (changes, session) =
                    (upstream.connection.changes(), upstream.connection.session());
                let seen = if was_there { LOST } else { newest(&changes.borrow()) };
                Ok(Asked { upstream, session, changes, seen })
            }
        }
    }
}

/// Stands for the last seen change of another connection.
const LOST: u64 = u64::MAX;

fn newest(changes: &Changes) -> u64 {
    changes.updated.last().map_or(0, |(number, _)| *number)
}

impl Hearer {
    fn tell(&self) {
        self.told.send_modify(|changes| changes.update(&self.uri));
    }
}

/// Reconciles until no subscription is left. It does not keep a closed [`Toolcrib`](crate::Toolcrib) alive.
async fn see_to(follower: Arc<Follower>, crib: WeakCrib, agent: Agent) {
    let mut asked = None;
    loop {
        let Some(crib) = crib.upgrade() else { return };
        let done = follower.reconcile(&crib, &agent, &mut asked).await;
        if let Err(why) = &done {
            let source = &follower.key.0;
            tracing::debug!(%source, "resources of `{source}` are not followed: {why}");
        }
        if crib.upstreams().followers.is_over(&follower) {
            return;
        }
        drop(crib);
        let pause = if done.is_ok() { LOOK_AGAIN } else { AFTER_FAILURE };
        tokio::select! {
            () = follower.changed.notified() => {}
            () = sleep(pause) => {}
            () = changed(&mut asked) => {
                let Some(asked) = &mut asked else { continue };
                let changes = asked.changes.borrow_and_update().clone();
                for (_, own) in changes.updated.iter().filter(|(number, _)| asked.seen < *number) {
                    follower.tell(own);
                }
                asked.seen = newest(&changes);
            }
        }
    }
}

async fn changed(asked: &mut Option<Asked>) {
    let is_gone = match asked {
        Some(asked) => asked.changes.changed().await.is_err(),
        None => true,
    };
    if is_gone {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_takes_no_more_of_a_connection_than_remains_for_the_others() {
        let mut wanted = BTreeMap::new();
        let mut fill = |agent: &str, most: usize| {
            let before = wanted.len();
            while wanted.len() - before < most && has_room(&wanted, agent) {
                let told = Arc::default();
                let hearer = Hearer { number: 0, agent: agent.into(), uri: "a".into(), told };
                let one = Wanted { hearers: vec![hearer], ..Wanted::default() };
                wanted.insert(wanted.len().to_string().into(), one);
            }
            wanted.len() - before
        };
        let taken = ["ada", "bob", "eve", "ida", "kim", "lea"].map(|agent| fill(agent, OF_AGENT));
        assert_eq!(taken, [1_000, 1_000, 1_000, 1_000, 500, 250]);
    }

    #[test]
    fn an_agent_has_a_limit_and_unsubscribing_frees_it() {
        let followers = Followers::default();
        assert!((0..OF_AGENT).all(|_| followers.enter("ada")));
        assert!(!followers.enter("ada") && followers.enter("eve"));
        followers.leave("ada");
        assert!(followers.enter("ada") && !followers.enter("ada"));
        (0..OF_AGENT).for_each(|_| followers.leave("ada"));
        followers.leave("eve");
        assert!(followers.of_agents().is_empty());
    }
}
