//! Tests of the programs in `examples/`, as an agent sees them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../examples/agent/main.rs"]
#[expect(dead_code, reason = "its main function is for people")]
mod agent;
#[path = "examples/agent.rs"]
mod agent_program;
#[path = "../../../examples/openapi_and_custom.rs"]
#[expect(dead_code, reason = "its main function is for people")]
mod openapi_and_custom;
#[path = "examples/openapi_and_custom.rs"]
mod openapi_and_custom_program;
#[path = "../../../examples/tool_discovery.rs"]
#[expect(dead_code, reason = "its main function is for people")]
mod tool_discovery;
#[path = "examples/tool_discovery.rs"]
mod tool_discovery_program;
#[path = "examples/world.rs"]
mod world;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use serde_json::{Value, json};
use tower::ServiceExt as _;

const VERSION: &str = "2026-07-28";

/// MCP client of an example, on behalf of a user.
struct Agent<'a> {
    app: &'a Router,
    user: &'a str,
}

impl Agent<'_> {
    async fn ask(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default();
        let request = Request::post("/mcp")
            .header("host", "127.0.0.1:8080")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-method", method)
            .header("mcp-name", name)
            .header("x-user", self.user)
            .body(Body::from(message.to_string()))
            .unwrap();
        let response = self.app.clone().oneshot(request).await.unwrap();
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        serde_json::from_slice::<Value>(&bytes).unwrap()["result"].take()
    }

    async fn list(&self) -> Vec<String> {
        names(&self.ask("tools/list", json!({})).await["tools"])
    }

    async fn search(&self, query: &str) -> Vec<String> {
        let wanted = json!({"name": "tool_search", "arguments": {"query": query}});
        names(&self.ask("tools/call", wanted).await["structuredContent"]["tools"])
    }

    async fn execute(&self, name: &str, arguments: Value) -> Value {
        let wanted = json!({"name": name, "arguments": arguments});
        self.ask("tools/call", json!({"name": "execute_tool", "arguments": wanted})).await
    }
}

fn names(tools: &Value) -> Vec<String> {
    let tools = tools.as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}
