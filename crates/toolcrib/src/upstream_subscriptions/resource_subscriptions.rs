//! The resource subscriptions of one stream or session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use calls::principal::principal_key;
use calls::upstream_connections::UpstreamConnection;
use model::{Agent, SourceId};
use provider::ProviderChanges;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{ConnectionSubscriptions, ResourceListener, UpstreamSubscriptions};
use crate::crib::Toolcrib;

/// How long a server may take to accept a subscription.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(8);

/// Subscriptions to resources of MCP servers. Clones share them; they end when the last clone is dropped.
#[derive(Clone, Default)]
pub struct ResourceSubscriptions(Arc<SubscriptionState>);

#[derive(Default)]
struct SubscriptionState {
    changes: Arc<watch::Sender<ProviderChanges>>,
    handles: Mutex<BTreeMap<Box<str>, SubscriptionHandle>>,
}

/// A subscription to a resource, which ends when it is dropped.
struct SubscriptionHandle {
    subscriptions: Arc<UpstreamSubscriptions>,
    agent: Box<str>,
    source: SourceId,
    upstream_uri: Box<str>,
    listener: Option<(Arc<ConnectionSubscriptions>, u64)>,
}

/// Why a resource cannot be subscribed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The resource does not exist, or is not granted to this agent.
    #[error("there is no such resource")]
    Missing,
    /// The server does not support subscriptions.
    #[error("the server of the resource tells nobody of changes: read it again instead")]
    Unsupported,
    /// A limit is reached.
    #[error("there are too many subscriptions: end some of them")]
    TooMany,
    /// The server rejects the subscription, or cannot be reached.
    #[error("{0}")]
    Failed(String),
}

impl ResourceSubscriptions {
    /// Receives changes; only `updated` is used.
    pub fn changes(&self) -> watch::Receiver<ProviderChanges> {
        self.0.changes.subscribe()
    }

    /// Ends one subscription.
    pub fn unsubscribe(&self, uri: &str) {
        drop(self.lock_handles().remove(uri));
    }

    /// Ends all subscriptions.
    pub fn unsubscribe_all(&self) {
        drop(std::mem::take(&mut *self.lock_handles()));
    }

    /// Whether the resource is subscribed.
    pub fn is_subscribed(&self, uri: &str) -> bool {
        self.lock_handles().contains_key(uri)
    }

    fn lock_handles(&self) -> MutexGuard<'_, BTreeMap<Box<str>, SubscriptionHandle>> {
        self.0.handles.lock().expect("no one panics while holding it")
    }

    /// Ends the subscriptions whose resource no longer belongs to the same source.
    pub(crate) fn retain_same_source(&self, source_of: impl Fn(&str) -> Option<SourceId>) {
        self.lock_handles().retain(|uri, place| source_of(uri).as_ref() == Some(&place.source));
    }

    /// Subscribes to a resource, if its server accepts.
    pub(crate) async fn subscribe(
        &self,
        crib: &Toolcrib,
        agent: &Agent,
        upstream: &UpstreamConnection,
        uri: &str,
        own: &str,
    ) -> Result<(), SubscribeError> {
        if self.is_subscribed(uri) {
            return Ok(());
        }
        let followers = Arc::clone(crib.subscriptions());
        let name = principal_key(agent);
        if !followers.reserve(&name) {
            return Err(SubscribeError::TooMany);
        }
        let (source, own) = (upstream.key.0.clone(), Box::from(own));
        let mut place = SubscriptionHandle {
            subscriptions: Arc::clone(&followers),
            agent: name,
            source,
            upstream_uri: own,
            listener: None,
        };
        let (agent_name, told) = (place.agent.clone(), Arc::clone(&self.0.changes));
        let hearer =
            ResourceListener { number: 0, agent: agent_name, uri: uri.into(), changes: told };
        let added = followers.add_listener(crib, agent, &upstream.key, &place.upstream_uri, hearer);
        let (follower, number, mut outcome) = added.ok_or(SubscribeError::TooMany)?;
        place.listener = Some((follower, number));
        let settled = timeout(ACCEPT_TIMEOUT, outcome.wait_for(Option::is_some)).await;
        let settled = settled.ok().and_then(Result::ok).and_then(|it| it.clone());
        match settled {
            Some(Ok(())) => {}
            Some(Err(why)) => return Err(SubscribeError::Failed(why)),
            None => return Err(SubscribeError::Failed("the server does not answer".to_owned())),
        }
        self.lock_handles().insert(uri.into(), place);
        Ok(())
    }
}

impl Drop for SubscriptionHandle {
    fn drop(&mut self) {
        if let Some((follower, number)) = &self.listener {
            follower.remove_listener(&self.upstream_uri, *number);
        }
        self.subscriptions.release(&self.agent);
    }
}
