//! Tests of MCP in the router of another program, and of providers per request.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::routing::get;
use endpoint::app_state::ServerOptions;
use serde_json::{Value, json};
use toolcrib::{Prompt, ProvidedTool, Registry, Resource, ToolProvider, Toolcrib};
use tower::ServiceExt as _;

use super::{MODERN, hello, modern, names};
use crate::embedded::{mcp_router, providers_per_request, user_per_request};

async fn mcp(registry: &Registry) -> Router {
    let crib = Toolcrib::from_registry(registry.clone()).await.unwrap();
    mcp_router(crib, ServerOptions::local()).0
}

/// Posts a message as this user.
async fn ask(app: &Router, path: &str, user: &str, method: &str, params: Value) -> Value {
    let message = modern(method, params);
    let name = message["params"]["name"].as_str().unwrap_or_default();
    let request = Request::post(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", MODERN)
        .header("mcp-method", method)
        .header("mcp-name", name)
        .header("x-user", user)
        .body(Body::from(message.to_string()))
        .unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

async fn page(app: &Router, path: &str) -> String {
    let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn the_router_can_be_merged_into_another_or_nested_in_it() {
    let mine = || {
        let own = Router::new().route("/", get(|| async { "my page" }));
        own.fallback(|| async { "my fallback" })
    };
    for (app, path) in [
        (mine().merge(mcp(&hello()).await), "/mcp"),
        (mine().nest("/tools", mcp(&hello()).await), "/tools/mcp"),
    ] {
        let list = ask(&app, path, "", "tools/list", json!({})).await;
        assert_eq!(names(&list), ["hello"]);
        let called = ask(&app, path, "", "tools/call", json!({"name": "hello"})).await;
        assert_eq!(called["result"]["content"][0]["text"], "hello");
        assert_eq!(page(&app, "/").await, "my page");
        assert_eq!(page(&app, "/api/sources").await, "my fallback");
    }
}

/// Each named user has a searchable tool named after that user.
fn per_user(app: Router) -> Router {
    app.layer(providers_per_request(|request| {
        let user = request.headers.get("x-user").and_then(|user| user.to_str().ok());
        let Some(user) = user.filter(|user| !user.is_empty()) else { return Vec::new() };
        let (own, name) = (Registry::new(), format!("notes_of_{user}"));
        let text = format!("the notes of {user}");
        let tool = ProvidedTool::new(name, "Reads notes").searchable();
        let reads = move || std::future::ready(text.clone());
        own.register_tool(tool, reads, &["notes"]).unwrap();
        vec![Arc::new(own) as Arc<dyn ToolProvider>]
    }))
}

#[tokio::test]
async fn a_layer_gives_each_request_its_own_providers() {
    let app = per_user(mcp(&hello()).await);
    for _ in 0..2 {
        let nobody = ask(&app, "/mcp", "", "tools/list", json!({})).await;
        assert_eq!(names(&nobody), ["hello"]);
        for (user, other) in [("ada", "eve"), ("eve", "ada")] {
            let list = ask(&app, "/mcp", user, "tools/list", json!({})).await;
            assert_eq!(names(&list), ["tool_search", "execute_tool", "hello"]);
            let search = json!({"name": "tool_search", "arguments": {"query": "notes"}});
            let found = ask(&app, "/mcp", user, "tools/call", search).await;
            let found = &found["result"]["structuredContent"]["tools"];
            assert_eq!(found.as_array().unwrap().len(), 1);
            assert_eq!(found[0]["name"], format!("notes_of_{user}"));
            let execute = |whose: &str| json!({"name": "execute_tool", "arguments": {"name": format!("notes_of_{whose}")}});
            let mine = ask(&app, "/mcp", user, "tools/call", execute(user)).await;
            assert_eq!(mine["result"]["content"][0]["text"], format!("the notes of {user}"));
            let theirs = ask(&app, "/mcp", user, "tools/call", execute(other)).await;
            let missing = format!("Tool not found: notes_of_{other}");
            assert_eq!(theirs["result"]["content"][0]["text"], missing);
        }
    }
}

#[tokio::test]
async fn providers_of_the_outer_layer_come_first() {
    let named = |description: &'static str| {
        providers_per_request(move |_| {
            let own = Registry::new();
            let tool = ProvidedTool::new("who", description);
            own.register_tool(tool, || async {}, &[]).unwrap();
            vec![Arc::new(own) as Arc<dyn ToolProvider>]
        })
    };
    let app = mcp(&hello()).await.layer(named("inner")).layer(named("outer"));
    let list = ask(&app, "/mcp", "", "tools/list", json!({})).await;
    assert_eq!(names(&list), ["hello", "who"]);
    assert_eq!(list["result"]["tools"][1]["description"], "outer");
}

/// Posts a message of the older MCP versions as this user; returns the status and the id of a new session.
async fn legacy(app: &Router, user: &str, session: &str, method: &str) -> (u16, String) {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let mut request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("x-user", user);
    if !session.is_empty() {
        request = request.header("mcp-session-id", session);
    }
    let request = request.body(Body::from(message.to_string())).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let session = response.headers().get("mcp-session-id");
    let session = session.map(|session| session.to_str().unwrap().to_owned());
    (response.status().as_u16(), session.unwrap_or_default())
}

/// Reads the user from a header.
fn user(request: &axum::http::request::Parts) -> Option<String> {
    Some(request.headers.get("x-user")?.to_str().ok()?.to_owned())
}

#[tokio::test]
async fn a_user_layer_separates_the_sessions_of_users() {
    let app = mcp(&hello()).await;
    // Without credentials, all users are the same principal.
    let (_, session) = legacy(&app, "ada", "", "initialize").await;
    assert_eq!(legacy(&app, "eve", &session, "ping").await.0, 200);
    let app = app.layer(user_per_request(user));
    assert_eq!(legacy(&app, "ada", &session, "ping").await.0, 404);
    let (status, session) = legacy(&app, "ada", "", "initialize").await;
    assert_eq!((status, session.is_empty()), (200, false));
    assert_eq!(legacy(&app, "ada", &session, "ping").await.0, 200);
    assert_eq!(legacy(&app, "eve", &session, "ping").await.0, 404);
    // An inner layer cannot replace the user that an outer layer named.
    let app = app.layer(user_per_request(|_| Some("mallory".to_owned())));
    assert_eq!(legacy(&app, "ada", &session, "ping").await.0, 404);
}

/// The names that a connection in this mode lists.
async fn listed(app: &Router, mode: &str) -> String {
    let list = ask(app, &format!("/mcp?mode={mode}"), "", "tools/list", json!({})).await;
    names(&list).join(" ")
}

/// Registers a tool above the budget: more than 20,000 tokens of four bytes.
fn with_a_long_one(registry: &Registry) {
    let long = ProvidedTool::new("long", "x".repeat(80_000));
    registry.register_tool(long, || async { "long" }, &[]).unwrap();
}

#[tokio::test]
async fn list_mode_lists_every_tool() {
    let registry = hello();
    with_a_long_one(&registry);
    assert_eq!(listed(&mcp(&registry).await, "list").await, "hello long");
}

#[tokio::test]
async fn search_mode_lists_only_the_two_search_tools() {
    assert_eq!(listed(&mcp(&hello()).await, "search").await, "tool_search execute_tool");
}

#[tokio::test]
async fn auto_mode_switches_to_search_above_the_token_budget() {
    let registry = hello();
    let app = mcp(&registry).await;
    assert_eq!(listed(&app, "auto").await, "hello");
    with_a_long_one(&registry);
    assert_eq!(listed(&app, "auto").await, "tool_search execute_tool");
    let execute = json!({"name": "execute_tool", "arguments": {"name": "hello"}});
    let called = ask(&app, "/mcp?mode=auto", "", "tools/call", execute).await;
    assert_eq!(called["result"]["content"][0]["text"], "hello");
}

#[tokio::test]
async fn only_existing_features_are_declared_as_capabilities() {
    let registry = Registry::new();
    let app = mcp(&registry).await;
    let discover = || async {
        let answer = ask(&app, "/mcp", "", "server/discover", json!({})).await;
        answer["result"]["capabilities"].clone()
    };
    let bare = json!({"tools": {"listChanged": true}, "logging": {}});
    assert_eq!(discover().await, bare);
    registry.register_prompt(Prompt::new("hi", "Says hi").user("Hi!")).unwrap();
    let mut with_prompts = bare.clone();
    with_prompts["prompts"] = json!({"listChanged": true});
    assert_eq!(discover().await, with_prompts);
    let prompt = Prompt::new("hi-to", "Says hi to somebody").required("whom", "To whom");
    registry.register_prompt(prompt.user("Hi {{whom}}!")).unwrap();
    with_prompts["completions"] = json!({});
    assert_eq!(discover().await, with_prompts);
    registry.register_resource(Resource::new("a:b", "ab", "text/plain", "AB")).unwrap();
    let mut with_all = with_prompts.clone();
    with_all["resources"] = json!({"listChanged": true, "subscribe": true});
    assert_eq!(discover().await, with_all);
}
