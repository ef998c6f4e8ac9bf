//! The events that wake a stream, over an in-memory catalog and with a manual clock.

use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};
use model::KeyProfile;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use toolcrib::{
    CallContext, Catalog, ChangeContext, Command, JournalLocation, ManualClock, Prompt,
    ProvidedTool, ProviderError, Registry, ToolCallFuture, ToolProvider, Toolcrib, ToolcribOptions,
    new_api_key,
};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use super::*;
use crate::tool_format::ToolFormat;
use crate::tool_listing::ListMode;

/// A provider with one tool, whose change signals the test controls.
#[derive(Default)]
struct Talkative {
    description: Mutex<Box<str>>,
    changes: watch::Sender<ProviderChanges>,
}

impl ToolProvider for Talkative {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        let description = self.description.lock().unwrap().clone();
        vec![Arc::new(ProvidedTool { name: "talk".into(), description, ..Default::default() })]
    }

    fn call_tool<'a>(
        &'a self,
        name: &'a str,
        _arguments: Map<String, Value>,
        _call: &'a CallContext,
    ) -> ToolCallFuture<'a> {
        Box::pin(async move { Err(ProviderError::ToolNotFound { name: name.into() }) })
    }

    fn changes(&self) -> Vec<watch::Receiver<ProviderChanges>> {
        vec![self.changes.subscribe()]
    }
}

struct World {
    app: AppState,
    clock: Arc<ManualClock>,
    provider: Arc<Talkative>,
    key: SecretString,
}

const START: &str = "2026-05-01T09:00:00Z";

impl World {
    /// A world with an API key that expires after ten minutes.
    async fn new() -> Self {
        let start: Timestamp = START.parse().unwrap();
        let clock = Arc::new(ManualClock::starting_at(start));
        let journal = JournalLocation::Memory.open(Arc::clone(&clock)).await.unwrap();
        let catalog = Arc::new(Catalog::open(journal).await.unwrap());
        let client = HttpClient::new(EgressPolicy { allow_private: false, allowed: Vec::new() });
        let provider = Arc::new(Talkative::default());
        let options = ToolcribOptions {
            registry: Registry::from_provider(provider.clone()),
            ..ToolcribOptions::default()
        };
        let crib = Toolcrib::new(catalog, client, Arc::clone(&clock), options);
        let (id, end) = ("bot".parse().unwrap(), start + SignedDuration::from_mins(10));
        let profile = json!({"name": "bot", "expires_at": end});
        let profile: KeyProfile = serde_json::from_value(profile).unwrap();
        let (key, command) = new_api_key(&id, profile);
        let command = Command::Key(id, command);
        crib.catalog().execute(command, ChangeContext::by_actor("test"), None).await.unwrap();
        let app = crate::app_state::AppState::without_endpoints(crib);
        Self { app, clock, provider, key }
    }

    async fn watching(&self) -> ViewSubscription {
        let identity = self.app.crib.identify(Some(self.key.expose_secret())).await.unwrap();
        let sight =
            ListOptions { group: None, mode: ListMode::List, format: ToolFormat::Mcp, budget: 0 };
        let bearer = Some(self.key.expose_secret().into());
        let seat = self.app.acquire_stream_permit("ada").unwrap();
        ViewSubscription::new(
            &self.app,
            AuthenticatedCaller { identity, credential: CallerCredential::Bearer(bearer) },
            sight,
            seat,
        )
        .unwrap()
    }

    fn say(&self, change: impl FnOnce(&mut ProviderChanges)) {
        self.provider.changes.send_modify(change);
    }
}

/// No change arrives for a long time. The paused clock advances when all tasks wait.
async fn is_quiet(watching: &mut ViewSubscription) -> bool {
    timeout(Duration::from_secs(3600), watching.next_change()).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn a_provider_wakes_streams_that_see_its_tools() {
    let world = World::new().await;
    let mut watching = world.watching().await;
    assert!(is_quiet(&mut watching).await);
    *world.provider.description.lock().unwrap() = "Talks".into();
    world.say(|changes| changes.tools += 1);
    let change = watching.next_change().await.unwrap();
    let before = change.tools_before.unwrap();
    let words = |view: &AgentView| view.list()[0].description().into_owned();
    assert_eq!((words(&before), words(watching.view())), (String::new(), "Talks".to_owned()));
    assert!(!change.prompts && !change.resources && change.updated.is_empty());
    world.say(|changes| {
        changes.prompts += 1;
        changes.updated_resources.push((7, "file:a".into()));
    });
    world.say(|changes| changes.updated_resources.push((8, "file:b".into())));
    let change = watching.next_change().await.unwrap();
    assert!(change.tools_before.is_none() && change.prompts && !change.resources);
    assert_eq!(change.updated.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["file:a", "file:b"]);
    world.say(|changes| changes.resources += 1);
    let change = watching.next_change().await.unwrap();
    assert!(change.resources && change.updated.is_empty());
    assert!(is_quiet(&mut watching).await);
}

#[tokio::test(start_paused = true)]
async fn an_added_provider_wakes_at_once_and_at_later_changes() {
    let world = World::new().await;
    let mut watching = world.watching().await;
    let added = Registry::new();
    world.app.crib.registry().add_provider(Arc::new(added.clone()));
    // It offers nothing visible yet, but its signals are watched from now on.
    let change = watching.next_change().await.unwrap();
    assert!(change.tools_before.is_some() && !change.prompts && !change.resources);
    added.register_prompt(Prompt::new("hello", "Says hello").user("Hello!")).unwrap();
    let change = watching.next_change().await.unwrap();
    assert!(change.prompts && !change.resources && change.tools_before.is_none());
    added.register_tool(ProvidedTool::new("new", "Is new"), || async {}, &[]).unwrap();
    assert!(watching.next_change().await.unwrap().tools_before.is_some());
    assert_eq!(watching.view().list().len(), 2);
    added.resource_changed("file:a");
    let change = watching.next_change().await.unwrap();
    assert!(change.updated == ["file:a".into()] && !change.has_missed);
    // More changes than the provider remembers by URI: clients must check their resources.
    (0..300).for_each(|number| added.resource_changed(&format!("file:{number}")));
    let change = watching.next_change().await.unwrap();
    assert!(change.has_missed && change.updated.len() < 300);
    added.resource_changed("file:a");
    assert!(!watching.next_change().await.unwrap().has_missed);
    assert!(is_quiet(&mut watching).await);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_loses_no_change() {
    let world = World::new().await;
    let mut watching = world.watching().await;
    world.say(|changes| changes.prompts += 1);
    for _ in 0..5 {
        let short = timeout(Duration::from_millis(10), watching.next_change()).await;
        assert!(short.is_err(), "a burst is waited for");
    }
    assert!(watching.next_change().await.unwrap().prompts);
}

#[tokio::test(start_paused = true)]
async fn an_expired_credential_is_noticed_within_a_minute() {
    let world = World::new().await;
    let mut watching = world.watching().await;
    world.clock.advance(SignedDuration::from_mins(11));
    let start = Instant::now();
    assert_eq!(watching.next_change().await.err(), Some(StreamEnd::Credential));
    assert!(start.elapsed() <= REVALIDATION_INTERVAL + BURST_DELAY, "{:?}", start.elapsed());
}
