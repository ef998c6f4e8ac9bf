//! What we say we can do, for one agent: only what is there (requirement B4).

use serde_json::{Map, Value, json};
use toolcrib::{AgentView, TASKS};

use super::era::Era;

pub(crate) fn of(view: &AgentView, era: Era) -> Value {
    let mut all = Map::from_iter([
        ("tools".to_owned(), json!({"listChanged": true})),
        ("logging".to_owned(), json!({})),
    ]);
    let (prompts, templates) = (view.prompts(), view.resource_templates());
    if !prompts.is_empty() {
        all.insert("prompts".to_owned(), json!({"listChanged": true}));
    }
    if !templates.is_empty() || !view.resources().is_empty() {
        all.insert("resources".to_owned(), json!({"listChanged": true, "subscribe": true}));
    }
    if !prompts.is_empty() || !templates.is_empty() {
        all.insert("completions".to_owned(), json!({}));
    }
    if era == Era::Modern && view.may_go_on() {
        all.insert("extensions".to_owned(), json!({TASKS: {}}));
    }
    Value::Object(all)
}
