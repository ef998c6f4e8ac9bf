//! Shaped results: the projection an admin sets, and the limit on the size of a result.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use serde_json::{Value, json};

use super::server::{Answer, Ask, Server};
use crate::support::ok;
use crate::upstream::Upstream;

const TOOL: &str = "/api/tools/shop:orders";

/// Server with a tool `orders` that has an output schema, and the key of an agent that is granted it.
pub(super) struct Shop {
    pub(super) server: Server,
    _upstream: Upstream,
    pub(super) key: String,
}

impl Shop {
    pub(super) fn answering(answer: &Value) -> Self {
        let text = answer.to_string();
        let upstream = Upstream::replying(move |_| ok("application/json", &text));
        let schema = json!({"type": "object", "required": ["orders"],
            "properties": {"orders": {"type": "array", "items": {"type": "object"}}}});
        let answers = json!({"200": {"description": "ok", "content": {"application/json": {"schema": schema}}}});
        let text = json!({
            "openapi": "3.1.0", "info": {"title": "t", "version": "1"},
            "servers": [{"url": upstream.url("")}],
            "paths": {"/orders": {"get": {"operationId": "orders", "responses": answers}}},
        });
        let server = Server::start();
        let settings = json!({"kind": "openapi", "specification": {"text": text.to_string()}});
        let source = json!({"name": "shop", "settings": settings, "allow": ["127.0.0.1"]});
        server.post("/api/sources", &source).ok();
        server.wait_for("/api/sources/shop", |source| !source["inventory"].is_null());
        server.post("/api/groups", &json!({"name": "all", "selectors": [{"source": "shop"}]})).ok();
        let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
        let policy = json!({"name": "p", "matchers": matchers, "groups": ["all"]});
        server.post("/api/policies", &policy).ok();
        let key = key(&server, "bot");
        Self { server, _upstream: upstream, key }
    }

    /// Patches the tool.
    pub(super) fn patch(&self, patch: &Value) -> Answer {
        let key = &self.server.key;
        self.server.send(&Ask::new("PATCH", TOOL).bearer(key).json(patch))
    }

    pub(super) fn call(&self) -> Value {
        let call = Ask::new("POST", "/api/agents/tools/call").bearer(&self.key);
        self.server.send(&call.json(&json!({"name": "orders"}))).ok()
    }

    /// Calls the tool over the HTTP manifest, which answers with an MCP result.
    pub(super) fn call_for_model(&self) -> Value {
        let call = Ask::new("POST", "/tools/orders").bearer(&self.key);
        self.server.send(&call.json(&json!({}))).ok()
    }

    /// MCP result of a tool that the client has seen in a list.
    fn call_over_mcp(&self, name: &str, arguments: &Value) -> Value {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let params = json!({"name": name, "arguments": arguments, "_meta": meta});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let call = Ask::new("POST", "/mcp?mode=search").bearer(&self.key).json(&message);
        let call = call.header("Accept", "application/json, text/event-stream");
        let call = call.header("MCP-Protocol-Version", "2026-07-28");
        let call = call.header("Mcp-Method", "tools/call").header("Mcp-Name", name);
        self.server.send(&call).ok()["result"].clone()
    }

    fn listed(&self) -> Value {
        let list = self.server.get_as(&self.key, "/api/agents/tools?format=mcp").ok();
        list["tools"][0].clone()
    }
}

pub(super) fn key(server: &Server, name: &str) -> String {
    let key = json!({"name": name, "claims": {"role": "staff"}});
    server.post("/api/keys", &key).ok()["key"].as_str().unwrap().to_owned()
}

fn orders() -> Value {
    json!({"orders": [{"id": 2, "by": {"name": "ada"}, "card": "4711"}, {"id": 1, "card": "0815"}], "page": 1})
}

#[test]
fn a_projection_selects_the_part_of_a_result_that_agents_get() {
    let shop = Shop::answering(&orders());
    assert!(shop.listed()["outputSchema"].is_object());
    assert_eq!(shop.call()["result"], orders());
    let said = shop.patch(&json!({"projection": "{orders: orders[].{id: id, by: by.name}}"})).ok();
    assert_eq!(said["overridden"]["projection"], "{orders: orders[].{id: id, by: by.name}}");
    let part = json!({"orders": [{"id": 2, "by": "ada"}, {"id": 1, "by": null}]});
    let outcome = shop.call();
    assert_eq!((&outcome["result"], outcome.get("content")), (&part, None));
    let result = shop.call_for_model();
    assert_eq!(result["structuredContent"], part);
    assert_eq!(result["content"][0]["text"], part.to_string());
    // The projected result does not match the tool's output schema, so none is announced.
    assert_eq!(shop.listed().get("outputSchema"), None);
    assert_eq!(said.get("output_schema"), None);
    // A result that is no object has no structured content.
    shop.patch(&json!({"projection": "orders[].id | sort(@)"})).ok();
    assert_eq!(shop.call()["result"], json!([1, 2]));
    let result = shop.call_for_model();
    assert_eq!(result.get("structuredContent"), None);
    assert_eq!(result["content"], json!([{"type": "text", "text": "[1,2]"}]));
    // Other patches keep the projection, and null removes it.
    shop.patch(&json!({"description": "Orders"})).ok();
    assert_eq!(shop.call()["result"], json!([1, 2]));
    shop.patch(&json!({"projection": null})).ok();
    assert_eq!(shop.call()["result"], orders());
    assert!(shop.listed()["outputSchema"].is_object());
}

