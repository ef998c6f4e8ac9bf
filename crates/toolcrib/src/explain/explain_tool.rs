//! Why an agent has one tool, or does not have it.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::group::{DecidedBy, GroupMembership};
use catalog::tool::{ReviewState, ToolStatus};
use catalog::{CataloguedTool, Snapshot};
use model::{GroupId, PolicyId, ToolId, Visibility};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PolicyExplanation, granted_by};
use crate::toolset::Toolset;

/// Why an agent has a tool, or has it not.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ToolExplanation {
    /// Which; if there is none, what was asked for.
    pub tool: String,
    /// Whether the agent has it.
    pub granted: bool,
    /// What the agent calls it, if it has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// Where the agent meets it, if it has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    /// In words.
    pub why: String,
    /// Everything that stops it.
    pub stopped_by: Vec<ToolBlocker>,
    /// Every group it is in, is kept out of, or could be granted by.
    pub groups: Vec<GroupOfTool>,
}

/// Something that stops a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Stop")]
pub struct ToolBlocker {
    /// For programs.
    pub code: BlockerCode,
    /// For people.
    pub message: String,
}

/// What stops a tool, in one stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "StopCode")]
pub enum BlockerCode {
    /// It does not exist.
    NoSuchTool,
    /// Its source is not there.
    NoSource,
    /// Its source is switched off.
    SourceDisabled,
    /// It is switched off.
    ToolDisabled,
    /// Its source no longer offers it.
    ToolDeprecated,
    /// No version of it was approved yet.
    AwaitsReview,
    /// Its only version was rejected.
    Rejected,
    /// Part of it is missing from the journal.
    Incomplete,
    /// No group has it.
    InNoGroup,
    /// A group that the agent has keeps it out.
    Excluded,
    /// The groups that have it are switched off.
    GroupInactive,
    /// No policy that matches grants a group that has it.
    NoPolicyMatches,
}

/// What a group says of a tool.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GroupOfTool {
    /// Which.
    pub id: GroupId,
    /// The admin's switch.
    pub is_active: bool,
    /// The policies that grant it to this agent.
    pub granted_by: Vec<PolicyId>,
    /// Whether the tool is in it, and what decided.
    #[serde(flatten)]
    pub membership: GroupMembership,
}

/// Explains the tool with this id, or else every tool that has this text as a form of its name.
pub(super) fn explain_tool(
    snapshot: &Snapshot,
    toolset: &Toolset,
    policies: &[PolicyExplanation],
    text: &str,
) -> Vec<ToolExplanation> {
    let by_id = text.parse::<ToolId>().ok().and_then(|id| snapshot.tool(&id));
    let mut meant: Vec<&Arc<CataloguedTool>> = by_id.into_iter().collect();
    if meant.is_empty() {
        meant = snapshot.tools_named(text).collect();
        meant.sort_by(|one, two| one.tool.id.cmp(&two.tool.id));
    }
    if meant.is_empty() {
        return vec![unknown_tool(text)];
    }
    meant
        .into_iter()
        .map(|entry| explain_catalogued_tool(snapshot, toolset, policies, entry))
        .collect()
}

fn unknown_tool(text: &str) -> ToolExplanation {
    let stop = new_blocker(BlockerCode::NoSuchTool, "there is no such tool".to_owned());
    ToolExplanation {
        tool: text.to_owned(),
        granted: false,
        name: None,
        visibility: None,
        why: stop.message.clone(),
        stopped_by: vec![stop],
        groups: Vec::new(),
    }
}

fn explain_catalogued_tool(
    snapshot: &Snapshot,
    toolset: &Toolset,
    policies: &[PolicyExplanation],
    entry: &Arc<CataloguedTool>,
) -> ToolExplanation {
    let visibility = toolset.visibility(entry.slot);
    let granted = visibility.is_some();
    let groups = explain_tool_groups(snapshot, policies, entry);
    let mut stopped_by = find_general_blockers(snapshot, entry);
    stopped_by.extend(find_access_blocker(policies, &groups));
    let why = match (granted, stopped_by.first()) {
        (true, _) => {
            let giving = groups.iter().find(|group| grants_tool(group));
            giving.map_or_else(String::new, |group| {
                format!(
                    "policy {} grants group `{}`, {}",
                    quote_ids(&group.granted_by),
                    group.id,
                    selection_phrase(group)
                )
            })
        }
        (false, Some(stop)) => stop.message.clone(),
        (false, None) => "nothing grants it".to_owned(),
    };
    ToolExplanation {
        tool: entry.tool.id.to_string(),
        granted,
        name: granted.then(|| toolset.name_for_agent(snapshot, entry)),
        visibility,
        why,
        stopped_by: if granted { Vec::new() } else { stopped_by },
        groups,
    }
}

/// Whether the agent has the tool through this group.
fn grants_tool(group: &GroupOfTool) -> bool {
    group.membership.member && group.is_active && !group.granted_by.is_empty()
}

