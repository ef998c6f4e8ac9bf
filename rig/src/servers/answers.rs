//! What whoever is asked can do, and what it answers: the same for everybody who calls.

use serde_json::{Value, json};

/// In the words of `initialize`.
pub(super) fn abilities() -> Value {
    let mut all = of_programs();
    all["roots"] = json!({});
    all
}

/// What programs are told: `everything` lists more tools to those who can more.
pub(super) fn of_programs() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}})
}

pub(super) fn to(method: &str) -> Option<Value> {
    match method {
        "elicitation/create" => {
            Some(json!({"action": "accept", "content": {"name": "Ada", "integer": 7}}))
        }
        "sampling/createMessage" => {
            let content = json!({"type": "text", "text": "Forty-two."});
            Some(json!({"role": "assistant", "model": "rig", "content": content}))
        }
        // Whoever believes it lets everybody in everywhere.
        "roots/list" => Some(json!({"roots": [{"uri": "file:///", "name": "everything"}]})),
        _ => None,
    }
}
