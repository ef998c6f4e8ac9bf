//! Subscriptions to changes. In the modern era a subscription is a call that is answered when the server ends it.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::futures::Notified;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::McpError;
use super::connection_settings::{McpCallOptions, ServerEra};
use super::dispatch::CallRecipient;
use super::json_rpc::{McpAnswer, RpcError};
use super::mcp_connection::McpConnection;
use super::transport_link::TransportLink;

const INITIAL_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// A subscription that lasted this long resets the retry delay.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// The shortest interval between two subscriptions, so that frequent changes of interest do not keep the server busy.
const MIN_REPLACE_INTERVAL: Duration = Duration::from_secs(1);
/// The previous subscription stays until the server acknowledges the next, so that no change is missed; at most this
/// long.
const MAX_OVERLAP: Duration = Duration::from_secs(10);

/// A stream is reopened after this time, because the server may be gone without closing it.
const REOPEN_AFTER: Duration = Duration::from_secs(10 * 60);

/// The resources to receive updates for.
pub(super) type SubscribedUris = BTreeSet<Box<str>>;

/// The list changes that the server announces in its capabilities.
pub(super) fn announced_lists(server: &Map<String, Value>) -> Map<String, Value> {
    let mut wanted = Map::new();
    for (kind, name) in [
        ("tools", "toolsListChanged"),
        ("prompts", "promptsListChanged"),
        ("resources", "resourcesListChanged"),
    ] {
        let kind = server.get("capabilities").and_then(|capabilities| capabilities.get(kind));
        if kind.and_then(|kind| kind.get("listChanged")) == Some(&Value::Bool(true)) {
            wanted.insert(name.to_owned(), json!(true));
        }
    }
    wanted
}

/// Subscribes until it is aborted, the connection ends, or the server turns out not to support subscriptions.
pub(super) async fn run_subscription(
    link: TransportLink,
    lists: Map<String, Value>,
    mut followed: watch::Receiver<SubscribedUris>,
) {
    let call =
        McpCallOptions { deadline: Some(Duration::from_secs(30)), ..McpCallOptions::default() };
    let mut pause = INITIAL_RETRY_DELAY;
    let mut before: Option<SubscriptionFuture> = None;
    loop {
        let mut wanted = lists.clone();
        let uris = json!(*followed.borrow_and_update());
        if uris != json!([]) {
            wanted.insert("resourceSubscriptions".to_owned(), uris);
        }
        if wanted.is_empty() {
            before = None;
            match followed.changed().await {
                Ok(()) => continue,
                Err(_) => return,
            }
        }
        let (begun, is_beside) = (Instant::now(), before.is_some());
        let acknowledged = link.dispatcher().acknowledged.notified();
        let mut listening = start_subscription(&link, wanted, &call);
        let (overlaps, is_alone) = oneshot::channel::<()>();
        let answer = tokio::select! {
            answer = async {
                if let Some(before) = before.take() {
                    tokio::select! {
                        answer = &mut listening => return answer,
                        () = overlap_previous(before, acknowledged, &link) => {}
                    }
                }
                drop(overlaps);
                (&mut listening).await
            } => Some(answer),
            () = wait_to_replace(&mut followed, begun, is_alone) => None,
            () = sleep(REOPEN_AFTER), if matches!(link, TransportLink::Http(_)) => None,
        };
        let Some(answer) = answer else {
            before = Some(listening);
            continue;
        };
        match answer {
            // The server may refuse a second concurrent subscription.
            Ok(McpAnswer::Error(_)) if is_beside => pause = INITIAL_RETRY_DELAY,
            Ok(McpAnswer::Error(_)) => return,
            Err(error) if error.is_final() && link.dispatcher().end_reason().is_some() => return,
            Ok(McpAnswer::Result(_)) | Err(_) => {}
        }
        if STABLE_AFTER <= begun.elapsed() {
            pause = INITIAL_RETRY_DELAY;
        }
        sleep(pause).await;
        pause = (pause * 2).min(MAX_RETRY_DELAY);
        // Changes in between were missed.
        link.dispatcher().change_notifier.record_change(|changes| changes.mark_all_lists());
    }
}

