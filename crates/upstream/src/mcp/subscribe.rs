//! Hearing of changes in the modern era: a call that is answered when the server no longer tells.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::McpError;
use super::connection::Connection;
use super::hearing::Whose;
use super::link::Link;
use super::message::Answer;
use super::settings::{Call, Era};

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// A subscription that held for so long was a good one.
const GOOD: Duration = Duration::from_secs(60);

/// After so long a stream is opened again: whoever is at the other end may be gone without a word.
const RENEWED: Duration = Duration::from_secs(10 * 60);

/// The resources whose changes are wanted.
pub(super) type Followed = BTreeSet<Box<str>>;

/// Which lists there are to hear of, as the server's capabilities say.
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

/// Listens until it is aborted, the connection ends, or the server turns out not to tell.
pub(super) async fn listen(
    link: Link,
    lists: Map<String, Value>,
    mut followed: watch::Receiver<Followed>,
) {
    let call = Call { deadline: Some(Duration::from_secs(30)), ..Call::default() };
    let mut pause = FIRST;
    loop {
        let mut wanted = lists.clone();
        let uris = json!(*followed.borrow_and_update());
        if uris != json!([]) {
            wanted.insert("resourceSubscriptions".to_owned(), uris);
        }
        if wanted.is_empty() {
            match followed.changed().await {
                Ok(()) => continue,
                Err(_) => return,
            }
        }
        let begun = Instant::now();
        let mut params = Map::from_iter([("notifications".to_owned(), json!(wanted))]);
        let answer = tokio::select! {
            answer = link.call("subscriptions/listen", &mut params, &call, Whose::Ours) => answer,
            Ok(()) = followed.changed() => continue,
            () = sleep(RENEWED), if matches!(link, Link::Http(_)) => continue,
        };
        match answer {
            Ok(Answer::Error(_)) => return,
            Err(error) if error.is_final() && link.hearing().ended().is_some() => return,
            Ok(Answer::Result(_)) | Err(_) => {}
        }
        if GOOD <= begun.elapsed() {
            pause = FIRST;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
        // Nobody heard what changed in between.
        link.hearing().bell.ring(|changes| changes.all());
    }
}

impl Connection {
    /// Asks to be told when one of these resources changes, and no longer of those before. Whether the server does so is
    /// up to it; what it tells is in [`Connection::changes`].
    pub async fn follow(&self, uris: BTreeSet<Box<str>>, call: &Call) -> Result<(), McpError> {
        let before = self.followed().send_replace(uris.clone());
        if self.about().era == Era::Modern {
            self.listen();
            return Ok(());
        }
        let gone = before.difference(&uris).map(|uri| ("resources/unsubscribe", uri));
        let new = uris.difference(&before).map(|uri| ("resources/subscribe", uri));
        for (method, uri) in gone.chain(new) {
            let mut params = Map::from_iter([("uri".to_owned(), json!(uri))]);
            // An error is the server's last word on it.
            drop(self.run(method, &mut params, call, Whose::Ours).await?);
        }
        Ok(())
    }
}
