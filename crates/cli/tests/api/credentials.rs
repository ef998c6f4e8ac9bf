//! Agent credentials at each endpoint, and the credentials that upstreams get in turn (OAU-04 to OAU-07).

use serde_json::{Value, json};

use super::issuer::World;
use super::server::Ask;
use crate::support::{Folder, ok};
use crate::upstream::{Upstream, answer};

/// Upstream with a token endpoint at `/token` and an API with one tool.
fn upstream() -> Upstream {
    Upstream::replying(|request| match request.starts_with("POST /token") {
        true if request.contains("grant-type%3Atoken-exchange") => ok(
            "application/json",
            r#"{"access_token": "exchanged", "token_type": "Bearer", "expires_in": 300,
                "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}"#,
        ),
        true => answer("400 No", "", b"{}"),
        false => ok("application/json", r#"{"name":"Rex"}"#),
    })
}

fn world(upstream: &Upstream, scopes: &Value) -> World {
    let folder = Folder::empty();
    folder.write("secret", "s");
    let secret = format!("file:{}", folder.path("secret").display());
    let world = World::on(folder, "");
    let text = json!({"openapi": "3.1.0", "info": {"title": "t", "version": "1"},
        "paths": {"/pets": {"get": {"operationId": "look", "responses": {"200": {"description": "ok"}}}}}});
    let auth = json!({"kind": "token_exchange", "token_url": upstream.url("/token"),
        "client_id": "t", "client_secret": secret, "audience": "pets"});
    let source = json!({"name": "pets", "url": upstream.url(""), "allow": ["127.0.0.1"], "auth": auth,
        "settings": {"kind": "openapi", "specification": {"text": text.to_string()}},
        "forward_headers": ["x-tenant", "x-auth-token"], "required_scopes": scopes});
    let server = &world.server;
    server.post("/api/sources", &source).ok();
    server.wait_for("/api/sources/pets", |source| !source["inventory"].is_null());
    server.post("/api/groups", &json!({"name": "all", "selectors": [{"source": "pets"}]})).ok();
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
    let policy = json!({"name": "staff", "matchers": matchers, "groups": ["all"]});
    server.post("/api/policies", &policy).ok();
    world
}

/// The same call through every endpoint.
fn calls() -> [Ask; 4] {
    let rest = |path: &str, body: Value| Ask::new("POST", path).json(&body);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "look", "arguments": {}, "_meta": meta}});
    let mcp = rest("/mcp", message)
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", "look");
    [
        rest("/api/agents/tools/call", json!({"name": "look"})),
        rest("/api/tools/pets:look/execute", json!({})),
        rest("/tools/look", json!({})),
        mcp,
    ]
}

#[test]
fn every_endpoint_exchanges_the_token_and_forwards_only_named_headers() {
    let upstream = upstream();
    let world = world(&upstream, &json!(["pets"]));
    let token = world.token(json!({"role": "staff", "scope": "pets other"}));
    for ask in calls() {
        let ask = ask.bearer(&token).header("X-Tenant", "seven").header("X-Other", "o");
        let ask = ask.header("X-Auth-Token", &token);
        let answer = world.server.send(&ask);
        assert!(answer.status == 200 && answer.body.contains("Rex"), "{answer:?}");
        let last = upstream.requests().pop().unwrap();
        assert!(last.starts_with("GET /pets"), "{last}");
        assert!(last.contains("authorization: Bearer exchanged\r\n"), "{last}");
        assert!(last.contains("x-tenant: seven\r\n") && !last.contains("x-other"), "{last}");
    }
    for request in upstream.requests() {
        let exchanges = request.starts_with("POST /token");
        assert_eq!(request.contains(&token), exchanges, "{request}");
    }
    let exchanges = upstream.requests().iter().filter(|it| it.starts_with("POST")).count();
    assert_eq!(exchanges, 1, "one for all doors");
}

/// The same call by a client of a legacy MCP version, without a session.
fn legacy_call() -> Ask {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "look", "arguments": {}}});
    Ask::new("POST", "/mcp")
        .json(&message)
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2025-11-25")
}

const MISSING_SCOPES_MESSAGE: &str = "this takes a token with these scopes: `pets`, `pets:read`";

