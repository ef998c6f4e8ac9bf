//! The oracle's plain model of a world: its entities and the changes that can be requested.
//!
//! No type here comes from the product: the oracle must not share a bug with it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The complete state of a world.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    pub(super) labels: BTreeSet<String>,
    pub(super) sources: BTreeMap<String, WorldSource>,
    pub(super) tools: BTreeMap<String, WorldTool>,
    pub(super) groups: BTreeMap<String, WorldGroup>,
    pub(super) policies: BTreeMap<String, WorldPolicy>,
}

#[derive(Clone, Debug)]
pub(super) struct WorldSource {
    pub(super) profile: WorldSourceProfile,
    pub(super) is_enabled: bool,
    /// The last inventory that was ingested.
    pub(super) inventory: Option<BTreeMap<String, WorldManifest>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WorldSourceProfile {
    pub(super) name: String,
    pub(super) is_reviewed: bool,
    pub(super) visibility: WorldVisibility,
}

#[derive(Clone, Debug)]
pub(super) struct WorldTool {
    pub(super) source: String,
    /// The manifest from the latest refresh.
    pub(super) latest: WorldManifest,
    /// The manifest that agents see.
    pub(super) approved: Option<WorldManifest>,
    pub(super) is_enabled: bool,
    /// False if the source no longer offers the tool.
    pub(super) is_active: bool,
    pub(super) name: Option<String>,
    pub(super) visibility: Option<WorldVisibility>,
    pub(super) labels: BTreeSet<String>,
}

/// A tool as its source describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WorldManifest {
    pub(super) name: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) tags: BTreeSet<String>,
    /// Part of the description: a different number makes a different version of the tool.
    pub(super) edition: usize,
}

/// Ordered from most to least visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorldVisibility {
    Listed,
    Searchable,
    Hidden,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WorldGroup {
    pub(super) is_active: bool,
    pub(super) any: bool,
    pub(super) visibility: Option<WorldVisibility>,
    pub(super) selectors: Vec<WorldSelector>,
    pub(super) tools: BTreeSet<String>,
    pub(super) excluded: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct WorldSelector {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) required_tags: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) excluded_tags: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) required_labels: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub(super) struct WorldPolicy {
    pub(super) is_active: bool,
    pub(super) rules: WorldPolicyRules,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WorldPolicyRules {
    pub(super) priority: u32,
    pub(super) matchers: Vec<WorldMatcher>,
    pub(super) groups: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) admin: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WorldMatcher {
    pub(super) claim: String,
    pub(super) operator: WorldOperator,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<Value>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) missing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorldOperator {
    Equals,
    NotEquals,
    Contains,
    NotContains,
    Matches,
    In,
    NotIn,
    Exists,
    NotExists,
}

/// A requested change to one entity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorldChange {
    Label(String, LabelChange),
    Source(String, SourceChange),
    Tool(String, ToolChange),
    Group(String, GroupChange),
    Policy(String, PolicyChange),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LabelChange {
    Create,
    Rename(String),
    Delete,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SourceChange {
    Register(WorldSourceProfile),
    Update(WorldSourceProfile),
    Enable,
    Disable,
    Remove,
    Ingest { tools: BTreeMap<String, WorldManifest>, force: bool },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolChange {
    Enable,
    Disable,
    Override {
        name: Option<String>,
        visibility: Option<WorldVisibility>,
    },
    Label(BTreeSet<String>),
    /// Approves the latest version.
    Approve,
    /// Rejects the latest version.
    Reject,
    Remove,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum GroupChange {
    Create(WorldGroup),
    Update { any: bool, visibility: Option<WorldVisibility> },
    ReplaceSelectors(Vec<WorldSelector>),
    AddTools(BTreeSet<String>),
    RemoveTools(BTreeSet<String>),
    ReplaceTools(BTreeSet<String>),
    ExcludeTools(BTreeSet<String>),
    IncludeTools(BTreeSet<String>),
    Activate,
    Deactivate,
    Delete,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PolicyChange {
    Define(WorldPolicyRules),
    Update(WorldPolicyRules),
    Activate,
    Deactivate,
    Delete,
}

/// The changes that build a world, and the agents that query it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AgreementCase {
    pub(super) wishes: Vec<WorldChange>,
    /// The number of changes that build the world; after each later change all questions are asked again.
    pub(super) made_by: usize,
    /// The claims of each agent.
    pub(super) identities: Vec<Value>,
}

impl World {
    pub(super) fn tool_id(source: &str, key: &str) -> String {
        format!("{source}:{key}")
    }
}

impl WorldTool {
    /// The manifest that agents and selectors see. Without an approved version, the tool is not served and the name is
    /// irrelevant.
    pub(super) fn effective_manifest(&self) -> &WorldManifest {
        self.approved.as_ref().unwrap_or(&self.latest)
    }

    /// The admin's name override, otherwise the name from the source.
    pub(super) fn effective_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.effective_manifest().name)
    }
}
