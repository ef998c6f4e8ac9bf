//! The resource subscriptions of one stream or session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use model::{Agent, SourceId};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Follower, Hearer, whose};
use crate::crib::Toolcrib;
use crate::provider::Changes;
use crate::upstreams::{Upstream, Upstreams};

/// How long a server may take to accept a subscription.
const PATIENCE: Duration = Duration::from_secs(8);

/// Subscriptions to resources of MCP servers. Clones share them; they end when the last clone is dropped.
#[derive(Clone, Default)]
pub struct Following(Arc<Shared>);

#[derive(Default)]
struct Shared {
    told: Arc<watch::Sender<Changes>>,
    places: Mutex<BTreeMap<Box<str>, Place>>,
}

/// A subscription to a resource, which ends when it is dropped.
struct Place {
    upstreams: Arc<Upstreams>,
    agent: Box<str>,
    source: SourceId,
    own: Box<str>,
    follower: Option<(Arc<Follower>, u64)>,
}

/// Why a resource cannot be subscribed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFollowed {
    /// The resource does not exist, or is not granted to this agent.
    #[error("there is no such resource")]
    Missing,
    /// The server does not support subscriptions.
    #[error("the server of the resource tells nobody of changes: read it again instead")]
    Silent,
    /// A limit is reached.
    #[error("there are too many subscriptions: end some of them")]
    TooMany,
    /// The server rejects the subscription, or cannot be reached.
    #[error("{0}")]
    Failed(String),
}

impl Following {
    /// Receives changes; only `updated` is used.
    pub fn changes(&self) -> watch::Receiver<Changes> {
        self.0.told.subscribe()
    }

    /// Ends one subscription.
    pub fn end(&self, uri: &str) {
        drop(self.places().remove(uri));
    }

    /// Ends all subscriptions.
    pub fn end_all(&self) {
        drop(std::mem::take(&mut *self.places()));
    }

    /// Whether the resource is subscribed.
    pub fn has(&self, uri: &str) -> bool {
        self.places().contains_key(uri)
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Place>> {
        self.0.places.lock().expect("no one panics while holding it")
    }

    /// Ends the subscriptions whose resource no longer belongs to the same source.
    pub(crate) fn keep(&self, source_of: impl Fn(&str) -> Option<SourceId>) {
        self.places().retain(|uri, place| source_of(uri).as_ref() == Some(&place.source));
    }

    /// Subscribes to a resource, if its server accepts.
    pub(crate) async fn add(
        &self,
        crib: &Toolcrib,
        agent: &Agent,
        upstream: &Upstream,
        uri: &str,
        own: &str,
    ) -> Result<(), NotFollowed> {
        if self.has(uri) {
            return Ok(());
        }
        let upstreams = Arc::clone(crib.upstreams());
        let (followers, name) = (&crib.upstreams().followers, whose(agent));
        if !followers.enter(&name) {
            return Err(NotFollowed::TooMany);
        }
        let (source, own) = (upstream.key.0.clone(), Box::from(own));
        let mut place = Place { upstreams, agent: name, source, own, follower: None };
        let (agent_name, told) = (place.agent.clone(), Arc::clone(&self.0.told));
        let hearer = Hearer { number: 0, agent: agent_name, uri: uri.into(), told };
        let added = followers.add(crib, agent, &upstream.key, &place.own, hearer);
        let (follower, number, mut outcome) = added.ok_or(NotFollowed::TooMany)?;
        place.follower = Some((follower, number));
        let settled = timeout(PATIENCE, outcome.wait_for(Option::is_some)).await;
        let settled = settled.ok().and_then(Result::ok).and_then(|it| it.clone());
        match settled {
            Some(Ok(())) => {}
            Some(Err(why)) => return Err(NotFollowed::Failed(why)),
            None => return Err(NotFollowed::Failed("the server does not answer".to_owned())),
        }
        self.places().insert(uri.into(), place);
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((follower, number)) = &self.follower {
            follower.leave(&self.own, *number);
        }
        self.upstreams.followers.leave(&self.agent);
    }
}
