//! Adds the numbers of the catalog, the call log and the gates to a snapshot of all metrics.

use calls::call_recorder::CallRecorder;
use calls::source_gates::{GateState, SourceGates};
use calls::telemetry::{MetricsSnapshot, ToolcribTelemetry, metric_definitions};
use catalog::Catalog;
use model::SourceId;

/// Adds the gate states of the sources that have their own label.
pub(crate) fn add_gate_metrics(
    telemetry: &ToolcribTelemetry,
    gates: &SourceGates,
    into: &mut MetricsSnapshot,
) {
    for label in telemetry.sources.labels() {
        let state = label.parse().ok().and_then(|id: SourceId| gates.gate_state(&id));
        let Some(GateState { breaker, running_calls: calls, waiting_calls: waiting, .. }) = state
        else {
            continue;
        };
        let breaker = match breaker {
            "closed" => 0.0,
            "half_open" => 1.0,
            _ => 2.0,
        };
        into.add_gauge_value(&metric_definitions::BREAKER, &[&label], breaker);
        into.add_gauge_value(&metric_definitions::GATE_CALLS, &[&label], calls as f64);
        into.add_gauge_value(&metric_definitions::GATE_WAITING, &[&label], waiting as f64);
    }
}

/// Adds the metrics of a catalog and its journal.
pub(crate) fn add_catalog_metrics(catalog: &Catalog, into: &mut MetricsSnapshot) {
    let (snapshot, appends) = (catalog.snapshot(), catalog.append_metrics());
    into.add_gauge_value(&metric_definitions::SOURCES, &[], snapshot.sources().count() as f64);
    into.add_gauge_value(&metric_definitions::TOOLS, &[], snapshot.tool_count() as f64);
    into.add_gauge_value(&metric_definitions::POSITION, &[], snapshot.position().0 as f64);
    into.add_gauge_value(&metric_definitions::BEHIND, &[], catalog.time_behind().as_secs_f64());
    into.add_count(&metric_definitions::APPENDS, &["stored"], appends.stored.read());
    into.add_count(&metric_definitions::APPENDS, &["conflict"], appends.conflicts.read());
    into.add_count(&metric_definitions::APPENDS, &["failed"], appends.failed.read());
    into.add_histogram(&metric_definitions::APPEND_DURATION, &[], &appends.times);
}

/// Adds the metrics of the call log.
pub(crate) fn add_call_log_metrics(recorder: &CallRecorder, into: &mut MetricsSnapshot) {
    into.add_count(&metric_definitions::ROWS, &["stored"], recorder.stored_rows());
    into.add_count(&metric_definitions::ROWS, &["lost"], recorder.lost_rows());
    into.add_gauge_value(&metric_definitions::ROWS_WAITING, &[], recorder.queued_rows() as f64);
    into.add_gauge_value(
        &metric_definitions::RECORD_FAILING,
        &[],
        f64::from(u8::from(recorder.is_failing())),
    );
}
