//! What is measured: how often, how long, how much. Never who, with what, or what came of it.
//!
//! Everything is a plain atomic number (`docs/adr/0028-numbers-of-our-own.md`). Labels have values from bounded sets only.

mod meter;
mod metrics;
mod reading;
mod sources;
mod text;

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{ErrorCode, Primitive};

pub use self::meter::{Counter, Gauge, Histogram, SHORT_TIMES, Spread, TIMES};
pub use self::metrics::METRICS;
pub use self::reading::{Metric, MetricKind, Reading};
pub(crate) use self::sources::{CallOutcome, NONE, OURS, PROVIDER, SourceMeters, Sources};
pub use self::text::TEXT;
use crate::toolset::Toolset;

/// What is measured of one crib.
pub(crate) struct Telemetry {
    resolutions: Counter,
    denied: Counter,
    resolved: Counter,
    resolution_time: Histogram,
    pub(crate) sources: Sources,
    calls_active: Gauge,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            resolutions: Counter::default(),
            denied: Counter::default(),
            resolved: Counter::default(),
            resolution_time: Histogram::new(&SHORT_TIMES),
            sources: Sources::default(),
            calls_active: Gauge::default(),
        }
    }
}

impl Telemetry {
    /// It was said which tools an agent has.
    pub(crate) fn resolved(&self, toolset: &Toolset, took: Duration) {
        self.resolutions.one();
        if toolset.grant().groups.is_empty() {
            self.denied.one();
        }
        self.resolved.add(toolset.tools().len() as u64);
        self.resolution_time.took(took);
    }

    /// A call begins.
    pub(crate) fn call(self: &Arc<Self>, source: &str, kind: Primitive) -> MeasuredCall {
        self.calls_active.change(1);
        let (telemetry, meters) = (Arc::clone(self), self.sources.of(source));
        MeasuredCall { telemetry, meters, kind, start: Instant::now(), outcome: None }
    }

    /// Somebody called what there is not, or not for them.
    pub(crate) fn missing(&self, kind: Primitive) {
        self.sources.of(NONE).call(kind, CallOutcome::Failed(ErrorCode::NotGranted));
    }

    /// Adds what was measured. What is of a source that is gone is told no more.
    pub(crate) fn read(&self, is_there: impl Fn(&str) -> bool, into: &mut Reading) {
        into.count(&metrics::RESOLUTIONS, &self.resolutions);
        into.count(&metrics::DENIED, &self.denied);
        into.count(&metrics::RESOLVED, &self.resolved);
        into.times(&metrics::RESOLUTION_TIME, &[], &self.resolution_time);
        into.gauge(&metrics::CALLS_ACTIVE, &self.calls_active);
        self.sources.keep(is_there);
        self.sources.read(into);
    }
}

/// A call under way. One that is dropped before its end was cancelled.
pub(crate) struct MeasuredCall {
    telemetry: Arc<Telemetry>,
    meters: Arc<SourceMeters>,
    kind: Primitive,
    start: Instant,
    outcome: Option<CallOutcome>,
}

impl MeasuredCall {
    pub(crate) fn end(mut self, outcome: CallOutcome) {
        self.outcome = Some(outcome);
    }

    /// There is no such thing, or not for this agent.
    pub(crate) fn missing(mut self) {
        self.meters = self.telemetry.sources.of(NONE);
        self.end(CallOutcome::Failed(ErrorCode::NotGranted));
    }
}

impl Drop for MeasuredCall {
    fn drop(&mut self) {
        let outcome = self.outcome.unwrap_or_else(|| match std::thread::panicking() {
            true => CallOutcome::Failed(ErrorCode::InternalError),
            false => CallOutcome::Cancelled,
        });
        self.telemetry.calls_active.change(-1);
        self.meters.call(self.kind, outcome);
        self.meters.call_times.took(self.start.elapsed());
    }
}
