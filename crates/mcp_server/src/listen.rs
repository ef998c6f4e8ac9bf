//! Change notifications: `subscriptions/listen`, and `GET /mcp` in the legacy versions.
//!
//! A client gets notifications only about objects that it can see and asked for.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use endpoint::tool_format::ToolFormat;
use endpoint::view_subscription::{ViewChange, ViewSubscription};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use toolcrib::{AgentView, ResourceSubscriptions};

use super::error_response::RpcErrorResponse;
use super::incoming_message::JsonRpcId;
use super::mcp_peer::McpPeer;
use super::mcp_sessions::McpSessionState;
use super::outgoing_message::OutgoingMessage;
use super::protocol_era::ProtocolEra;
use super::shared_methods::McpRequest;

/// The `_meta` key that ties a message to its subscription.
const SUBSCRIPTION_META_KEY: &str = "io.modelcontextprotocol/subscriptionId";
/// How long upstreams may take to accept a subscription; shorter than the heartbeat interval of a stream.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of resources per stream.
const MAX_STREAM_RESOURCES: usize = 100;
/// Maximum length of the URI of a resource, in bytes.
pub(crate) const MAX_URI_BYTES: usize = 2 << 10;

/// The changes that a client subscribed to.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenFilter {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    pub(crate) resource_uris: BTreeSet<String>,
}

/// One stream of change notifications.
pub(crate) struct ListenStream {
    watching: ViewSubscription,
    /// Id of the request that the stream answers; `None` for `GET /mcp`.
    id: Option<JsonRpcId>,
    wanted: ListenFilter,
    /// The session's state, whose subscriptions the stream also serves.
    gathered: Option<Arc<McpSessionState>>,
    /// Subscriptions at upstreams: of the session, or of this stream alone.
    following: ResourceSubscriptions,
    /// Whether the accepted filter has been sent.
    is_acknowledged: bool,
    ready: VecDeque<OutgoingMessage>,
    is_over: bool,
}

impl ListenStream {
    /// Starts the stream of `subscriptions/listen`.
    pub(crate) fn from_request(
        asking: &McpRequest,
        id: &JsonRpcId,
        params: &Map<String, Value>,
    ) -> Result<Box<Self>, RpcErrorResponse> {
        let wanted = ListenFilter::from_params(params)?;
        let listen = Self::new(&asking.peer, Some(id.clone()), wanted, None)?;
        Ok(Box::new(Self { is_acknowledged: false, ..*listen }))
    }

