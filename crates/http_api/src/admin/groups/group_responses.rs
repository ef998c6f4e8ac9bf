//! Request and response bodies of groups and their tools.

use std::collections::BTreeSet;

use catalog::group::Group;
use catalog::tool_set::ToolSet;
use catalog::{CataloguedGroup, CataloguedTool, Snapshot};
use endpoint::etag::EntityTag;
use jiff::Timestamp;
use model::{GroupExclusion, GroupId, GroupProfile, Selector, SourceId, ToolId};
use schemars::JsonSchema;
use serde::Serialize;

/// A group.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Group")]
pub(super) struct GroupResponse {
    /// For ever.
    id: GroupId,
    #[serde(flatten)]
    profile: GroupProfile,
    /// Conditions on tools; none selects nothing.
    selectors: Vec<Selector>,
    /// Tools that belong to it whatever the selectors say.
    tools: BTreeSet<ToolId>,
    /// Tools that do not belong to it, whatever else is said.
    excluded: Vec<GroupExclusion>,
    /// The admin's switch.
    is_active: bool,
    /// How many tools belong to it.
    tool_count: usize,
    /// How many of them are served.
    served_count: usize,
    /// When it was created.
    created_at: Timestamp,
    /// When it last changed.
    updated_at: Timestamp,
}

impl GroupResponse {
    pub(super) fn from_catalog(snapshot: &Snapshot, entry: &CataloguedGroup) -> Self {
        let group = entry.group.clone();
        let exclusion = |(tool, reason)| GroupExclusion { tool, reason };
        Self {
            tool_count: entry.members.len(),
            served_count: snapshot.group_tools(&group.id).map_or(0, |served| served.len()),
            id: group.id,
            profile: group.profile,
            selectors: group.selectors,
            tools: group.tools,
            excluded: group.excluded.into_iter().map(exclusion).collect(),
            is_active: group.active,
            created_at: group.created_at,
            updated_at: group.updated_at,
        }
    }
}

/// The tag of everything an admin can edit.
pub(super) fn group_tag(group: &Group) -> EntityTag {
    EntityTag::of_state(&(
        &group.profile,
        &group.selectors,
        &group.tools,
        &group.excluded,
        group.active,
    ))
}

/// A tool of a group.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GroupTool")]
pub(super) struct GroupTool {
    /// Which.
    tool_id: ToolId,
    /// Whose it is.
    source_id: SourceId,
    /// Its plain name; an agent for whom it clashes with another sees a longer one.
    name: String,
    /// Whether it is named one by one, and not only selected.
    is_explicit: bool,
    /// Whether nothing stops it: it is enabled, there, approved, and of an enabled source, and the group is active.
    is_served: bool,
}

impl GroupTool {
    pub(super) fn from_catalog(group: &Group, entry: &CataloguedTool, served: &ToolSet) -> Self {
        Self {
            tool_id: entry.tool.id.clone(),
            source_id: entry.tool.source.clone(),
            name: entry.tool.name().to_owned(),
            is_explicit: group.tools.contains(&entry.tool.id),
            is_served: served.contains(entry.slot),
        }
    }
}
