//! The result of a refresh, with the fields of requirement S4.

use catalog::Snapshot;
use catalog::source::{IngestedInventory, SyncError};
use catalog::tool::ReviewState;
use model::{DiscoveredTool, DiscoveryWarning, Finding, Inventory, Severity, SourceId, ToolId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of a refresh.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefreshResult {
    /// Which source.
    pub source_id: SourceId,
    /// Whether the inventory was taken in.
    pub success: bool,
    /// How many tools the source offers.
    #[serde(default)]
    pub discovered: usize,
    /// How many of them are new.
    #[serde(default)]
    pub created: usize,
    /// How many have changed.
    #[serde(default)]
    pub updated: usize,
    /// How many are as they were.
    #[serde(default)]
    pub unchanged: usize,
    /// How many the source no longer offers.
    #[serde(default)]
    pub deprecated: usize,
    /// How many are back again.
    #[serde(default)]
    pub restored: usize,
    /// Published: 16 hexadecimal characters.
    #[serde(default)]
    pub inventory_hash: Option<String>,
    /// The upstream's own version.
    #[serde(default)]
    pub source_version: Option<String>,
    /// What could not be converted.
    #[serde(default)]
    pub warnings: Vec<DiscoveryWarning>,
    /// How much was found in the texts of its tools that a person cannot see or should not trust.
    #[serde(default)]
    pub findings: FindingCounts,
    /// How many tools have a version that waits for an admin.
    #[serde(default)]
    pub kept_back: usize,
    /// How long it took.
    #[serde(default)]
    pub duration_ms: u64,
    /// What the source offers.
    #[serde(default)]
    pub tools: Vec<RefreshedTool>,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<SyncError>,
}

/// A tool that a refresh found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefreshedTool {
    /// Ours.
    pub tool_id: ToolId,
    /// The source's name for it.
    pub name: Box<str>,
    /// `GET`, `POST`, …
    pub method: Box<str>,
    /// `/orders/{id}`
    pub path: Box<str>,
    /// What was found in its texts, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// How much was found, by how bad it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingCounts {
    /// What keeps a version back.
    pub critical: usize,
    /// What an admin who approves a version says to have seen.
    pub warnings: usize,
    /// What is good to know.
    pub notes: usize,
}

impl FindingCounts {
    /// Counts findings by severity.
    pub fn count_findings<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Self {
        let mut counts = Self::default();
        for finding in findings {
            *match finding.severity {
                Severity::Critical => &mut counts.critical,
                Severity::Warning => &mut counts.warnings,
                Severity::Note => &mut counts.notes,
            } += 1;
        }
        counts
    }
}

impl RefreshResult {
    /// A failed refresh changes nothing: the hash and the version are those of the inventory that stays in service.
    pub(super) fn failed(
        source: &SourceId,
        known: Option<&IngestedInventory>,
        error: SyncError,
    ) -> Self {
        Self {
            source_id: source.clone(),
            success: false,
            discovered: 0,
            created: 0,
            updated: 0,
            unchanged: 0,
            deprecated: 0,
            restored: 0,
            inventory_hash: known.map(|known| known.inventory_hash.to_string()),
            source_version: known
                .and_then(|known| Some(known.source_version.as_ref()?.to_string())),
            warnings: Vec::new(),
            findings: FindingCounts::default(),
            kept_back: 0,
            duration_ms: 0,
            tools: Vec::new(),
            error: Some(error),
        }
    }

    /// Adds the rejected inventory, with a warning that it was not ingested (requirement S6).
    pub(super) fn with_rejected_inventory(
        self,
        tools: Vec<RefreshedTool>,
        mut warnings: Vec<DiscoveryWarning>,
    ) -> Self {
        if let Some(SyncError { code, message }) = &self.error {
            let message = format!("what was found is held back: {message}");
            warnings.push(DiscoveryWarning {
                code: code.clone(),
                at: "".into(),
                message: message.into(),
            });
        }
        Self { discovered: tools.len(), tools, warnings, ..self }.with_finding_counts()
    }

    /// Adds the findings that compare tools with those of other sources, once they are all in the catalog.
    pub(super) fn with_catalog_findings(mut self, snapshot: &Snapshot) -> Self {
        for found in &mut self.tools {
            if let Some(entry) = snapshot.tool(&found.tool_id) {
                found.findings = crate::tool_findings(snapshot, &entry.tool);
                self.kept_back += usize::from(entry.tool.review == ReviewState::Waiting);
            }
        }
        self.with_finding_counts()
    }

    fn with_finding_counts(self) -> Self {
        let findings =
            FindingCounts::count_findings(self.tools.iter().flat_map(|tool| &tool.findings));
        Self { findings, ..self }
    }
}

/// The most warnings of a refresh to keep: a source that does everything wrong repeats the same warning, and all
/// warnings are part of one event.
const MAX_WARNINGS: usize = 1000;

/// Truncates the warnings of an inventory so that they can be stored.
pub(super) fn truncate_warnings(mut inventory: Inventory) -> Inventory {
    let more = inventory.warnings.len().saturating_sub(MAX_WARNINGS);
    if 0 < more {
        inventory.warnings.truncate(MAX_WARNINGS);
        let message = format!("there are {more} more warnings, which are not kept");
        let code = "more_warnings".into();
        inventory.warnings.push(DiscoveryWarning { code, at: "".into(), message: message.into() });
    }
    inventory
}

pub(super) fn refreshed_tools(inventory: &Inventory) -> Vec<RefreshedTool> {
    let tool = |(id, tool): (&ToolId, &DiscoveredTool)| RefreshedTool {
        tool_id: id.clone(),
        name: tool.manifest.name.clone(),
        method: tool.manifest.method.clone(),
        path: tool.manifest.path.clone(),
        findings: tool.findings.clone(),
    };
    inventory.tools.iter().map(tool).collect()
}
