//! What is embedded, as clients meet it: mounted in a router, over standard input and output, and for one request.

mod mounted;
mod spoken;

use serde_json::{Value, json};
use toolcrib::{ProvidedTool, Registry};

const MODERN: &str = "2026-07-28";

/// A message of the newest version of MCP, of a client that can be asked.
fn modern(method: &str, mut params: Value) -> Value {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// With one tool, which says hello.
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