    /// Creates a stream, for `GET /mcp` without a request id.
    pub(crate) fn new(
        peer: &McpPeer,
        id: Option<JsonRpcId>,
        wanted: ListenFilter,
        gathered: Option<Arc<McpSessionState>>,
    ) -> Result<Box<Self>, RpcErrorResponse> {
        let of_session =
            gathered.as_ref().map(|gathered| gathered.upstream_subscriptions().clone());
        let following = of_session.unwrap_or_default();
        let watching = peer.watch_view()?.with_followed_resources(following.changes());
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
    async fn acknowledge_filter(&mut self) {
        let (view, following) = (self.watching.view(), &self.following);
        let follow = self.wanted.resource_uris.iter().map(async |uri| {
            let followed =
                timeout(FOLLOW_TIMEOUT, view.subscribe_to_resource(uri, following)).await;
            followed.is_ok_and(|followed| followed.is_ok()).then(|| uri.clone())
        });
        let honoured = join_all(follow).await;
        self.wanted.resource_uris = honoured.into_iter().flatten().collect();
        // No await after this line: the state changes at once.
        self.is_acknowledged = true;
        let honoured = self.wanted.to_value();
        let acknowledged =
            self.build_notification("notifications/subscriptions/acknowledged", honoured);
        self.ready.push_back(acknowledged);
    }

    /// The journal position of the current view.
    pub(crate) fn journal_position(&self) -> u64 {
        self.watching.view().snapshot().position().0
    }

    /// Queues a notification about changed tools, for a client that was disconnected.
    pub(crate) fn queue_tools_changed(&mut self) {
        let changed = self.build_notification("notifications/tools/list_changed", json!({}));
        self.ready.push_back(changed);
    }

    /// The next message; `None` after the last.
    pub(crate) async fn next_message(&mut self) -> Option<OutgoingMessage> {
        loop {
            if !self.is_acknowledged {
                self.acknowledge_filter().await;
            }
            if let Some(sent) = self.ready.pop_front() {
                return Some(sent);
            }
            if self.is_over {
                return None;
            }
            let changed = tokio::select! {
                changed = self.watching.next_change() => changed.ok(),
                () = session_ended(self.gathered.as_deref()) => None,
            };
            match changed {
                Some(change) => self.queue_notifications(&change),
                None => {
                    self.is_over = true;
                    self.ready.extend(self.closing_response());
                }
            }
        }
    }

    fn queue_notifications(&mut self, change: &ViewChange) {
        let lists = [
            (self.wanted.tools && self.is_tool_list_changed(change), "tools"),
            (self.wanted.prompts && change.prompts, "prompts"),
            (self.wanted.resources && change.resources, "resources"),
        ];
        for (_, what) in lists.into_iter().filter(|(is_wanted, _)| *is_wanted) {
            let told =
                self.build_notification(&format!("notifications/{what}/list_changed"), json!({}));
            self.ready.push_back(told);
        }
        // Drop resources that the agent lost: it gets no notification, and upstreams need not send any.
        self.watching.view().prune_subscriptions(&self.following);
        let followed = change.followed.iter().filter(|uri| self.following.is_subscribed(uri));
        let named: BTreeSet<&str> =
            change.updated.iter().chain(followed).map(AsRef::as_ref).collect();
        let updated: Vec<String> = self
            .subscribed_uris()
            .filter(|uri| {
                change.has_missed || named.contains(&**uri) || self.is_rewritten(uri, change)
            })
            .collect();
        for uri in updated {
            let told =
                self.build_notification("notifications/resources/updated", json!({"uri": uri}));
            self.ready.push_back(told);
        }
    }

    /// The URIs that the client subscribed to.
    fn subscribed_uris(&self) -> impl Iterator<Item = String> {
        let of_session = self.gathered.as_ref().map(|gathered| gathered.subscribed_uris());
        let all = self.wanted.resource_uris.iter().cloned().chain(of_session.into_iter().flatten());
        all.collect::<BTreeSet<_>>().into_iter()
    }

    /// Whether an admin changed the resource.
    fn is_rewritten(&self, uri: &str, change: &ViewChange) -> bool {
        let before = change.offers_before.as_ref();
        before.is_some_and(|before| self.watching.view().is_fixed_resource_changed(uri, before))
    }

    /// Whether a change of the tools is visible in the list.
    fn is_tool_list_changed(&self, change: &ViewChange) -> bool {
        let (app, now) = (self.watching.app(), self.watching.view());
        let tag = |view: &AgentView| ToolFormat::Mcp.cached_list(&app.list_cache, view).tag;
        change.tools_before.as_ref().is_some_and(|before| tag(before) != tag(now))
    }

    fn build_notification(&self, method: &str, mut params: Value) -> OutgoingMessage {
        if let Some(id) = &self.id {
            params["_meta"] = json!({SUBSCRIPTION_META_KEY: id.to_value()});
        }
        OutgoingMessage::notification(method, params)
    }

    /// The response that ends the stream regularly.
    fn closing_response(&self) -> Option<OutgoingMessage> {
        let id = self.id.as_ref()?;
        let meta = json!({SUBSCRIPTION_META_KEY: id.to_value()});
        let result = Map::from_iter([("_meta".to_owned(), meta)]);
        Some(OutgoingMessage::result_response(id, ProtocolEra::Modern.complete_result(result)))
    }
}

/// Resolves when the stream's session ends; without a session, it stays pending.
async fn session_ended(session: Option<&McpSessionState>) {
    match session {
        Some(session) => session.wait_until_ended().await,
        None => std::future::pending().await,
    }
}

impl ListenFilter {
    /// All lists, and no particular resource.
    pub(crate) fn all_lists() -> Self {
        Self { tools: true, prompts: true, resources: true, resource_uris: BTreeSet::new() }
    }

    fn from_params(params: &Map<String, Value>) -> Result<Self, RpcErrorResponse> {
        let wanted = params.get("notifications").and_then(Value::as_object);
        let wanted = wanted.ok_or_else(|| {
            RpcErrorResponse::invalid_params("`notifications` says what you want to hear")
        })?;
        let flag = |name: &str| wanted.get(name) == Some(&Value::Bool(true));
        let uris = wanted.get("resourceSubscriptions").and_then(Value::as_array);
        let uris = uris.into_iter().flatten().filter_map(Value::as_str);
        Ok(Self {
            tools: flag("toolsListChanged"),
            prompts: flag("promptsListChanged"),
            resources: flag("resourcesListChanged"),
            resource_uris: uris
                .filter(|uri| uri.len() <= MAX_URI_BYTES)
                .take(MAX_STREAM_RESOURCES)
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
        if !self.resource_uris.is_empty() {
            let uris = self.resource_uris.iter().cloned().collect::<Vec<_>>();
            honoured.insert("resourceSubscriptions".to_owned(), uris.into());
        }
        json!({"notifications": honoured})
    }
}
