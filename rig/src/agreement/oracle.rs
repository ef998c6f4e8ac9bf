//! The oracle: computes the expected answers for an agent slowly, from the text of the requirements (G1–G5, A5, A6).
//!
//! It shares no code with the product. Where it and the product differ, one of them is wrong.

mod claims;
mod names;
mod patterns;
mod selection;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

pub(super) use self::claims::contains_rounded;
pub(super) use self::names::{name_forms, unique_tool_name as unique_name};
use super::world::{World, WorldPolicyRules, WorldTool, WorldVisibility};

/// The state of a world, independent of the agent.
pub(super) struct Oracle<'a> {
    world: &'a World,
    /// The served tools of each active group.
    contents: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

/// A tool that an agent may use.
#[derive(Debug)]
pub(super) struct OracleGrant<'a> {
    pub(super) id: &'a str,
    pub(super) visibility: WorldVisibility,
    /// The plain, qualified and unique name.
    pub(super) name_forms: [String; 3],
    /// The one of these names that agents see.
    pub(super) shown_name: String,
}

/// The result of looking up a name for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NameMeaning {
    /// A meta tool, which finds or executes other tools.
    MetaTool,
    Tool(String),
    Ambiguous,
    Nothing,
}

/// The effect of a change on one agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AgentEffect {
    pub(super) gained: BTreeSet<String>,
    pub(super) lost: BTreeSet<String>,
    /// Tool, name before, name after.
    pub(super) renamed: BTreeSet<(String, String, String)>,
    /// The number of tools after the change.
    pub(super) tools: usize,
    /// The number of listed tools after the change.
    pub(super) listed: usize,
    pub(super) is_admin: bool,
}

/// Explains the grants of an agent, and whether one specific tool is granted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GrantExplanation {
    /// The policies that match.
    pub(super) policies: BTreeSet<String>,
    /// The granted groups, active or not.
    pub(super) groups: BTreeSet<String>,
    pub(super) tools: usize,
    pub(super) is_admin: bool,
    /// Name and visibility of the tool, if it is granted.
    pub(super) granted: Option<(String, WorldVisibility)>,
    /// True if the explanation names a reason that the tool is not granted.
    pub(super) is_stopped: bool,
}

/// All tools that one agent may use, in the order of their ids.
pub(super) struct OracleToolset<'a>(pub(super) Vec<OracleGrant<'a>>);

impl<'a> Oracle<'a> {
    pub(super) fn new(world: &'a World) -> Self {
        let active = world.groups.iter().filter(|(_, group)| group.is_active);
        let contents = active.map(|(id, group)| {
            let has = |id: &str, tool: &WorldTool| {
                is_served(world, tool)
                    && selection::group_contains(group, id, &tool_facts(world, tool))
            };
            let tools = world.tools.iter().filter(|(id, tool)| has(id, tool));
            (id.as_str(), tools.map(|(id, _)| id.as_str()).collect())
        });
        Self { world, contents: contents.collect() }
    }

