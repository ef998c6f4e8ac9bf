//! Every metric of the library. `docs/telemetry.md` has the same table for people; a test holds the two together.

use super::reading::MetricKind::{Counter, Gauge, Milliseconds, Seconds};
use super::reading::{Metric, MetricKind};

const fn metric(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind, labels, help }
}

pub(super) static RESOLUTIONS: Metric = metric(
    "agent_access_resolutions",
    Counter,
    &[],
    "How often it was asked which tools an agent has.",
);
pub(super) static DENIED: Metric = metric(
    "agent_access_denied",
    Counter,
    &[],
    "How often the answer was none, since no policy matched.",
);
pub(super) static RESOLVED: Metric =
    metric("agent_tools_resolved", Counter, &[], "Tools in all answers together.");
pub(super) static RESOLUTION_TIME: Metric =
    metric("agent_resolution_time", Milliseconds, &[], "How long an answer took, in milliseconds.");

pub(super) static CALLS: Metric = metric(
    "toolcrib_calls_total",
    Counter,
    &["source", "kind", "outcome"],
    "Calls of tools, prompts and resources that have ended.",
);
pub(super) static CALL_DURATION: Metric =
    metric("toolcrib_call_duration_seconds", Seconds, &["source"], "How long calls took.");
pub(super) static CALLS_ACTIVE: Metric =
    metric("toolcrib_calls_active", Gauge, &[], "Calls under way.");

/// Every metric of the library.
pub static METRICS: [&Metric; 7] =
    [&RESOLUTIONS, &DENIED, &RESOLVED, &RESOLUTION_TIME, &CALLS, &CALL_DURATION, &CALLS_ACTIVE];
