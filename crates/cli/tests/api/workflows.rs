//! Workflows over the API: registered, rejected, called.

use serde_json::{Value, json};

use super::calls::Shop;

fn source(tasks: &Value) -> Value {
    let about = json!({"dsl": "1.0.0", "namespace": "a", "name": "adopt", "version": "1.0.0", "summary": "Adopts a pet"});
    let document = json!({"document": about, "do": tasks}).to_string();
    json!({"name": "flows", "settings": {"kind": "workflow", "documents": [document]}})
}

/// Registers a workflow with these tasks and grants it to the role `staff`.
pub(super) fn grant(shop: &Shop, tasks: &Value) {
    shop.server.post("/api/sources", &source(tasks)).ok();
    shop.server.wait_for("/api/sources/flows", |source| !source["inventory"].is_null());
    let group = json!({"name": "flows", "selectors": [{"source": "flows"}]});
    shop.server.post("/api/groups", &group).ok();
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
    let policy = json!({"name": "flows", "matchers": matchers, "groups": ["flows"]});
    shop.server.post("/api/policies", &policy).ok();
}

#[test]
fn a_workflow_is_registered_granted_and_called() {
    let shop = Shop::open();
    let tasks = json!([
        {"get": {"call": "pets__get_pet", "with": {"id": "${ .id }"}}},
        {"tell": {"set": {"adopted": "${ .name }"}}},
    ]);
    grant(&shop, &tasks);
    let call = json!({"name": "adopt", "arguments": {"id": 7}});
    let outcome = shop.post("/api/agents/tools/call", &call).ok();
    assert_eq!(
        (&outcome["result"], &outcome["tool_id"]),
        (&json!({"adopted": "Rex"}), &json!("flows:adopt"))
    );
    let listed = shop.server.get("/api/sources?kind=workflow").ok();
    assert_eq!(listed["data"][0]["id"], "flows");
}

#[test]
fn invalid_arguments_of_a_later_step_are_a_failed_call() {
    let shop = Shop::open();
    let tasks = json!([
        {"add": {"call": "pets__add_pet", "with": {"name": "Rex"}}},
        {"get": {"call": "pets__get_pet", "with": {"id": "seven"}}},
    ]);
    grant(&shop, &tasks);
    let answer = shop.post("/api/agents/tools/call", &json!({"name": "adopt", "arguments": {}}));
    assert_eq!(shop.upstream.requests().len(), 1);
    let outcome = answer.ok();
    assert_eq!((answer.status, &outcome["status"]), (200, &json!("failed")));
    let error = &outcome["error"];
    assert_eq!((&error["code"], &error["retryable"]), (&json!("builtin_error"), &json!(false)));
    assert!(error["message"].as_str().unwrap().ends_with("(at /do/1/get)"), "{error}");
}

#[test]
fn an_invalid_document_is_rejected_with_the_error_location() {
    let shop = Shop::open();
    let wrong = source(&json!([{"a": {"call": "http"}}, {"b": {"run": {}}}]));
    let refused = shop.server.post("/api/sources", &wrong);
    assert_eq!(refused.status, 422);
    let told = refused.errors();
    for part in ["settings.documents[0]", "/do/0/a/call: `http`", "/do/1/b/run: `run`"] {
        assert!(told.contains(part), "{told}");
    }
    let fine = source(&json!([{"a": {"wait": {}}}]));
    shop.server.post("/api/sources", &fine).ok();
    assert_eq!(shop.server.put("/api/sources/flows", &wrong).status, 422);
}
