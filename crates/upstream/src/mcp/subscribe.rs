//! Hearing of changes in the modern era: a call that is answered when the server no longer tells.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::link::Link;
use super::message::Answer;
use super::settings::Call;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// A subscription that held for so long was a good one.
const GOOD: Duration = Duration::from_secs(60);

/// What there is to hear, as the server's capabilities say; nothing if there is nothing.
pub(super) fn wanted(server: &Map<String, Value>) -> Option<Map<String, Value>> {
    let capabilities = server.get("capabilities")?.as_object()?;
    let mut wanted = Map::new();
    for (kind, name) in [
        ("tools", "toolsListChanged"),
        ("prompts", "promptsListChanged"),
        ("resources", "resourcesListChanged"),
    ] {
        let told = capabilities.get(kind).and_then(|kind| kind.get("listChanged"));
        if told == Some(&Value::Bool(true)) {
            wanted.insert(name.to_owned(), json!(true));
        }
    }
    (!wanted.is_empty()).then_some(wanted)
}

/// Listens until it is aborted, the connection ends, or the server turns out not to tell.
pub(super) async fn listen(link: Link, wanted: Map<String, Value>) {
    let call = Call { deadline: Some(Duration::from_secs(30)), ..Call::default() };
    let mut pause = FIRST;
    loop {
        let begun = Instant::now();
        let mut params = Map::from_iter([("notifications".to_owned(), json!(wanted))]);
        match link.call("subscriptions/listen", &mut params, &call, true).await {
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