#[test]
fn an_invalid_projection_is_rejected_when_it_is_set() {
    let shop = Shop::answering(&orders());
    for (projection, why) in [
        ("orders[", "is not JMESPath"),
        ("shout(orders)", "calls `shout`, which is no function of JMESPath"),
    ] {
        let refused = shop.patch(&json!({"projection": projection}));
        let said = refused.problem();
        assert!(said.starts_with("422 ") && said.contains(why), "{said}");
    }
    assert_eq!(shop.call()["result"], orders());
}

#[test]
fn a_result_that_cannot_be_projected_is_withheld_with_the_reason() {
    let shop = Shop::answering(&orders());
    shop.patch(&json!({"projection": "length(page)"})).ok();
    let outcome = shop.call();
    assert_eq!((&outcome["status"], &outcome["result"]), (&json!("failed"), &json!(null)));
    let error = json!({"code": "template_error", "retryable": false, "message": "the tool was called, and its projection \
        cannot be applied to the answer: `length` was given something that it does not take; an admin can change it"});
    assert_eq!(outcome["error"], error);
    assert_eq!(shop.call_for_model()["isError"], true);
}

#[test]
fn a_result_that_is_too_large_to_parse_for_projection_is_withheld() {
    let many: Vec<Value> = (0..120_000).map(|_| json!({"": 0})).collect();
    let shop = Shop::answering(&json!({"orders": many, "card": "4711"}));
    assert_eq!(shop.call()["status"], "completed");
    shop.patch(&json!({"projection": "length(orders)"})).ok();
    let outcome = shop.call();
    assert_eq!((&outcome["status"], outcome.get("content")), (&json!("failed"), None));
    let message = outcome["error"]["message"].as_str().unwrap();
    assert!(message.contains("it was not read as JSON"), "{message}");
}

/// Long result with multi-byte characters.
pub(super) fn many_orders() -> Value {
    let order = |id: usize| json!({"id": id, "by": "añ€😀"});
    json!({"orders": (0..300).map(order).collect::<Vec<_>>()})
}

/// Result id and offset in the note of a truncated result.
pub(super) fn truncation_note(note: &Value) -> (String, usize) {
    let note = note.as_str().unwrap();
    let (_, rest) = note.split_once("GET /api/agents/results/").unwrap();
    let (id, offset) = rest.trim_end_matches(']').split_once("?offset=").unwrap();
    assert!(note.contains(&format!("toolcrib://results/{id}?offset={offset} ")), "{note}");
    (id.to_owned(), offset.parse().unwrap())
}

#[test]
fn a_long_result_is_truncated_and_its_caller_can_read_the_rest() {
    let shop = Shop::answering(&many_orders());
    assert_eq!(shop.call()["result"], many_orders(), "256 KiB are usual");
    let said = shop.patch(&json!({"max_result_bytes": 1024})).ok();
    assert_eq!(said["overridden"]["max_result_bytes"], 1024);
    for content in [shop.call(), shop.call_for_model()] {
        assert_eq!((&content["result"], content.get("structuredContent")), (&json!(null), None));
        let content = &content["content"];
        let note = content[1]["text"].as_str().unwrap();
        let total = many_orders().to_string().len();
        assert!(note.contains(&format!("of {total} bytes")), "{note}");
        let (id, offset) = truncation_note(&content[1]["text"]);
        let mut whole = content[0]["text"].as_str().unwrap().to_owned();
        assert_eq!((whole.len(), whole.len() <= 1024), (offset, true));
        let mut next = Some(offset);
        while let Some(offset) = next {
            let path = format!("/api/agents/results/{id}?offset={offset}");
            let part = shop.server.get_as(&shop.key, &path).ok();
            assert_eq!((&part["offset"], &part["total_bytes"]), (&json!(offset), &json!(total)));
            whole += part["text"].as_str().unwrap();
            next = part.get("next_offset").map(|next| next.as_u64().unwrap() as usize);
        }
        assert_eq!(serde_json::from_str::<Value>(&whole).unwrap(), many_orders());
    }
    // The projected result is short enough.
    shop.patch(&json!({"projection": "length(orders)"})).ok();
    assert_eq!(shop.call()["result"], 300);
    for wrong in [json!(1023), json!(8_388_609), json!(-1)] {
        let refused = shop.patch(&json!({"max_result_bytes": wrong}));
        assert_eq!(refused.status, 422, "{refused:?}");
    }
}

