//! The capabilities of agents and their answers to questions of servers, the same for each agent.

use serde_json::{Value, json};

/// Client capabilities, as in `initialize`.
pub(super) fn agent_capabilities() -> Value {
    let mut all = stdio_capabilities();
    all["roots"] = json!({});
    all
}

/// The capabilities that stdio servers see; `everything` lists more tools to more capable clients.
pub(super) fn stdio_capabilities() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}})
}

pub(super) fn answer_question(method: &str) -> Option<Value> {
    match method {
        "elicitation/create" => {
            Some(json!({"action": "accept", "content": {"name": "Ada", "integer": 7}}))
        }
        "sampling/createMessage" => {
            let content = json!({"type": "text", "text": "Forty-two."});
            Some(json!({"role": "assistant", "model": "rig", "content": content}))
        }
        // A server that trusts this root would give every agent access to all files.
        "roots/list" => Some(json!({"roots": [{"uri": "file:///", "name": "everything"}]})),
        _ => None,
    }
}
