//! A toolset: the tools an agent has right now, and their visibility.
//!
//! All sets are bit sets: the groups of the grant are united, then intersected with the served tools, at any catalog
//! size.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use access::Grant;
use catalog::tool_set::{Slot, ToolSet};
use catalog::{CataloguedGroup, CataloguedTool, Snapshot};
use model::{GroupId, Visibility};

use crate::meta_tool::MetaTool;

/// The tools an agent has right now.
#[derive(Debug)]
pub struct Toolset {
    /// Unique to this toolset.
    serial: u64,
    grant: Grant,
    all: ToolSet,
    prompts_and_resources: ToolSet,
    listed: ToolSet,
    searchable: ToolSet,
    /// The listed tools in the order of their ids, each with its name if that differs from the plain one. Computed on
    /// first use.
    list: OnceLock<Vec<(Slot, Option<Box<str>>)>>,
}

impl Toolset {
    /// Resolves a grant: the served tools of its groups.
    pub(crate) fn resolve(snapshot: &Snapshot, grant: Grant) -> Self {
        Self::resolve_within(snapshot, grant, snapshot.served())
    }

    /// Every tool of the catalog, served or not, for any agent. For admins.
    pub(crate) fn all_tools(snapshot: &Snapshot) -> Self {
        let known: ToolSet = snapshot.tools().map(|entry| entry.slot).collect();
        let all = known.difference(&snapshot.visibility().non_tools);
        let (others, listed) = (ToolSet::default(), ToolSet::default());
        let (serial, searchable) = (next_serial(), all.clone());
        let grant = Grant::default();
        Self {
            serial,
            grant,
            all,
            prompts_and_resources: others,
            listed,
            searchable,
            list: OnceLock::new(),
        }
    }

    /// Resolves a grant to the tools of its groups that are in `limit`.
    pub(crate) fn resolve_within(snapshot: &Snapshot, grant: Grant, limit: &ToolSet) -> Self {
        let groups = grant.groups.iter().filter_map(|id| snapshot.group(id));
        let groups: Vec<&CataloguedGroup> =
            groups.map(AsRef::as_ref).filter(|entry| entry.group.active).collect();
        let members: Vec<&ToolSet> = groups.iter().map(|entry| &entry.members).collect();
        let granted = ToolSet::union_within(&members, limit);
        let others = granted.intersection(&snapshot.visibility().non_tools);
        let all = granted.difference(&others);
        let (listed, searchable) = resolve_visibility(snapshot, &groups, &all);
        let serial = next_serial();
        Self {
            serial,
            grant,
            all,
            prompts_and_resources: others,
            listed,
            searchable,
            list: OnceLock::new(),
        }
    }

    /// The part of the toolset in one of its groups; `None` if the grant does not include the group.
    pub(crate) fn narrow_to_group(&self, snapshot: &Snapshot, group: &GroupId) -> Option<Self> {
        if !self.grant.groups.contains(group) || !snapshot.group(group)?.group.active {
            return None;
        }
        let grant = Grant { groups: vec![group.clone()], ..self.grant.clone() };
        Some(Self::resolve_within(snapshot, grant, &self.all.union(&self.prompts_and_resources)))
    }

    /// A number that no other toolset has: use it as the key for caching results computed from a toolset.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The tools that search finds and the list omits.
    pub fn searchable(&self) -> &ToolSet {
        &self.searchable
    }

    /// The granted groups and the policies that grant them.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// All tools of the agent.
    pub fn tools(&self) -> &ToolSet {
        &self.all
    }

    /// The prompts and resources of the agent.
    pub fn prompts_and_resources(&self) -> &ToolSet {
        &self.prompts_and_resources
    }

    /// The tools in the agent's list.
    pub fn listed(&self) -> &ToolSet {
        &self.listed
    }

    /// The visibility of a tool; `None` if it is not granted.
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

    /// The listed tools with their names, in the order of their ids. Pass the snapshot that the toolset was resolved
    /// from.
    pub(crate) fn listed_tools<'a>(
        &'a self,
        snapshot: &'a Snapshot,
    ) -> impl Iterator<Item = (&'a Arc<CataloguedTool>, &'a str)> {
        let list = self.list.get_or_init(|| {
            let tools = self.listed.iter().filter_map(|slot| snapshot.tool_at(slot));
            let mut tools: Vec<&CataloguedTool> = tools.map(AsRef::as_ref).collect();
            tools.sort_unstable_by(|one, two| one.tool.id.cmp(&two.tool.id));
            let named = tools.into_iter().map(|entry| {
                let name = self.name_for_agent(snapshot, entry);
                (entry.slot, Some(name).filter(|name| **name != *entry.tool.name()))
            });
            named.collect()
        });
        list.iter().filter_map(|(slot, other)| {
            let entry = snapshot.tool_at(*slot)?;
            Some((entry, other.as_deref().unwrap_or(entry.tool.name())))
        })
    }

    /// The tool's name for this agent: the first form that is unique among the agent's tools (requirement A5).
    pub(crate) fn name_for_agent(&self, snapshot: &Snapshot, entry: &CataloguedTool) -> Box<str> {
        let is_free = |form: &str| {
            let mut mine = snapshot.tools_named_within(form, &self.all);
            MetaTool::find_by_name(form).is_none() && mine.all(|other| other.slot == entry.slot)
        };
        // A name with invisible characters would look like another tool's.
        let is_good = |form: &str| model::is_fully_visible(form) && is_free(form);
        if is_good(entry.tool.name()) {
            return entry.tool.name().into();
        }
        let qualified = entry.tool.qualified_name();
        if is_good(&qualified) { qualified.into() } else { entry.tool.unique_name().into() }
    }

    /// The approximate memory use, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let ids = (self.grant.groups.len() + self.grant.policies.len()) * 16;
        let sets = [&self.all, &self.prompts_and_resources, &self.listed, &self.searchable];
        let sets: usize = sets.iter().map(|set| set.memory_bytes()).sum();
        size_of::<Self>() + sets + ids + self.listed.len() * size_of::<(Slot, Option<Box<str>>)>()
    }
}

fn next_serial() -> u64 {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    SERIAL.fetch_add(1, Ordering::Relaxed)
}

/// A tool's own visibility counts first, then the most open visibility among the agent's groups that contain it, then
/// the visibility of its source (requirement A6).
fn resolve_visibility(
    snapshot: &Snapshot,
    groups: &[&CataloguedGroup],
    all: &ToolSet,
) -> (ToolSet, ToolSet) {
    let own = snapshot.visibility();
    let of_groups = |visibility| {
        let saying =
            groups.iter().filter(|entry| entry.group.profile.visibility == Some(visibility));
        let members: Vec<&ToolSet> = saying.map(|entry| &entry.members).collect();
        ToolSet::union_within(&members, all).difference(&own.fixed)
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
