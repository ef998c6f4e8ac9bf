//! Change notifications: `subscriptions/listen`, and `GET /mcp` in the legacy versions.
//!
//! A client gets notifications only about objects that it can see and asked for.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use toolcrib::{AgentView, Following};

use super::answer::Sent;
use super::era::Era;
use super::error::RpcError;
use super::message::Id;
use super::methods::Asking;
use super::peer::Peer;
use super::sessions::Gathered;
use crate::format::Format;
use crate::watching::{Change, Watching};

/// The `_meta` key that ties a message to its subscription.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// How long upstreams may take to accept a subscription; shorter than the heartbeat interval of a stream.
const SETTLED: Duration = Duration::from_secs(10);
/// Maximum number of resources per stream.
const RESOURCES: usize = 100;
/// Maximum length of the URI of a resource, in bytes.
pub(crate) const URI: usize = 2 << 10;

/// The changes that a client subscribed to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    pub(crate) updated: BTreeSet<String>,
}

/// One stream of change notifications.
pub(crate) struct Listen {
    watching: Watching,
    /// Id of the request that the stream answers; `None` for `GET /mcp`.
    id: Option<Id>,
    wanted: Wanted,
    /// The session's state, whose subscriptions the stream also serves.
    gathered: Option<Arc<Gathered>>,
    /// Subscriptions at upstreams: of the session, or of this stream alone.
    following: Following,
    /// Whether the accepted filter has been sent.
    is_acknowledged: bool,
    ready: VecDeque<Sent>,
    is_over: bool,
}

impl Listen {
    /// Starts the stream of `subscriptions/listen`.
    pub(crate) fn begin(
        asking: &Asking,
        id: &Id,
        params: &Map<String, Value>,
    ) -> Result<Box<Self>, RpcError> {
        let wanted = Wanted::of(params)?;
        let listen = Self::new(&asking.peer, Some(id.clone()), wanted, None)?;
        Ok(Box::new(Self { is_acknowledged: false, ..*listen }))
    }

    /// Creates a stream, for `GET /mcp` without a request id.
    pub(crate) fn new(
        peer: &Peer,
        id: Option<Id>,
        wanted: Wanted,
        gathered: Option<Arc<Gathered>>,
    ) -> Result<Box<Self>, RpcError> {
        let of_session = gathered.as_ref().map(|gathered| gathered.following().clone());
        let following = of_session.unwrap_or_default();
        let watching = peer.watch()?.following(following.changes());
        Ok(Box::new(Self {
            watching,
            id,
            wanted,
            gathered,
            following,
            is_acknowledged: true,
            ready: VecDeque::new(),
            is_over: false,
        }))
    }

    /// Sends the accepted filter first. A resource is accepted only if it exists and its upstream supports
    /// subscriptions.
    async fn acknowledge(&mut self) {
        let (view, following) = (self.watching.view(), &self.following);
        let follow = self.wanted.updated.iter().map(async |uri| {
            let followed = timeout(SETTLED, view.follow(uri, following)).await;
            followed.is_ok_and(|followed| followed.is_ok()).then(|| uri.clone())
        });
        let honoured = join_all(follow).await;
        self.wanted.updated = honoured.into_iter().flatten().collect();
        // No await after this line: the state changes at once.
        self.is_acknowledged = true;
        let honoured = self.wanted.to_value();
        let acknowledged = self.about("notifications/subscriptions/acknowledged", honoured);
        self.ready.push_back(acknowledged);
    }

    /// The journal position of the current view.
    pub(crate) fn position(&self) -> u64 {
        self.watching.view().snapshot().position().0
    }

    /// Queues a notification about changed tools, for a client that was disconnected.
    pub(crate) fn say_that_tools_changed(&mut self) {
        let changed = self.about("notifications/tools/list_changed", json!({}));
        self.ready.push_back(changed);
    }

