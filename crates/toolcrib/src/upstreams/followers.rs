//! Resources of MCP servers whose changes somebody wants to hear of: each is asked for once on a connection, for as long as
//! anybody wants to.
//!
//! One task for each connection sees to it that the server is asked for what is wanted, no more and no less: when somebody
//! comes or goes, and now and then, as a connection may be another one by then.

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

/// How many an agent follows, and how many are followed on one connection.
const OF_AGENT: usize = 1_000;
const OF_CONNECTION: usize = 5_000;
/// How often it is looked whether all is as it must be, and how soon again after a failure.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// For one word to a server.
const DEADLINE: Duration = Duration::from_secs(10);

/// All that is followed at servers.
#[derive(Default)]
pub(crate) struct Followers {
    all: Mutex<HashMap<Key, Arc<Follower>>>,
    of_agents: Mutex<HashMap<Box<str>, usize>>,
}

/// What is followed on one connection.
struct Follower {
    key: Key,
    next: AtomicU64,
    wanted: Mutex<BTreeMap<Box<str>, Wanted>>,
    changed: Notify,
}

/// None until the server was asked.
type Outcome = Option<Result<(), String>>;

/// One resource, by the server's own address.
#[derive(Default)]
struct Wanted {
    hearers: Vec<Hearer>,
    /// What came of asking for it.
    outcome: watch::Sender<Outcome>,
}

struct Hearer {
    number: u64,
    /// Whose it is.
    agent: Box<str>,
    /// What the agent calls it.
    uri: Box<str>,
    told: Arc<watch::Sender<crate::provider::Changes>>,
}

/// A connection on which the server was asked.
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

    /// Makes room for one more of an agent, if there is any.
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

    /// One more hearer, and where it is told what came of it.
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

    /// Whether nobody wants anything any more. From then on it is another follower that they come to.
    fn is_over(&self, follower: &Follower) -> bool {
        let mut all = self.all();
        let is_over = follower.wanted().is_empty();
        if is_over {
            all.remove(&follower.key);
        }
        is_over
    }
}

/// Whether an agent may follow one more on a connection: it has no more than is left for all the others.
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

    /// What came of asking for all of them: whom it concerns learns of it once.
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

    /// Asks the server for what is wanted now, on the connection that is there now.
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
            // Nobody heard what changed in between.
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

    /// The connection that was asked before, or the one in its place.
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

/// Stands for what was seen on another connection.
const LOST: u64 = u64::MAX;

fn newest(changes: &Changes) -> u64 {
    changes.updated.last().map_or(0, |(number, _)| *number)
}

impl Hearer {
    fn tell(&self) {
        self.told.send_modify(|changes| changes.update(&self.uri));
    }
}

/// Sees to it until nobody wants anything any more. A crib that is closed is not kept for it.
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
    fn on_a_connection_an_agent_has_no_more_than_is_left_for_the_others() {
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
    fn an_agent_has_so_much_room_and_gets_it_back() {
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
