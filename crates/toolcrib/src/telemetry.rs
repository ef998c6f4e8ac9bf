//! Metrics and traces: counts, durations and sizes. Never identities, arguments or results.
//!
//! Every metric is a plain atomic number (`docs/adr/0028-numbers-of-our-own.md`). Labels have values from bounded sets
//! only.

mod export;
mod metrics;
mod otlp;
mod reading;
mod sources;
mod span;
mod text;

use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::Catalog;
use model::{ErrorCode, Primitive, SourceId, TraceContext};

pub use self::export::{Collector, EXPORT_METRICS, Exporter, Otlp};
pub use self::metrics::METRICS;
pub use self::otlp::Protocol;
pub use self::reading::{Metric, MetricKind, Reading};
pub(crate) use self::sources::{CallOutcome, NONE, OURS, PROVIDER, SourceMeters, Sources};
pub use self::span::{OpenSpan, SpanKind, Tracer};
pub use self::text::TEXT;
use crate::api_key;
use crate::gates::{GateState, Gates};
use crate::record::Recorder;
use crate::toolset::Toolset;
pub use model::meter::{Counter, Gauge, Histogram, SHORT_TIMES, Spread, TIMES};

/// The metrics of one [`Toolcrib`](crate::Toolcrib).
pub(crate) struct Telemetry {
    resolutions: Counter,
    denied: Counter,
    resolved: Counter,
    resolution_time: Histogram,
    pub(crate) sources: Sources,
    calls_active: Gauge,
    /// By kind of credential; accepted and rejected.
    authentications: [[Counter; 2]; 3],
    searches: [Counter; 2],
    search_times: Histogram,
    refresh_times: Histogram,
    token_times: Histogram,
    /// `None` if spans are not exported.
    tracer: Option<Arc<Tracer>>,
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
            authentications: Default::default(),
            searches: Default::default(),
            search_times: Histogram::new(&TIMES),
            refresh_times: Histogram::new(&TIMES),
            token_times: Histogram::new(&TIMES),
            tracer: None,
        }
    }
}

impl Telemetry {
    /// With a tracer, if spans are exported.
    pub(crate) fn new(tracer: Option<Arc<Tracer>>) -> Arc<Self> {
        Arc::new(Self { tracer, ..Self::default() })
    }

    /// Counts a resolution of an agent's toolset.
    pub(crate) fn resolved(&self, toolset: &Toolset, took: Duration) {
        self.resolutions.one();
        if toolset.grant().groups.is_empty() {
            self.denied.one();
        }
        self.resolved.add(toolset.tools().len() as u64);
        self.resolution_time.took(took);
    }

    /// Starts to measure a call, which may be part of a trace.
    pub(crate) fn call(
        &self,
        source: &str,
        kind: Primitive,
        trace: Option<&TraceContext>,
    ) -> MeasuredCall<'_> {
        self.calls_active.change(1);
        let (telemetry, meters) = (self, self.sources.of(source));
        let name = || {
            let method = match kind {
                Primitive::Tool => "tools/call",
                Primitive::Prompt => "prompts/get",
                Primitive::Resource => "resources/read",
            };
            method.to_owned()
        };
        let tracer = self.tracer.as_ref();
        let span = tracer.and_then(|tracer| tracer.begin(trace, SpanKind::Client, name));
        MeasuredCall { telemetry, meters, kind, start: Instant::now(), outcome: None, span }
    }

    /// Counts an authentication.
    pub(crate) fn authenticated(&self, bearer: Option<&str>, is_good: bool) {
        let [keys, tokens, nothing] = &self.authentications;
        let [good, bad] = match bearer {
            None => nothing,
            Some(bearer) if api_key::is_key(bearer) => keys,
            Some(_) => tokens,
        };
        if is_good { good.one() } else { bad.one() }
    }

    /// Counts a search of an agent.
    pub(crate) fn searched(&self, found: usize, took: Duration) {
        let [something, nothing] = &self.searches;
        if found == 0 {
            nothing.one()
        } else {
            something.one()
        }
        self.search_times.took(took);
    }

    /// Counts a refresh of a source.
    pub(crate) fn refreshed(&self, source: &SourceId, success: bool, took: Duration) {
        self.sources.of(source.as_str()).refreshed(success);
        self.refresh_times.took(took);
    }

    /// Counts a token request to an authorization server.
    pub(crate) fn token(&self, source: &SourceId, is_exchange: bool, took: Duration, good: bool) {
        self.sources.of(source.as_str()).token(is_exchange, good);
        self.token_times.took(took);
    }

    /// Counts a call of a tool that does not exist, or is not granted to the caller.
    pub(crate) fn missing(&self, kind: Primitive) {
        self.sources.of(NONE).call(kind, CallOutcome::Failed(ErrorCode::NotGranted));
    }

    /// Adds all metrics to the snapshot. Metrics of removed sources are dropped.
    pub(crate) fn read(&self, is_there: impl Fn(&str) -> bool, into: &mut Reading) {
        into.count(&metrics::RESOLUTIONS, &self.resolutions);
        into.count(&metrics::DENIED, &self.denied);
        into.count(&metrics::RESOLVED, &self.resolved);
        into.times(&metrics::RESOLUTION_TIME, &[], &self.resolution_time);
        into.gauge(&metrics::CALLS_ACTIVE, &self.calls_active);
        for (means, counters) in ["key", "token", "nothing"].iter().zip(&self.authentications) {
            for (word, counter) in ["accepted", "refused"].into_iter().zip(counters) {
                into.count_of(&metrics::AUTHENTICATIONS, &[means, word], counter);
            }
        }
        for (word, counter) in ["found", "nothing"].into_iter().zip(&self.searches) {
            into.count_of(&metrics::SEARCHES, &[word], counter);
        }
        into.times(&metrics::SEARCH_DURATION, &[], &self.search_times);
        into.times(&metrics::REFRESH_DURATION, &[], &self.refresh_times);
        into.times(&metrics::TOKEN_DURATION, &[], &self.token_times);
        self.sources.keep(is_there);
        self.sources.read(into);
    }
}

