//! Metrics and traces: counts, durations and sizes. Never identities, arguments or results.
//!
//! Every metric is a plain atomic number (`docs/adr/0028-numbers-of-our-own.md`). Labels have values from bounded sets
//! only.

pub mod metric_definitions;
mod metrics_snapshot;
mod otlp;
mod otlp_export;
mod prometheus_text;
mod source_meters;
mod span;

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{ErrorCode, McpPrimitive, SourceId, TraceContext};

pub use self::metric_definitions::METRICS;
pub use self::metrics_snapshot::{MetricDefinition, MetricKind, MetricsSnapshot};
pub use self::otlp::OtlpProtocol;
pub use self::otlp_export::{EXPORT_METRICS, OtlpCollector, OtlpExporter, OtlpOptions};
pub use self::prometheus_text::PROMETHEUS_CONTENT_TYPE;
pub use self::source_meters::{
    CallOutcome, LABEL_NONE, LABEL_PROVIDER, LABEL_TOOLCRIB, SourceMeters, SourceTelemetry,
};
pub use self::span::{OpenSpan, SpanKind, SpanTracer};
pub use limits::instruments::{
    Counter, DURATION_BOUNDS, Gauge, Histogram, HistogramReading, SHORT_DURATION_BOUNDS,
};

/// The metrics of one `Toolcrib`.
pub struct ToolcribTelemetry {
    resolutions: Counter,
    denied: Counter,
    resolved: Counter,
    resolution_time: Histogram,
    pub sources: SourceTelemetry,
    calls_active: Gauge,
    /// By kind of credential; accepted and rejected.
    authentications: [[Counter; 2]; 3],
    searches: [Counter; 2],
    search_times: Histogram,
    refresh_times: Histogram,
    token_times: Histogram,
    /// `None` if spans are not exported.
    tracer: Option<Arc<SpanTracer>>,
}

impl Default for ToolcribTelemetry {
    fn default() -> Self {
        Self {
            resolutions: Counter::default(),
            denied: Counter::default(),
            resolved: Counter::default(),
            resolution_time: Histogram::new(&SHORT_DURATION_BOUNDS),
            sources: SourceTelemetry::default(),
            calls_active: Gauge::default(),
            authentications: Default::default(),
            searches: Default::default(),
            search_times: Histogram::new(&DURATION_BOUNDS),
            refresh_times: Histogram::new(&DURATION_BOUNDS),
            token_times: Histogram::new(&DURATION_BOUNDS),
            tracer: None,
        }
    }
}

impl ToolcribTelemetry {
    /// With a tracer, if spans are exported.
    pub fn new(tracer: Option<Arc<SpanTracer>>) -> Arc<Self> {
        Arc::new(Self { tracer, ..Self::default() })
    }

    /// Counts a resolution of an agent's toolset.
    pub fn record_resolution(&self, groups: usize, tools: usize, took: Duration) {
        self.resolutions.increment();
        if groups == 0 {
            self.denied.increment();
        }
        self.resolved.add(tools as u64);
        self.resolution_time.record_duration(took);
    }

