//! A group: a curated set of tools, selected + explicit − excluded.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DisplayName, GroupId, Selector, ToolId, Visibility};

/// A group to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewGroup {
    /// The id: given by the admin, or derived from the name.
    pub id: GroupId,
    /// Name, description, selector mode and visibility.
    pub profile: GroupProfile,
    /// Conditions on tools; an empty list selects no tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<Selector>,
    /// Tools that belong to the group even if no selector matches them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tools: BTreeSet<ToolId>,
    /// Tools that never belong to the group, even if selected or explicit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<GroupExclusion>,
}

/// What an admin says of a group, apart from its tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupProfile {
    /// For people.
    pub name: DisplayName,
    /// For people.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub description: Box<str>,
    /// Whether a tool must match all selectors or any.
    #[serde(default)]
    pub selector_mode: SelectorMode,
    /// Where agents meet its tools, if the group says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
}

/// Whether a tool must match all selectors or any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SelectorMode {
    /// All of them.
    #[default]
    All,
    /// At least one.
    Any,
}

/// A tool kept out of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Exclusion")]
pub struct GroupExclusion {
    /// Which.
    pub tool: ToolId,
    /// Why.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub reason: Box<str>,
}
