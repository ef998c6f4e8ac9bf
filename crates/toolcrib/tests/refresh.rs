//! Refreshes: an inventory is ingested as a whole, and a failed refresh changes no tool.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../upstream/tests/support/upstream.rs"]
mod server;

use std::sync::{Arc, Mutex};

use catalog::source::SourceCommand;
use catalog::tool::{ToolCommand, ToolStatus};
use model::{SourceHealth, SourceId};
use serde_json::{Value, json};
use server::{Upstream, answer};
use toolcrib::{
    Catalog, ChangeContext, Command, CommandError, CommandRefusal, JournalLocation, Position,
    RefreshResult, SourceRefresher, SystemClock,
};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

struct World {
    catalog: Arc<Catalog>,
    refresher: SourceRefresher,
}

impl World {
    /// A world with the source `pets`.
    async fn with(profile: Value) -> Self {
        let journal = JournalLocation::Memory.open(SystemClock).await.unwrap();
        let catalog = Arc::new(Catalog::open(journal).await.unwrap());
        let client = HttpClient::new(EgressPolicy { allow_private: true, allowed: Vec::new() });
        let refresher = SourceRefresher::new(Arc::clone(&catalog), client, Arc::new(SystemClock));
        let world = Self { catalog, refresher };
        let register = SourceCommand::Register(serde_json::from_value(profile).unwrap());
        world.execute(Command::Source(pets(), register)).await;
        world
    }

    async fn execute(&self, command: Command) {
        self.catalog.execute(command, ChangeContext::by_actor("admin"), None).await.unwrap();
    }

    async fn refresh(&self) -> RefreshResult {
        self.refresher.refresh(&pets(), false, &ChangeContext::default()).await.unwrap()
    }

    async fn forced_refresh(&self) -> RefreshResult {
        self.refresher.refresh(&pets(), true, &ChangeContext::default()).await.unwrap()
    }

    fn health(&self) -> SourceHealth {
        self.catalog.snapshot().source(&pets()).unwrap().source.health
    }

    /// Each tool: its key, its upstream status, and whether an admin has enabled it.
    fn tools(&self) -> Vec<(String, ToolStatus, bool)> {
        let snapshot = self.catalog.snapshot();
        let tools = snapshot.tools().map(|entry| &entry.tool);
        let mut tools: Vec<_> = tools
            .map(|tool| (tool.id.operation_key().to_owned(), tool.status, tool.enabled))
            .collect();
        tools.sort_by(|one, two| one.0.cmp(&two.0));
        tools
    }

    /// The kinds of all events after a position.
    async fn events_after(&self, position: Position) -> Vec<String> {
        let events = self.catalog.journal().read_after(position, 1000).await.unwrap();
        events.iter().map(|event| event.kind.to_string()).collect()
    }
}

fn pets() -> SourceId {
    "pets".parse().unwrap()
}

/// A specification with these operations and their summaries.
fn specification(operations: &[(&str, &str)]) -> String {
    let path = |(id, summary): &(&str, &str)| {
        let operation = json!({"operationId": id, "summary": summary, "responses": {}});
        (format!("/{id}"), json!({"get": operation}))
    };
    let paths: serde_json::Map<String, Value> = operations.iter().map(path).collect();
    json!({"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"}, "paths": paths})
        .to_string()
}

fn all() -> String {
    specification(&[("a", "A"), ("b", "B"), ("c", "C")])
}

fn ok(body: &str) -> Vec<u8> {
    answer("200 OK", "Content-Type: application/json\r\n", body.as_bytes())
}

/// A world whose source is served by a test server; the test can change the answer.
async fn world_with_server(first: &str) -> (World, Arc<Mutex<Vec<u8>>>, Upstream) {
    let reply = Arc::new(Mutex::new(ok(first)));
    let now = Arc::clone(&reply);
    let server = Upstream::replying(move |_| now.lock().unwrap().clone());
    let url = server.url("/openapi.json");
    let profile = json!({"name": "Pets", "url": url, "settings": {"kind": "openapi"}});
    (World::with(profile).await, reply, server)
}

