//! The body that creates or replaces a group.

use std::collections::BTreeSet;

use model::{
    DisplayName, GroupExclusion, GroupId, GroupProfile, NewGroup, Selector, SelectorMode, ToolId,
    Visibility,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// What an admin says of a group.
#[derive(Deserialize, JsonSchema)]
pub struct GroupBody {
    /// For people.
    pub name: DisplayName,
    /// For people.
    #[serde(default)]
    description: Box<str>,
    /// Whether a tool must match all selectors or any.
    #[serde(default)]
    selector_mode: SelectorMode,
    /// Where agents meet its tools, if the group says so.
    #[serde(default)]
    visibility: Option<Visibility>,
    /// Conditions on tools; none selects nothing.
    #[serde(default)]
    selectors: Vec<Selector>,
    /// Tools that belong to it whatever the selectors say.
    #[serde(default)]
    tools: BTreeSet<ToolId>,
    /// Tools that do not belong to it, whatever else is said.
    #[serde(default)]
    excluded: Vec<GroupExclusion>,
}

impl GroupBody {
    pub fn into_new_group(self, id: GroupId) -> NewGroup {
        let Self { name, description, selector_mode, visibility, selectors, tools, excluded } =
            self;
        let profile = GroupProfile { name, description, selector_mode, visibility };
        NewGroup { id, profile, selectors, tools, excluded }
    }
}
