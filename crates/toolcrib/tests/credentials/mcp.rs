//! MCP servers get the token of the calling agent with each call, and two agents never share a session.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::ErrorCode;
use serde_json::{Value, json};
use toolcrib::{CallBuilder, CallerCapabilities, RequestCredentials};

use crate::wire::{ReceivedRequest, Reply};
use crate::world::{World, agent, code, merged, token_of};

/// An MCP server of the modern protocol that rejects requests without a token that ends with `takes`.
fn token_protected_server(
    takes: Arc<Mutex<String>>,
) -> impl Fn(&ReceivedRequest) -> (u16, Value) + Send + Sync {
    move |asked| {
        let shown = asked.header("authorization").unwrap_or_default();
        if !shown.starts_with("Bearer for.api.of.") || !shown.contains(&*takes.lock().unwrap()) {
            return (401, json!({}));
        }
        let Ok(message) = serde_json::from_str::<Value>(&asked.body) else {
            return (405, json!({}));
        };
        let result = match message["method"].as_str().unwrap() {
            "server/discover" => {
                json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
            }
            "tools/list" => json!({"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}),
            "tools/call" => json!({"content": [{"type": "text", "text": shown}]}),
            _ => return (202, json!({})),
        };
        (200, json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    }
}

async fn world() -> (World, Arc<Mutex<String>>) {
    let takes = Arc::<Mutex<String>>::default();
    (World::with(token_protected_server(Arc::clone(&takes))).await, takes)
}

/// Calls a tool and returns the credential that the server received; the agent's outcome does not contain it.
async fn call_and_read_credential(world: &World, who: &str) -> String {
    let outcome = world.call(who, "look").await;
    assert_eq!(outcome.error, None);
    let said = serde_json::to_value(&outcome.content).unwrap();
    assert_eq!(said, json!([{"type": "text", "text": "Bearer ***"}]));
    world.last_request().header("authorization").unwrap().to_owned()
}

#[tokio::test]
async fn each_mcp_call_carries_the_token_of_its_agent() {
    let (world, _) = world().await;
    let isolation = json!({"kind": "mcp", "isolation": "shared"});
    let auth = world.exchange_auth(&json!({}));
    let found = world.register(&json!({"auth": auth, "settings": isolation})).await;
    assert!(found.success, "in our own name: {found:?}");
    for _ in 0..2 {
        for who in ["ada", "bob"] {
            let text = call_and_read_credential(&world, who).await;
            assert!(text.starts_with(&format!("Bearer for.api.of.{who}.")), "{text}");
        }
    }
    assert_eq!(world.authority.issued_tokens(), 3);
    let opened = world.upstream.received_requests();
    let opened = opened.iter().filter(|asked| asked.body.contains("server/discover")).count();
    assert_eq!(opened, 3, "each has a connection of its own, whatever is said");
    let outcome = world.call_with(&agent("ada"), &RequestCredentials::default(), "look").await;
    assert_eq!(code(&outcome), Some(ErrorCode::TokenExchangeFailed));
}

#[tokio::test]
async fn tools_are_listed_without_a_token_if_only_agents_can_get_one() {
    for (code, is_listed) in
        [("unauthorized_client", true), ("unsupported_grant_type", true), ("invalid_target", false)]
    {
        let open = World::with(header_echo_server).await;
        let (closed, _) = world().await;
        for world in [&open, &closed] {
            world.authority.with_state(|known| known.only_exchanges = Some(code));
            let source =
                json!({"auth": world.exchange_auth(&json!({})), "settings": {"kind": "mcp"}});
            let found = world.register(&source).await;
            assert_eq!(found.success, is_listed && std::ptr::eq(world, &open), "{code} {found:?}");
            if let Some(error) = found.error {
                assert_eq!(&*error.code, "client_credentials_failed", "{error:?}");
                assert!(error.message.contains(&format!("refused with `{code}`")), "{error:?}");
            }
            let asked = world.upstream.received_requests();
            assert!(asked.iter().all(|asked| asked.header("authorization").is_none()), "{code}");
        }
        if is_listed {
            assert_eq!(open.call("ada", "look").await.error, None);
            let shown = open.last_request().header("authorization").unwrap().to_owned();
            assert!(shown.starts_with("Bearer for.api.of.ada."), "{shown}");
        }
    }
}

#[tokio::test]
async fn a_rejected_cached_token_is_replaced() {
    let (world, takes) = world().await;
    let auth = world.client_credentials_auth();
    assert!(world.register(&json!({"auth": auth, "settings": {"kind": "mcp"}})).await.success);
    assert_eq!(call_and_read_credential(&world, "ada").await, "Bearer for.api.of.tool-crib..1");
    *takes.lock().unwrap() = "..2".to_owned();
    world.advance_clock(30);
    assert_eq!(call_and_read_credential(&world, "ada").await, "Bearer for.api.of.tool-crib..2");
    *takes.lock().unwrap() = "never".to_owned();
    world.advance_clock(30);
    let before = world.upstream.received_requests().len();
    let outcome = world.call("ada", "look").await;
    assert_eq!(code(&outcome), Some(ErrorCode::UpstreamError));
    assert_eq!(world.upstream.received_requests().len(), before + 2, "once more, and no more");
    let gate = world.crib.gate_state(&"pets".parse().unwrap()).unwrap();
    assert_eq!(gate.breaker, "closed");
}

#[tokio::test]
async fn a_refresh_also_replaces_a_rejected_token() {
    let (world, takes) = world().await;
    let source = json!({"auth": world.client_credentials_auth(), "settings": {"kind": "mcp"}});
    assert!(world.register(&source).await.success);
    *takes.lock().unwrap() = "..2".to_owned();
    world.advance_clock(30);
    let again = world.register(&source).await;
    assert!(again.success, "{again:?}");
    assert_eq!(world.authority.issued_tokens(), 2);
    *takes.lock().unwrap() = "never".to_owned();
    world.advance_clock(30);
    let failed = world.register(&source).await;
    assert!(failed.error.unwrap().message.contains("answered 401"));
    assert_eq!(world.authority.issued_tokens(), 3, "once more, and no more");
}

#[tokio::test]
async fn a_replaced_fixed_credential_is_sent_with_the_next_call() {
    let world = World::with(header_echo_server).await;
    let know = |value: &str| world.environment.lock().unwrap().insert("TOKEN".into(), value.into());
    know("first");
    let auth = json!({"kind": "bearer", "token": "env:TOKEN"});
    assert!(world.register(&json!({"auth": auth, "settings": {"kind": "mcp"}})).await.success);
    let opened = || {
        let asked = world.upstream.received_requests();
        asked.iter().filter(|asked| asked.body.contains("server/discover")).count()
    };
    for (value, connections) in [("first", 1), ("second", 2), ("second", 2), ("third", 3)] {
        know(value);
        assert_eq!(world.call("ada", "look").await.error, None);
        assert_eq!(
            world.last_request().header_values("authorization"),
            [format!("Bearer {value}")]
        );
        assert_eq!(opened(), connections, "nothing else is opened again");
    }
}

/// An MCP server that repeats the received headers in every kind of answer.
pub(crate) fn header_echo_server(asked: &ReceivedRequest) -> Reply {
    let Ok(message) = serde_json::from_str::<Value>(&asked.body) else {
        return (405, json!({})).into();
    };
    let headers = json!(asked.headers);
    let (id, name) = (&message["id"], message["params"]["name"].as_str().unwrap_or_default());
    let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}});
    let result = match message["method"].as_str().unwrap() {
        "server/discover" => {
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        }
        "tools/list" => json!({"tools": [tool("look"), tool("fail"), tool("refuse"), tool("ask")]}),
        "tools/call" if name == "refuse" => {
            let error = json!({"code": -32602, "message": headers.to_string(), "data": headers});
            return (200, json!({"jsonrpc": "2.0", "id": id, "error": error})).into();
        }
        "tools/call" if name == "ask" => {
            let params = json!({"mode": "form", "message": headers.to_string(),
                "requestedSchema": {"type": "object", "properties": {}}});
            json!({"resultType": "input_required", "requestState": headers.to_string(),
                "inputRequests": {"q": {"method": "elicitation/create", "params": params}}})
        }
        "tools/call" => json!({"content": [{"type": "text", "text": headers.to_string()}],
            "structuredContent": {"headers": headers}, "isError": name == "fail"}),
        _ => return (202, json!({})).into(),
    };
    (200, json!({"jsonrpc": "2.0", "id": id, "result": result})).into()
}

