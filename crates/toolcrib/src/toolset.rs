//! A toolset: the tools an agent has right now, and where it meets them.
//!
//! Everything is bits: the groups of the grant are joined and cut to what can be served, however many tools there are.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use access::Grant;
use catalog::tool_set::{Slot, ToolSet};
use catalog::{CataloguedGroup, CataloguedTool, Snapshot};
use model::{GroupId, Visibility};

use crate::view::MetaTool;

/// The tools an agent has right now.
#[derive(Debug)]
pub struct Toolset {
    /// No other toolset has it.
    serial: u64,
    grant: Grant,
    all: ToolSet,
    others: ToolSet,
    listed: ToolSet,
    searchable: ToolSet,
    /// The listed tools in the order of their ids, with the names of those that are not shown under their plain ones.
    /// Worked out when it is first asked for.
    list: OnceLock<Vec<(Slot, Option<Box<str>>)>>,
}

impl Toolset {
    /// What a grant gives: the tools of its groups that can be served.
    pub(crate) fn resolve(snapshot: &Snapshot, grant: Grant) -> Self {
        Self::within(snapshot, grant, snapshot.served())
    }

    /// Every tool of the catalog, served or not, whoever has it. For admins.
    pub(crate) fn everything(snapshot: &Snapshot) -> Self {
        let known: ToolSet = snapshot.tools().map(|entry| entry.slot).collect();
        let all = known.difference(&snapshot.visibility().others);
        let (others, listed) = (ToolSet::default(), ToolSet::default());
        let (serial, searchable) = (next_serial(), all.clone());
        let grant = Grant::default();
        Self { serial, grant, all, others, listed, searchable, list: OnceLock::new() }
    }

    /// The same of other tools than those that can be served.
    pub(crate) fn within(snapshot: &Snapshot, grant: Grant, limit: &ToolSet) -> Self {
        let groups = grant.groups.iter().filter_map(|id| snapshot.group(id));
        let groups: Vec<&CataloguedGroup> =
            groups.map(AsRef::as_ref).filter(|entry| entry.group.active).collect();
        let members: Vec<&ToolSet> = groups.iter().map(|entry| &entry.members).collect();
        let granted = ToolSet::any_within(&members, limit);
        let others = granted.intersection(&snapshot.visibility().others);
        let all = granted.difference(&others);
        let (listed, searchable) = shown(snapshot, &groups, &all);
        let serial = next_serial();
        Self { serial, grant, all, others, listed, searchable, list: OnceLock::new() }
    }

    /// What is left of it in one of its groups; none if that is not one of them.
    pub(crate) fn narrowed(&self, snapshot: &Snapshot, group: &GroupId) -> Option<Self> {
        if !self.grant.groups.contains(group) || !snapshot.group(group)?.group.active {
            return None;
        }
        let grant = Grant { groups: vec![group.clone()], ..self.grant.clone() };
        Some(Self::within(snapshot, grant, &self.all.union(&self.others)))
    }

    /// A number that no other toolset has: what is made from a toolset can be kept under it.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Those that are found by search and not in the list.
    pub fn searchable(&self) -> &ToolSet {
        &self.searchable
    }

    /// The groups and policies behind it.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// All tools of the agent.
    pub fn tools(&self) -> &ToolSet {
        &self.all
    }

    /// The prompts and resources of the agent.
    pub fn others(&self) -> &ToolSet {
        &self.others
    }

    /// Those in its list.
    pub fn listed(&self) -> &ToolSet {
        &self.listed
    }

    /// Where the agent meets a tool; nowhere if it is not granted.
    pub fn visibility(&self, slot: Slot) -> Option<Visibility> {
        if !self.all.contains(slot) {
            None
        } else if self.listed.contains(slot) {
            Some(Visibility::Listed)
        } else if self.searchable.contains(slot) {
            Some(Visibility::Searchable)
        } else {
            Some(Visibility::Hidden)
        }
    }

    /// The listed tools with their names, in the order of their ids. The snapshot is the one it was resolved from.
    pub(crate) fn list<'a>(
        &'a self,
        snapshot: &'a Snapshot,
    ) -> impl Iterator<Item = (&'a Arc<CataloguedTool>, &'a str)> {
        let list = self.list.get_or_init(|| {
            let tools = self.listed.iter().filter_map(|slot| snapshot.tool_at(slot));
            let mut tools: Vec<&CataloguedTool> = tools.map(AsRef::as_ref).collect();
            tools.sort_unstable_by(|one, two| one.tool.id.cmp(&two.tool.id));
            let named = tools.into_iter().map(|entry| {
                let name = self.name(snapshot, entry);
                (entry.slot, Some(name).filter(|name| **name != *entry.tool.name()))
            });
            named.collect()
        });
        list.iter().filter_map(|(slot, other)| {
            let entry = snapshot.tool_at(*slot)?;
            Some((entry, other.as_deref().unwrap_or(entry.tool.name())))
        })
    }

    /// The name this agent is shown: the first form that none of its other tools goes by (requirement A5).
    pub(crate) fn name(&self, snapshot: &Snapshot, entry: &CataloguedTool) -> Box<str> {
        let is_free = |form: &str| {
            let mut mine = snapshot.tools_called_in(form, &self.all);
            MetaTool::named(form).is_none() && mine.all(|other| other.slot == entry.slot)
        };
        // What a person cannot see would make it look like another.
        let is_good = |form: &str| model::is_seen(form) && is_free(form);
        if is_good(entry.tool.name()) {
            return entry.tool.name().into();
        }
        let qualified = entry.tool.qualified_name();
        if is_good(&qualified) { qualified.into() } else { entry.tool.unique_name().into() }
    }

    /// How much memory it takes, about, in bytes.
    pub(crate) fn size(&self) -> usize {
        let ids = (self.grant.groups.len() + self.grant.policies.len()) * 16;
        let sets = [&self.all, &self.others, &self.listed, &self.searchable];
        let sets: usize = sets.iter().map(|set| set.size()).sum();
        size_of::<Self>() + sets + ids + self.listed.len() * size_of::<(Slot, Option<Box<str>>)>()
    }
}

fn next_serial() -> u64 {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    SERIAL.fetch_add(1, Ordering::Relaxed)
}

/// Of a tool's visibility its own word counts first, then the most open word of the agent's groups it is in, then that
/// of its source (requirement A6).
fn shown(snapshot: &Snapshot, groups: &[&CataloguedGroup], all: &ToolSet) -> (ToolSet, ToolSet) {
    let own = snapshot.visibility();
    let of_groups = |visibility| {
        let saying =
            groups.iter().filter(|entry| entry.group.profile.visibility == Some(visibility));
        let members: Vec<&ToolSet> = saying.map(|entry| &entry.members).collect();
        ToolSet::any_within(&members, all).difference(&own.fixed)
    };
    let (mut listed, mut searchable) =
        (own.listed.intersection(all), own.searchable.intersection(all));
    if groups.iter().any(|entry| entry.group.profile.visibility.is_some()) {
        let [by_list, by_search, by_name] =
            [Visibility::Listed, Visibility::Searchable, Visibility::Hidden].map(of_groups);
        let said = by_list.union(&by_search).union(&by_name);
        listed = listed.difference(&said).union(&by_list);
        searchable = searchable.difference(&said).union(&by_search.difference(&by_list));
    }
    (listed, searchable)
}
