//! Response bodies of sources.

use catalog::source::{Source, SyncError};
use catalog::tool::{ReviewState, ToolStatus};
use catalog::{CataloguedSource, Snapshot};
use endpoint::etag::EntityTag;
use jiff::Timestamp;
use model::{
    DiscoveryWarning, DisplayName, Finding, SourceHealth, SourceId, SourceKind, SourceProfile,
    SourceUrl, ToolId,
};
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib::{GateState, SourceChanges};

/// A source in a list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedSource")]
pub(super) struct ListedSource {
    /// For ever.
    id: SourceId,
    /// For people.
    name: DisplayName,
    /// For people.
    description: Box<str>,
    /// What it is.
    kind: SourceKind,
    /// Where the upstream is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<SourceUrl>,
    #[serde(flatten)]
    state: SourceStatus,
}

/// A source.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Source")]
pub(super) struct SourceResponse {
    /// For ever.
    id: SourceId,
    #[serde(flatten)]
    profile: SourceProfile,
    #[serde(flatten)]
    state: SourceStatus,
    /// What the last successful refresh could not convert.
    warnings: Vec<DiscoveryWarning>,
    /// What a person cannot see or should not trust in the texts of its tools, the worst first.
    findings: Vec<ToolFinding>,
    /// How calls to it are doing on this node, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calls: Option<SourceCalls>,
    /// How much it has changed within an hour on this node, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changes: Option<HourlyChanges>,
    /// The last that its program wrote to its standard error, on this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
}

/// Something that was found in the texts of a tool.
#[derive(Serialize, JsonSchema)]
struct ToolFinding {
    /// In which tool.
    tool_id: ToolId,
    #[serde(flatten)]
    finding: Finding,
}

/// Most findings shown with a source; `GET /api/tools` has the rest.
const MAX_FINDINGS: usize = 100;

/// How calls to a source are doing.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SourceCalls")]
struct SourceCalls {
    /// `closed` if calls go through, `open` if the source failed again and again and is left alone by all who are known to
    /// have called it, `half_open` while one call at a time finds out whether it works again.
    breaker: Box<str>,
    /// How many agents alone are left out, since it failed again and again for them. All others go through, if the breaker
    /// lets them.
    agents_left_out: usize,
    /// Until nobody is left out any more, if anybody is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seconds_left: Option<u64>,
    /// Under way.
    running: usize,
    /// Waiting for a place.
    waiting: usize,
    /// How often a call was tried once more.
    retries: u64,
}

impl SourceCalls {
    fn from_gate(state: GateState) -> Self {
        let GateState {
            breaker,
            blocked_agents: agents_left_out,
            blocked_for: left_out_for,
            running_calls: calls,
            waiting_calls: waiting,
            retries,
        } = state;
        let (breaker, running) = (breaker.into(), calls);
        let seconds_left = left_out_for.map(|left| left.as_secs() + 1);
        Self { breaker, agents_left_out, seconds_left, running, waiting, retries }
    }
}

/// How much a source has changed within an hour. Beyond a bound, its refreshes are held back.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SourceChanges")]
struct HourlyChanges {
    /// When that hour began.
    since: Timestamp,
    /// Tools that were new, others or gone.
    tools: usize,
    /// What was stored for that, about.
    bytes: u64,
    /// Refreshes whose changes were not taken in.
    held_back: u64,
}

impl HourlyChanges {
    fn from_refresher(changes: SourceChanges) -> Self {
        let SourceChanges { since, tools, bytes, held_back } = changes;
        Self { since, tools, bytes, held_back }
    }
}

/// How a source is doing.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "State")]
struct SourceStatus {
    /// The admin's switch.
    is_enabled: bool,
    /// How its refreshes went lately.
    health: SourceHealth,
    /// Refreshes that failed since the last that succeeded.
    failures: u32,
    /// Why the last refresh failed, if it did.
    last_sync_error: Option<SyncError>,
    /// When the last refresh began.
    last_sync_started_at: Option<Timestamp>,
    /// When the last refresh ended, well or not; none while it goes on.
    last_sync_ended_at: Option<Timestamp>,
    /// From when on it is due for the next refresh; none if it is not, until something changes.
    next_refresh_at: Option<Timestamp>,
    /// What the last successful refresh found.
    inventory: Option<InventorySummary>,
    /// How many tools it has, and how many of them are what.
    tools: ToolCounts,
    /// When it was registered.
    created_at: Timestamp,
    /// When an admin last changed it.
    updated_at: Timestamp,
}

/// What a refresh found.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Inventory")]
struct InventorySummary {
    /// Published: 16 hexadecimal characters.
    hash: Box<str>,
    /// How many tools.
    count: usize,
    /// When.
    at: Option<Timestamp>,
    /// The upstream's own version.
    version: Option<Box<str>>,
    /// How many things could not be converted.
    warning_count: usize,
}

