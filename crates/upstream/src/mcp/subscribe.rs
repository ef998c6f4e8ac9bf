//! Subscriptions to changes. In the modern era a subscription is a call that is answered when the server ends it.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::futures::Notified;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::McpError;
use super::connection::Connection;
use super::hearing::Whose;
use super::link::Link;
use super::message::{Answer, RpcError};
use super::settings::{Call, Era};

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// A subscription that lasted this long resets the retry delay.
const GOOD: Duration = Duration::from_secs(60);

/// The shortest interval between two subscriptions, so that frequent changes of interest do not keep the server busy.
const GATHERED: Duration = Duration::from_secs(1);
/// The previous subscription stays until the server acknowledges the next, so that no change is missed; at most this
/// long.
const OVERLAP: Duration = Duration::from_secs(10);

/// A stream is reopened after this time, because the server may be gone without closing it.
const RENEWED: Duration = Duration::from_secs(10 * 60);

/// The resources to receive updates for.
pub(super) type Followed = BTreeSet<Box<str>>;

/// The list changes that the server announces in its capabilities.
pub(super) fn lists(server: &Map<String, Value>) -> Map<String, Value> {
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
pub(super) async fn listen(
    link: Link,
    lists: Map<String, Value>,
    mut followed: watch::Receiver<Followed>,
) {
    let call = Call { deadline: Some(Duration::from_secs(30)), ..Call::default() };
    let mut pause = FIRST;
    let mut before: Option<Listening> = None;
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
        let acknowledged = link.hearing().acknowledged.notified();
        let mut listening = listening(&link, wanted, &call);
        let (overlaps, is_alone) = oneshot::channel::<()>();
        let answer = tokio::select! {
            answer = async {
                if let Some(before) = before.take() {
                    tokio::select! {
                        answer = &mut listening => return answer,
                        () = overlap(before, acknowledged, &link) => {}
                    }
                }
                drop(overlaps);
                (&mut listening).await
            } => Some(answer),
            () = gathered(&mut followed, begun, is_alone) => None,
            () = sleep(RENEWED), if matches!(link, Link::Http(_)) => None,
        };
        let Some(answer) = answer else {
            before = Some(listening);
            continue;
        };
        match answer {
            // The server may refuse a second concurrent subscription.
            Ok(Answer::Error(_)) if is_beside => pause = FIRST,
            Ok(Answer::Error(_)) => return,
            Err(error) if error.is_final() && link.hearing().ended().is_some() => return,
            Ok(Answer::Result(_)) | Err(_) => {}
        }
        if GOOD <= begun.elapsed() {
            pause = FIRST;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
        // Changes in between were missed.
        link.hearing().bell.ring(|changes| changes.all());
    }
}

type Listening = Pin<Box<dyn Future<Output = Result<Answer, McpError>> + Send>>;

fn listening(link: &Link, wanted: Map<String, Value>, call: &Call) -> Listening {
    let (link, call) = (link.clone(), call.clone());
    let mut params = Map::from_iter([("notifications".to_owned(), json!(wanted))]);
    Box::pin(
        async move { link.call("subscriptions/listen", &mut params, &call, Whose::Ours).await },
    )
}

/// Keeps the previous subscription open until the server acknowledges the next.
async fn overlap(before: Listening, acknowledged: Notified<'_>, link: &Link) {
    tokio::select! {
        () = acknowledged => return,
        _ = before => {}
        () = sleep(OVERLAP) => {}
    }
    // Without an acknowledgement, changes may have been missed in between.
    link.hearing().bell.ring(|changes| changes.all());
}

/// Waits until other resources are wanted, the subscription is old enough to be replaced, and no previous one is left.
async fn gathered(
    followed: &mut watch::Receiver<Followed>,
    begun: Instant,
    is_alone: oneshot::Receiver<()>,
) {
    if followed.changed().await.is_err() {
        return std::future::pending().await;
    }
    is_alone.await.ok();
    sleep_until(begun + GATHERED).await;
}

impl Connection {
    /// Whether the server announces updates of resources.
    pub fn tells_of_resources(&self) -> bool {
        let capabilities = self.about().server.get("capabilities");
        let resources = capabilities.and_then(|all| all.get("resources"));
        resources.and_then(|it| it.get("subscribe")) == Some(&Value::Bool(true))
    }

    /// Replaces the set of resources to receive updates for. Updates arrive in [`Connection::changes`]. Returns the
    /// subscriptions that the server refused, which are not repeated.
    pub async fn follow(
        &self,
        uris: BTreeSet<Box<str>>,
        call: &Call,
    ) -> Result<Vec<(Box<str>, RpcError)>, McpError> {
        if self.about().era == Era::Modern {
            self.followed().send_if_modified(|before| {
                let is_other = *before != uris;
                *before = uris;
                is_other
            });
            self.listen();
            return Ok(Vec::new());
        }
        let mut followed = match self.is_first_in_session() {
            true => Followed::new(),
            false => self.followed().borrow().clone(),
        };
        let mut refused = Vec::new();
        let done = self.subscribe(&uris, &mut followed, &mut refused, call).await;
        self.followed().send_replace(followed);
        done.map(|()| refused)
    }

    async fn subscribe(
        &self,
        uris: &Followed,
        followed: &mut Followed,
        refused: &mut Vec<(Box<str>, RpcError)>,
        call: &Call,
    ) -> Result<(), McpError> {
        let gone: Vec<_> = followed.difference(uris).cloned().collect();
        let new: Vec<_> = uris.difference(followed).cloned().collect();
        for uri in gone {
            // An error answer does not matter: updates of this resource are ignored from now on.
            drop(self.about_resource("resources/unsubscribe", &uri, call).await?);
            followed.remove(&uri);
        }
        for uri in new {
            match self.about_resource("resources/subscribe", &uri, call).await? {
                Answer::Result(_) => {}
                Answer::Error(error) => refused.push((uri.clone(), error)),
            }
            followed.insert(uri);
        }
        Ok(())
    }

    async fn about_resource(
        &self,
        method: &str,
        uri: &str,
        call: &Call,
    ) -> Result<Answer, McpError> {
        let mut params = Map::from_iter([("uri".to_owned(), json!(uri))]);
        self.run(method, &mut params, call, Whose::Ours).await
    }
}
