//! What would change for agents if something were changed (requirement G7): commands are supposed, not carried out.

use std::collections::HashMap;

use access::Policies;
use catalog::tool_set::Slot;
use catalog::{CataloguedTool, Command, CommandError, Snapshot};
use model::{Claims, ToolId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::crib::Toolcrib;
use crate::resolver::active_policies;
use crate::toolset::Toolset;

/// Bytes of JSON to a token, about: what common tokenizers make of tool lists.
const BYTES_PER_TOKEN: usize = 4;

/// What would change for one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Renamed {
    /// Which.
    pub tool: ToolId,
    /// Its name now.
    pub before: Box<str>,
    /// Its name then.
    pub after: Box<str>,
}

/// How much an agent has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
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
    /// What commands would change for agents with these claims. Commands are refused as they would be.
    pub async fn what_if(
        &self,
        commands: &[Command],
        agents: &[Claims],
    ) -> Result<Vec<Effect>, CommandError> {
        let (crib, commands, agents) = (self.clone(), commands.to_vec(), agents.to_vec());
        let runtime = tokio::runtime::Handle::current();
        // With many tools and agents it takes a while, which nobody else should wait for.
        let supposed = tokio::task::spawn_blocking(move || {
            let before = crib.catalog().snapshot();
            let after = runtime.block_on(crib.catalog().what_if(&before, &commands))?;
            Ok(effects(&before, &after, &agents))
        });
        supposed.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

/// What differs for agents between two snapshots.
pub fn effects(before: &Snapshot, after: &Snapshot, agents: &[Claims]) -> Vec<Effect> {
    let (mut before, mut after) = (Side::of(before), Side::of(after));
    agents.iter().map(|claims| effect(&mut before, &mut after, claims)).collect()
}

/// One of two snapshots that are compared, with what is worked out once for all agents.
struct Side<'a> {
    snapshot: &'a Snapshot,
    policies: Policies,
    /// The bytes of a tool in a list, apart from its name.
    sizes: HashMap<Slot, usize>,
}

impl<'a> Side<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, policies: active_policies(snapshot), sizes: HashMap::new() }
    }

    fn toolset(&self, claims: &Claims) -> Toolset {
        Toolset::resolve(self.snapshot, self.policies.resolve(claims))
    }

    fn extent(&mut self, toolset: &Toolset) -> Extent {
        let mut bytes = 0;
        for (entry, name) in toolset.list(self.snapshot) {
            bytes += name.len() + *self.sizes.entry(entry.slot).or_insert_with(|| size(entry));
        }
        Extent {
            tools: toolset.tools().len(),
            listed: toolset.listed().len(),
            tokens: bytes.div_ceil(BYTES_PER_TOKEN),
            admin: toolset.grant().admin,
        }
    }
}

fn effect(before_side: &mut Side<'_>, after_side: &mut Side<'_>, claims: &Claims) -> Effect {
    let (had, has) = (before_side.toolset(claims), after_side.toolset(claims));
    let (before_extent, after_extent) = (before_side.extent(&had), after_side.extent(&has));
    let (before, after) = (before_side.snapshot, after_side.snapshot);
    let mut renamed: Vec<Renamed> = tools(before, &had)
        .filter_map(|entry| {
            let then = after.tool(&entry.tool.id).filter(|then| has.tools().contains(then.slot))?;
            let (before, after) = (had.name(before, entry), has.name(after, then));
            (before != after).then(|| Renamed { tool: entry.tool.id.clone(), before, after })
        })
        .collect();
    renamed.sort_by(|one, two| one.tool.cmp(&two.tool));
    Effect {
        gained: missing(after, &has, before, &had),
        lost: missing(before, &had, after, &has),
        renamed,
        before: before_extent,
        after: after_extent,
        tokens_change: signed(after_extent.tokens) - signed(before_extent.tokens),
    }
}

fn tools<'a>(
    snapshot: &'a Snapshot,
    toolset: &'a Toolset,
) -> impl Iterator<Item = &'a CataloguedTool> {
    toolset.tools().iter().filter_map(|slot| snapshot.tool_at(slot)).map(AsRef::as_ref)
}

/// The tools of one toolset that the other lacks. Slots of two snapshots need not be the same.
fn missing(one: &Snapshot, of: &Toolset, two: &Snapshot, from: &Toolset) -> Vec<ToolId> {
    let lacks = |id: &ToolId| !two.tool(id).is_some_and(|entry| from.tools().contains(entry.slot));
    let ids = tools(one, of).map(|entry| &entry.tool.id).filter(|id| lacks(id));
    let mut ids: Vec<ToolId> = ids.cloned().collect();
    ids.sort();
    ids
}

fn size(entry: &CataloguedTool) -> usize {
    let schema = entry.input_schema.as_ref().map(model::Schema::to_served);
    let shown = json!({"name": "", "description": entry.tool.description(), "inputSchema": schema});
    shown.to_string().len() + 1
}

fn signed(tokens: usize) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
