//! Discovery of sources of every kind, over real connections.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../upstream/tests/support/upstream.rs"]
mod server;

use model::{Inventory, SourceProfile};
use serde_json::{Value, json};
use server::{Upstream, answer};
use toolcrib_sources::DiscoveryError;
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

const PETS: &str = r##"{"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"}, "paths": {
    "/pets": {"get": {"operationId": "list", "summary": "S", "description": "D", "responses": {}}},
    "/pet": {"$ref": "parts/pet.json#/one"}}}"##;
const PET: &str = r#"{"one": {"get": {"operationId": "get", "responses": {}}}}"#;

async fn discover_source(profile: Value) -> Result<Inventory, DiscoveryError> {
    let client = HttpClient::new(EgressPolicy { allow_private: true, allowed: Vec::new() });
    discover_with_client(&client, profile).await
}

async fn discover_with_client(
    client: &HttpClient,
    profile: Value,
) -> Result<Inventory, DiscoveryError> {
    let profile: SourceProfile = serde_json::from_value(profile).unwrap();
    let found =
        toolcrib_sources::discover_source(&"pets".parse().unwrap(), &profile, client).await?;
    Ok(found.inventory)
}

fn openapi(url: &str, settings: Value) -> Value {
    let mut profile = json!({"name": "Pets", "url": url, "settings": settings});
    profile["settings"]["kind"] = "openapi".into();
    profile
}

/// The key and the URL of each tool.
fn tool_urls(inventory: &Inventory) -> Vec<(String, String)> {
    let url = |(id, tool): (&model::ToolId, &model::DiscoveredTool)| {
        let execution = serde_json::to_value(&tool.manifest.execution).unwrap();
        (id.operation_key().to_owned(), execution["url_template"].as_str().unwrap().to_owned())
    };
    inventory.tools.iter().map(url).collect()
}

fn ok(body: &str) -> Vec<u8> {
    answer("200 OK", "", body.as_bytes())
}

/// Serves the specification, and this answer for the reference in it.
fn pets(reference: Vec<u8>) -> Upstream {
    Upstream::replying(move |request| match request.starts_with("GET /api/openapi.json ") {
        true => ok(PETS),
        false => reference.clone(),
    })
}

#[tokio::test]
async fn without_a_specification_setting_the_url_is_the_specification_address() {
    let server = pets(ok(PET));
    let found =
        discover_source(openapi(&server.url("/api/openapi.json"), json!({}))).await.unwrap();
    assert_eq!(tool_urls(&found), [("list".to_owned(), server.url("/pets"))]);
    assert_eq!(server.requests().len(), 1, "references are not followed unasked");
}

#[tokio::test]
async fn with_a_specification_setting_the_url_is_the_base_of_calls() {
    let server = pets(ok(PET));
    let places = [json!({"url": server.url("/api/openapi.json")}), json!({"text": PETS})];
    for place in places {
        let settings = json!({"specification": place, "describe": "both"});
        let found = discover_source(openapi("https://pets.example/v1/", settings)).await.unwrap();
        assert_eq!(
            tool_urls(&found),
            [("list".to_owned(), "https://pets.example/v1/pets".to_owned())]
        );
        let tool = found.tools.values().next().unwrap();
        assert_eq!(&*tool.manifest.description, "S\n\nD");
    }
}