    /// The next message; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Sent> {
        loop {
            if !self.is_acknowledged {
                self.acknowledge().await;
            }
            if let Some(sent) = self.ready.pop_front() {
                return Some(sent);
            }
            if self.is_over {
                return None;
            }
            let changed = tokio::select! {
                changed = self.watching.changed() => changed.ok(),
                () = ended(self.gathered.as_deref()) => None,
            };
            match changed {
                Some(change) => self.tell(&change),
                None => {
                    self.is_over = true;
                    self.ready.extend(self.end());
                }
            }
        }
    }

    fn tell(&mut self, change: &Change) {
        let lists = [
            (self.wanted.tools && self.has_another_list(change), "tools"),
            (self.wanted.prompts && change.prompts, "prompts"),
            (self.wanted.resources && change.resources, "resources"),
        ];
        for (_, what) in lists.into_iter().filter(|(is_wanted, _)| *is_wanted) {
            let told = self.about(&format!("notifications/{what}/list_changed"), json!({}));
            self.ready.push_back(told);
        }
        // Drop resources that the agent lost: it gets no notification, and upstreams need not send any.
        self.watching.view().keep_following(&self.following);
        let followed = change.followed.iter().filter(|uri| self.following.has(uri));
        let named: BTreeSet<&str> =
            change.updated.iter().chain(followed).map(AsRef::as_ref).collect();
        let updated: Vec<String> = self
            .subscribed()
            .filter(|uri| {
                change.has_missed || named.contains(&**uri) || self.is_rewritten(uri, change)
            })
            .collect();
        for uri in updated {
            let told = self.about("notifications/resources/updated", json!({"uri": uri}));
            self.ready.push_back(told);
        }
    }

    /// The URIs that the client subscribed to.
    fn subscribed(&self) -> impl Iterator<Item = String> {
        let of_session = self.gathered.as_ref().map(|gathered| gathered.wanted());
        let all = self.wanted.updated.iter().cloned().chain(of_session.into_iter().flatten());
        all.collect::<BTreeSet<_>>().into_iter()
    }

    /// Whether an admin changed the resource.
    fn is_rewritten(&self, uri: &str, change: &Change) -> bool {
        let before = change.offers_before.as_ref();
        before.is_some_and(|before| self.watching.view().is_rewritten(uri, before))
    }

    /// Whether a change of the tools is visible in the list.
    fn has_another_list(&self, change: &Change) -> bool {
        let (app, now) = (self.watching.app(), self.watching.view());
        let tag = |view: &AgentView| Format::Mcp.list(app, view).tag;
        change.tools_before.as_ref().is_some_and(|before| tag(before) != tag(now))
    }

    fn about(&self, method: &str, mut params: Value) -> Sent {
        if let Some(id) = &self.id {
            params["_meta"] = json!({SUBSCRIPTION: id.to_value()});
        }
        Sent::notification(method, params)
    }

    /// The response that ends the stream regularly.
    fn end(&self) -> Option<Sent> {
        let id = self.id.as_ref()?;
        let meta = json!({SUBSCRIPTION: id.to_value()});
        let result = Map::from_iter([("_meta".to_owned(), meta)]);
        Some(Sent::result(id, Era::Modern.complete(result)))
    }
}

/// Resolves when the stream's session ends; without a session, it stays pending.
async fn ended(session: Option<&Gathered>) {
    match session {
        Some(session) => session.ended().await,
        None => std::future::pending().await,
    }
}

impl Wanted {
    /// All lists, and no particular resource.
    pub(crate) fn lists() -> Self {
        Self { tools: true, prompts: true, resources: true, updated: BTreeSet::new() }
    }

    fn of(params: &Map<String, Value>) -> Result<Self, RpcError> {
        let wanted = params.get("notifications").and_then(Value::as_object);
        let wanted = wanted.ok_or_else(|| {
            RpcError::invalid_params("`notifications` says what you want to hear")
        })?;
        let flag = |name: &str| wanted.get(name) == Some(&Value::Bool(true));
        let uris = wanted.get("resourceSubscriptions").and_then(Value::as_array);
        let uris = uris.into_iter().flatten().filter_map(Value::as_str);
        Ok(Self {
            tools: flag("toolsListChanged"),
            prompts: flag("promptsListChanged"),
            resources: flag("resourcesListChanged"),
            updated: uris
                .filter(|uri| uri.len() <= URI)
                .take(RESOURCES)
                .map(str::to_owned)
                .collect(),
        })
    }

    fn to_value(&self) -> Value {
        let mut honoured = Map::new();
        for (is_wanted, name) in [
            (self.tools, "toolsListChanged"),
            (self.prompts, "promptsListChanged"),
            (self.resources, "resourcesListChanged"),
        ] {
            if is_wanted {
                honoured.insert(name.to_owned(), true.into());
            }
        }
        if !self.updated.is_empty() {
            let uris = self.updated.iter().cloned().collect::<Vec<_>>();
            honoured.insert("resourceSubscriptions".to_owned(), uris.into());
        }
        json!({"notifications": honoured})
    }
}
