//! Every metric of the library. `docs/telemetry.md` has the same table for people; a test compares the two.

use super::metrics_snapshot::MetricKind::{Counter, Gauge, Milliseconds, Seconds};
use super::metrics_snapshot::{MetricDefinition, MetricKind};

const fn define_metric(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    help: &'static str,
) -> MetricDefinition {
    MetricDefinition { name, kind, labels, help }
}

pub(super) static RESOLUTIONS: MetricDefinition = define_metric(
    "agent_access_resolutions",
    Counter,
    &[],
    "How often it was asked which tools an agent has.",
);
pub(super) static DENIED: MetricDefinition = define_metric(
    "agent_access_denied",
    Counter,
    &[],
    "How often the answer was none, since no policy matched.",
);
pub(super) static RESOLVED: MetricDefinition =
    define_metric("agent_tools_resolved", Counter, &[], "Tools in all answers together.");
pub(super) static RESOLUTION_TIME: MetricDefinition = define_metric(
    "agent_resolution_time",
    Milliseconds,
    &[],
    "How long an answer took, in milliseconds.",
);

pub(super) static CALLS: MetricDefinition = define_metric(
    "toolcrib_calls_total",
    Counter,
    &["source", "kind", "outcome"],
    "Calls of tools, prompts and resources that have ended.",
);
pub(super) static CALL_DURATION: MetricDefinition =
    define_metric("toolcrib_call_duration_seconds", Seconds, &["source"], "How long calls took.");
pub(super) static CALLS_ACTIVE: MetricDefinition =
    define_metric("toolcrib_calls_active", Gauge, &[], "Calls under way.");

pub(super) static AUTHENTICATIONS: MetricDefinition = define_metric(
    "toolcrib_authentications_total",
    Counter,
    &["means", "outcome"],
    "Credentials that were looked at.",
);
pub(super) static SEARCHES: MetricDefinition = define_metric(
    "toolcrib_searches_total",
    Counter,
    &["outcome"],
    "Searches among an agent's tools.",
);
pub(super) static SEARCH_DURATION: MetricDefinition =
    define_metric("toolcrib_search_duration_seconds", Seconds, &[], "How long searches took.");

pub(super) static REFRESHES: MetricDefinition = define_metric(
    "toolcrib_refreshes_total",
    Counter,
    &["source", "outcome"],
    "Refreshes of sources on this node that have ended.",
);
pub(super) static REFRESH_DURATION: MetricDefinition =
    define_metric("toolcrib_refresh_duration_seconds", Seconds, &[], "How long refreshes took.");

pub(super) static TOKENS: MetricDefinition = define_metric(
    "toolcrib_token_requests_total",
    Counter,
    &["source", "grant", "outcome"],
    "Tokens for upstreams that authorization servers were asked for.",
);
pub(super) static TOKEN_DURATION: MetricDefinition = define_metric(
    "toolcrib_token_request_duration_seconds",
    Seconds,
    &[],
    "How long authorization servers took.",
);

pub(super) static REFUSALS: MetricDefinition = define_metric(
    "toolcrib_gate_refusals_total",
    Counter,
    &["source", "reason"],
    "Calls that were not let through to their source.",
);
pub(super) static BREAKS: MetricDefinition = define_metric(
    "toolcrib_breaker_opened_total",
    Counter,
    &["source"],
    "How often a source was left alone, by all or by one agent.",
);
pub static BREAKER: MetricDefinition = define_metric(
    "toolcrib_breaker_state",
    Gauge,
    &["source"],
    "0 if a source is called, 1 if it is tried, 2 if all who called leave it alone.",
);
pub static GATE_CALLS: MetricDefinition = define_metric(
    "toolcrib_gate_calls",
    Gauge,
    &["source"],
    "Calls to a source that are under way.",
);
pub static GATE_WAITING: MetricDefinition =
    define_metric("toolcrib_gate_waiting", Gauge, &["source"], "Calls to a source that wait.");

pub static SOURCES: MetricDefinition =
    define_metric("toolcrib_sources", Gauge, &[], "Sources in the catalog.");
pub static TOOLS: MetricDefinition =
    define_metric("toolcrib_tools", Gauge, &[], "Tools, prompts and resources in the catalog.");
pub static POSITION: MetricDefinition = define_metric(
    "toolcrib_journal_position",
    Gauge,
    &[],
    "The last event of the journal that is shown.",
);
pub static BEHIND: MetricDefinition = define_metric(
    "toolcrib_catalog_behind_seconds",
    Gauge,
    &[],
    "How long ago the catalog showed all of the journal.",
);
pub static APPENDS: MetricDefinition = define_metric(
    "toolcrib_journal_appends_total",
    Counter,
    &["outcome"],
    "Changes that this node wanted to store.",
);
pub static APPEND_DURATION: MetricDefinition = define_metric(
    "toolcrib_journal_append_duration_seconds",
    Seconds,
    &[],
    "How long storing took.",
);

pub static ROWS: MetricDefinition = define_metric(
    "toolcrib_record_rows_total",
    Counter,
    &["outcome"],
    "Rows of the record of calls.",
);
pub static ROWS_WAITING: MetricDefinition =
    define_metric("toolcrib_record_waiting", Gauge, &[], "Rows that wait to be stored.");
pub static RECORD_FAILING: MetricDefinition =
    define_metric("toolcrib_record_failing", Gauge, &[], "1 while rows cannot be stored.");

/// Every metric of the library.
pub static METRICS: [&MetricDefinition; 28] = [
    &RESOLUTIONS,
    &DENIED,
    &RESOLVED,
    &RESOLUTION_TIME,
    &AUTHENTICATIONS,
    &CALLS,
    &CALL_DURATION,
    &CALLS_ACTIVE,
    &SEARCHES,
    &SEARCH_DURATION,
    &REFRESHES,
    &REFRESH_DURATION,
    &TOKENS,
    &TOKEN_DURATION,
    &REFUSALS,
    &BREAKS,
    &BREAKER,
    &GATE_CALLS,
    &GATE_WAITING,
    &SOURCES,
    &TOOLS,
    &POSITION,
    &BEHIND,
    &APPENDS,
    &APPEND_DURATION,
    &ROWS,
    &ROWS_WAITING,
    &RECORD_FAILING,
];
