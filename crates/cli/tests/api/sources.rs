//! Sources: registered, refreshed, changed and removed, and the errors on the way.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Ask, Server};
use crate::support::{Folder, answering, ok};
use crate::upstream::{Upstream, answer};

/// Specification with these operations, each `GET /NAME`.
pub(super) fn specification(names: &[&str]) -> String {
    let path = |name: &&str| {
        let operation = json!({"operationId": name, "summary": format!("the {name}"), "responses": {"200": {"description": "ok"}}});
        (format!("/{name}"), json!({"get": operation}))
    };
    let paths: serde_json::Map<String, Value> = names.iter().map(path).collect();
    json!({"openapi": "3.1.0", "info": {"title": "t", "version": "7"}, "servers": [{"url": "https://api.example"}], "paths": paths}).to_string()
}

/// Upstream whose specification can be replaced.
pub(super) fn changeable_upstream(first: String) -> (Upstream, Arc<Mutex<String>>) {
    let text = Arc::new(Mutex::new(first));
    let now = Arc::clone(&text);
    (Upstream::replying(move |_| ok("application/json", &now.lock().unwrap())), text)
}

pub(super) fn source_body(upstream: &Upstream) -> Value {
    json!({"name": "Pets", "url": upstream.url("/openapi.json"), "settings": {"kind": "openapi"}, "allow": ["127.0.0.1"]})
}

#[test]
fn a_registered_source_is_refreshed_automatically() {
    let server = Server::start();
    let upstream = answering(ok("application/json", &specification(&["cats", "dogs"])));
    let made = server.post("/api/sources", &source_body(&upstream));
    assert_eq!((made.status, made.header("location")), (201, "/api/sources/pets"));
    let seen = server.wait_for("/api/sources/pets", |source| !source["inventory"].is_null());
    assert_eq!((&seen["health"], &seen["is_enabled"]), (&json!("healthy"), &json!(true)));
    assert_eq!(
        (&seen["inventory"]["count"], &seen["inventory"]["version"]),
        (&json!(2), &json!("7"))
    );
    let counts = json!({"total": 2, "served": 2, "others": 0, "disabled": 0, "deprecated": 0, "waiting": 0, "with_findings": 0});
    assert_eq!(seen["tools"], counts);
    let listed = server.get("/api/sources?kind=openapi&health=healthy&enabled=true&q=PET").ok();
    assert_eq!(listed["data"][0]["tools"], counts);
    assert_eq!(server.get("/api/sources?kind=mcp").ok()["data"], json!([]));
    // A refresh does not change the entity tag: an admin need not have seen its outcome.
    assert_eq!(server.get("/api/sources/pets").header("etag"), made.header("etag"));
}

#[test]
fn a_source_is_refreshed_on_request_changed_disabled_and_removed() {
    let server = Server::start();
    let (upstream, text) = changeable_upstream(specification(&["cats", "dogs"]));
    server.post("/api/sources", &source_body(&upstream)).ok();
    server.wait_for("/api/sources/pets", |source| !source["inventory"].is_null());
    *text.lock().unwrap() = specification(&["cats", "dogs", "fish"]);
    let result = server.send(&server.ask("POST", "/api/sources/pets/refresh")).ok();
    assert_eq!(
        (&result["created"], &result["unchanged"], &result["success"]),
        (&json!(1), &json!(2), &json!(true))
    );
    assert_eq!(result["tools"].as_array().unwrap().len(), 3);
    let mut changed = source_body(&upstream);
    changed["description"] = json!("now with fish");
    assert_eq!(server.put("/api/sources/pets", &changed).ok()["description"], "now with fish");
    changed["settings"] = json!({"kind": "http_manifest"});
    assert!(server.put("/api/sources/pets", &changed).problem().starts_with("409 kind_is_fixed"));
    let off = server.send(&server.ask("POST", "/api/sources/pets/disable")).ok();
    assert_eq!((&off["is_enabled"], &off["tools"]["served"]), (&json!(false), &json!(0)));
    let problem = server.post("/api/sources/pets/refresh", &json!({"force": true})).problem();
    assert_eq!(problem, "409 source_disabled: source `pets` is disabled: enable it first");
    assert_eq!(
        server.send(&server.ask("POST", "/api/sources/pets/enable")).ok()["is_enabled"],
        true
    );
    assert_eq!(server.delete("/api/sources/pets").ok(), json!({"id": "pets", "removed_tools": 3}));
}

