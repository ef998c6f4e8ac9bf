//! Trying tools as an admin, with the admin's own or other claims; the console's files; workflow diagrams.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use serde_json::{Value, json};

use super::server::{Ask, Server};
use crate::support::{answering, ok};
use crate::upstream::Upstream;

/// Server with an API of one tool, granted to the role `staff`.
fn world() -> (Server, Upstream) {
    let (server, upstream) =
        (Server::start(), answering(ok("application/json", r#"{"name":"Rex"}"#)));
    let document = json!({
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": upstream.url("")}],
        "paths": {"/pets/{id}": {"get": {
            "operationId": "pet", "responses": {"200": {"description": "ok"}},
            "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}],
        }}},
    });
    let settings = json!({"kind": "openapi", "specification": {"text": document.to_string()}});
    let source = json!({"name": "s", "allow": ["127.0.0.1"], "settings": settings, "auth": {
        "kind": "api_key", "location": "header", "name": "X-Key", "value": "env:NOTHING",
    }});
    server.post("/api/sources", &source).ok();
    server.wait_for("/api/tools", |tools| tools["data"][0].is_object());
    server.post("/api/groups", &json!({"name": "g", "selectors": [{"source": "s"}]})).ok();
    let matcher = json!({"claim": "role", "operator": "equals", "value": "staff"});
    server
        .post("/api/policies", &json!({"name": "p", "groups": ["g"], "matchers": [matcher]}))
        .ok();
    (server, upstream)
}

fn calls(server: &Server) -> Vec<Value> {
    server.get("/api/executions").ok()["data"].as_array().unwrap().clone()
}

#[test]
fn a_browser_is_redirected_from_the_root_to_the_console() {
    let server = Server::start();
    let seen = server.send(&Ask::new("GET", "/").header("Accept", "text/html,*/*"));
    assert_eq!((seen.status, seen.header("location")), (307, "console"));
    assert_eq!(server.send(&Ask::new("GET", "/")).status, 404);
}

#[test]
fn claims_of_a_trial_call_do_not_change_the_recorded_caller() {
    let (server, _upstream) = world();
    let claims =
        json!({"role": "staff", "iss": "https://b.example", "client_id": "bank", "sub": "eve"});
    let body = json!({"claims": claims, "arguments": {"id": 7}});
    server.post("/api/tools/s:pet/try", &body);
    let call = calls(&server).remove(0);
    assert!(
        !call.to_string().contains("b.example") && !call.to_string().contains("bank"),
        "{call}"
    );
    assert!(!call["subject"].as_str().unwrap().contains("eve"), "{call}");
}

#[test]
fn policies_match_any_claim_of_a_trial_call() {
    let (server, _upstream) = world();
    let matcher = json!({"claim": "appid", "operator": "equals", "value": "desk"});
    server
        .post("/api/policies", &json!({"name": "q", "groups": ["g"], "matchers": [matcher]}))
        .ok();
    let tried = |claims: Value| {
        let body = json!({"claims": claims, "arguments": {"id": 7}, "dry_run": true});
        server.post("/api/tools/s:pet/try", &body).status
    };
    assert_eq!([json!({"appid": "desk"}), json!({"appid": "bank"})].map(tried), [200, 404]);
}

#[test]
fn an_admin_tries_a_tool_with_the_claims_of_an_agent() {
    let (server, upstream) = world();
    let attempt = |body: Value| server.post("/api/tools/s:pet/try", &body);
    // Admin access alone grants no tools.
    let refused = attempt(json!({"arguments": {"id": 7}}));
    assert_eq!(refused.status, 404);
    assert!(refused.body.contains("does not have the tool"), "{}", refused.body);
    assert_eq!(attempt(json!({"arguments": {"id": 7}, "claims": {"role": "cook"}})).status, 404);
    let wrong = attempt(json!({"arguments": {"id": "x"}, "claims": {"role": "staff"}}));
    let dry = json!({"arguments": {"id": "x"}, "claims": {"role": "staff"}, "dry_run": true});
    for wrong in [wrong, attempt(dry)] {
        assert!(wrong.errors().starts_with("arguments.id: "), "{wrong:?}");
    }
    assert!(upstream.requests().is_empty());
    // The credential's environment variable is missing, so a real call would fail; a dry run needs no secret.
    let dry = json!({"arguments": {"id": 7}, "claims": {"role": "staff"}, "dry_run": true});
    let recorded = calls(&server).len();
    let shown = attempt(dry).ok();
    assert_eq!(shown["request"]["method"], "GET");
    assert_eq!(shown["request"]["url"], json!(upstream.url("/pets/7")));
    assert_eq!((calls(&server).len(), upstream.requests().len()), (recorded, 0));
    server
        .put("/api/sources/s", &{
            let mut source = server.get("/api/sources/s").ok();
            let known = ["name", "settings", "allow"];
            source.as_object_mut().unwrap().retain(|name, _| known.contains(&name.as_str()));
            source
        })
        .ok();
    let done = attempt(json!({"arguments": {"id": 7}, "claims": {"role": "staff"}})).ok();
    assert_eq!(done["outcome"]["result"], json!({"name": "Rex"}));
    assert_eq!(upstream.requests().len(), 1);
    let last = &calls(&server)[0];
    assert_eq!((&last["subject"], &last["tool_id"]), (&json!("key:first-admin"), &json!("s:pet")));
    assert_eq!(server.post("/api/tools/s:nothing/try", &json!({})).status, 404);
}

#[test]
fn the_console_is_public_and_has_a_content_security_policy() {
    let server = Server::start_with("--listen 127.0.0.1:0");
    let page = server.send(&Ask::new("GET", "/console"));
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    assert_eq!(page.header("referrer-policy"), "no-referrer");
    assert!(!page.body.contains("tcrib_"));
    let tag = page.header("etag").to_owned();
    let again = server.send(&Ask::new("GET", "/console").header("If-None-Match", &tag));
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let script = server.send(&Ask::new("GET", "/console/main.js"));
    assert_eq!(script.header("content-type"), "text/javascript; charset=utf-8");
    assert_eq!(script.header("cache-control"), "no-cache");
    for missing in ["/console/", "/console/nothing.js", "/console/..%2Fconsole.rs"] {
        assert_eq!(server.send(&Ask::new("GET", missing)).status, 404, "{missing}");
    }
}

#[test]
fn only_workflow_tools_have_a_diagram() {
    let (server, _upstream) = world();
    let document = include_str!("../../../../examples/order.workflow.yaml");
    let source =
        json!({"name": "flows", "settings": {"kind": "workflow", "documents": [document]}});
    server.post("/api/sources", &source).ok();
    let tools = server.wait_for("/api/tools?source=flows", |tools| tools["data"][0].is_object());
    let path = format!("/api/tools/{}/workflow", tools["data"][0]["id"].as_str().unwrap());
    let picture = server.get(&path).ok();
    assert!(picture["mermaid"].as_str().unwrap().starts_with("flowchart TD\n"), "{picture}");
    assert!(!picture["steps"].as_array().unwrap().is_empty(), "{picture}");
    assert!(!picture["tools"].as_array().unwrap().is_empty(), "{picture}");
    assert_eq!(server.get("/api/tools/s:pet/workflow").status, 404);
}
