//! What one stream or session wants to hear of.

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

/// How long a server may take to say whether it tells of a resource.
const PATIENCE: Duration = Duration::from_secs(8);

/// Resources of MCP servers that somebody wants to hear of. A copy is the same; the last one that is dropped ends it.
#[derive(Clone, Default)]
pub struct Following(Arc<Shared>);

#[derive(Default)]
struct Shared {
    told: Arc<watch::Sender<Changes>>,
    places: Mutex<BTreeMap<Box<str>, Place>>,
}

/// A place among those who hear of a resource. Dropping it gives it up.
struct Place {
    upstreams: Arc<Upstreams>,
    agent: Box<str>,
    source: SourceId,
    own: Box<str>,
    follower: Option<(Arc<Follower>, u64)>,
}

/// Why somebody does not hear of a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFollowed {
    /// It is not there, or not for this agent.
    #[error("there is no such resource")]
    Missing,
    /// Its server does not do that.
    #[error("the server of the resource tells nobody of changes: read it again instead")]
    Silent,
    /// There is no room.
    #[error("there are too many subscriptions: end some of them")]
    TooMany,
    /// The server does not want to, or cannot be reached.
    #[error("{0}")]
    Failed(String),
}

impl Following {
    /// What changed: only `updated` is of use.
    pub fn changes(&self) -> watch::Receiver<Changes> {
        self.0.told.subscribe()
    }

    /// No longer of this one.
    pub fn end(&self, uri: &str) {
        drop(self.places().remove(uri));
    }

    /// No longer of any.
    pub fn end_all(&self) {
        drop(std::mem::take(&mut *self.places()));
    }

    /// Whether it is among them.
    pub fn has(&self, uri: &str) -> bool {
        self.places().contains_key(uri)
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Place>> {
        self.0.places.lock().expect("no one panics while holding it")
    }

    /// Only those that are still of the same source.
    pub(crate) fn keep(&self, source_of: impl Fn(&str) -> Option<SourceId>) {
        self.places().retain(|uri, place| source_of(uri).as_ref() == Some(&place.source));
    }

    /// One more, if its server says that it will tell.
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
