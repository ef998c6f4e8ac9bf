//! Converts the product's answers to an agent into the oracle's types.

use std::collections::BTreeSet;

use model::ToolId;
use toolcrib::{AgentView, Effect, Explanation, NotFound, ViewedTool};

use super::oracle::{Change, Meaning, Reasons};
use super::world::Visibility;

/// Stands for the id of a tool that is not in the catalog.
pub(super) const WITHOUT_ID: &str = "a tool without an id";

/// Ids and shown names, in the order of the list.
pub(super) fn list(view: &AgentView) -> Vec<(String, String)> {
    view.list().iter().map(|tool| (id(tool), tool.name().to_owned())).collect()
}

/// The ids that a search finds; their order does not matter.
pub(super) async fn search(view: &AgentView) -> BTreeSet<String> {
    view.search("", 100).await.iter().map(|hit| id(&hit.tool)).collect()
}

/// The name and visibility of a tool, if it is granted.
pub(super) fn find_id(view: &AgentView, id: &str) -> Option<(String, Visibility)> {
    let tool = view.find_id(&id.parse().ok()?).ok()?;
    Some((tool.name().to_owned(), visibility(view.visibility(&tool))))
}

pub(super) fn find(view: &AgentView, name: &str) -> Meaning {
    match view.find(name) {
        Ok(tool) if tool.id().is_none() => Meaning::AboutTools,
        Ok(tool) => Meaning::Tool(id(&tool)),
        Err(error) => nothing(&error),
    }
}

/// The tool that the call reached. Its outcome does not matter: these tools do nothing.
pub(super) async fn call(view: &AgentView, name: &str) -> Meaning {
    match view.call(name, Default::default()).await {
        Ok(outcome) if outcome.tool_id.source() == "toolcrib" => Meaning::AboutTools,
        Ok(outcome) => Meaning::Tool(outcome.tool_id.to_string()),
        Err(error) => nothing(&error),
    }
}

pub(super) fn change(effect: &Effect) -> Change {
    let texts = |ids: &[ToolId]| ids.iter().map(ToString::to_string).collect();
    let renamed = effect.renamed.iter();
    Change {
        gained: texts(&effect.gained),
        lost: texts(&effect.lost),
        renamed: renamed
            .map(|tool| (tool.tool.to_string(), tool.before.to_string(), tool.after.to_string()))
            .collect(),
        tools: effect.after.tools,
        listed: effect.after.listed,
        is_admin: effect.after.admin,
    }
}

pub(super) fn reasons(explanation: &Explanation) -> Reasons {
    let granting = explanation.policies.iter().filter(|policy| policy.grants);
    let tool = explanation.tools.first();
    let granted = tool.filter(|tool| tool.granted);
    Reasons {
        policies: granting.map(|policy| policy.id.to_string()).collect(),
        groups: explanation.groups.iter().map(|group| group.id.to_string()).collect(),
        tools: explanation.tool_count,
        is_admin: explanation.admin,
        granted: granted.and_then(|tool| {
            Some((tool.name.as_deref()?.to_owned(), visibility(tool.visibility?)))
        }),
        is_stopped: tool.is_some_and(|tool| !tool.stopped_by.is_empty()),
    }
}

fn nothing(error: &NotFound) -> Meaning {
    match error {
        NotFound::NoSuchTool { .. } => Meaning::Nothing,
        NotFound::Ambiguous { .. } => Meaning::Ambiguous,
    }
}

fn id(tool: &ViewedTool) -> String {
    tool.id().map_or_else(|| WITHOUT_ID.to_owned(), ToString::to_string)
}

fn visibility(visibility: model::Visibility) -> Visibility {
    match visibility {
        model::Visibility::Listed => Visibility::Listed,
        model::Visibility::Searchable => Visibility::Searchable,
        model::Visibility::Hidden => Visibility::Hidden,
    }
}