#[tokio::test]
async fn a_credential_repeated_by_a_server_is_redacted() {
    let world = World::with(header_echo_server).await;
    let secret = "canary-fixed-5512";
    world.environment.lock().unwrap().insert("TOKEN".to_owned(), secret.to_owned());
    let key = |location: &str| json!({"kind": "api_key", "location": location, "name": "k", "value": "env:TOKEN"});
    for auth in [
        key("header"),
        key("cookie"),
        json!({"kind": "basic", "username": "me", "password": "env:TOKEN"}),
        json!({"kind": "bearer", "token": "env:TOKEN"}),
        world.client_credentials_auth(),
        world.exchange_auth(&json!({})),
    ] {
        let found = world.register(&json!({"auth": auth, "settings": {"kind": "mcp"}})).await;
        assert!(found.success, "{found:?}");
        for tool in ["look", "fail", "refuse", "ask"] {
            let came = RequestCredentials::with_token(&token_of("ada"));
            let view = world.crib.view(&agent("ada")).with_request_credentials(&came);
            let viewed = view.find(tool).unwrap();
            let able = CallerCapabilities { elicitation: true, ..CallerCapabilities::default() };
            let call = CallBuilder::by_caller(able)
                .with_answers(serde_json::Map::new())
                .start_with_updates()
                .0;
            let called = view.call_found_tool(&viewed, serde_json::Map::new(), &call).await;
            let told = format!("{called:?} {:?}", world.call("ada", tool).await);
            assert!(told.contains("***"), "{auth} {tool}: {told}");
            for form in [secret, "Y2FuYXJ5", "for.api.of", "bWU6Y2FuYXJ5"] {
                assert!(!told.contains(form), "{auth} {tool}: {told}");
            }
        }
    }
}