#[test]
fn a_failed_refresh_reports_the_reason_and_changes_no_tool() {
    let server = Server::start();
    let (upstream, text) = changeable_upstream(specification(&["a", "b", "c", "d"]));
    server.post("/api/sources", &source_body(&upstream)).ok();
    server.wait_for("/api/sources/pets", |source| !source["inventory"].is_null());
    let refresh = || server.send(&server.ask("POST", "/api/sources/pets/refresh"));
    *text.lock().unwrap() = "<html>".to_owned();
    let failed = refresh();
    assert!(failed.problem().starts_with("502 spec_parse_failed"), "{failed:?}");
    assert_eq!(failed.json()["result"]["success"], false);
    *text.lock().unwrap() = specification(&["a"]);
    let shrunk = refresh();
    assert!(shrunk.problem().starts_with("409 inventory_shrinks"), "{shrunk:?}");
    assert_eq!(shrunk.json()["result"]["discovered"], 1);
    let seen = server.get("/api/sources/pets").ok();
    assert_eq!(
        (&seen["failures"], &seen["health"], &seen["tools"]["total"]),
        (&json!(2), &json!("degraded"), &json!(4))
    );
    assert_eq!(seen["last_sync_error"]["code"], "inventory_shrinks");
    let forced = server.post("/api/sources/pets/refresh", &json!({"force": true})).ok();
    assert_eq!(forced["deprecated"], 3);
    assert!(
        server.post("/api/sources/none/refresh", &json!({})).problem().starts_with("404 not_found")
    );
}

#[test]
fn a_source_with_a_new_url_is_refreshed_automatically() {
    let server = Server::start();
    let (one, two) = (specification(&["cats"]), specification(&["cats", "dogs"]));
    let one = answering(ok("application/json", &one));
    let two = answering(ok("application/json", &two));
    server.post("/api/sources", &source_body(&one)).ok();
    let seen = server.wait_for("/api/sources/pets", |source| !source["inventory"].is_null());
    assert!(seen["last_sync_ended_at"].is_string());
    assert_eq!(seen["next_refresh_at"], Value::Null);
    let mut hourly = source_body(&two);
    hourly["refresh_every"] = json!(3600);
    server.put("/api/sources/pets", &hourly).ok();
    let seen = server.wait_for("/api/sources/pets", |source| source["inventory"]["count"] == 2);
    assert!(seen["last_sync_ended_at"].as_str() < seen["next_refresh_at"].as_str(), "{seen}");
}

