//! Why an agent has a tool, or does not have it (requirement G7): every policy with each of its matchers, every group
//! with the rule that decided, and every switch that disables a tool.
//!
//! This module decides nothing. The grant comes from the same toolset that serves agents; the reasons are collected
//! beside it.

mod explain_tool;

use std::cmp::Reverse;

use access::PolicyVerdict;
use catalog::journal::{JournalError, Position};
use catalog::{JournalMoment, Snapshot};
use jiff::Timestamp;
use model::{Claims, GroupId, PolicyId, ToolId, Visibility};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crib::Toolcrib;
use crate::toolset::Toolset;
use crate::toolset_resolver::resolve_uncached;

pub use explain_tool::{BlockerCode, GroupOfTool, ToolBlocker, ToolExplanation};

/// What an agent with some claims has, and why.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Explanation")]
pub struct AccessExplanation {
    /// Of the last event that was known.
    pub position: Position,
    /// When that was recorded.
    pub time: Option<Timestamp>,
    /// Whether a policy makes an admin of the agent.
    pub admin: bool,
    /// How many tools the agent has.
    pub tool_count: usize,
    /// Every policy, highest priority first.
    pub policies: Vec<PolicyExplanation>,
    /// Every group that is granted.
    pub groups: Vec<GroupExplanation>,
    /// Everything the agent has, by id; left out if one tool was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has: Option<Vec<HeldTool>>,
    /// The tools that were asked about; without a question, none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolExplanation>,
}

/// A tool that the agent has.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HeldTool {
    /// Which.
    pub tool: ToolId,
    /// What the agent calls it.
    pub name: Box<str>,
    /// Where the agent meets it.
    pub visibility: Visibility,
}

/// What a policy says to the claims.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PolicyExplanation {
    /// Which.
    pub id: PolicyId,
    /// For people.
    pub name: String,
    /// Highest first.
    pub priority: u32,
    /// The admin's switch.
    pub is_active: bool,
    /// Whether it grants: it is active and matches.
    pub grants: bool,
    /// What it would grant.
    pub groups: Vec<GroupId>,
    /// Whether it makes admins.
    pub admin: bool,
    /// Each of its matchers.
    #[serde(flatten)]
    pub verdict: PolicyVerdict,
}

/// A granted group.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GroupExplanation {
    /// Which.
    pub id: GroupId,
    /// For people; none if the group is not there.
    pub name: Option<String>,
    /// The admin's switch; a group that is off gives nothing.
    pub is_active: bool,
    /// Who grants it, highest priority first.
    pub granted_by: Vec<PolicyId>,
    /// How many tools of it can be served.
    pub tool_count: usize,
}

impl Toolcrib {
    /// What an agent with these claims has and why, now or at an earlier moment; and why it has or does not have a
    /// tool, given by id or by any form of its name.
    pub async fn explain(
        &self,
        claims: &Claims,
        tool: Option<&str>,
        at: Option<JournalMoment>,
    ) -> Result<AccessExplanation, JournalError> {
        match at {
            Some(moment) => Ok(explain_access(&self.snapshot_at(moment).await?, claims, tool)),
            None => Ok(explain_access(&self.catalog().snapshot(), claims, tool)),
        }
    }
}

/// What an agent with these claims has in a snapshot, and why.
pub fn explain_access(
    snapshot: &Snapshot,
    claims: &Claims,
    tool: Option<&str>,
) -> AccessExplanation {
    let toolset = resolve_uncached(snapshot, claims);
    let policies = explain_policies(snapshot, claims);
    let tools = tool.map(|text| explain_tool::explain_tool(snapshot, &toolset, &policies, text));
    AccessExplanation {
        position: snapshot.position(),
        time: snapshot.time(),
        admin: toolset.grant().admin,
        tool_count: toolset.tools().len(),
        groups: explain_groups(snapshot, &toolset, &policies),
        policies,
        has: tool.is_none().then(|| list_held_tools(snapshot, &toolset)),
        tools: tools.unwrap_or_default(),
    }
}

fn list_held_tools(snapshot: &Snapshot, toolset: &Toolset) -> Vec<HeldTool> {
    let held = toolset.tools().iter().filter_map(|slot| {
        let entry = snapshot.tool_at(slot)?;
        let (tool, name) = (entry.tool.id.clone(), toolset.name_for_agent(snapshot, entry));
        Some(HeldTool { tool, name, visibility: toolset.visibility(slot)? })
    });
    let mut held: Vec<_> = held.collect();
    held.sort_by(|one, two| one.tool.cmp(&two.tool));
    held
}

fn explain_policies(snapshot: &Snapshot, claims: &Claims) -> Vec<PolicyExplanation> {
    let mut policies: Vec<_> = snapshot.policies().collect();
    policies.sort_by_key(|policy| (Reverse(policy.rules.priority), &policy.id));
    let explained = policies.into_iter().map(|policy| {
        let verdict = access::explain_policy(&policy.rules, claims);
        PolicyExplanation {
            id: policy.id.clone(),
            name: policy.rules.name.to_string(),
            priority: policy.rules.priority,
            is_active: policy.active,
            grants: policy.active && verdict.matches,
            groups: policy.rules.groups().iter().cloned().collect(),
            admin: policy.rules.makes_admins(),
            verdict,
        }
    });
    explained.collect()
}

fn explain_groups(
    snapshot: &Snapshot,
    toolset: &Toolset,
    policies: &[PolicyExplanation],
) -> Vec<GroupExplanation> {
    let explained = toolset.grant().groups.iter().map(|id| {
        let entry = snapshot.group(id);
        GroupExplanation {
            id: id.clone(),
            name: entry.map(|entry| entry.group.profile.name.to_string()),
            is_active: entry.is_some_and(|entry| entry.group.active),
            granted_by: granted_by(policies, id),
            tool_count: snapshot.group_tools(id).map_or(0, |tools| tools.len()),
        }
    });
    explained.collect()
}

fn granted_by(policies: &[PolicyExplanation], group: &GroupId) -> Vec<PolicyId> {
    let granting = policies.iter().filter(|policy| policy.grants && policy.groups.contains(group));
    granting.map(|policy| policy.id.clone()).collect()
}