/// An MCP server that is its own token endpoint; the given path answers only after 60 s.
fn hanging_server(hangs: &Mutex<&'static str>, asked: &ReceivedRequest) -> Reply {
    let reply = match asked.path.as_str() {
        "/token" => {
            (200, json!({"access_token": "t", "token_type": "Bearer", "expires_in": 300})).into()
        }
        _ => header_echo_server(asked),
    };
    let is_late = asked.path.starts_with(*hangs.lock().unwrap());
    if is_late { reply.after(Duration::from_secs(60)) } else { reply }
}

#[tokio::test]
async fn token_and_connection_setup_respect_the_deadline_of_the_agent() {
    for (place, expected) in
        [("/mcp", ErrorCode::UpstreamTimeout), ("/token", ErrorCode::ClientCredentialsFailed)]
    {
        let hangs = Arc::new(Mutex::new("nothing"));
        let now = Arc::clone(&hangs);
        let world = World::with(move |asked| hanging_server(&now, asked)).await;
        let auth = json!({"token_url": world.upstream.url("/token"), "audience": null});
        let source = json!({"auth": merged(world.client_credentials_auth(), &auth),
            "url": world.upstream.url("/mcp"), "settings": {"kind": "mcp", "isolation": "per_agent"}});
        assert!(world.register(&source).await.success);
        world.advance_clock(300);
        *hangs.lock().unwrap() = place;
        let start = Instant::now();
        for who in ["ada", "bob", "cyd", "dan", "eve", "fay"] {
            let view =
                world.crib.view(&agent(who)).with_client_timeout(Some(Duration::from_millis(200)));
            let outcome = view.call("look", serde_json::Map::new()).await.unwrap();
            assert_eq!(code(&outcome), Some(expected), "{place}: {outcome:?}");
            assert!(outcome.error.unwrap().retryable, "{place}");
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{place}: {:?}", start.elapsed());
        // A timeout that short proves nothing about the source.
        let gate = world.crib.gate_state(&"pets".parse().unwrap()).unwrap();
        assert_eq!(gate.breaker, "closed", "{place}");
    }
}
