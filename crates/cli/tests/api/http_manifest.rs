//! Tools for clients of the HTTP manifest convention, among them another toolcrib (H3).

use serde_json::{Value, json};

use super::calls::Shop;
use super::server::{Ask, Server};

#[test]
fn the_manifest_contains_the_endpoint_of_each_tool() {
    let shop = Shop::open();
    let patch = shop.server.ask("PATCH", "/api/tools/pets:add_pet");
    shop.server.send(&patch.json(&json!({"name": "add.pet"}))).ok();
    let answer = shop.server.get_as(&shop.key, "/tools");
    assert!(!answer.header("etag").is_empty());
    let manifest = answer.ok();
    let endpoints = manifest["tools"].as_array().unwrap().iter();
    let endpoints: Vec<_> = endpoints.map(|tool| tool["endpoint"].as_str().unwrap()).collect();
    assert_eq!(endpoints, ["/tools/pets__add_pet_7d2232b8", "/tools/break_pet", "/tools/get_pet"]);
    insta::assert_json_snapshot!(manifest["tools"][2], @r#"
    {
      "name": "get_pet",
      "description": "One pet",
      "inputSchema": {
        "type": "object",
        "properties": {
          "id": {
            "type": "integer"
          }
        },
        "required": [
          "id"
        ]
      },
      "annotations": {
        "readOnlyHint": true
      },
      "endpoint": "/tools/get_pet",
      "method": "POST"
    }
    "#);
    assert_eq!(shop.server.get("/tools").ok(), json!({"tools": []}));
}

#[test]
fn a_tool_is_called_at_its_manifest_endpoint() {
    let shop = Shop::open();
    let mut result = shop.post("/tools/get_pet", &json!({"id": 7})).ok();
    assert_eq!(result["_meta"].take()["toolcrib/source"], "pets");
    let text = json!([{"type": "text", "text": r#"{"name":"Rex"}"#}]);
    assert_eq!(
        result,
        json!({"content": text, "structuredContent": {"name": "Rex"}, "isError": false, "_meta": null})
    );
    // Tool failures are reported inside the result.
    for (path, body, words) in [
        ("/tools/break_pet", json!({}), "out of pets"),
        ("/tools/get_pet", json!({"id": "seven"}), "id"),
        ("/tools/get_pet", json!({}), "id"),
    ] {
        let result = shop.post(path, &body).ok();
        assert_eq!(result["isError"], true, "{path}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains(words), "{result}");
    }
    for name in ["delete_pet", "no_pet"] {
        let answer = shop.post(&format!("/tools/{name}"), &json!({"id": 7}));
        assert_eq!(answer.problem(), format!("404 not_found: Tool not found: {name}"));
    }
    let large = Ask::new("POST", "/tools/get_pet").bearer(&shop.key);
    let large = large.text("application/json", r#"{"id":99999999999999999999}"#);
    assert_eq!(shop.server.send(&large).status, 422);
    let list = Ask::new("POST", "/tools/get_pet").bearer(&shop.key).json(&json!([7]));
    assert_eq!(shop.server.send(&list).status, 422);
}

/// Second server that has the first as a source; both grant all of their tools to anonymous callers.
fn chained(shop: &Shop) -> Server {
    let anybody = json!([{"claim": "anonymous", "operator": "equals", "value": true}]);
    let policy = json!({"name": "anybody", "matchers": anybody, "groups": ["all"]});
    shop.server.post("/api/policies", &policy).ok();
    let other = Server::start();
    let source = json!({
        "name": "toolcrib", "url": shop.server.url(""), "settings": {"kind": "http_manifest"}, "allow": ["127.0.0.1"],
    });
    other.post("/api/sources", &source).ok();
    other.wait_for("/api/sources/toolcrib", |source| !source["inventory"].is_null());
    let group = json!({"name": "all", "selectors": [{"source": "toolcrib"}]});
    other.post("/api/groups", &group).ok();
    other.post("/api/policies", &policy).ok();
    other
}

#[test]
fn one_server_is_the_upstream_of_another() {
    let shop = Shop::open();
    let patch = shop.server.ask("PATCH", "/api/tools/pets:break_pet");
    shop.server.send(&patch.json(&json!({"visibility": "searchable"}))).ok();
    let other = chained(&shop);
    let get = |path: &str| other.send(&Ask::new("GET", path)).ok();
    let call = |name: &str, arguments: Value| {
        let body = json!({"name": name, "arguments": arguments});
        other.send(&Ask::new("POST", "/api/agents/tools/call").json(&body)).ok()
    };
    let list = get("/api/agents/tools");
    let names: Vec<_> =
        list["data"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    // The search tools of the first server are ordinary tools to the second.
    assert_eq!(names, ["add_pet", "toolcrib__execute_tool", "get_pet", "toolcrib__tool_search"]);
    let first = shop.server.send(&Ask::new("GET", "/api/agents/tools?format=mcp")).ok();
    let schema = |list: &Value, name: &str| {
        let tools = list["tools"].as_array().unwrap().iter();
        tools.filter(|tool| tool["name"] == name).map(|tool| tool["inputSchema"].clone()).next()
    };
    let second = get("/api/agents/tools?format=mcp");
    assert!(schema(&first, "add_pet").is_some());
    assert_eq!(schema(&first, "add_pet"), schema(&second, "add_pet"));

    let outcome = call("get_pet", json!({"id": 7}));
    assert_eq!(
        (&outcome["status"], &outcome["result"]),
        (&json!("completed"), &json!({"name": "Rex"}))
    );
    let outcome = call("toolcrib__execute_tool", json!({"name": "break_pet", "arguments": {}}));
    assert_eq!((&outcome["status"], &outcome["upstream_status"]), (&json!("failed"), &json!(200)));
    let message = outcome["error"]["message"].as_str().unwrap();
    assert!(message.contains("out of pets"), "{message}");
    let body = json!({"name": "break_pet", "arguments": {}});
    let result = other.send(&Ask::new("POST", "/tools/toolcrib__execute_tool").json(&body)).ok();
    assert_eq!(result["isError"], true);
    assert!(result["content"][0]["text"].as_str().unwrap().contains("out of pets"), "{result}");
}
