//! The programs of `examples/`, as an agent meets them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../examples/tool_discovery.rs"]
#[expect(dead_code, reason = "its main function is for people")]
mod tool_discovery;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use serde_json::{Value, json};
use tower::ServiceExt as _;

const VERSION: &str = "2026-07-28";

/// Whoever asks.
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
        let request = Request::post("/mcp")
            .header("host", "127.0.0.1:8080")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-method", method)
            .header("mcp-name", params["name"].as_str().unwrap_or_default())
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

#[tokio::test]
async fn tool_discovery_shows_two_tools_and_finds_those_of_three_domains() {
    let app = tool_discovery::app().await.unwrap();
    let agent = Agent { app: &app, user: "" };
    assert_eq!(agent.list().await, ["tool_search", "execute_tool"]);
    let found = agent.search("database").await;
    assert!(["list_tables", "sql_query"].iter().all(|name| found.iter().any(|hit| hit == name)));
    assert_eq!(agent.search("smtp").await, ["send_email"]);
    assert_eq!(agent.search("document").await[0], "find_document");
    let select = json!({"query": "select 1", "database": "shop"});
    let result = agent.execute("sql_query", select).await;
    assert_eq!(text(&result), "Executed on shop: select 1");
    let result = agent.execute("sql_query", json!({"query": "drop table orders"})).await;
    assert_eq!(
        (text(&result), &result["isError"]),
        ("Error: only SELECT is allowed", &json!(true))
    );
    let mail = json!({"to": "a@b.c", "subject": "Hi", "body": "Hello"});
    let result = agent.execute("send_email", mail).await;
    assert_eq!(text(&result), "Email sent to a@b.c: Hi (5 letters)");
    let result = agent.execute("find_document", json!({"words": "rules"})).await;
    assert_eq!(result["structuredContent"], json!({"titles": ["House rules"]}));
}

#[tokio::test]
async fn tool_discovery_gives_each_user_tools_of_their_own() {
    let app = tool_discovery::app().await.unwrap();
    for (user, note) in [("ada", "Buy milk"), ("eve", "Call Ada")] {
        let agent = Agent { app: &app, user };
        assert_eq!(agent.search("notes").await, ["my_notes"]);
        assert_eq!(text(&agent.execute("my_notes", json!({})).await), note);
    }
    let nobody = Agent { app: &app, user: "mallory" };
    assert!(nobody.search("notes").await.is_empty());
    let missing = nobody.execute("my_notes", json!({})).await;
    assert_eq!(text(&missing), "Tool not found: my_notes");
}