#[test]
fn an_admin_can_set_the_token_audience_of_a_tool() {
    let upstream = upstream();
    let world = world(&upstream, &json!([]));
    let (server, token) = (&world.server, world.token(json!({"role": "staff"})));
    let say = |audience: Value| {
        let patch = Ask::new("PATCH", "/api/tools/pets:look").bearer(&server.key);
        server.send(&patch.json(&json!({"audience": audience})))
    };
    let asked_for = || {
        let call = Ask::new("POST", "/api/agents/tools/call").bearer(&token);
        server.send(&call.json(&json!({"name": "look"}))).ok();
        upstream.requests().into_iter().rfind(|it| it.starts_with("POST /token")).unwrap()
    };
    assert!(asked_for().contains("audience=pets"));
    assert_eq!(say(json!("vets")).ok()["overridden"]["audience"], "vets");
    assert!(asked_for().contains("audience=vets"));
    assert_eq!(say(json!("")).errors().split(':').next(), Some("audience"));
    assert_eq!(say(json!(null)).ok()["overridden"], json!({}));
    let before = upstream.requests().len();
    asked_for();
    assert_eq!(upstream.requests().len(), before + 1, "the first token is still there");
}

#[test]
fn a_token_with_missing_scopes_is_challenged_with_all_required_scopes() {
    let upstream = upstream();
    let world = world(&upstream, &json!(["pets", "pets:read"]));
    let token = world.token(json!({"role": "staff", "scp": ["other", "pets"]}));
    let [by_name, by_id, manifest, mcp] = calls().map(|ask| world.server.send(&ask.bearer(&token)));
    for answer in [&by_name, &by_id, &manifest, &mcp] {
        assert_eq!(answer.status, 403, "{answer:?}");
        let challenge = r#"Bearer error="insufficient_scope", scope="pets pets:read""#;
        assert_eq!(answer.challenge(), challenge);
    }
    for answer in [by_name, by_id, manifest] {
        assert_eq!(answer.problem(), format!("403 insufficient_scope: {MISSING_SCOPES_MESSAGE}"));
        assert_eq!(answer.json()["scopes"], json!(["pets", "pets:read"]));
    }
    let metadata = world.server.url("/.well-known/oauth-protected-resource/mcp");
    assert!(
        mcp.header("www-authenticate").ends_with(&format!(r#"resource_metadata="{metadata}""#))
    );
    let data = json!({"toolcrib/code": "insufficient_scope", "toolcrib/retryable": false, "toolcrib/scopes": ["pets", "pets:read"]});
    let error = json!({"code": -32000, "message": MISSING_SCOPES_MESSAGE, "data": data});
    assert_eq!(mcp.json(), json!({"jsonrpc": "2.0", "id": 1, "error": error}));
    assert!(upstream.requests().is_empty());
}

#[test]
fn callers_that_cannot_step_up_get_missing_scopes_in_the_result() {
    let upstream = upstream();
    let world = world(&upstream, &json!(["pets", "pets:read"]));
    let key = json!({"name": "bot", "claims": {"role": "staff", "scope": "pets"}});
    let key = world.server.post("/api/keys", &key).ok()["key"].as_str().unwrap().to_owned();
    let token = world.token(json!({"role": "staff", "scope": "pets"}));
    let [_, _, manifest, mcp] = calls().map(|ask| world.server.send(&ask.bearer(&key)));
    let (manifest, mcp) = (manifest.ok(), mcp.ok());
    let older = world.server.send(&legacy_call().bearer(&token)).ok();
    for result in [&manifest, &mcp["result"], &older["result"]] {
        assert_eq!(
            (&result["isError"], &result["content"][0]["text"]),
            (&json!(true), &json!(MISSING_SCOPES_MESSAGE))
        );
        let meta = &result["_meta"];
        assert_eq!(meta["toolcrib/code"], "insufficient_scope");
        assert_eq!(meta["toolcrib/scopes"], json!(["pets", "pets:read"]));
    }
    assert!(upstream.requests().is_empty());
}

#[test]
fn an_api_key_cannot_be_exchanged_for_a_token() {
    let upstream = upstream();
    let world = world(&upstream, &json!(["pets"]));
    let key = json!({"name": "bot", "claims": {"role": "staff", "scope": "pets"}});
    let key = world.server.post("/api/keys", &key).ok()["key"].as_str().unwrap().to_owned();
    for ask in calls() {
        let answer = world.server.send(&ask.bearer(&key));
        assert!(answer.status == 200 && answer.body.contains("showed no token"), "{answer:?}");
    }
    assert!(upstream.requests().is_empty());
}