#[tokio::test]
async fn a_specification_in_a_file_becomes_tools() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pets.json");
    std::fs::write(&file, specification(&[("list", "All pets"), ("get", "One pet")])).unwrap();
    let world = World::with(json!({
        "name": "Pets", "url": "https://pets.example/v1",
        "settings": {"kind": "openapi", "specification": {"file": file}},
    }))
    .await;
    let result = RefreshResult { duration_ms: 0, ..world.refresh().await };
    insta::assert_snapshot!(serde_json::to_string_pretty(&result).unwrap(), @r#"
    {
      "source_id": "pets",
      "success": true,
      "discovered": 2,
      "created": 2,
      "updated": 0,
      "unchanged": 0,
      "deprecated": 0,
      "restored": 0,
      "inventory_hash": "36d8b430aa6cb162",
      "source_version": "1",
      "warnings": [],
      "findings": {
        "critical": 0,
        "warnings": 0,
        "notes": 0
      },
      "kept_back": 0,
      "duration_ms": 0,
      "tools": [
        {
          "tool_id": "pets:get",
          "name": "get",
          "method": "GET",
          "path": "/get"
        },
        {
          "tool_id": "pets:list",
          "name": "list",
          "method": "GET",
          "path": "/list"
        }
      ]
    }
    "#);
    let snapshot = world.catalog.snapshot();
    let tool = snapshot.tool(&"pets:get".parse().unwrap()).unwrap();
    let execution = serde_json::to_value(&tool.tool.manifest.execution).unwrap();
    assert_eq!(execution["url_template"], "https://pets.example/v1/get");
}

