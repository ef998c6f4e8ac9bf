//! Subscriptions to resources of MCP servers: each resource is subscribed once on a connection, while any client needs
//! it.
//!
//! One task for each connection reconciles the server's subscriptions with the wanted ones: when a client subscribes or
//! unsubscribes, and at intervals, because the connection may have been replaced.

mod resource_subscriptions;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use mcp_client::{McpCallOptions, ServerChanges};
use model::Agent;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

pub use self::resource_subscriptions::{ResourceSubscriptions, SubscribeError};
use calls::upstream_connections::{ConnectionKey, UpstreamConnection};
use calls::upstream_credentials::RequestAuth;

use crate::crib::{Toolcrib, WeakToolcrib};

/// The most subscriptions of an agent, and on one connection.
const MAX_PER_AGENT: usize = 1_000;
const MAX_PER_CONNECTION: usize = 5_000;
/// How often to reconcile, and the delay after a failure.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(30);
const RETRY_DELAY: Duration = Duration::from_secs(5);
/// The time limit of one request to a server.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

/// All subscriptions at servers.
#[derive(Default)]
pub(crate) struct UpstreamSubscriptions {
    connections: Mutex<HashMap<ConnectionKey, Arc<ConnectionSubscriptions>>>,
    agent_counts: Mutex<HashMap<Box<str>, usize>>,
}

/// The subscriptions on one connection.
struct ConnectionSubscriptions {
    key: ConnectionKey,
    next_number: AtomicU64,
    resources: Mutex<BTreeMap<Box<str>, SubscribedResource>>,
    changed: Notify,
}

/// `None` until the server was asked.
type SubscribeOutcome = Option<Result<(), String>>;

/// One resource, by the server's own URI.
#[derive(Default)]
struct SubscribedResource {
    listeners: Vec<ResourceListener>,
    /// Whether the server accepted the subscription.
    outcome: watch::Sender<SubscribeOutcome>,
}

struct ResourceListener {
    number: u64,
    /// The key of its agent.
    agent: Box<str>,
    /// The URI under which the agent knows the resource.
    uri: Box<str>,
    changes: Arc<watch::Sender<provider::ProviderChanges>>,
}

/// A connection with its subscriptions.
struct SubscribedConnection {
    upstream: UpstreamConnection,
    session: u64,
    changes: watch::Receiver<ServerChanges>,
    last_seen: u64,
}

impl UpstreamSubscriptions {
    fn lock_connections(
        &self,
    ) -> MutexGuard<'_, HashMap<ConnectionKey, Arc<ConnectionSubscriptions>>> {
        self.connections.lock().expect("no one panics while holding it")
    }

    fn lock_agent_counts(&self) -> MutexGuard<'_, HashMap<Box<str>, usize>> {
        self.agent_counts.lock().expect("no one panics while holding it")
    }

    /// Reserves one more subscription of an agent; `false` if the limit is reached.
    fn reserve(&self, agent: &str) -> bool {
        let mut all = self.lock_agent_counts();
        let count = all.entry(agent.into()).or_default();
        let has_room = *count < MAX_PER_AGENT;
        *count += usize::from(has_room);
        has_room
    }

    fn release(&self, agent: &str) {
        let mut all = self.lock_agent_counts();
        if let Some(count) = all.get_mut(agent) {
            *count -= 1;
            if *count == 0 {
                all.remove(agent);
            }
        }
    }

    /// Adds a listener; returns the channel that reports the outcome.
    fn add_listener(
        &self,
        crib: &Toolcrib,
        agent: &Agent,
        key: &ConnectionKey,
        own: &str,
        hearer: ResourceListener,
    ) -> Option<(Arc<ConnectionSubscriptions>, u64, watch::Receiver<SubscribeOutcome>)> {
        let mut all = self.lock_connections();
        let is_new = !all.contains_key(key);
        let follower =
            all.entry(key.clone()).or_insert_with(|| Arc::new(ConnectionSubscriptions::new(key)));
        let follower = Arc::clone(follower);
        let number = follower.next_number.fetch_add(1, Ordering::Relaxed);
        let outcome = {
            let mut wanted = follower.lock_resources();
            if !wanted.contains_key(own) && !has_room(&wanted, &hearer.agent) {
                return None;
            }
            let one = wanted.entry(own.into()).or_default();
            one.listeners.push(ResourceListener { number, ..hearer });
            one.outcome.subscribe()
        };
        follower.changed.notify_one();
        if is_new {
            tokio::spawn(run_reconciler(Arc::clone(&follower), crib.downgrade(), agent.clone()));
        }
        Some((follower, number, outcome))
    }

    /// Removes the entry of a connection if it has no subscriptions left. Later ones create a new entry.
    fn remove_if_unused(&self, follower: &ConnectionSubscriptions) -> bool {
        let mut all = self.lock_connections();
        let is_over = follower.lock_resources().is_empty();
        if is_over {
            all.remove(&follower.key);
        }
        is_over
    }
}