impl Telemetry {
    /// Adds the gate states of the sources that have their own label.
    pub(crate) fn read_gates(&self, gates: &Gates, into: &mut Reading) {
        for label in self.sources.labels() {
            let state = label.parse().ok().and_then(|id: SourceId| gates.state(&id));
            let Some(GateState { breaker, calls, waiting, .. }) = state else { continue };
            let breaker = match breaker {
                "closed" => 0.0,
                "half_open" => 1.0,
                _ => 2.0,
            };
            into.level(&metrics::BREAKER, &[&label], breaker);
            into.level(&metrics::GATE_CALLS, &[&label], calls as f64);
            into.level(&metrics::GATE_WAITING, &[&label], waiting as f64);
        }
    }
}

/// Adds the metrics of a catalog and its journal.
pub(crate) fn read_catalog(catalog: &Catalog, into: &mut Reading) {
    let (snapshot, appends) = (catalog.snapshot(), catalog.appends());
    into.level(&metrics::SOURCES, &[], snapshot.sources().count() as f64);
    into.level(&metrics::TOOLS, &[], snapshot.tool_count() as f64);
    into.level(&metrics::POSITION, &[], snapshot.position().0 as f64);
    into.level(&metrics::BEHIND, &[], catalog.behind_for().as_secs_f64());
    into.counted(&metrics::APPENDS, &["stored"], appends.stored.read());
    into.counted(&metrics::APPENDS, &["conflict"], appends.conflicts.read());
    into.counted(&metrics::APPENDS, &["failed"], appends.failed.read());
    into.times(&metrics::APPEND_DURATION, &[], &appends.times);
}

/// Adds the metrics of the call log.
pub(crate) fn read_record(recorder: &Recorder, into: &mut Reading) {
    into.counted(&metrics::ROWS, &["stored"], recorder.stored());
    into.counted(&metrics::ROWS, &["lost"], recorder.lost());
    into.level(&metrics::ROWS_WAITING, &[], recorder.waiting() as f64);
    into.level(&metrics::RECORD_FAILING, &[], f64::from(u8::from(recorder.is_failing())));
}

/// A measured call that is running. If it is dropped before its end, it counts as cancelled.
pub(crate) struct MeasuredCall<'a> {
    telemetry: &'a Telemetry,
    meters: Arc<SourceMeters>,
    kind: Primitive,
    start: Instant,
    outcome: Option<CallOutcome>,
    span: Option<OpenSpan>,
}

impl MeasuredCall<'_> {
    pub(crate) fn end(mut self, outcome: CallOutcome) {
        self.outcome = Some(outcome);
    }

    /// The trace context for upstreams, if the call has a span of its own.
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        self.span.as_ref().and_then(OpenSpan::context)
    }

    /// Ends the call of a tool that does not exist, or is not granted to the caller.
    pub(crate) fn missing(mut self) {
        self.meters = self.telemetry.sources.of(NONE);
        self.end(CallOutcome::Failed(ErrorCode::NotGranted));
    }
}

impl Drop for MeasuredCall<'_> {
    fn drop(&mut self) {
        let outcome = self.outcome.unwrap_or_else(|| match std::thread::panicking() {
            true => CallOutcome::Failed(ErrorCode::InternalError),
            false => CallOutcome::Cancelled,
        });
        self.telemetry.calls_active.change(-1);
        self.meters.call(self.kind, outcome);
        self.meters.call_times.took(self.start.elapsed());
        if let Some(span) = self.span.take() {
            let attributes = vec![
                ("toolcrib.source", self.meters.label().to_owned()),
                ("toolcrib.outcome", outcome.as_str().to_owned()),
            ];
            span.end(matches!(outcome, CallOutcome::Failed(_)), attributes);
        }
    }
}