#[test]
fn a_dead_upstream_delays_neither_start_nor_shutdown() {
    let server = Server::start();
    let upstream = answering(ok("application/json", &specification(&["cats", "dogs"])));
    server.post("/api/sources", &source_body(&upstream)).ok();
    server.wait_for("/api/sources/pets", |source| !source["inventory"].is_null());
    // Accepts connections and never answers.
    let hanging = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut dead = source_body(&upstream);
    dead["url"] = json!(format!("http://{}/openapi.json", hanging.local_addr().unwrap()));
    server.put("/api/sources/pets", &dead).ok();
    let begun = Instant::now();
    let mut server = server.restart("--listen 127.0.0.1:0");
    let seen = server.get("/api/sources/pets").ok();
    assert_eq!((&seen["inventory"]["count"], &seen["tools"]["served"]), (&json!(2), &json!(2)));
    server.wait_for("/api/sources/pets", |source| source["last_sync_ended_at"].is_null());
    let (code, said) = server.stop();
    assert_eq!((code, said.contains("is not closed")), (Some(0), false), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_registration_does_not_fail_with_its_first_refresh() {
    let server = Server::start();
    let upstream = answering(answer("404 Not Found", "", b""));
    assert_eq!(server.post("/api/sources", &source_body(&upstream)).status, 201);
    let seen = server.wait_for("/api/sources/pets", |source| !source["last_sync_error"].is_null());
    assert_eq!(
        (&seen["last_sync_error"]["code"], &seen["health"]),
        (&json!("spec_fetch_failed"), &json!("degraded"))
    );
    let failed = server.send(&server.ask("POST", "/api/sources/pets/refresh"));
    assert!(failed.problem().starts_with("502 spec_fetch_failed"), "{failed:?}");
    // A private address is unreachable unless the source allows it.
    let mut closed = source_body(&upstream);
    (closed["name"], closed["allow"]) = (json!("closed"), json!([]));
    server.post("/api/sources", &closed).ok();
    let seen =
        server.wait_for("/api/sources/closed", |source| !source["last_sync_error"].is_null());
    assert_eq!(seen["last_sync_error"]["code"], "spec_fetch_failed");
}

#[test]
fn a_specification_can_be_given_inline() {
    let server = Server::start();
    let long = "x".repeat(3 << 20);
    let text = specification(&["cats"]).replace("the cats", &long);
    let body =
        json!({"name": "inline", "settings": {"kind": "openapi", "specification": {"text": text}}});
    assert_eq!(server.post("/api/sources", &body).status, 201);
    server.wait_for("/api/sources/inline", |source| !source["inventory"].is_null());
    assert!(server.get("/api/sources").body.len() < 10_000);
}

#[test]
fn a_program_can_be_registered_only_with_allow_stdio() {
    let body =
        json!({"name": "files", "settings": {"kind": "mcp", "command": {"program": "/bin/false"}}});
    let remote =
        json!({"name": "remote", "url": "https://mcp.example", "settings": {"kind": "mcp"}});
    let server = Server::start();
    assert!(server.post("/api/sources", &body).problem().starts_with("403 stdio_not_allowed"));
    server.post("/api/sources", &remote).ok();
    let mut changed = body.clone();
    changed["name"] = json!("remote");
    assert!(
        server.put("/api/sources/remote", &changed).problem().starts_with("403 stdio_not_allowed")
    );
    let server = server.restart("--listen 127.0.0.1:0 --allow-stdio");
    assert_eq!(server.post("/api/sources", &body).status, 201);
    // Only admins may register programs, whatever the request looks like (STD-02).
    let agent = json!({"name": "agent", "claims": {"role": "admin"}});
    let agent = server.post("/api/keys", &agent).ok()["key"].as_str().unwrap().to_owned();
    for (method, path, status) in [
        ("POST", "/api/sources", 403),
        ("PUT", "/api/sources/files", 403),
        ("POST", "/api/sources/files/refresh", 403),
        ("PATCH", "/api/sources/files", 405),
        ("POST", "/api/sources/preview", 405),
    ] {
        let answer = server.send(&Ask::new(method, path).bearer(&agent).json(&body));
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert_eq!(!answer.header("allow").is_empty(), status == 405, "{answer:?}");
    }
}

#[test]
fn commands_that_are_invalid_or_can_inject_code_are_rejected() {
    let server = Server::start_with("--listen 127.0.0.1:0 --allow-stdio");
    let body =
        |command: Value| json!({"name": "files", "settings": {"kind": "mcp", "command": command}});
    let command = json!({
        "program": "npx -y server",
        "environment": {"LD_PRELOAD": "env:A", "NODE_OPTIONS": "env:A", "PYTHONUNBUFFERED": "env:A", "X=Y": "env:A"},
        "sandbox": {"read": ["data"]},
    });
    insta::assert_snapshot!(server.post("/api/sources", &body(command.clone())).errors(), @"
    settings.command.program: names one program, and no shell reads it: its arguments go into `arguments`
    settings.command.sandbox.read[0]: is to be an absolute path
    settings.command.environment.LD_PRELOAD: may not be set: it can make the loader of programs run other code than the command says; if you need it, name a script of your own as the program and set it there
    settings.command.environment.NODE_OPTIONS: may not be set: it can make Node.js run other code than the command says; if you need it, name a script of your own as the program and set it there
    settings.command.environment.X=Y: is no name of a variable
    ");
    let good = json!({"program": "/bin/false", "environment": {"PYTHONUTF8": "env:A", "NODE_ENV": "env:A"}});
    assert_eq!(server.post("/api/sources", &body(good)).status, 201);
    assert_eq!(server.put("/api/sources/files", &body(command)).status, 422);
    // The error is about the MCP connection, not about a specification.
    let failed = server.post_empty("/api/sources/files/refresh");
    assert!(failed.problem().starts_with("502 mcp_connect_failed"), "{failed:?}");
    let nowhere = json!({"name": "nowhere", "settings": {"kind": "mcp"}});
    insta::assert_snapshot!(server.post("/api/sources", &nowhere).errors(), @"url: give the `url` of the MCP server, or a `command` in `settings`");
}

#[test]
fn errors_in_a_source_name_the_field_and_repeat_no_secret() {
    let server = Server::start();
    let wrong = |more: Value| {
        let mut body =
            json!({"name": "s", "settings": {"kind": "http_manifest"}, "url": "https://a.example"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = server.post("/api/sources", &body);
        assert!(!answer.body.contains("hunter2"), "{answer:?}");
        answer.errors()
    };
    insta::assert_snapshot!(wrong(json!({"settings": {"kind": "graphql"}})), @"settings.kind: there is no `graphql`; there is `openapi`, `mcp`, `http_manifest`, `workflow`, `builtin`, `custom`");
    insta::assert_snapshot!(wrong(json!({"settings": {}})), @"settings.kind: is to be one of `openapi`, `mcp`, `http_manifest`, `workflow`, `builtin`, `custom`");
    insta::assert_snapshot!(wrong(json!({"auth": {"kind": "bearer", "token": "hunter2"}})), @"auth.token: is to be a reference: `env:NAME`, `file:PATH` or `sealed:NAME`");
    insta::assert_snapshot!(wrong(json!({"auth": {"kind": "bearer", "token": 90210}})), @"auth.token: is to be a string, not a number");
    insta::assert_snapshot!(wrong(json!({"url": "https://me:hunter2@a.example"})), @"url: a URL holds no user name or password: give them under `auth`, by reference");
    insta::assert_snapshot!(wrong(json!({"allow": ["10.0.0.0/8", "every where"], "forward_headers": ["Authorization"], "shrink_limit": 101})), @"
    allow[1]: this cannot be allowed: write an address, a network or a host name, and a port if only that one is meant, as in `10.20.0.0/16`, `[fd00::1]:8443` or `billing.internal:8443`
    forward_headers: `Authorization` is no header that can be passed on
    shrink_limit: is more than 100 per cent
    ");
    let exchange = |more: Value| {
        let mut auth = json!({"kind": "token_exchange", "token_url": "https://id.example/token",
            "client_id": "t", "client_secret": "env:S", "audience": "a"});
        auth.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        auth.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        wrong(json!({"auth": auth}))
    };
    insta::assert_snapshot!(exchange(json!({"audience": null})), @"auth.audience: is missing, and so is `resource`: give one");
    insta::assert_snapshot!(exchange(json!({"client_secret": null})), @"auth.client_secret: is missing: give it, or a `client_certificate` with `for_tokens`");
    insta::assert_snapshot!(exchange(json!({"token_url": null})), @"auth.token_url: is missing, and so is `issuer`: give one");
    insta::assert_snapshot!(exchange(json!({"issuer": "https://me:hunter2@id.example", "scopes": ["a b"]})), @"
    auth.issuer: stands beside `token_url`: give one
    auth.issuer: is no `http` or `https` URL without credentials and query
    auth.scopes: has one with characters that no scope has
    ");
    let of_mcp = json!({"kind": "mcp_oauth", "client_id": "t", "client_secret": "env:S"});
    insta::assert_snapshot!(wrong(json!({"auth": of_mcp, "settings": {"kind": "http_manifest"}})), @"auth.kind: is for MCP servers at a `url`");
    let of_mcp = json!({"kind": "mcp_oauth", "client_id": "t", "client_secret": "env:S", "token_url": "https://id.example/token"});
    insta::assert_snapshot!(wrong(json!({"auth": of_mcp})), @"auth.token_url: is not known here; there is `kind`, `issuer`, `client_id`, `client_secret`, `client_proof`, `scopes`");
    let key = json!({"kind": "api_key", "location": "header", "name": "X-Key", "value": "env:K"});
    insta::assert_snapshot!(wrong(json!({"auth": key, "forward_headers": ["x-key", "x-tenant"]})), @"forward_headers: `x-key` is the header of the source's own key in `auth`: leave it out here, or choose another `kind` of `auth` if the agent's own value is to be sent");
    for name in ["Cookie", "HOST", "Transfer-Encoding", "Mcp-Session-Id", "X-Toolcrib-A", "a b"] {
        let refused = wrong(json!({"forward_headers": [name], "required_scopes": ["\""]}));
        assert!(refused.contains("is no header that can be passed on"), "{name}: {refused}");
        assert!(refused.contains("required_scopes: "), "{refused}");
    }
    insta::assert_snapshot!(wrong(json!({"refresh_evry": 60})), @"refresh_evry: is not known here; did you mean `refresh_every`?");
}

#[test]
fn secret_references_are_shown_without_their_values() {
    let server = Server::on_folder(Folder::with_catalog(), "");
    let seen = server.get("/api/sources/petstore").ok();
    assert_eq!(seen["auth"], json!({"kind": "bearer", "token": "sealed:petstore-token"}));
}