#[tokio::test]
async fn an_unchanged_specification_is_skipped_and_counts_as_success() {
    let (world, _, server) = world_with_server(&all()).await;
    assert_eq!(world.refresh().await.created, 3);
    let before = world.catalog.snapshot().position();
    let result = world.refresh().await;
    assert_eq!((result.success, result.unchanged, result.created), (true, 3, 0));
    assert_eq!(world.events_after(before).await, ["SourceSyncStarted", "InventoryIngested"]);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_changed_description_is_ingested() {
    let (world, reply, _server) = world_with_server(&all()).await;
    let first = world.refresh().await;
    *reply.lock().unwrap() = ok(&specification(&[("a", "A"), ("b", "B!"), ("c", "C")]));
    let second = world.refresh().await;
    assert_eq!((second.updated, second.unchanged), (1, 2));
    assert_eq!(second.inventory_hash, first.inventory_hash);
}

#[tokio::test]
async fn a_tool_that_returns_keeps_its_admin_settings() {
    let (world, reply, _server) = world_with_server(&all()).await;
    world.refresh().await;
    world.execute(Command::Tool("pets:b".parse().unwrap(), ToolCommand::Disable)).await;
    *reply.lock().unwrap() = ok(&specification(&[("a", "A"), ("c", "C")]));
    assert_eq!(world.refresh().await.deprecated, 1);
    assert_eq!(world.tools()[1], ("b".to_owned(), ToolStatus::Deprecated, false));
    *reply.lock().unwrap() = ok(&all());
    assert_eq!(world.refresh().await.restored, 1);
    assert_eq!(world.tools()[1], ("b".to_owned(), ToolStatus::Active, false));
}

#[tokio::test]
async fn removing_more_than_half_of_the_tools_is_rejected_unless_forced() {
    let (world, reply, _server) = world_with_server(&all()).await;
    world.refresh().await;
    let before = world.tools();
    *reply.lock().unwrap() = ok(&specification(&[("a", "A")]));
    let held_back = world.refresh().await;
    let warning = held_back.warnings.last().unwrap();
    assert_eq!(&*warning.code, "inventory_shrinks");
    assert!(warning.message.starts_with("what was found is held back: "), "{}", warning.message);
    assert_eq!((held_back.success, held_back.discovered, held_back.tools.len()), (false, 1, 1));
    assert_eq!(held_back.error.unwrap().code.as_ref(), "inventory_shrinks");
    assert_eq!((world.tools(), world.health()), (before, SourceHealth::Degraded));
    let forced = world.forced_refresh().await;
    assert_eq!(
        (forced.success, forced.deprecated, world.health()),
        (true, 2, SourceHealth::Healthy)
    );
}

#[tokio::test]
async fn an_invalid_specification_changes_no_tool() {
    let (world, reply, _server) = world_with_server(&all()).await;
    world.refresh().await;
    let (before, hash) = (world.tools(), world.refresh().await.inventory_hash);
    let truncated: String = all().chars().take(100).collect();
    let replies = [
        (ok("<html>Log in</html>"), "spec_parse_failed"),
        (ok(&truncated), "spec_parse_failed"),
        (ok("{}"), "spec_parse_failed"),
        (ok(""), "spec_parse_failed"),
        (ok(&specification(&[])), "inventory_shrinks"),
        (answer("204 No Content", "", b""), "spec_fetch_failed"),
        (answer("206 Partial Content", "", all().as_bytes()), "spec_fetch_failed"),
        (answer("304 Not Modified", "", b""), "spec_fetch_failed"),
        (answer("503 Service Unavailable", "", all().as_bytes()), "spec_fetch_failed"),
        (Vec::new(), "spec_fetch_failed"),
    ];
    for (instead, code) in replies {
        let shown = String::from_utf8_lossy(&instead).into_owned();
        *reply.lock().unwrap() = instead;
        let result = world.refresh().await;
        assert_eq!(result.error.unwrap().code.as_ref(), code, "{shown}");
        assert_eq!((result.success, &result.inventory_hash), (false, &hash), "{shown}");
        assert_eq!(
            (world.tools(), world.health()),
            (before.clone(), SourceHealth::Degraded),
            "{shown}"
        );
        *reply.lock().unwrap() = ok(&all());
        assert!(world.refresh().await.success);
        assert_eq!(world.health(), SourceHealth::Healthy);
    }
}

/// A world whose source is an HTTP manifest with these entries.
async fn world_with_http_manifest(entries: Value) -> (World, Upstream) {
    let reply = ok(&entries.to_string());
    let server = Upstream::replying(move |_| reply.clone());
    let settings = json!({"kind": "http_manifest"});
    let profile = json!({"name": "Pets", "url": server.url(""), "settings": settings});
    (World::with(profile).await, server)
}

#[tokio::test]
async fn warnings_are_limited_to_a_thousand() {
    let mut entries = vec![json!({"endpoint": "/nameless"}); 100_000];
    entries.push(json!({"name": "good", "endpoint": "/good"}));
    let (world, _server) = world_with_http_manifest(json!(entries)).await;
    let result = world.refresh().await;
    assert_eq!((result.success, result.created, result.warnings.len()), (true, 1, 1001));
    let last = &result.warnings[1000];
    assert_eq!(&*last.message, "there are 99000 more warnings, which are not kept");
}

#[tokio::test]
async fn a_tool_too_large_to_store_is_a_failure_of_the_source() {
    let description = "x".repeat(9 << 20);
    let entry = json!({"name": "long", "endpoint": "/long", "description": description});
    let (world, _server) = world_with_http_manifest(json!([entry])).await;
    let result = world.refresh().await;
    let error = result.error.unwrap();
    assert_eq!(&*error.code, "save_failed", "{}", error.message);
    let source = world.catalog.snapshot().source(&pets()).unwrap().source.clone();
    assert_eq!((source.failures, source.is_being_refreshed()), (1, false));
    assert_eq!(source.last_sync_error, Some(error));
}

#[tokio::test]
async fn the_third_failure_in_a_row_makes_a_source_unhealthy() {
    let (world, reply, _server) = world_with_server(&all()).await;
    *reply.lock().unwrap() = answer("500 Internal Server Error", "", b"");
    let mut seen = Vec::new();
    for _ in 0..3 {
        world.refresh().await;
        seen.push(world.health());
    }
    assert_eq!(seen, [SourceHealth::Degraded, SourceHealth::Degraded, SourceHealth::Unhealthy]);
    let snapshot = world.catalog.snapshot();
    let error = snapshot.source(&pets()).unwrap().source.last_sync_error.clone().unwrap();
    assert!(error.message.contains("status 500"), "{}", error.message);
}

#[tokio::test]
async fn refreshes_of_one_source_are_serialized() {
    let (world, _, _server) = world_with_server(&all()).await;
    let before = world.catalog.snapshot().position();
    let (one, two) = tokio::join!(world.refresh(), world.refresh());
    assert_eq!(one.created + two.created, 3);
    let events = world.events_after(before).await;
    let of_source: Vec<_> = events.iter().filter(|kind| *kind != "ToolRegistered").collect();
    assert_eq!(
        of_source,
        [
            "SourceSyncStarted",
            "InventoryIngested",
            "SourceHealthChanged",
            "SourceSyncStarted",
            "InventoryIngested"
        ]
    );
}

#[tokio::test]
async fn a_refresh_of_a_missing_or_disabled_source_is_refused() {
    let (world, _, server) = world_with_server(&all()).await;
    let context = ChangeContext::default();
    let unknown = world.refresher.refresh(&"cats".parse().unwrap(), false, &context).await;
    assert!(matches!(unknown, Err(CommandError::Refused(CommandRefusal::NotFound { .. }))));
    world.execute(Command::Source(pets(), SourceCommand::Disable)).await;
    let disabled = world.refresher.refresh(&pets(), true, &context).await;
    assert!(matches!(
        disabled,
        Err(CommandError::Refused(CommandRefusal::SourceIsDisabled { .. }))
    ));
    assert_eq!(server.requests(), [""; 0]);
}

#[tokio::test]
async fn a_source_that_changes_too_often_is_rejected_until_an_admin_forces_it() {
    let of = |round: usize| {
        let names: Vec<_> = (0..300).map(|number| format!("op{number}")).collect();
        let summary = format!("Round {round}");
        let all: Vec<_> = names.iter().map(|name| (name.as_str(), summary.as_str())).collect();
        ok(&specification(&all))
    };
    let (world, reply, _server) = world_with_server(&all()).await;
    let mut round = 0;
    let mut refresh = async |force: bool| {
        round += 1;
        *reply.lock().unwrap() = of(round);
        if force { world.forced_refresh().await } else { world.refresh().await }
    };
    assert_eq!(world.refresh().await.created, 3, "the first inventory costs nothing");
    // Three tools disappear, which needs force.
    assert!(refresh(true).await.success);
    assert!(refresh(false).await.success && refresh(false).await.success);
    let before = world.catalog.snapshot().position();
    let held = refresh(false).await;
    let error = held.error.as_ref().unwrap();
    assert_eq!((&*error.code, held.discovered), ("changes_too_much", 300));
    assert!(error.message.contains("903 tools") && error.message.contains("`force`"), "{error:?}");
    assert_eq!(world.events_after(before).await.len(), 3, "that it began, failed, and how it is");
    let source = world.catalog.snapshot();
    let source = &source.source(&pets()).unwrap().source;
    assert_eq!(source.last_sync_error.as_ref().map(|error| &*error.code), Some("changes_too_much"));
    let changes = world.refresher.recent_changes(&pets()).unwrap();
    assert_eq!((changes.tools, changes.held_back), (903, 1));
    assert!(refresh(true).await.success);
    assert_eq!(world.health(), SourceHealth::Healthy);
}