/// Whether an agent may add a subscription on a connection: it may have no more than remain for all other agents.
fn has_room(wanted: &BTreeMap<Box<str>, SubscribedResource>, agent: &str) -> bool {
    let is_its =
        |one: &&SubscribedResource| one.listeners.iter().any(|hearer| *hearer.agent == *agent);
    wanted.values().filter(is_its).count() < MAX_PER_CONNECTION.saturating_sub(wanted.len())
}

impl ConnectionSubscriptions {
    fn new(key: &ConnectionKey) -> Self {
        let (next, wanted, changed) = (AtomicU64::new(0), Mutex::default(), Notify::new());
        Self { key: key.clone(), next_number: next, resources: wanted, changed }
    }

    fn lock_resources(&self) -> MutexGuard<'_, BTreeMap<Box<str>, SubscribedResource>> {
        self.resources.lock().expect("no one panics while holding it")
    }

    fn remove_listener(&self, own: &str, number: u64) {
        let mut wanted = self.lock_resources();
        if let Some(one) = wanted.get_mut(own) {
            one.listeners.retain(|hearer| hearer.number != number);
            if one.listeners.is_empty() {
                wanted.remove(own);
                self.changed.notify_one();
            }
        }
    }

    fn notify_listeners(&self, own: &str) {
        if let Some(one) = self.lock_resources().get(own) {
            one.listeners.iter().for_each(ResourceListener::notify);
        }
    }

    /// Publishes the outcome of a request once to every listener that waits for it.
    fn publish_outcome(
        &self,
        asked: &BTreeSet<Box<str>>,
        outcome: impl Fn(&str) -> Result<(), String>,
    ) {
        for (own, one) in self.lock_resources().iter().filter(|(own, _)| asked.contains(*own)) {
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
        asked: &mut Option<SubscribedConnection>,
    ) -> Result<(), String> {
        let uris: BTreeSet<Box<str>> = self.lock_resources().keys().cloned().collect();
        let done = self.subscribe_all(crib, agent, asked, &uris).await;
        match &done {
            Ok(refused) => self.publish_outcome(&uris, |own| match refused.get(own) {
                Some(why) => Err(why.clone()),
                None => Ok(()),
            }),
            Err(why) => self.publish_outcome(&uris, |_| Err(why.clone())),
        }
        done.map(drop)
    }

    async fn subscribe_all(
        &self,
        crib: &Toolcrib,
        agent: &Agent,
        asked: &mut Option<SubscribedConnection>,
        uris: &BTreeSet<Box<str>>,
    ) -> Result<HashMap<Box<str>, String>, String> {
        let mut is_lost = false;
        if !uris.is_empty() {
            let now = self.current_connection(crib, agent, asked.take()).await?;
            is_lost = now.session != now.upstream.connection.session_generation()
                || now.last_seen == MISSED_CHANGES;
            *asked = Some(now);
        }
        let Some(asked) = asked else { return Ok(HashMap::new()) };
        let connection = &asked.upstream.connection;
        let call =
            McpCallOptions { deadline: Some(SUBSCRIBE_TIMEOUT), ..McpCallOptions::default() };
        let refused = connection
            .subscribe_resources(uris.clone(), &call)
            .await
            .map_err(|error| error.to_string())?;
        asked.session = connection.session_generation();
        if is_lost {
            // Changes in between were missed, so report every resource as changed.
            asked.last_seen = last_change(&asked.changes.borrow());
            uris.iter().for_each(|own| self.notify_listeners(own));
        }
        let mask = asked.upstream.credential_mask();
        let told = refused.into_iter().map(|(own, error)| {
            let mut message = error.message().to_owned();
            mask.mask_text(&mut message);
            (own, message)
        });
        Ok(told.collect())
    }

    /// The connection with the subscriptions, or its replacement.
    async fn current_connection(
        &self,
        crib: &Toolcrib,
        agent: &Agent,
        asked: Option<SubscribedConnection>,
    ) -> Result<SubscribedConnection, String> {
        let asked = match asked {
            Some(asked) if !asked.upstream.is_persistent() => {
                match asked.upstream.connection.end_reason() {
                    None => return Ok(asked),
                    Some(_) => Some(asked),
                }
            }
            asked => asked,
        };
        let snapshot = crib.catalog().snapshot();
        let source = snapshot.source(&self.key.0).ok_or("the source is gone")?;
        let (upstreams, carried) = (crib.upstreams(), RequestAuth::default());
        let opened = upstreams.for_agent(&source.source, agent, crib.secrets(), carried).await;
        let upstream = opened.map_err(|error| error.to_string())?;
        let was_there = asked.is_some();
        match asked {
            Some(asked) if asked.upstream.connection.is_same_connection(&upstream.connection) => {
                Ok(SubscribedConnection { upstream, ..asked })
            }
            _ => {
                let (changes, session) = (
                    upstream.connection.subscribe_changes(),
                    upstream.connection.session_generation(),
                );
                let seen = if was_there { MISSED_CHANGES } else { last_change(&changes.borrow()) };
                Ok(SubscribedConnection { upstream, session, changes, last_seen: seen })
            }
        }
    }
}