    pub(super) fn toolset_for(&self, claims: &Value) -> OracleToolset<'a> {
        let groups = self.groups_for(claims);
        let holds = |group: &&str, id: &str| {
            self.contents.get(group).is_some_and(|contents| contents.contains(id))
        };
        let mut granted = Vec::new();
        for (id, tool) in &self.world.tools {
            let through: Vec<&str> =
                groups.iter().copied().filter(|group| holds(group, id)).collect();
            if !through.is_empty() {
                let forms = names::name_forms(id, &tool.source, tool.effective_name());
                let visibility = self.effective_visibility(tool, &through);
                granted.push(OracleGrant {
                    id,
                    visibility,
                    name_forms: forms,
                    shown_name: String::new(),
                });
            }
        }
        let shown: Vec<String> =
            granted.iter().map(|tool| names::choose_shown_name(tool, &granted)).collect();
        for (tool, shown) in granted.iter_mut().zip(shown) {
            tool.shown_name = shown;
        }
        OracleToolset(granted)
    }

    /// The ids of all tools in the world.
    pub(super) fn all_tool_ids(&self) -> Vec<&'a str> {
        self.world.tools.keys().map(String::as_str).collect()
    }

    pub(super) fn is_admin(&self, claims: &Value) -> bool {
        self.policies_for(claims).any(|(_, rules)| rules.admin)
    }

    pub(super) fn explain_grants(
        &self,
        claims: &Value,
        toolset: &OracleToolset<'_>,
        tool: &str,
    ) -> GrantExplanation {
        let granted = toolset.get(tool).map(|tool| (tool.shown_name.clone(), tool.visibility));
        GrantExplanation {
            policies: self.policies_for(claims).map(|(id, _)| id.clone()).collect(),
            groups: self.groups_for(claims).into_iter().map(str::to_owned).collect(),
            tools: toolset.0.len(),
            is_admin: self.is_admin(claims),
            is_stopped: granted.is_none(),
            granted,
        }
    }

    fn groups_for(&self, claims: &Value) -> BTreeSet<&'a str> {
        let policies = self.policies_for(claims);
        policies.flat_map(|(_, rules)| &rules.groups).map(String::as_str).collect()
    }

    /// The active policies that match the claims.
    fn policies_for(
        &self,
        claims: &Value,
    ) -> impl Iterator<Item = (&'a String, &'a WorldPolicyRules)> {
        let active = self.world.policies.iter().filter(|(_, policy)| policy.is_active);
        let matching = |(_, rules): &(&String, &WorldPolicyRules)| {
            let all = rules.matchers.iter().all(|matcher| claims::matches_claims(matcher, claims));
            all && !rules.matchers.is_empty()
        };
        active.map(|(id, policy)| (id, &policy.rules)).filter(matching)
    }

    /// The effect of a change, from the toolsets before and after it.
    pub(super) fn agent_effect(
        &self,
        claims: &Value,
        before: &OracleToolset<'_>,
        after: &OracleToolset<'_>,
    ) -> AgentEffect {
        let missing_in = |here: &OracleToolset<'_>, there: &OracleToolset<'_>| {
            let missing = there.0.iter().filter(|tool| here.get(tool.id).is_none());
            missing.map(|tool| tool.id.to_owned()).collect()
        };
        let renamed = after.0.iter().filter_map(|tool| {
            let before =
                before.get(tool.id).filter(|before| before.shown_name != tool.shown_name)?;
            Some((tool.id.to_owned(), before.shown_name.clone(), tool.shown_name.clone()))
        });
        AgentEffect {
            gained: missing_in(before, after),
            lost: missing_in(after, before),
            renamed: renamed.collect(),
            tools: after.0.len(),
            listed: after.listed().count(),
            is_admin: self.is_admin(claims),
        }
    }

    fn effective_visibility(&self, tool: &WorldTool, through: &[&str]) -> WorldVisibility {
        let by_groups = through.iter().filter_map(|group| self.world.groups[*group].visibility);
        let by_source = self.world.sources[&tool.source].profile.visibility;
        tool.visibility.or(by_groups.min()).unwrap_or(by_source)
    }
}

impl OracleToolset<'_> {
    pub(super) fn listed(&self) -> impl Iterator<Item = &OracleGrant<'_>> {
        self.0.iter().filter(|tool| tool.visibility == WorldVisibility::Listed)
    }

    /// True if a granted tool is searchable but not listed: then the agent gets the meta tools that search and execute
    /// (A6).
    pub(super) fn has_searchable_only_tool(&self) -> bool {
        self.0.iter().any(|tool| tool.visibility == WorldVisibility::Searchable)
    }

    pub(super) fn searchable(&self) -> impl Iterator<Item = &OracleGrant<'_>> {
        self.0.iter().filter(|tool| tool.visibility != WorldVisibility::Hidden)
    }

    pub(super) fn get(&self, id: &str) -> Option<&OracleGrant<'_>> {
        self.0.iter().find(|tool| tool.id == id)
    }

    pub(super) fn resolve_name(&self, name: &str) -> NameMeaning {
        if names::META_TOOLS.contains(&name) && self.has_searchable_only_tool() {
            return NameMeaning::MetaTool;
        }
        let named: Vec<_> =
            self.0.iter().filter(|tool| tool.name_forms.iter().any(|form| form == name)).collect();
        let shown: Vec<_> = named.iter().filter(|tool| tool.shown_name == name).collect();
        let made_for: Vec<_> = named.iter().filter(|tool| tool.name_forms[2] == name).collect();
        match (&*named, &*shown, &*made_for) {
            ([], _, _) => NameMeaning::Nothing,
            ([tool], _, _) => NameMeaning::Tool(tool.id.to_owned()),
            (_, [tool], _) => NameMeaning::Tool(tool.id.to_owned()),
            (_, _, [tool, ..]) => NameMeaning::Tool(tool.id.to_owned()),
            _ => NameMeaning::Ambiguous,
        }
    }
}

fn is_served(world: &World, tool: &WorldTool) -> bool {
    let source = world.sources.get(&tool.source);
    tool.is_enabled
        && tool.is_active
        && tool.approved.is_some()
        && source.is_some_and(|source| source.is_enabled)
}

fn tool_facts<'a>(world: &'a World, tool: &'a WorldTool) -> selection::ToolFacts<'a> {
    selection::ToolFacts {
        source_id: &tool.source,
        source_name: &world.sources[&tool.source].profile.name,
        name: tool.effective_name(),
        path: &tool.effective_manifest().path,
        method: &tool.effective_manifest().method,
        tags: &tool.effective_manifest().tags,
        labels: &tool.labels,
    }
}

#[cfg(test)]
mod tests;
