//! A test MCP server with one tool, shared by the tests of several crates.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use serde_json::{Value, json};

use crate::upstream::{Upstream, answer};

/// A server of the modern protocol with one tool, whose calls `call` answers.
pub(crate) fn serving(call: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Upstream {
    Upstream::replying(move |request| {
        let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let Ok(asked) = serde_json::from_str::<Value>(body) else {
            return answer("405 Method Not Allowed", "", b"");
        };
        let result = match asked["method"].as_str().unwrap() {
            "server/discover" => {
                json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
            }
            "tools/list" => {
                json!({"tools": [{"name": "clean", "inputSchema": {"type": "object"}}]})
            }
            "tools/call" => call(&asked["params"]),
            _ => return answer("202 Accepted", "", b""),
        };
        let result = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string();
        answer("200 OK", "Content-Type: application/json\r\n", result.as_bytes())
    })
}
