//! The tools that ship with toolcrib: a source like any other.

use serde_json::{Value, json};

use super::server::{Answer, Ask, Server};
use super::shaping::key;

/// A server with all of them, and somebody who may use most.
fn with_builtins() -> (Server, String) {
    let server = Server::start();
    let limits = json!({"per_tool": {"per_minute": 3, "burst": 3}});
    let source = json!({"name": "own", "settings": {"kind": "builtin"}, "limits": limits});
    server.post("/api/sources", &source).ok();
    server.wait_for("/api/sources/own", |source| !source["inventory"].is_null());
    let group = json!({"name": "own", "selectors": [{"source": "own"}], "excluded": [{"tool": "own:fetch_url", "reason": "not the web"}]});
    server.post("/api/groups", &group).ok();
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
    let policy = json!({"name": "p", "matchers": matchers, "groups": ["own"]});
    server.post("/api/policies", &policy).ok();
    let key = key(&server, "bot");
    (server, key)
}

fn call(server: &Server, key: &str, name: &str, arguments: &Value) -> Answer {
    let call = json!({"name": name, "arguments": arguments});
    server.send(&Ask::new("POST", "/api/agents/tools/call").bearer(key).json(&call))
}

#[test]
fn they_are_granted_called_limited_and_recorded_like_all_others() {
    let (server, key) = with_builtins();
    let listed = server.get_as(&key, "/api/agents/tools").ok();
    assert_eq!(listed["data"].as_array().unwrap().len(), 10);

    let sum = call(&server, &key, "calculate", &json!({"expression": "0.1 + 0.2"}));
    assert_eq!(sum.ok()["result"], json!({"result": "0.3", "exact": true}));
    let wrong = call(&server, &key, "calculate", &json!({"expressions": "1"}));
    assert!(wrong.problem().starts_with("422 validation_error"), "{wrong:?}");
    let failed = call(&server, &key, "calculate", &json!({"expression": "1 / 0"})).ok();
    assert_eq!(failed["error"]["code"], "builtin_error");
    assert_eq!(failed["error"]["message"], "Error: this divides by zero");
    call(&server, &key, "calculate", &json!({"expression": "1"})).ok();
    let refused = call(&server, &key, "calculate", &json!({"expression": "1"}));
    assert!(refused.problem().starts_with("429 rate_limited"), "{refused:?}");
    let other = call(&server, &key, "fetch_url", &json!({"url": "https://example.com"}));
    assert!(other.problem().starts_with("404"), "{other:?}");

    let record = server.get("/api/executions?tool=own:calculate").ok();
    assert_eq!(record["data"].as_array().unwrap().len(), 5, "{record}");
}
