//! Sample calls for tests of the stores.

use std::time::Duration;

use jiff::Timestamp;
use model::McpPrimitive;

use super::{CallEndpoint, CallFilter, CallRecord, CallerCredentialKind, FinalCallStatus};

pub(super) fn time(second: u64) -> Timestamp {
    let start: Timestamp = "2026-05-01T09:00:00Z".parse().unwrap();
    start + Duration::from_secs(second)
}

/// A successful call that starts at a given second.
pub(super) fn call(tool: &str, second: u64) -> CallRecord {
    CallRecord {
        time: time(second),
        node: "n1".into(),
        subject: "ada".into(),
        issuer: None,
        client: None,
        means: CallerCredentialKind::Key,
        door: CallEndpoint::Mcp,
        kind: McpPrimitive::Tool,
        tool_id: Some(tool.into()),
        source_id: tool.split(':').next().map(Into::into),
        status: FinalCallStatus::Completed,
        code: None,
        error: None,
        upstream_status: None,
        duration_us: 1_500,
        argument_bytes: 2,
        result_bytes: 17,
        correlation_id: None,
        trace_id: None,
        arguments: None,
    }
}

/// Five thousand calls, one of them unlike all others, and filters that each match only that one.
pub(super) fn rare() -> (Vec<CallRecord>, Vec<CallFilter>) {
    let mut calls: Vec<_> = (0..5_000).map(|second| call("a:x", second)).collect();
    calls[100] = CallRecord { subject: "eve".into(), ..call("rare:y", 100) };
    calls[100].status = FinalCallStatus::Cancelled;
    calls[100].correlation_id = Some("r100".into());
    let text = |text: &str| Some(text.to_owned());
    let all = CallFilter { limit: 100, ..CallFilter::default() };
    let rare = vec![
        CallFilter { tool: text("rare:y"), ..all.clone() },
        CallFilter { source: text("rare"), ..all.clone() },
        CallFilter { subject: text("eve"), ..all.clone() },
        CallFilter { status: Some(FinalCallStatus::Cancelled), ..all.clone() },
        CallFilter { correlation_id: text("r100"), ..all.clone() },
        CallFilter { since: Some(time(100)), until: Some(time(101)), ..all.clone() },
        CallFilter { since: Some(time(4_999)), ..all.clone() },
        CallFilter { until: Some(time(1)), ..all },
    ];
    (calls, rare)
}
