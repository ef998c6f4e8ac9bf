//! Findings in texts of upstreams: reported, quarantined, and served only after explicit approval (T2).
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use serde_json::{Value, json};

use super::server::{Ask, Server};
use crate::support::ok;
use crate::upstream::Upstream;

/// Server with a source of these operations, and the key of an agent that is granted all of them.
fn with_source(trust: &str, operations: &Value) -> (Server, Upstream, String) {
    let upstream = Upstream::replying(|_| ok("application/json", "{}"));
    let server = Server::start();
    let text = json!({"openapi": "3.1.0", "info": {"title": "t", "version": "1"},
        "servers": [{"url": upstream.url("")}], "paths": operations})
    .to_string();
    let settings = json!({"kind": "openapi", "specification": {"text": text}});
    let source =
        json!({"name": "pets", "trust": trust, "settings": settings, "allow": ["127.0.0.1"]});
    server.post("/api/sources", &source).ok();
    server.wait_for("/api/sources/pets", |source| !source["inventory"].is_null());
    server.post("/api/groups", &json!({"name": "all", "selectors": [{"source": "pets"}]})).ok();
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
    let policy = json!({"name": "staff", "matchers": matchers, "groups": ["all"]});
    server.post("/api/policies", &policy).ok();
    let key = json!({"name": "bot", "claims": {"role": "staff"}});
    let key = server.post("/api/keys", &key).ok()["key"].as_str().unwrap().to_owned();
    (server, upstream, key)
}

fn operation(id: &str, summary: &str) -> Value {
    json!({"get": {"operationId": id, "summary": summary, "responses": {}}})
}

fn names(server: &Server, key: &str) -> Vec<String> {
    let list = server.get_as(key, "/api/agents/tools").ok();
    let tools = list["tools"].as_array().or(list["data"].as_array()).unwrap().clone();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn only_critical_findings_quarantine_a_tool_of_a_trusted_source() {
    let (server, _upstream, key) = with_source(
        "auto",
        &json!({
            "/bad": operation("bad", "Pets\u{e0068}\u{e0069}\u{1b}[2J"),
            "/odd": operation("odd", "All\u{200b} pets"),
            "/good": operation("good", "A pet"),
        }),
    );
    assert_eq!(names(&server, &key), ["good", "odd"]);
    let bad = server.get("/api/tools/pets:bad").ok();
    assert_eq!((&bad["review"], &bad["is_served"]), (&json!("waiting"), &json!(false)));
    let checks: Vec<&Value> =
        bad["findings"].as_array().unwrap().iter().map(|finding| &finding["check"]).collect();
    assert_eq!(checks, ["text.control", "unicode.hidden"]);
    assert!(bad["findings"][1]["what"].as_str().unwrap().contains("“hi”"));
    assert_eq!(server.get("/api/tools/pets:good").ok()["findings"], json!([]));
    let ids = |query: &str| {
        let page = server.get(&format!("/api/tools?finding={query}")).ok();
        let tools = page["data"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids("critical"), ["pets:bad"]);
    assert_eq!(ids("warning"), ["pets:bad", "pets:odd"]);

    let source = server.get("/api/sources/pets").ok();
    assert_eq!(
        (&source["tools"]["waiting"], &source["tools"]["with_findings"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(source["findings"][0]["tool_id"], "pets:bad");
    assert_eq!(source["findings"][2]["tool_id"], "pets:odd");
    let refreshed = server.send(&server.ask("POST", "/api/sources/pets/refresh")).ok();
    assert_eq!(refreshed["findings"], json!({"critical": 2, "warnings": 1, "notes": 0}));
    assert_eq!(refreshed["kept_back"], 1);
    let tools = refreshed["tools"].as_array().unwrap();
    let found = tools.iter().find(|tool| tool["tool_id"] == "pets:odd").unwrap();
    assert_eq!(found["findings"][0]["severity"], "warning");
    assert!(tools.iter().any(|tool| tool.get("findings").is_none()));
}

#[test]
fn a_version_with_findings_is_approved_only_with_despite_findings() {
    let bad = json!({"get": {"operationId": "bad", "summary": "Pets\u{1b}[2J", "responses": {},
        "parameters": [{"name": "size", "in": "query", "schema": {"type": "string", "enum": ["s\u{200b}"]}}]}});
    let (server, upstream, key) =
        with_source("review", &json!({"/bad": bad, "/good": operation("good", "A pet")}));
    let approve = |id: &str, more: Value| {
        let fingerprint =
            server.get(&format!("/api/tools/pets:{id}/diff")).ok()["fingerprint"].clone();
        let mut body = json!({"fingerprint": fingerprint});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post(&format!("/api/tools/pets:{id}/approve"), &body)
    };
    assert_eq!(approve("good", json!({})).ok()["is_served"], true);
    for more in [json!({}), json!({"despite_findings": false})] {
        let refused = approve("bad", more);
        let problem = refused.problem();
        assert!(problem.starts_with("409 tool_has_findings"), "{problem}");
        assert!(problem.contains("text.control at `/description`"), "{problem}");
        let found = refused.json()["findings"].clone();
        assert_eq!(found.as_array().unwrap().len(), 2, "{found}");
    }
    assert_eq!(names(&server, &key), ["good"]);
    let approved = approve("bad", json!({"despite_findings": true})).ok();
    assert_eq!((&approved["review"], &approved["is_served"]), (&json!("approved"), &json!(true)));
    assert_eq!(names(&server, &key), ["bad", "good"]);

    // Descriptions are shown without hidden characters; argument values reach the upstream unchanged.
    let list = server.get_as(&key, "/api/agents/tools").body;
    assert!(!list.contains("\\u001b") && list.contains("Pets[2J"), "{list}");
    let call = json!({"name": "bad", "arguments": {"size": "s\u{200b}"}});
    server.send(&Ask::new("POST", "/api/agents/tools/call").bearer(&key).json(&call)).ok();
    let asked = upstream.requests();
    assert!(
        asked.iter().any(|request| request.starts_with("GET /bad?size=s%E2%80%8B ")),
        "{asked:?}"
    );
}
