//! Answers to the questions of servers: forms filled in with their defaults, no roots, and a model that always says
//! "yes".

use serde_json::{Map, Value, json};

/// Answers any question.
pub(super) fn answer_question(method: &str, params: &Value) -> Map<String, Value> {
    let reply = match method {
        "elicitation/create" => {
            json!({"action": "accept", "content": fill_in_form(&params["requestedSchema"])})
        }
        "roots/list" => json!({"roots": []}),
        _ => json!({
            "role": "assistant", "model": "of one word", "stopReason": "endTurn",
            "content": {"type": "text", "text": "yes"},
        }),
    };
    reply.as_object().cloned().unwrap_or_default()
}

/// Fills in every property with its default, or with any value of its type.
pub(super) fn fill_in_form(schema: &Value) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let filled = properties.map(|(name, property)| (name.clone(), default_value(property)));
    Value::Object(filled.collect())
}

fn default_value(property: &Value) -> Value {
    let default = property.get("default").cloned();
    default.unwrap_or_else(|| match property["type"].as_str() {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        _ => json!("x"),
    })
}
