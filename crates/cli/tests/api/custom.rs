//! Tools, prompts and resources that an admin defines: granted, called and recorded like any others.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

mod answers;
mod commands;
mod declared;
mod documentation;
mod refused;
mod requests;
mod resources;

use serde_json::{Value, json};

use super::mcp::Era::Modern;
use super::mcp::{Client, Refused, grant, key};
use super::server::{Answer, Ask, Server};
use crate::support::Folder;

/// `PATH` for servers that run programs.
const PATH: (&str, &str) = ("PATH", "/usr/local/bin:/usr/bin:/bin");

/// Server with a custom source, and the key of an agent that is granted all of it.
struct CustomSource {
    server: Server,
    key: String,
}

impl CustomSource {
    fn new(settings: Value) -> Self {
        Self::on_server(Server::start(), settings)
    }

    fn on_server(server: Server, settings: Value) -> Self {
        Self::with_source(server, json!({"settings": settings}))
    }

    /// Registers a complete source body, with whatever fields the test sets besides `settings`.
    fn with_source(server: Server, source: Value) -> Self {
        let source = as_custom_source(source);
        let made = server.post("/api/sources", &source);
        assert_eq!(made.status, 201, "{made:?}");
        server.wait_for("/api/sources/own", |source| !source["inventory"].is_null());
        let any = json!(
            ["tool", "prompt", "resource"].map(|kind| json!({"kind": kind, "source": "own"}))
        );
        let group = json!({"name": "own", "selector_mode": "any", "selectors": any});
        server.post("/api/groups", &group).ok();
        grant(&server, "staff", "own");
        let key = key(&server, "bot", &json!({"role": "staff"}));
        Self { server, key }
    }

    fn client(&self) -> Client<'_> {
        Client::new(&self.server, &self.key)
    }

    fn call(&self, name: &str, arguments: Value) -> Value {
        self.client().call(Modern, name, arguments)
    }

    /// Text of a successful result.
    fn text(&self, name: &str, arguments: Value) -> String {
        let result = self.call(name, arguments);
        assert_ne!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Text of a failed result.
    fn failure(&self, name: &str, arguments: Value) -> String {
        let result = self.call(name, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    fn rest(&self, name: &str, arguments: &Value) -> Answer {
        let call = json!({"name": name, "arguments": arguments});
        let ask = Ask::new("POST", "/api/agents/tools/call").bearer(&self.key);
        self.server.send(&ask.json(&call))
    }

    fn prompt(&self, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        self.client().result(Modern, "prompts/get", params)
    }

    fn read(&self, uri: &str) -> Value {
        self.client().result(Modern, "resources/read", json!({"uri": uri}))["contents"][0].clone()
    }

    fn not_read(&self, uri: &str) -> Refused {
        self.client().error_of(Modern, "resources/read", json!({"uri": uri}))
    }

    fn list(&self, what: &str) -> Value {
        self.client().result(Modern, &format!("{what}/list"), json!({}))
    }
}

/// Turns the body into a custom source named `own`.
fn as_custom_source(mut source: Value) -> Value {
    source["name"] = json!("own");
    source["settings"]["kind"] = json!("custom");
    source
}
