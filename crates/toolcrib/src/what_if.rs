//! How a change would affect agents (requirement G7): commands run against a supposed snapshot and are not carried out.

mod forms;

use std::borrow::Borrow;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use access::Policies;
use catalog::tool_set::{Slot, ToolSet};
use catalog::{CataloguedTool, Command, CommandError, Snapshot};
use model::{Claims, GroupId, ToolId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::forms::Forms;
use crate::crib::Toolcrib;
use crate::resolver::active_policies;
use crate::toolset::Toolset;

/// Approximate bytes of JSON per token, as common tokenizers count tool lists.
const BYTES_PER_TOKEN: usize = 4;

/// What would change for one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// Tools it would have and has not.
    pub gained: Vec<ToolId>,
    /// Tools it has and would not have.
    pub lost: Vec<ToolId>,
    /// Tools it would call something else.
    pub renamed: Vec<Renamed>,
    /// What it has.
    pub before: Extent,
    /// What it would have.
    pub after: Extent,
    /// How many tokens its list would grow by, about.
    pub tokens_change: i64,
}

/// A tool that would be called something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Renamed {
    /// Which.
    pub tool: ToolId,
    /// Its name now.
    pub before: Box<str>,
    /// Its name then.
    pub after: Box<str>,
}

/// How much an agent has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Extent {
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
    ) -> Result<Vec<Effect>, CommandError> {
        let (crib, commands, agents) = (self.clone(), commands.to_vec(), agents.to_vec());
        let runtime = tokio::runtime::Handle::current();
        // With many tools and agents this takes long, so it runs on the blocking pool and delays no other task.
        let supposed = tokio::task::spawn_blocking(move || {
            let before = crib.catalog().snapshot();
            let after = runtime.block_on(crib.catalog().what_if(&before, &commands))?;
            Ok(effects(&before, &after, &agents))
        });
        supposed.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

/// The differences between two snapshots for these agents.
pub fn effects<C: Borrow<Claims>>(
    before: &Snapshot,
    after: &Snapshot,
    agents: &[C],
) -> Vec<Effect> {
    let same_tools = has_same_tools(before, after);
    let (mut before, mut after) = (Side::of(before), Side::of(after));
    // Agents with the same groups have the same tools in both snapshots.
    let mut known: HashMap<(usize, usize), Effect> = HashMap::new();
    let effect = |claims: &C| {
        let key = (before.number(claims.borrow()), after.number(claims.borrow()));
        let effect =
            known.entry(key).or_insert_with(|| effect(&mut before, &mut after, key, same_tools));
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
struct Side<'a> {
    snapshot: &'a Snapshot,
    policies: Policies,
    forms: Forms<'a>,
    /// The distinct toolsets that grants resolve to.
    toolsets: Vec<Rc<Toolset>>,
    numbers: HashMap<(Vec<GroupId>, bool), usize>,
    extents: HashMap<usize, Extent>,
}

impl<'a> Side<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot,
            policies: active_policies(snapshot),
            forms: Forms::of(snapshot),
            toolsets: Vec::new(),
            numbers: HashMap::new(),
            extents: HashMap::new(),
        }
    }

    /// The index of the agent's toolset.
    fn number(&mut self, claims: &Claims) -> usize {
        let grant = self.policies.resolve(claims);
        let key = (grant.groups.clone(), grant.admin);
        *self.numbers.entry(key).or_insert_with(|| {
            self.toolsets.push(Rc::new(Toolset::resolve(self.snapshot, grant)));
            self.toolsets.len() - 1
        })
    }

    fn extent(&mut self, number: usize) -> Extent {
        let (toolset, forms) = (&self.toolsets[number], &self.forms);
        *self.extents.entry(number).or_insert_with(|| Extent {
            tools: toolset.tools().len(),
            listed: toolset.listed().len(),
            tokens: forms.bytes(toolset.listed(), toolset.tools()).div_ceil(BYTES_PER_TOKEN),
            admin: toolset.grant().admin,
        })
    }

    /// The ids of the tools in these slots, in the order of ids.
    fn ids(&self, slots: &ToolSet) -> Vec<ToolId> {
        let mut slots: Vec<Slot> = slots.iter().collect();
        slots.sort_unstable_by_key(|slot| self.forms.rank(*slot));
        let tools = slots.into_iter().filter_map(|slot| self.snapshot.tool_at(slot));
        tools.map(|entry| entry.tool.id.clone()).collect()
    }

    /// The tools of a toolset that the other snapshot's toolset lacks. The same tool may have different slots in the
    /// two.
    fn missing(
        &self,
        own: &Toolset,
        other: &Side<'_>,
        others: &Toolset,
        same: bool,
    ) -> Vec<ToolId> {
        if same {
            return self.ids(&own.tools().difference(others.tools()));
        }
        let lacks = |slot: &Slot| {
            let id = self.snapshot.tool_at(*slot).map(|entry| &entry.tool.id);
            let there = id.and_then(|id| other.snapshot.tool(id));
            !there.is_some_and(|entry| others.tools().contains(entry.slot))
        };
        let mut missing = ToolSet::default();
        for slot in own.tools().iter().filter(lacks) {
            missing.set(slot, true);
        }
        self.ids(&missing)
    }
}

fn effect(
    before: &mut Side<'_>,
    after: &mut Side<'_>,
    (had, has): (usize, usize),
    same_tools: bool,
) -> Effect {
    let (before_extent, after_extent) = (before.extent(had), after.extent(has));
    let (had, has) = (Rc::clone(&before.toolsets[had]), Rc::clone(&after.toolsets[has]));
    let is_same = same_tools && had.tools() == has.tools();
    Effect {
        gained: after.missing(&has, before, &had, same_tools),
        lost: before.missing(&had, after, &has, same_tools),
        renamed: match is_same {
            true => Vec::new(),
            false => renamed((&*before, &had), (&*after, &has), same_tools),
        },
        before: before_extent,
        after: after_extent,
        tokens_change: signed(after_extent.tokens) - signed(before_extent.tokens),
    }
}

/// The tools of both toolsets whose name differs in the second.
fn renamed(
    (before, had): (&Side<'_>, &Toolset),
    (after, has): (&Side<'_>, &Toolset),
    same_tools: bool,
) -> Vec<Renamed> {
    let mut renamed = Vec::new();
    for slot in had.tools().iter() {
        let Some(entry) = before.snapshot.tool_at(slot) else { continue };
        let then = match same_tools {
            true => Some(slot),
            false => after.snapshot.tool(&entry.tool.id).map(|then| then.slot),
        };
        let Some(then) = then.filter(|then| has.tools().contains(*then)) else { continue };
        let (Some(one), Some(two)) = (before.forms.tool(slot), after.forms.tool(then)) else {
            continue;
        };
        let (one, two) = (one.name(had.tools()), two.name(has.tools()));
        if one != two {
            let (before, after) = (one.into(), two.into());
            renamed.push(Renamed { tool: entry.tool.id.clone(), before, after });
        }
    }
    renamed.sort_by(|one, two| one.tool.cmp(&two.tool));
    renamed
}

fn signed(tokens: usize) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
