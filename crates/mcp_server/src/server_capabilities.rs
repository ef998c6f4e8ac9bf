//! The server capabilities announced to an agent: only lists that exist for it (requirement B4).

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolcrib::{AgentView, OfferListing, TASKS_EXTENSION};

use super::list_pages::McpListKind;
use super::protocol_era::ProtocolEra;

/// Whether the server offers this list to the agent. The rest of a truncated answer is a resource. So an agent whose
/// answers may be truncated has the resource list, even if it is empty: clients do not read unannounced resources.
pub(crate) fn offers_list(view: &AgentView, list: McpListKind) -> bool {
    match list {
        McpListKind::Tools => true,
        McpListKind::Prompts => !view.prompts().is_empty(),
        McpListKind::Resources | McpListKind::Templates => {
            view.may_truncate_results() || lists_resources(view)
        }
    }
}

fn lists_resources(view: &AgentView) -> bool {
    !view.resource_templates().is_empty() || !view.resources().is_empty()
}

pub(crate) fn server_capabilities(view: &AgentView, era: ProtocolEra) -> Value {
    let mut all = Map::from_iter([
        ("tools".to_owned(), json!({"listChanged": true})),
        ("logging".to_owned(), json!({})),
    ]);
    let (has_prompts, has_resources) =
        (offers_list(view, McpListKind::Prompts), offers_list(view, McpListKind::Resources));
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
    let is_filled_in = |prompt: &Arc<OfferListing>| {
        prompt.fields.get("arguments").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
    };
    if view.prompts().iter().any(is_filled_in) || !view.resource_templates().is_empty() {
        all.insert("completions".to_owned(), json!({}));
    }
    if era == ProtocolEra::Modern && view.may_outlive_request() {
        all.insert("extensions".to_owned(), json!({TASKS_EXTENSION: {}}));
    }
    Value::Object(all)
}