fn selection_phrase(group: &GroupOfTool) -> &'static str {
    match group.membership.decided_by {
        DecidedBy::ExplicitEntry => "which names the tool",
        DecidedBy::Exclusion | DecidedBy::NoSelectors | DecidedBy::Selectors => "which selects it",
    }
}

/// Blockers that apply to every agent.
fn find_general_blockers(snapshot: &Snapshot, entry: &CataloguedTool) -> Vec<ToolBlocker> {
    let tool = &entry.tool;
    let source = snapshot.source(&tool.source).map(|entry| &entry.source);
    let mut stops = Vec::new();
    let mut add = |code, message: String| stops.push(new_blocker(code, message));
    match source {
        None => add(BlockerCode::NoSource, format!("source `{}` is not there", tool.source)),
        Some(source) if !source.enabled => {
            add(BlockerCode::SourceDisabled, format!("source `{}` is disabled", tool.source));
        }
        Some(_) => {}
    }
    if !tool.enabled {
        add(BlockerCode::ToolDisabled, "the tool is disabled".to_owned());
    }
    if tool.status == ToolStatus::Deprecated {
        let message = format!("source `{}` no longer offers the tool", tool.source);
        add(BlockerCode::ToolDeprecated, message);
    }
    match (tool.served_manifest(), tool.review) {
        (None, ReviewState::Rejected) => {
            add(BlockerCode::Rejected, "its version was rejected".to_owned())
        }
        (None, _) => add(BlockerCode::AwaitsReview, "it waits for an admin's approval".to_owned()),
        (Some(_), _) if !entry.is_complete() => {
            add(BlockerCode::Incomplete, "a schema of it is missing from the journal".to_owned());
        }
        (Some(_), _) => {}
    }
    stops
}

/// The group or policy rule that withholds the tool from this agent.
fn find_access_blocker(
    policies: &[PolicyExplanation],
    groups: &[GroupOfTool],
) -> Option<ToolBlocker> {
    if groups.iter().any(grants_tool) {
        return None;
    }
    let having: Vec<&GroupOfTool> = groups.iter().filter(|group| group.membership.member).collect();
    let off = having.iter().filter(|group| !group.granted_by.is_empty()).map(|group| &group.id);
    let off: Vec<&GroupId> = off.collect();
    if !off.is_empty() {
        return Some(new_blocker(
            BlockerCode::GroupInactive,
            format!("group {} is not active", quote_ids(&off)),
        ));
    }
    let excluding = groups.iter().find(|group| {
        group.membership.decided_by == DecidedBy::Exclusion && !group.granted_by.is_empty()
    });
    if let Some(group) = excluding {
        let reason = group.membership.reason.as_deref().filter(|reason| !reason.is_empty());
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        let message = format!("group `{}` excludes it{reason}", group.id);
        return Some(new_blocker(BlockerCode::Excluded, message));
    }
    if having.is_empty() {
        return Some(new_blocker(BlockerCode::InNoGroup, "no group has it".to_owned()));
    }
    let ids: Vec<&GroupId> = having.iter().map(|group| &group.id).collect();
    let wanted: BTreeSet<&PolicyId> = policies
        .iter()
        .filter(|policy| ids.iter().any(|id| policy.groups.contains(id)))
        .map(|policy| &policy.id)
        .collect();
    let message = match wanted.is_empty() {
        true => format!("no policy grants group {}", quote_ids(&ids)),
        false => {
            let wanted: Vec<_> = wanted.into_iter().collect();
            let who = format!("policy {}, which would grant it,", quote_ids(&wanted));
            format!("it is in group {}, but {who} is not active or does not match", quote_ids(&ids))
        }
    };
    Some(new_blocker(BlockerCode::NoPolicyMatches, message))
}

/// Every group that contains the tool, excludes it, or is granted to the agent.
fn explain_tool_groups(
    snapshot: &Snapshot,
    policies: &[PolicyExplanation],
    entry: &CataloguedTool,
) -> Vec<GroupOfTool> {
    let facts = snapshot.selector_facts(&entry.tool);
    let explained = snapshot.groups().map(|group| GroupOfTool {
        id: group.group.id.clone(),
        is_active: group.group.active,
        granted_by: granted_by(policies, &group.group.id),
        membership: group.group.explain_membership(&entry.tool.id, &facts),
    });
    let says_something = |group: &GroupOfTool| {
        let membership = &group.membership;
        let excluded = membership.decided_by == DecidedBy::Exclusion;
        membership.member || excluded || !group.granted_by.is_empty()
    };
    explained.filter(says_something).collect()
}

fn quote_ids<T: ToString>(ids: &[T]) -> String {
    let quoted: Vec<_> = ids.iter().map(|id| format!("`{}`", id.to_string())).collect();
    quoted.join(", ")
}

fn new_blocker(code: BlockerCode, message: String) -> ToolBlocker {
    ToolBlocker { code, message }
}
