//! Converts the product's answers to an agent into the oracle's types.

use std::collections::BTreeSet;

use model::ToolId;
use toolcrib::{AccessEffect, AccessExplanation, AgentView, ToolLookupError, ViewedTool};

use super::oracle::{AgentEffect, GrantExplanation, NameMeaning};
use super::world::WorldVisibility;

/// Stands for the id of a tool that is not in the catalog.
pub(super) const NO_CATALOG_ID: &str = "a tool without an id";

/// Ids and shown names, in the order of the list.
pub(super) fn list_tools(view: &AgentView) -> Vec<(String, String)> {
    view.list().iter().map(|tool| (tool_id_text(tool), tool.name().to_owned())).collect()
}

/// The ids that a search finds; their order does not matter.
pub(super) async fn search_tool_ids(view: &AgentView) -> BTreeSet<String> {
    view.search("", 100).await.iter().map(|hit| tool_id_text(&hit.tool)).collect()
}

/// The name and visibility of a tool, if it is granted.
pub(super) fn find_by_id(view: &AgentView, id: &str) -> Option<(String, WorldVisibility)> {
    let tool = view.find_by_id(&id.parse().ok()?).ok()?;
    Some((tool.name().to_owned(), to_world_visibility(view.visibility_of(&tool))))
}

pub(super) fn resolve_name(view: &AgentView, name: &str) -> NameMeaning {
    match view.find(name) {
        Ok(tool) if tool.id().is_none() => NameMeaning::MetaTool,
        Ok(tool) => NameMeaning::Tool(tool_id_text(&tool)),
        Err(error) => meaning_of_error(&error),
    }
}

/// The tool that the call reached. Its outcome does not matter: these tools do nothing.
pub(super) async fn call_by_name(view: &AgentView, name: &str) -> NameMeaning {
    match view.call(name, Default::default()).await {
        Ok(outcome) if outcome.tool_id.source_id() == "toolcrib" => NameMeaning::MetaTool,
        Ok(outcome) => NameMeaning::Tool(outcome.tool_id.to_string()),
        Err(error) => meaning_of_error(&error),
    }
}

pub(super) fn to_agent_effect(effect: &AccessEffect) -> AgentEffect {
    let texts = |ids: &[ToolId]| ids.iter().map(ToString::to_string).collect();
    let renamed = effect.renamed.iter();
    AgentEffect {
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

pub(super) fn to_grant_explanation(explanation: &AccessExplanation) -> GrantExplanation {
    let granting = explanation.policies.iter().filter(|policy| policy.grants);
    let tool = explanation.tools.first();
    let granted = tool.filter(|tool| tool.granted);
    GrantExplanation {
        policies: granting.map(|policy| policy.id.to_string()).collect(),
        groups: explanation.groups.iter().map(|group| group.id.to_string()).collect(),
        tools: explanation.tool_count,
        is_admin: explanation.admin,
        granted: granted.and_then(|tool| {
            Some((tool.name.as_deref()?.to_owned(), to_world_visibility(tool.visibility?)))
        }),
        is_stopped: tool.is_some_and(|tool| !tool.stopped_by.is_empty()),
    }
}

fn meaning_of_error(error: &ToolLookupError) -> NameMeaning {
    match error {
        ToolLookupError::NoSuchTool { .. } => NameMeaning::Nothing,
        ToolLookupError::Ambiguous { .. } => NameMeaning::Ambiguous,
    }
}

fn tool_id_text(tool: &ViewedTool) -> String {
    tool.id().map_or_else(|| NO_CATALOG_ID.to_owned(), ToString::to_string)
}

fn to_world_visibility(visibility: model::Visibility) -> WorldVisibility {
    match visibility {
        model::Visibility::Listed => WorldVisibility::Listed,
        model::Visibility::Searchable => WorldVisibility::Searchable,
        model::Visibility::Hidden => WorldVisibility::Hidden,
    }
}