/// Stands for the last seen change of another connection.
const MISSED_CHANGES: u64 = u64::MAX;

fn last_change(changes: &ServerChanges) -> u64 {
    changes.updated_resources.last().map_or(0, |(number, _)| *number)
}

impl ResourceListener {
    fn notify(&self) {
        self.changes.send_modify(|changes| changes.record_resource_update(&self.uri));
    }
}

/// Reconciles until no subscription is left. It does not keep a closed [`Toolcrib`](crate::Toolcrib) alive.
async fn run_reconciler(follower: Arc<ConnectionSubscriptions>, crib: WeakToolcrib, agent: Agent) {
    let mut asked = None;
    loop {
        let Some(crib) = crib.upgrade() else { return };
        let done = follower.reconcile(&crib, &agent, &mut asked).await;
        if let Err(why) = &done {
            let source = &follower.key.0;
            tracing::debug!(%source, "resources of `{source}` are not followed: {why}");
        }
        if crib.subscriptions().remove_if_unused(&follower) {
            return;
        }
        drop(crib);
        let pause = if done.is_ok() { RECONCILE_INTERVAL } else { RETRY_DELAY };
        tokio::select! {
            () = follower.changed.notified() => {}
            () = sleep(pause) => {}
            () = wait_for_change(&mut asked) => {
                let Some(asked) = &mut asked else { continue };
                let changes = asked.changes.borrow_and_update().clone();
                for (_, own) in changes.updated_resources.iter().filter(|(number, _)| asked.last_seen < *number) {
                    follower.notify_listeners(own);
                }
                asked.last_seen = last_change(&changes);
            }
        }
    }
}

async fn wait_for_change(asked: &mut Option<SubscribedConnection>) {
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
                let hearer = ResourceListener {
                    number: 0,
                    agent: agent.into(),
                    uri: "a".into(),
                    changes: told,
                };
                let one =
                    SubscribedResource { listeners: vec![hearer], ..SubscribedResource::default() };
                wanted.insert(wanted.len().to_string().into(), one);
            }
            wanted.len() - before
        };
        let taken =
            ["ada", "bob", "eve", "ida", "kim", "lea"].map(|agent| fill(agent, MAX_PER_AGENT));
        assert_eq!(taken, [1_000, 1_000, 1_000, 1_000, 500, 250]);
    }

    #[test]
    fn an_agent_has_a_limit_and_unsubscribing_frees_it() {
        let followers = UpstreamSubscriptions::default();
        assert!((0..MAX_PER_AGENT).all(|_| followers.reserve("ada")));
        assert!(!followers.reserve("ada") && followers.reserve("eve"));
        followers.release("ada");
        assert!(followers.reserve("ada") && !followers.reserve("ada"));
        (0..MAX_PER_AGENT).for_each(|_| followers.release("ada"));
        followers.release("eve");
        assert!(followers.lock_agent_counts().is_empty());
    }
}
