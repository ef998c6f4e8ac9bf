//! Streams of a client that wants to know what changes: `subscriptions/listen`, and in the older versions `GET /mcp`.
//!
//! A client hears only of what it sees itself, and only what it asked for.

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

/// Ties a message to the subscription it is for.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// How long servers may take to say whether they tell of a resource: less than a stream may be silent.
const SETTLED: Duration = Duration::from_secs(10);
/// The most resources one stream watches.
const RESOURCES: usize = 100;
/// The longest address of a resource that is watched, in bytes.
pub(crate) const URI: usize = 2 << 10;

/// What a client wants to hear of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    pub(crate) updated: BTreeSet<String>,
}

/// One stream.
pub(crate) struct Listen {
    watching: Watching,
    /// Of the request that is answered by it; none where the stream is no answer.
    id: Option<Id>,
    wanted: Wanted,
    /// What else the session of the stream gathers while it is open.
    gathered: Option<Arc<Gathered>>,
    /// What is followed at servers: by the session, or by the stream alone.
    following: Following,
    /// Whether it was said which of the wishes are honoured.
    is_acknowledged: bool,
    ready: VecDeque<Sent>,
    is_over: bool,
}

impl Listen {
    /// `subscriptions/listen`
    pub(crate) fn begin(
        asking: &Asking,
        id: &Id,
        params: &Map<String, Value>,
    ) -> Result<Box<Self>, RpcError> {
        let wanted = Wanted::of(params)?;
        let listen = Self::new(&asking.peer, Some(id.clone()), wanted, None)?;
        Ok(Box::new(Self { is_acknowledged: false, ..*listen }))
    }

    /// `GET /mcp`
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

    /// Says first what it will tell of: of a resource only if it is there, and its server tells of it.
    async fn acknowledge(&mut self) {
        let (view, following) = (self.watching.view(), &self.following);
        let follow = self.wanted.updated.iter().map(async |uri| {
            let followed = timeout(SETTLED, view.follow(uri, following)).await;
            followed.is_ok_and(|followed| followed.is_ok()).then(|| uri.clone())
        });
        let honoured = join_all(follow).await;
        self.wanted.updated = honoured.into_iter().flatten().collect();
        // From here on nothing waits.
        self.is_acknowledged = true;
        let honoured = self.wanted.to_value();
        let acknowledged = self.about("notifications/subscriptions/acknowledged", honoured);
        self.ready.push_back(acknowledged);
    }

    /// Where in the journal it is.
    pub(crate) fn position(&self) -> u64 {
        self.watching.view().snapshot().position().0
    }

    /// Says that the tools changed, to whoever was away.
    pub(crate) fn say_that_tools_changed(&mut self) {
        let changed = self.about("notifications/tools/list_changed", json!({}));
        self.ready.push_back(changed);
    }

    /// The next message; none after the last.
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
        // What the agent no longer has is not told, and its server need not tell it any more.
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

    /// The resources that it tells of.
    fn subscribed(&self) -> impl Iterator<Item = String> {
        let of_session = self.gathered.as_ref().map(|gathered| gathered.wanted());
        let all = self.wanted.updated.iter().cloned().chain(of_session.into_iter().flatten());
        all.collect::<BTreeSet<_>>().into_iter()
    }

    /// Whether an admin wrote it anew.
    fn is_rewritten(&self, uri: &str, change: &Change) -> bool {
        let before = change.offers_before.as_ref();
        before.is_some_and(|before| self.watching.view().is_rewritten(uri, before))
    }

    /// Something about its tools changed; whether that is to be seen in the list is another question.
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

    /// The answer that ends the stream in good order.
    fn end(&self) -> Option<Sent> {
        let id = self.id.as_ref()?;
        let meta = json!({SUBSCRIPTION: id.to_value()});
        let result = Map::from_iter([("_meta".to_owned(), meta)]);
        Some(Sent::result(id, Era::Modern.complete(result)))
    }
}

/// Ends when the session does, if the stream belongs to one.
async fn ended(session: Option<&Gathered>) {
    match session {
        Some(session) => session.ended().await,
        None => std::future::pending().await,
    }
}

impl Wanted {
    /// All lists, and no resource in particular.
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