#[tokio::test]
async fn configured_polling_overrides_the_specification() {
    let polling = |url: &str| json!({"status_url": url, "status_path": "s", "completed": ["ok"]});
    let operation = |id: &str, more: Value| {
        let mut operation = json!({"operationId": id, "responses": {}});
        operation.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        json!({"post": operation})
    };
    let own = json!({"x-toolcrib-polling": polling("/theirs/{answer.id}")});
    let text = json!({"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {
        "/a": operation("startReport", json!({})), "/b": operation("both", own.clone()),
        "/c": operation("theirs", own), "/d": operation("plain", json!({})),
        "/e": operation("broken", json!({}))}});
    // Tools are selected by operation id or by tool name.
    let said = json!({"startReport": polling("/ours/{answer.id}"), "both": polling("/ours/{answer.id}"),
        "broken": polling("https://evil.test/"), "start_reports": polling("/x")});
    let settings = json!({"specification": {"text": text.to_string()}, "polling": said});
    let found = discover_source(openapi("https://api.test", settings)).await.unwrap();
    let followed: Vec<_> = found
        .tools
        .iter()
        .map(|(id, tool)| {
            let execution = serde_json::to_value(&tool.manifest.execution).unwrap();
            let url = execution["polling"]["status_url_template"].as_str().unwrap_or_default();
            format!("{}: {url}", id.operation_key())
        })
        .collect();
    assert_eq!(
        followed,
        [
            r#"both: https://api.test/ours/{{ answer["id"] }}"#,
            "broken: ",
            "plain: ",
            r#"startReport: https://api.test/ours/{{ answer["id"] }}"#,
            r#"theirs: https://api.test/theirs/{{ answer["id"] }}"#,
        ]
    );
    let warnings: Vec<_> = found.warnings.iter().map(|it| (&*it.code, &*it.at)).collect();
    assert_eq!(
        warnings,
        [
            ("polling_unused", "settings.polling.start_reports"),
            ("polling_dropped", "/paths/~1e/post")
        ]
    );
}

#[tokio::test]
async fn references_of_the_same_origin_are_followed_if_enabled() {
    let follow = |server: &Upstream| {
        discover_source(openapi(
            &server.url("/api/openapi.json"),
            json!({"follow_references": true}),
        ))
    };
    let server = pets(ok(PET));
    assert_eq!(tool_urls(&follow(&server).await.unwrap()).len(), 2);
    assert!(server.requests()[1].starts_with("GET /api/parts/pet.json "));
    // A missing document only affects the operation that needs it; a temporary failure fails the discovery.
    let gone = follow(&pets(answer("404 Not Found", "", b""))).await.unwrap();
    assert_eq!((gone.tools.len(), gone.warnings.len()), (1, 1));
    let later = follow(&pets(answer("503 Later", "", b""))).await.unwrap_err();
    assert_eq!(later.code(), "spec_fetch_failed");
    let page = follow(&pets(ok("<html>"))).await.unwrap_err();
    assert_eq!(page.code(), "spec_parse_failed");
}

#[tokio::test]
async fn an_http_manifest_is_fetched_below_tools() {
    let server = Upstream::replying(|_| ok(r#"{"tools": [{"name": "get_weather"}]}"#));
    let profile =
        json!({"name": "W", "url": server.url("/api/"), "settings": {"kind": "http_manifest"}});
    let found = discover_source(profile).await.unwrap();
    assert_eq!(tool_urls(&found), [("get_weather".to_owned(), server.url("/api/weather"))]);
    assert!(server.requests()[0].starts_with("GET /api/tools "));
}

#[tokio::test]
async fn a_source_may_reach_its_allowed_addresses() {
    let server = pets(ok(PET));
    let shut = HttpClient::new(EgressPolicy::default());
    let mut profile = openapi(&server.url("/api/openapi.json"), json!({}));
    let refused = discover_with_client(&shut, profile.clone()).await.unwrap_err();
    assert_eq!((refused.code(), server.requests().len()), ("spec_fetch_failed", 0));
    profile["allow"] = json!(["127.0.0.0/8"]);
    assert!(discover_with_client(&shut, profile.clone()).await.is_ok());
    profile["allow"] = json!(["not an address"]);
    assert!(matches!(
        discover_with_client(&shut, profile).await,
        Err(DiscoveryError::InvalidAllowList(_))
    ));
}

#[tokio::test]
async fn a_source_that_cannot_be_discovered_gives_an_error() {
    let error = |settings: Value| async move {
        let profile = json!({"name": "Pets", "settings": settings});
        discover_source(profile).await.unwrap_err().to_string()
    };
    assert_eq!(
        error(json!({"kind": "mcp"})).await,
        "sources of kind `mcp` are asked over a connection"
    );
    assert_eq!(
        error(json!({"kind": "builtin"})).await,
        "sources of kind `builtin` have nothing to fetch: their tools are declared"
    );
    assert_eq!(
        error(json!({"kind": "openapi"})).await,
        "the source has no `url`: give one, or a `specification` in its settings"
    );
    let missing = json!({"kind": "openapi", "specification": {"file": "/not/there.yaml"}});
    assert_eq!(error(missing).await, "`/not/there.yaml` cannot be read");
}