/// How much a source has.
#[derive(Default, Serialize, JsonSchema)]
struct ToolCounts {
    /// All tools that are known.
    total: usize,
    /// Those that nothing stops.
    served: usize,
    /// Prompts and resources that are known.
    others: usize,
    /// Of all of these, those an admin switched off.
    disabled: usize,
    /// Those the source no longer offers.
    deprecated: usize,
    /// Those with a version that waits for an admin.
    waiting: usize,
    /// Those in whose texts something was found that is worse than a note.
    with_findings: usize,
}

impl ListedSource {
    pub(super) fn from_catalog(snapshot: &Snapshot, entry: &CataloguedSource) -> Self {
        let source = &entry.source;
        Self {
            id: source.id.clone(),
            name: source.profile.name.clone(),
            description: source.profile.description.clone(),
            kind: source.profile.settings.kind(),
            url: source.profile.url.clone(),
            state: SourceStatus::from_catalog(snapshot, entry),
        }
    }
}

impl SourceResponse {
    pub(super) fn from_catalog(
        snapshot: &Snapshot,
        entry: &CataloguedSource,
        stderr: Option<&str>,
        calls: Option<GateState>,
        changes: Option<SourceChanges>,
    ) -> Self {
        let source = &entry.source;
        Self {
            id: source.id.clone(),
            calls: calls.map(SourceCalls::from_gate),
            changes: changes.map(HourlyChanges::from_refresher),
            profile: source.profile.clone(),
            state: SourceStatus::from_catalog(snapshot, entry),
            findings: tool_findings(snapshot, entry),
            warnings: source.inventory.as_ref().map(|i| i.warnings.clone()).unwrap_or_default(),
            // Text of the child process: strip control characters, so that it cannot manipulate a terminal.
            stderr: stderr.map(|text| execution::escape_for_terminal(text).into_owned()),
        }
    }
}

fn tool_findings(snapshot: &Snapshot, entry: &CataloguedSource) -> Vec<ToolFinding> {
    let tools = entry.tools.iter().filter_map(|slot| snapshot.tool_at(slot));
    let all = tools.flat_map(|entry| {
        let found = toolcrib::tool_findings(snapshot, &entry.tool).into_iter();
        found.map(|finding| ToolFinding { tool_id: entry.tool.id.clone(), finding })
    });
    let mut all: Vec<ToolFinding> = all.collect();
    all.sort_by(|one, two| {
        let worst_first = two.finding.severity.cmp(&one.finding.severity);
        worst_first.then_with(|| one.tool_id.cmp(&two.tool_id))
    });
    all.truncate(MAX_FINDINGS);
    all
}

impl SourceStatus {
    fn from_catalog(snapshot: &Snapshot, entry: &CataloguedSource) -> Self {
        let source = &entry.source;
        let inventory = source.inventory.as_ref().map(|inventory| InventorySummary {
            hash: inventory.inventory_hash.clone(),
            count: inventory.count,
            at: inventory.at,
            version: inventory.source_version.clone(),
            warning_count: inventory.warnings.len(),
        });
        Self {
            is_enabled: source.enabled,
            health: source.health,
            failures: source.failures,
            last_sync_error: source.last_sync_error.clone(),
            last_sync_started_at: source.last_sync_started_at,
            last_sync_ended_at: source.last_sync_ended_at,
            next_refresh_at: toolcrib::next_refresh(source),
            inventory,
            tools: ToolCounts::count_tools(snapshot, entry),
            created_at: source.created_at,
            updated_at: source.updated_at,
        }
    }
}

impl ToolCounts {
    fn count_tools(snapshot: &Snapshot, entry: &CataloguedSource) -> Self {
        let tools = entry.tools.difference(&snapshot.visibility().non_tools);
        let served = tools.intersection(snapshot.served()).len();
        let (total, others) = (tools.len(), entry.tools.len() - tools.len());
        let mut counts = Self { total, served, others, ..Self::default() };
        for tool in entry.tools.iter().filter_map(|slot| snapshot.tool_at(slot)) {
            counts.disabled += usize::from(!tool.tool.enabled);
            counts.deprecated += usize::from(tool.tool.status == ToolStatus::Deprecated);
            counts.waiting += usize::from(tool.tool.review == ReviewState::Waiting);
            let has_findings = tool.tool.findings.iter().any(Finding::needs_acknowledgement);
            counts.with_findings += usize::from(has_findings);
        }
        counts
    }
}

/// The tag of everything an admin can edit, without the state of refreshes.
pub(super) fn source_tag(source: &Source) -> EntityTag {
    EntityTag::of_state(&(&source.profile, source.enabled))
}
