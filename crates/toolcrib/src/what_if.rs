//! What would change for agents if something were changed (requirement G7): commands are supposed, not carried out.

use std::collections::HashMap;

use catalog::tool_set::Slot;
use catalog::{CataloguedTool, Command, CommandError, Snapshot};
use model::{Claims, ToolId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::crib::Toolcrib;
use crate::resolver::resolve;
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
        let before = self.catalog().snapshot();
        let after = self.catalog().what_if(&before, commands).await?;
        Ok(effects(&before, &after, agents))
    }
}

/// What differs for agents between two snapshots.
pub fn effects(before: &Snapshot, after: &Snapshot, agents: &[Claims]) -> Vec<Effect> {
    let mut sizes = [HashMap::new(), HashMap::new()];
    agents.iter().map(|claims| effect(before, after, claims, &mut sizes)).collect()
}

/// The bytes of a tool in a list, apart from its name.
type Sizes = HashMap<Slot, usize>;

fn effect(
    before: &Snapshot,
    after: &Snapshot,
    claims: &Claims,
    [sizes_before, sizes_after]: &mut [Sizes; 2],
) -> Effect {
    let (had, has) = (resolve(before, claims), resolve(after, claims));
    let (before_extent, after_extent) =
        (extent(before, &had, sizes_before), extent(after, &has, sizes_after));
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

fn extent(snapshot: &Snapshot, toolset: &Toolset, sizes: &mut Sizes) -> Extent {
    let names = toolset.list(snapshot).iter();
    let bytes: usize = names
        .filter_map(|(slot, name)| {
            let entry = snapshot.tool_at(*slot)?;
            Some(name.len() + *sizes.entry(*slot).or_insert_with(|| size(entry)))
        })
        .sum();
    Extent {
        tools: toolset.tools().len(),
        listed: toolset.listed().len(),
        tokens: bytes.div_ceil(BYTES_PER_TOKEN),
        admin: toolset.grant().admin,
    }
}

fn size(entry: &CataloguedTool) -> usize {
    let schema = entry.input_schema.as_ref().map(model::Schema::to_served);
    let shown = json!({"name": "", "description": entry.tool.description(), "inputSchema": schema});
    shown.to_string().len() + 1
}

fn signed(tokens: usize) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
