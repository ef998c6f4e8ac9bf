//! The MCP endpoint from outside: both protocol generations, over real connections and with real keys. Tools that
//! elicit input, report progress or start tasks are tested in `rig`, which has servers that offer them.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

mod bad_input;
mod calls;
mod headers;
mod lists;
mod sessions;
mod stopping;
mod streams;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use self::Era::{Legacy, Modern};
use super::server::{Answer, Ask, Server};

const VERSION: &str = "2026-07-28";

/// Protocol generation that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    Modern,
    Legacy,
}

const ERAS: [Era; 2] = [Modern, Legacy];

/// MCP client of a server.
pub(super) struct Client<'a> {
    pub(super) server: &'a Server,
    credential: &'a str,
    path: &'a str,
    session: Option<String>,
}

/// Error response: HTTP status, JSON-RPC code and message.
pub(super) type Refused = (u16, i64, String);

impl<'a> Client<'a> {
    pub(super) fn new(server: &'a Server, credential: &'a str) -> Self {
        Self { server, credential, path: "/mcp", session: None }
    }

    fn at_path(self, path: &'a str) -> Self {
        Self { path, ..self }
    }

    /// Initializes a session and uses it from then on.
    pub(super) fn initialized(self) -> Self {
        let answer = self.send(Legacy, "initialize", initialize_params());
        assert_eq!(answer.status, 200, "{answer:?}");
        let session = answer.header("mcp-session-id").to_owned();
        assert!(!session.is_empty(), "{answer:?}");
        Self { session: Some(session), ..self }
    }

    fn session(&self) -> &str {
        self.session.as_deref().unwrap()
    }

    /// Request without a body.
    pub(super) fn request_without_body(&self, method: &str) -> Ask {
        let ask = Ask::new(method, self.path).bearer(self.credential);
        match &self.session {
            Some(session) => ask.header("Mcp-Session-Id", session),
            None => ask,
        }
    }

    /// Sends a request of the legacy generation, exactly as given.
    fn post(&self, message: &Value) -> Answer {
        self.server.send(&self.request_without_body("POST").header("Accept", ACCEPT).json(message))
    }

    fn ask(&self, era: Era, method: &str, params: Value) -> Ask {
        let ask = self.request_without_body("POST").header("Accept", ACCEPT);
        let ask = match era {
            Legacy => ask,
            Modern => with_mirrored_headers(ask, method, &params),
        };
        ask.json(&request(era, json!(7), method, params))
    }

    fn send(&self, era: Era, method: &str, params: Value) -> Answer {
        self.server.send(&self.ask(era, method, params))
    }

    pub(super) fn result(&self, era: Era, method: &str, params: Value) -> Value {
        let answer = self.send(era, method, params);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), "application/json");
        let mut answer = answer.json();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)), "{answer}");
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].take()
    }

    pub(super) fn error_of(&self, era: Era, method: &str, params: Value) -> Refused {
        error_of_answer(&self.send(era, method, params))
    }

    pub(super) fn call(&self, era: Era, name: &str, arguments: Value) -> Value {
        self.result(era, "tools/call", json!({"name": name, "arguments": arguments}))
    }

    /// Names of the listed tools, separated by spaces.
    pub(super) fn tools(&self, era: Era) -> String {
        names(&self.result(era, "tools/list", json!({})))
    }
}

const ACCEPT: &str = "application/json, text/event-stream";

fn initialize_params() -> Value {
    json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
}

/// JSON-RPC request as this generation requires it.
fn request(era: Era, id: Value, method: &str, mut params: Value) -> Value {
    if era == Modern && params.get("_meta").is_none() {
        params["_meta"] = meta(VERSION);
    }
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Adds the headers that mirror the body.
fn with_mirrored_headers(ask: Ask, method: &str, params: &Value) -> Ask {
    let ask = ask.header("MCP-Protocol-Version", VERSION).header("Mcp-Method", method);
    let member = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return ask,
    };
    match params[member].as_str() {
        Some(name) => ask.header("Mcp-Name", &header_value(name)),
        None => ask,
    }
}

/// Encodes a value for a header.
fn header_value(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain { value.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(value)) }
}

/// Checks that the answer is an error, and returns it.
fn error_of_answer(answer: &Answer) -> Refused {
    assert_eq!(answer.header("content-type"), "application/json", "{answer:?}");
    let body = answer.json();
    let error = &body["error"];
    assert!(body["result"].is_null() && error.is_object(), "{answer:?}");
    let text = error["message"].as_str().unwrap().to_owned();
    (answer.status, error["code"].as_i64().unwrap(), text)
}

/// Encrypted token with its first character changed.
fn tampered(sealed: &str) -> String {
    let other = if sealed.starts_with('_') { "A" } else { "_" };
    sealed.replacen(|_: char| true, other, 1)
}

fn names(list: &Value) -> String {
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    list["tools"].as_array().unwrap().iter().map(name).collect::<Vec<_>>().join(" ")
}

/// Creates an API key with these claims.
pub(super) fn key(server: &Server, name: &str, claims: &Value) -> String {
    let made = server.post("/api/keys", &json!({"name": name, "claims": claims})).ok();
    made["key"].as_str().unwrap().to_owned()
}

/// Grants a group to a role.
pub(super) fn grant(server: &Server, role: &str, group: &str) {
    let matchers = json!([{"claim": "role", "operator": "equals", "value": role}]);
    let policy =
        json!({"name": format!("{role}-{group}"), "matchers": matchers, "groups": [group]});
    server.post("/api/policies", &policy).ok();
}
