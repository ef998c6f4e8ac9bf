//! Traces are propagated from the agent to the upstream at every endpoint; invalid trace context is dropped.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use serde_json::{Value, json};

use super::calls::Shop;
use super::server::Ask;
use crate::mcp_server::serving;
use crate::upstream::Upstream;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER: &str = "00-11111111111111111111111111111111-2222222222222222-00";

/// Shop, and an MCP server with one tool as a second source.
fn open() -> (Shop, Upstream) {
    let server = serving(|_| json!({"content": []}));
    let shop = Shop::open();
    let settings = json!({"kind": "mcp"});
    let source = json!({"name": "disk", "url": server.url("/mcp"), "settings": settings,
        "allow": ["127.0.0.1"], "forward_headers": ["traceparent"]});
    shop.server.post("/api/sources", &source).ok();
    shop.server.wait_for("/api/sources/disk", |source| !source["inventory"].is_null());
    let group = json!({"selector_mode": "any", "name": "all",
        "selectors": [{"source": "pets"}, {"source": "disk"}]});
    let etag = shop.server.get("/api/groups/all").header("etag").to_owned();
    let ask = shop.server.ask("PUT", "/api/groups/all").header("If-Match", &etag);
    shop.server.send(&ask.json(&group)).ok();
    (shop, server)
}

/// Values of a header of a request.
fn header<'a>(request: &'a str, name: &str) -> Vec<&'a str> {
    let (head, _) = request.split_once("\r\n\r\n").unwrap();
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

fn last(upstream: &Upstream) -> String {
    upstream.requests().last().unwrap().clone()
}

fn message(tool: &str, meta: Value) -> Value {
    let arguments = if tool == "get_pet" { json!({"id": 7}) } else { json!({}) };
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

#[test]
fn a_trace_is_propagated_from_every_endpoint_to_every_kind_of_upstream() {
    let (shop, server) = open();
    let post = |path: &str| {
        let ask = Ask::new("POST", path).bearer(&shop.key).header("traceparent", PARENT);
        ask.header("tracestate", "rojo=1").header("baggage", "user=canary")
    };
    let rest = |name: &str, arguments: Value| {
        let ask = post("/api/agents/tools/call");
        shop.server.send(&ask.json(&json!({"name": name, "arguments": arguments}))).ok()
    };
    rest("get_pet", json!({"id": 7}));
    shop.server.send(&post("/mcp").json(&message("get_pet", json!({})))).ok();
    shop.server.send(&post("/tools/get_pet").json(&json!({"id": 7}))).ok();
    let asked = shop.upstream.requests();
    assert_eq!(asked.len(), 3);
    for asked in &asked {
        assert_eq!(header(asked, "traceparent"), [PARENT], "{asked}");
        assert_eq!(header(asked, "tracestate"), ["rojo=1"], "{asked}");
        assert!(!asked.contains("canary"), "{asked}");
    }
    rest("clean", json!({}));
    shop.server.send(&post("/mcp").json(&message("clean", json!({})))).ok();
    let asked = server.requests();
    let calls: Vec<&String> = asked.iter().filter(|asked| asked.contains("tools/call")).collect();
    assert_eq!(calls.len(), 2);
    for asked in calls {
        let (_, body) = asked.split_once("\r\n\r\n").unwrap();
        let meta = serde_json::from_str::<Value>(body).unwrap()["params"]["_meta"].clone();
        assert_eq!((&meta["traceparent"], &meta["tracestate"]), (&json!(PARENT), &json!("rojo=1")));
        assert_eq!(header(asked, "traceparent"), [PARENT], "{asked}");
        assert!(!asked.contains("canary"), "{asked}");
    }
    let recorded =
        shop.server.wait_for("/api/executions", |list| list["data"].as_array().unwrap().len() == 5);
    let recorded = recorded["data"].as_array().unwrap();
    assert!(recorded.iter().all(|call| call["trace_id"] == TRACE), "{recorded:?}");
}

#[test]
fn trace_context_in_the_message_overrides_the_header() {
    let (shop, server) = open();
    let meta = json!({"traceparent": PARENT, "tracestate": "a=1", "baggage": "user=canary"});
    for tool in ["get_pet", "clean"] {
        let ask = Ask::new("POST", "/mcp").bearer(&shop.key).header("traceparent", OTHER);
        shop.server.send(&ask.json(&message(tool, meta.clone()))).ok();
    }
    for asked in [last(&shop.upstream), last(&server)] {
        assert_eq!(header(&asked, "traceparent"), [PARENT], "{asked}");
        assert_eq!(header(&asked, "tracestate"), ["a=1"], "{asked}");
        assert!(!asked.contains("canary"), "{asked}");
    }
}

#[test]
fn invalid_trace_context_is_not_propagated() {
    let (shop, server) = open();
    let many: Vec<String> = (0..1_000).map(|n| format!("k{n}=v")).collect();
    let (long, many) = (format!("{PARENT}{}", "0".repeat(8_000)), many.join(","));
    let zeros = PARENT.replace(TRACE, &"0".repeat(32));
    for (parent, state) in [
        ("hostile", "a=1"),
        (long.as_str(), "a=1"),
        (zeros.as_str(), "a=1"),
        (PARENT.to_uppercase().as_str(), "a=1"),
        (PARENT, many.as_str()),
        (PARENT, "HOSTILE=1"),
    ] {
        for tool in ["get_pet", "clean"] {
            let meta = json!({"traceparent": parent, "tracestate": state});
            for meta in [json!({}), meta] {
                let ask = Ask::new("POST", "/mcp").bearer(&shop.key);
                let ask = ask.header("traceparent", parent).header("tracestate", state);
                let answer = shop.server.send(&ask.json(&message(tool, meta)));
                assert_eq!(answer.status, 200, "{answer:?}");
            }
        }
        let expected = if parent == PARENT { vec![PARENT] } else { Vec::new() };
        for asked in [last(&shop.upstream), last(&server)] {
            assert_eq!(header(&asked, "traceparent"), expected, "{asked}");
            assert!(!asked.contains("tracestate") && !asked.contains("hostile"), "{asked}");
        }
    }
    let meta = json!({"traceparent": [PARENT], "tracestate": {"a": "b".repeat(100)}});
    let ask = Ask::new("POST", "/mcp").bearer(&shop.key).json(&message("clean", meta));
    assert_eq!(shop.server.send(&ask).status, 200);
    assert!(!last(&server).contains(TRACE));
}