    /// Starts to measure a call, which may be part of a trace.
    pub fn start_call(
        &self,
        source: &str,
        kind: McpPrimitive,
        trace: Option<&TraceContext>,
    ) -> MeasuredCall<'_> {
        self.calls_active.add_signed(1);
        let (telemetry, meters) = (self, self.sources.meters_of(source));
        let name = || {
            let method = match kind {
                McpPrimitive::Tool => "tools/call",
                McpPrimitive::Prompt => "prompts/get",
                McpPrimitive::Resource => "resources/read",
            };
            method.to_owned()
        };
        let tracer = self.tracer.as_ref();
        let span = tracer.and_then(|tracer| tracer.begin_span(trace, SpanKind::Client, name));
        MeasuredCall { telemetry, meters, kind, start: Instant::now(), outcome: None, span }
    }

    /// Counts an authentication.
    pub fn record_authentication(&self, credential: CredentialKind, is_good: bool) {
        let [keys, tokens, nothing] = &self.authentications;
        let [good, bad] = match credential {
            CredentialKind::None => nothing,
            CredentialKind::ApiKey => keys,
            CredentialKind::Token => tokens,
        };
        if is_good { good.increment() } else { bad.increment() }
    }

    /// Counts a search of an agent.
    pub fn record_search(&self, found: usize, took: Duration) {
        let [something, nothing] = &self.searches;
        if found == 0 {
            nothing.increment()
        } else {
            something.increment()
        }
        self.search_times.record_duration(took);
    }

    /// Counts a refresh of a source.
    pub fn record_refresh(&self, source: &SourceId, success: bool, took: Duration) {
        self.sources.meters_of(source.as_str()).record_refresh(success);
        self.refresh_times.record_duration(took);
    }

    /// Counts a token request to an authorization server.
    pub(crate) fn record_token_request(
        &self,
        source: &SourceId,
        is_exchange: bool,
        took: Duration,
        good: bool,
    ) {
        self.sources.meters_of(source.as_str()).record_token_request(is_exchange, good);
        self.token_times.record_duration(took);
    }

    /// Counts a call of a tool that does not exist, or is not granted to the caller.
    pub fn record_missing(&self, kind: McpPrimitive) {
        self.sources
            .meters_of(LABEL_NONE)
            .record_call(kind, CallOutcome::Failed(ErrorCode::NotGranted));
    }

    /// Adds all metrics to the snapshot. Metrics of removed sources are dropped.
    pub fn add_metrics(&self, is_there: impl Fn(&str) -> bool, into: &mut MetricsSnapshot) {
        into.add_counter(&metric_definitions::RESOLUTIONS, &self.resolutions);
        into.add_counter(&metric_definitions::DENIED, &self.denied);
        into.add_counter(&metric_definitions::RESOLVED, &self.resolved);
        into.add_histogram(&metric_definitions::RESOLUTION_TIME, &[], &self.resolution_time);
        into.add_gauge(&metric_definitions::CALLS_ACTIVE, &self.calls_active);
        for (means, counters) in ["key", "token", "nothing"].iter().zip(&self.authentications) {
            for (word, counter) in ["accepted", "refused"].into_iter().zip(counters) {
                into.add_labelled_counter(
                    &metric_definitions::AUTHENTICATIONS,
                    &[means, word],
                    counter,
                );
            }
        }
        for (word, counter) in ["found", "nothing"].into_iter().zip(&self.searches) {
            into.add_labelled_counter(&metric_definitions::SEARCHES, &[word], counter);
        }
        into.add_histogram(&metric_definitions::SEARCH_DURATION, &[], &self.search_times);
        into.add_histogram(&metric_definitions::REFRESH_DURATION, &[], &self.refresh_times);
        into.add_histogram(&metric_definitions::TOKEN_DURATION, &[], &self.token_times);
        self.sources.retain_labels(is_there);
        self.sources.add_metrics(into);
    }
}

/// The kind of credential that a caller presents.
#[derive(Clone, Copy)]
pub enum CredentialKind {
    None,
    ApiKey,
    Token,
}

/// A measured call that is running. If it is dropped before its end, it counts as cancelled.
pub struct MeasuredCall<'a> {
    telemetry: &'a ToolcribTelemetry,
    meters: Arc<SourceMeters>,
    kind: McpPrimitive,
    start: Instant,
    outcome: Option<CallOutcome>,
    span: Option<OpenSpan>,
}

impl MeasuredCall<'_> {
    pub fn finish(mut self, outcome: CallOutcome) {
        self.outcome = Some(outcome);
    }

    /// The trace context for upstreams, if the call has a span of its own.
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.span.as_ref().and_then(OpenSpan::context)
    }

    /// Ends the call of a tool that does not exist, or is not granted to the caller.
    pub fn finish_as_missing(mut self) {
        self.meters = self.telemetry.sources.meters_of(LABEL_NONE);
        self.finish(CallOutcome::Failed(ErrorCode::NotGranted));
    }
}

impl Drop for MeasuredCall<'_> {
    fn drop(&mut self) {
        let outcome = self.outcome.unwrap_or_else(|| match std::thread::panicking() {
            true => CallOutcome::Failed(ErrorCode::InternalError),
            false => CallOutcome::Cancelled,
        });
        self.telemetry.calls_active.add_signed(-1);
        self.meters.record_call(self.kind, outcome);
        self.meters.call_times.record_duration(self.start.elapsed());
        if let Some(span) = self.span.take() {
            let attributes = vec![
                ("toolcrib.source", self.meters.label().to_owned()),
                ("toolcrib.outcome", outcome.as_str().to_owned()),
            ];
            span.finish(matches!(outcome, CallOutcome::Failed(_)), attributes);
        }
    }
}
