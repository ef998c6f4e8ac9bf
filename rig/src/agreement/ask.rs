//! What the product tells an agent, in plain words.

use std::collections::BTreeSet;

use model::ToolId;
use toolcrib::{AgentView, Effect, Explanation, NotFound, ViewedTool};

use super::oracle::{Change, Meaning, Reasons};
use super::world::Visibility;

/// What a tool that is not in the catalog has for an id here.
pub(super) const WITHOUT_ID: &str = "a tool without an id";

/// Ids and shown names, as they are listed.
pub(super) fn list(view: &AgentView) -> Vec<(String, String)> {
    view.list().iter().map(|tool| (id(tool), tool.name().to_owned())).collect()
}

/// Ids, in whatever order.
pub(super) async fn search(view: &AgentView) -> BTreeSet<String> {
    view.search("", 100).await.iter().map(|hit| id(&hit.tool)).collect()
}

/// What a tool is called and where it is met, if the agent has it.
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

/// The tool that was called. How that ended does not matter: these tools do nothing.
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
