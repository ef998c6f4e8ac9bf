//! Built-in tools, registered as a source like any other.

use serde_json::{Value, json};

use super::server::{Answer, Ask, Server};
use super::shaping::key;

/// Server with all built-in tools, and the key of an agent that is granted all of them except `fetch_url`.
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
fn builtin_tools_are_granted_called_limited_and_recorded_like_any_tool() {
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

#[test]
fn the_example_workflow_of_builtin_tools_runs() {
    let (server, key) = with_builtins();
    let text = std::fs::read_to_string("../../examples/receipt.workflow.yaml").unwrap();
    let settings = json!({"kind": "workflow", "documents": [text]});
    let source = json!({"id": "flows", "name": "Workflows", "settings": settings});
    server.post("/api/sources", &source).ok();
    server.wait_for("/api/sources/flows", |source| !source["inventory"].is_null());
    let selectors = json!([{"source": "own"}, {"source": "flows"}]);
    let group = json!({"name": "both", "selector_mode": "any", "selectors": selectors});
    server.post("/api/groups", &group).ok();
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
    let policy = json!({"name": "q", "matchers": matchers, "groups": ["both"]});
    server.post("/api/policies", &policy).ok();
    let receipt = call(&server, &key, "receipt", &json!({"prices": [0.1, 0.2]})).ok();
    assert_eq!(receipt["result"]["total"], "0.3", "{receipt}");
    assert_eq!(receipt["result"]["receipt"].as_str().map(str::len), Some(36));
}

#[test]
fn the_tools_of_a_search_mode_list_can_be_called() {
    let (server, key) = with_builtins();
    let listed = server.get_as(&key, "/api/agents/tools?mode=search&format=mcp").ok();
    assert_eq!(listed["tools"][0]["name"], "tool_search");
    let found = call(&server, &key, "tool_search", &json!({"query": "add two numbers"})).ok();
    assert_eq!(found["result"]["tools"][0]["name"], "calculate", "{found}");
    let run = json!({"name": "hash", "arguments": {"text": "abc"}});
    assert_eq!(call(&server, &key, "execute_tool", &run).ok()["result"]["bytes"], 3);
}

#[test]
fn a_workflow_step_is_not_called_after_the_key_is_deleted() {
    let (server, key) = with_builtins();
    let text = json!({
        "document": {"dsl": "1.0.0", "namespace": "a", "name": "later", "version": "1.0.0"},
        "do": [{"rest": {"wait": {"seconds": 2}}}, {"make": {"call": "own:uuid"}}],
    });
    let settings = json!({"kind": "workflow", "documents": [text.to_string()]});
    let source = json!({"id": "flows", "name": "Workflows", "settings": settings});
    server.post("/api/sources", &source).ok();
    server.wait_for("/api/sources/flows", |source| !source["inventory"].is_null());
    let group = json!({"name": "flows", "selectors": [{"source": "flows"}]});
    server.post("/api/groups", &group).ok();
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
    let policy = json!({"name": "q", "matchers": matchers, "groups": ["flows"]});
    server.post("/api/policies", &policy).ok();
    let later = std::thread::scope(|scope| {
        let called = scope.spawn(|| call(&server, &key, "later", &json!({})).ok());
        std::thread::sleep(std::time::Duration::from_secs(1));
        server.delete("/api/keys/bot");
        called.join().unwrap()
    });
    assert_eq!(later["error"]["code"], "not_granted", "{later}");
}