type SubscriptionFuture = Pin<Box<dyn Future<Output = Result<McpAnswer, McpError>> + Send>>;

fn start_subscription(
    link: &TransportLink,
    wanted: Map<String, Value>,
    call: &McpCallOptions,
) -> SubscriptionFuture {
    let (link, call) = (link.clone(), call.clone());
    let mut params = Map::from_iter([("notifications".to_owned(), json!(wanted))]);
    Box::pin(async move {
        link.send_call("subscriptions/listen", &mut params, &call, CallRecipient::Internal).await
    })
}

/// Keeps the previous subscription open until the server acknowledges the next.
async fn overlap_previous(
    before: SubscriptionFuture,
    acknowledged: Notified<'_>,
    link: &TransportLink,
) {
    tokio::select! {
        () = acknowledged => return,
        _ = before => {}
        () = sleep(MAX_OVERLAP) => {}
    }
    // Without an acknowledgement, changes may have been missed in between.
    link.dispatcher().change_notifier.record_change(|changes| changes.mark_all_lists());
}

/// Waits until other resources are wanted, the subscription is old enough to be replaced, and no previous one is left.
async fn wait_to_replace(
    followed: &mut watch::Receiver<SubscribedUris>,
    begun: Instant,
    is_alone: oneshot::Receiver<()>,
) {
    if followed.changed().await.is_err() {
        return std::future::pending().await;
    }
    is_alone.await.ok();
    sleep_until(begun + MIN_REPLACE_INTERVAL).await;
}

impl McpConnection {
    /// Whether the server announces updates of resources.
    pub fn supports_resource_updates(&self) -> bool {
        let capabilities = self.server_description().server.get("capabilities");
        let resources = capabilities.and_then(|all| all.get("resources"));
        resources.and_then(|it| it.get("subscribe")) == Some(&Value::Bool(true))
    }

    /// Replaces the set of resources to receive updates for. Updates arrive in [`McpConnection::subscribe_changes`]. Returns the
    /// subscriptions that the server refused, which are not repeated.
    pub async fn subscribe_resources(
        &self,
        uris: BTreeSet<Box<str>>,
        call: &McpCallOptions,
    ) -> Result<Vec<(Box<str>, RpcError)>, McpError> {
        if self.server_description().era == ServerEra::Modern {
            self.subscribed_uris().send_if_modified(|before| {
                let is_other = *before != uris;
                *before = uris;
                is_other
            });
            self.start_listening();
            return Ok(Vec::new());
        }
        let mut followed = match self.is_first_in_session() {
            true => SubscribedUris::new(),
            false => self.subscribed_uris().borrow().clone(),
        };
        let mut refused = Vec::new();
        let done = self.update_subscriptions(&uris, &mut followed, &mut refused, call).await;
        self.subscribed_uris().send_replace(followed);
        done.map(|()| refused)
    }

    async fn update_subscriptions(
        &self,
        uris: &SubscribedUris,
        followed: &mut SubscribedUris,
        refused: &mut Vec<(Box<str>, RpcError)>,
        call: &McpCallOptions,
    ) -> Result<(), McpError> {
        let gone: Vec<_> = followed.difference(uris).cloned().collect();
        let new: Vec<_> = uris.difference(followed).cloned().collect();
        for uri in gone {
            // An error answer does not matter: updates of this resource are ignored from now on.
            drop(self.send_resource_request("resources/unsubscribe", &uri, call).await?);
            followed.remove(&uri);
        }
        for uri in new {
            match self.send_resource_request("resources/subscribe", &uri, call).await? {
                McpAnswer::Result(_) => {}
                McpAnswer::Error(error) => refused.push((uri.clone(), error)),
            }
            followed.insert(uri);
        }
        Ok(())
    }

    async fn send_resource_request(
        &self,
        method: &str,
        uri: &str,
        call: &McpCallOptions,
    ) -> Result<McpAnswer, McpError> {
        let mut params = Map::from_iter([("uri".to_owned(), json!(uri))]);
        self.send_request(method, &mut params, call, CallRecipient::Internal).await
    }
}
