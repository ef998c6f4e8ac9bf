//! How a change would affect agents (requirement G7): commands run against a supposed snapshot and are not carried out.

mod name_forms;

use std::borrow::Borrow;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use access::PolicySet;
use catalog::tool_set::{Slot, ToolSet};
use catalog::{CataloguedTool, Command, CommandError, Snapshot};
use model::{Claims, GroupId, ToolId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::name_forms::SnapshotNameForms;
use crate::crib::Toolcrib;
use crate::toolset::Toolset;
use crate::toolset_resolver::active_policies;

/// Approximate bytes of JSON per token, as common tokenizers count tool lists.
const BYTES_PER_TOKEN: usize = 4;

/// What would change for one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Effect")]
pub struct AccessEffect {
    /// Tools it would have and has not.
    pub gained: Vec<ToolId>,
    /// Tools it has and would not have.
    pub lost: Vec<ToolId>,
    /// Tools it would call something else.
    pub renamed: Vec<RenamedTool>,
    /// What it has.
    pub before: ToolsetExtent,
    /// What it would have.
    pub after: ToolsetExtent,
    /// How many tokens its list would grow by, about.
    pub tokens_change: i64,
}

/// A tool that would be called something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Renamed")]
pub struct RenamedTool {
    /// Which.
    pub tool: ToolId,
    /// Its name now.
    pub before: Box<str>,
    /// Its name then.
    pub after: Box<str>,
}

/// How much an agent has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Extent")]
pub struct ToolsetExtent {
    /// All its tools.
    pub tools: usize,
    /// Those in its list.
    pub listed: usize,
    /// The tokens of its list, about: the JSON of names, descriptions and input schemas, four bytes to a token.
    pub tokens: usize,
    /// Whether it is an admin by policy.
    pub admin: bool,
}

impl Toolcrib {
    /// The effect of commands on agents with these claims. A command is rejected as it would be in reality.
    pub async fn what_if(
        &self,
        commands: &[Command],
        agents: &[Claims],
    ) -> Result<Vec<AccessEffect>, CommandError> {
        let (crib, commands, agents) = (self.clone(), commands.to_vec(), agents.to_vec());
        let runtime = tokio::runtime::Handle::current();
        // With many tools and agents this takes long, so it runs on the blocking pool and delays no other task.
        let supposed = tokio::task::spawn_blocking(move || {
            let before = crib.catalog().snapshot();
            let after = runtime.block_on(crib.catalog().what_if(&before, &commands))?;
            Ok(access_effects(&before, &after, &agents))
        });
        supposed.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

/// The differences between two snapshots for these agents.
pub fn access_effects<C: Borrow<Claims>>(
    before: &Snapshot,
    after: &Snapshot,
    agents: &[C],
) -> Vec<AccessEffect> {
    let same_tools = has_same_tools(before, after);
    let (mut before, mut after) =
        (ComparedSnapshot::from_snapshot(before), ComparedSnapshot::from_snapshot(after));
    // Agents with the same groups have the same tools in both snapshots.
    let mut known: HashMap<(usize, usize), AccessEffect> = HashMap::new();
    let effect = |claims: &C| {
        let key = (before.toolset_index(claims.borrow()), after.toolset_index(claims.borrow()));
        let effect = known
            .entry(key)
            .or_insert_with(|| agent_effect(&mut before, &mut after, key, same_tools));
        effect.clone()
    };
    agents.iter().map(effect).collect()
}

/// Whether every tool is identical in both snapshots, so that equal slots mean equal tools.
fn has_same_tools(before: &Snapshot, after: &Snapshot) -> bool {
    let is_same = |entry: &Arc<CataloguedTool>| {
        after.tool_at(entry.slot).is_some_and(|other| Arc::ptr_eq(entry, other))
    };
    before.tool_count() == after.tool_count() && before.tools().all(is_same)
}

/// One of the two compared snapshots, with results that are computed once for all agents.
struct ComparedSnapshot<'a> {
    snapshot: &'a Snapshot,
    policies: PolicySet,
    forms: SnapshotNameForms<'a>,
    /// The distinct toolsets that grants resolve to.
    toolsets: Vec<Rc<Toolset>>,
    numbers: HashMap<(Vec<GroupId>, bool), usize>,
    extents: HashMap<usize, ToolsetExtent>,
}

impl<'a> ComparedSnapshot<'a> {
    fn from_snapshot(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot,
            policies: active_policies(snapshot),
            forms: SnapshotNameForms::from_snapshot(snapshot),
            toolsets: Vec::new(),
            numbers: HashMap::new(),
            extents: HashMap::new(),
        }
    }

    /// The index of the agent's toolset.
    fn toolset_index(&mut self, claims: &Claims) -> usize {
        let grant = self.policies.resolve_grant(claims);
        let key = (grant.groups.clone(), grant.admin);
        *self.numbers.entry(key).or_insert_with(|| {
            self.toolsets.push(Rc::new(Toolset::resolve(self.snapshot, grant)));
            self.toolsets.len() - 1
        })
    }

    fn toolset_extent(&mut self, number: usize) -> ToolsetExtent {
        let (toolset, forms) = (&self.toolsets[number], &self.forms);
        *self.extents.entry(number).or_insert_with(|| ToolsetExtent {
            tools: toolset.tools().len(),
            listed: toolset.listed().len(),
            tokens: forms.list_bytes(toolset.listed(), toolset.tools()).div_ceil(BYTES_PER_TOKEN),
            admin: toolset.grant().admin,
        })
    }

    /// The ids of the tools in these slots, in the order of ids.
    fn tool_ids(&self, slots: &ToolSet) -> Vec<ToolId> {
        let mut slots: Vec<Slot> = slots.iter().collect();
        slots.sort_unstable_by_key(|slot| self.forms.id_rank(*slot));
        let tools = slots.into_iter().filter_map(|slot| self.snapshot.tool_at(slot));
        tools.map(|entry| entry.tool.id.clone()).collect()
    }

    /// The tools of a toolset that the other snapshot's toolset lacks. The same tool may have different slots in the
    /// two.
    fn missing_tools(
        &self,
        own: &Toolset,
        other: &ComparedSnapshot<'_>,
        others: &Toolset,
        same: bool,
    ) -> Vec<ToolId> {
        if same {
            return self.tool_ids(&own.tools().difference(others.tools()));
        }
        let lacks = |slot: &Slot| {
            let id = self.snapshot.tool_at(*slot).map(|entry| &entry.tool.id);
            let there = id.and_then(|id| other.snapshot.tool(id));
            !there.is_some_and(|entry| others.tools().contains(entry.slot))
        };
        let mut missing = ToolSet::default();
        for slot in own.tools().iter().filter(lacks) {
            missing.set_member(slot, true);
        }
        self.tool_ids(&missing)
    }
}

fn agent_effect(
    before: &mut ComparedSnapshot<'_>,
    after: &mut ComparedSnapshot<'_>,
    (had, has): (usize, usize),
    same_tools: bool,
) -> AccessEffect {
    let (before_extent, after_extent) = (before.toolset_extent(had), after.toolset_extent(has));
    let (had, has) = (Rc::clone(&before.toolsets[had]), Rc::clone(&after.toolsets[has]));
    let is_same = same_tools && had.tools() == has.tools();
    AccessEffect {
        gained: after.missing_tools(&has, before, &had, same_tools),
        lost: before.missing_tools(&had, after, &has, same_tools),
        renamed: match is_same {
            true => Vec::new(),
            false => renamed_tools((&*before, &had), (&*after, &has), same_tools),
        },
        before: before_extent,
        after: after_extent,
        tokens_change: to_signed(after_extent.tokens) - to_signed(before_extent.tokens),
    }
}

/// The tools of both toolsets whose name differs in the second.
fn renamed_tools(
    (before, had): (&ComparedSnapshot<'_>, &Toolset),
    (after, has): (&ComparedSnapshot<'_>, &Toolset),
    same_tools: bool,
) -> Vec<RenamedTool> {
    let mut renamed = Vec::new();
    for slot in had.tools().iter() {
        let Some(entry) = before.snapshot.tool_at(slot) else { continue };
        let then = match same_tools {
            true => Some(slot),
            false => after.snapshot.tool(&entry.tool.id).map(|then| then.slot),
        };
        let Some(then) = then.filter(|then| has.tools().contains(*then)) else { continue };
        let (Some(one), Some(two)) = (before.forms.tool_forms(slot), after.forms.tool_forms(then))
        else {
            continue;
        };
        let (one, two) = (one.name_among(had.tools()), two.name_among(has.tools()));
        if one != two {
            let (before, after) = (one.into(), two.into());
            renamed.push(RenamedTool { tool: entry.tool.id.clone(), before, after });
        }
    }
    renamed.sort_by(|one, two| one.tool.cmp(&two.tool));
    renamed
}

fn to_signed(tokens: usize) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
