//! Tests of embedding from the client's side: mounted in a router, over standard input and output, per request.

mod line_transport;
mod mounted_router;

use serde_json::{Value, json};
use toolcrib::{ProvidedTool, Registry};

const MODERN: &str = "2026-07-28";

/// A message of the newest MCP version, from a client that supports elicitation.
fn modern(method: &str, mut params: Value) -> Value {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// A registry with one tool, which says hello.
fn hello() -> Registry {
    let registry = Registry::new();
    let tool = ProvidedTool::new("hello", "Says hello");
    registry.register_tool(tool, || async { "hello" }, &["greeting"]).unwrap();
    registry
}

fn names(list: &Value) -> Vec<&str> {
    let tools = list["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap()).collect()
}