#[test]
fn only_the_caller_can_read_the_rest_and_only_with_the_grant() {
    let shop = Shop::answering(&many_orders());
    shop.patch(&json!({"max_result_bytes": 1024})).ok();
    let (id, _) = truncation_note(&shop.call()["content"][1]["text"]);
    let path = format!("/api/agents/results/{id}");
    let status = |key: &str| shop.server.get_as(key, &path).status;
    assert_eq!(status(&shop.key), 200);
    for other in [key(&shop.server, "other"), shop.server.key.clone()] {
        assert_eq!(status(&other), 404);
    }
    assert_eq!(shop.server.get_as(&shop.key, &format!("{path}?offset=999999999")).status, 404);
    assert_eq!(shop.server.get_as(&shop.key, "/api/agents/results/none").status, 404);
    // A caller that may no longer call the tool may not read its results either.
    for (scopes, expected) in [(json!(["orders:read"]), 404), (json!([]), 200)] {
        shop.patch(&json!({"required_scopes": scopes})).ok();
        assert_eq!(status(&shop.key), expected);
    }
    shop.server.post(&format!("{TOOL}/disable"), &json!(null)).ok();
    assert_eq!(status(&shop.key), 404);
}

/// Whether the TypeScript and Python SDKs accept this result of a tool with an output schema.
fn is_accepted_by_strict_clients(result: &Value) -> bool {
    result["structuredContent"].is_object() || result["isError"] == true
}

#[test]
fn a_result_that_violates_its_schema_still_reaches_strict_clients() {
    let cut = Shop::answering(&many_orders());
    cut.patch(&json!({"max_result_bytes": 1024})).ok();
    let of_another_kind = Shop::answering(&json!([1, 2]));
    let of_another_shape = Shop::answering(&json!({"no": "orders"}));
    for (shop, text) in
        [(cut, "{\"orders\":"), (of_another_kind, "[1,2]"), (of_another_shape, "{\"no\":")]
    {
        assert!(shop.listed()["outputSchema"].is_object());
        let result = shop.call_over_mcp("orders", &json!({}));
        assert!(is_accepted_by_strict_clients(&result), "{result}");
        let content = result["content"].as_array().unwrap();
        assert!(content[0]["text"].as_str().unwrap().starts_with(text), "{result}");
        let note = content.last().unwrap()["text"].as_str().unwrap();
        assert!(note.starts_with("[toolcrib: the tool was called"), "{result}");
        assert_eq!(result["_meta"]["toolcrib/status"], "completed");
        assert_eq!(result["_meta"].get("toolcrib/code"), None);
        // `execute_tool` has no output schema, and clients of the HTTP manifest do not check one.
        let executed = shop.call_over_mcp("execute_tool", &json!({"name": "orders"}));
        for plain in [executed, shop.call_for_model()] {
            assert_eq!((&plain["isError"], plain.get("structuredContent")), (&json!(false), None));
        }
        assert_eq!(shop.call()["status"], "completed");
    }
}

#[test]
fn a_result_that_matches_its_schema_is_no_error() {
    let shop = Shop::answering(&orders());
    let result = shop.call_over_mcp("orders", &json!({}));
    assert_eq!((&result["isError"], &result["structuredContent"]), (&json!(false), &orders()));
    shop.patch(&json!({"projection": "orders[].id"})).ok();
    let result = shop.call_over_mcp("orders", &json!({}));
    assert_eq!((&result["isError"], result.get("structuredContent")), (&json!(false), None));
}

/// Result of the tool for a client of this MCP version.
fn call_with_version(shop: &Shop, version: &str) -> Value {
    let post = || {
        let ask = Ask::new("POST", "/mcp").bearer(&shop.key);
        ask.header("Accept", "application/json, text/event-stream")
    };
    let client = json!({"name": "t", "version": "1"});
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let hello = shop.server.send(&post().json(&hello));
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "orders"}});
    let call = post().header("Mcp-Session-Id", hello.header("mcp-session-id")).json(&call);
    shop.server.send(&call).ok()["result"].clone()
}

#[test]
fn the_rest_of_a_result_is_linked_for_clients_that_support_links() {
    let shop = Shop::answering(&many_orders());
    shop.patch(&json!({"max_result_bytes": 1024})).ok();
    for (result, is_linked) in [
        (shop.call_over_mcp("orders", &json!({})), true),
        (call_with_version(&shop, "2025-11-25"), true),
        (call_with_version(&shop, "2025-06-18"), true),
        (call_with_version(&shop, "2025-03-26"), false),
        (call_with_version(&shop, "2024-11-05"), false),
        (shop.call_for_model(), false),
        (shop.call(), false),
    ] {
        let (id, offset) = truncation_note(&result["content"][1]["text"]);
        let links = result["content"].as_array().unwrap().iter();
        let links: Vec<_> = links.filter(|part| part["type"] == "resource_link").collect();
        let uri = format!("toolcrib://results/{id}?offset={offset}");
        let expected = json!({"type": "resource_link", "uri": uri, "name": "the rest of the answer",
            "mimeType": "text/plain"});
        assert_eq!(links, if is_linked { vec![&expected] } else { vec![] }, "{result}");
    }
}
