//! The server capabilities announced to an agent: only lists that exist for it (requirement B4).

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolcrib::{AgentView, Listed, TASKS};

use super::era::Era;
use super::pages::ListOf;

/// Whether the server offers this list to the agent. The rest of a truncated answer is a resource. So an agent whose
/// answers may be truncated has the resource list, even if it is empty: clients do not read unannounced resources.
pub(crate) fn has(view: &AgentView, list: ListOf) -> bool {
    match list {
        ListOf::Tools => true,
        ListOf::Prompts => !view.prompts().is_empty(),
        ListOf::Resources | ListOf::Templates => view.may_be_cut() || lists_resources(view),
    }
}

fn lists_resources(view: &AgentView) -> bool {
    !view.resource_templates().is_empty() || !view.resources().is_empty()
}

pub(crate) fn of(view: &AgentView, era: Era) -> Value {
    let mut all = Map::from_iter([
        ("tools".to_owned(), json!({"listChanged": true})),
        ("logging".to_owned(), json!({})),
    ]);
    let (has_prompts, has_resources) = (has(view, ListOf::Prompts), has(view, ListOf::Resources));
    if has_prompts {
        all.insert("prompts".to_owned(), json!({"listChanged": true}));
    }
    if has_resources {
        let mut resources = json!({"listChanged": true});
        // The rest of a truncated answer never changes.
        if lists_resources(view) {
            resources["subscribe"] = json!(true);
        }
        all.insert("resources".to_owned(), resources);
    }
    // Completion needs arguments: of prompts or of resource templates.
    let is_filled_in = |prompt: &Arc<Listed>| {
        prompt.shown.get("arguments").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
    };
    if view.prompts().iter().any(is_filled_in) || !view.resource_templates().is_empty() {
        all.insert("completions".to_owned(), json!({}));
    }
    if era == Era::Modern && view.may_go_on() {
        all.insert("extensions".to_owned(), json!({TASKS: {}}));
    }
    Value::Object(all)
}
