//! OTLP messages: metrics and spans, as OpenTelemetry collectors accept them over HTTP.
//!
//! The numbers and names of fields are those of `opentelemetry-proto` v1.

mod otlp_message;
#[cfg(test)]
mod tests;

use self::otlp_message::OtlpField::{
    Choice, Double, Doubles, Fixed, Fixeds, Flag, Id, Message as One, Messages, Text,
};
pub(super) use self::otlp_message::OtlpMessage;
use super::metrics_snapshot::{
    MetricDefinition, MetricFamily, MetricKind, MetricPoint, MetricValue, MetricsSnapshot,
};
use super::span::{SpanKind, TraceSpan};

/// The OTLP encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// `http/protobuf`, which every collector supports.
    Protobuf,
    /// `http/json`, which people can read.
    Json,
}

impl OtlpProtocol {
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }

    pub(super) fn encode_message(self, message: &OtlpMessage<'_>) -> Vec<u8> {
        match self {
            Self::Protobuf => message.to_protobuf(),
            Self::Json => message.to_json().to_string().into_bytes(),
        }
    }
}

/// Builds messages about one resource.
#[derive(Clone, Debug)]
pub(super) struct OtlpEncoder {
    /// Attributes of the resource, `service.name` among them.
    pub(super) resource: Vec<(String, String)>,
    /// When counting began, in nanoseconds since 1970.
    pub(super) since: u64,
}

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`: all numbers are sums since the start.
const CUMULATIVE: u8 = 2;

impl OtlpEncoder {
    pub(super) fn metrics_message<'a>(
        &'a self,
        reading: &'a MetricsSnapshot,
        now: u64,
    ) -> OtlpMessage<'a> {
        let told = reading.families.iter().filter(|family| !family.points.is_empty());
        let metrics = told.map(|family| self.encode_metric(family, now)).collect();
        let all = [(1, "scope", One(instrumentation_scope())), (2, "metrics", Messages(metrics))];
        self.export_request("resourceMetrics", "scopeMetrics", OtlpMessage::from_fields(all))
    }

    pub(super) fn spans_message<'a>(&'a self, spans: &'a [TraceSpan]) -> OtlpMessage<'a> {
        let spans = spans.iter().map(encode_span).collect();
        let all = [(1, "scope", One(instrumentation_scope())), (2, "spans", Messages(spans))];
        self.export_request("resourceSpans", "scopeSpans", OtlpMessage::from_fields(all))
    }

    /// Wraps a signal: both signals have one resource and one scope.
    fn export_request<'a>(
        &'a self,
        of_resource: &'static str,
        of_scope: &'static str,
        all: OtlpMessage<'a>,
    ) -> OtlpMessage<'a> {
        let own = self.resource.iter().map(|(name, value)| encode_attribute(name, value)).collect();
        let resource = OtlpMessage::from_fields([(1, "attributes", Messages(own))]);
        let told = [(1, "resource", One(resource)), (2, of_scope, Messages(vec![all]))];
        OtlpMessage::from_fields([(1, of_resource, Messages(vec![OtlpMessage::from_fields(told)]))])
    }

    fn encode_metric<'a>(
        &'a self,
        MetricFamily { metric, points }: &'a MetricFamily,
        now: u64,
    ) -> OtlpMessage<'a> {
        let told = points.iter().map(|MetricPoint { labels, value }| {
            let labels = metric.labels.iter().zip(labels);
            let attributes = labels.map(|(name, value)| encode_attribute(name, value)).collect();
            let mut point = encode_value(value, metric.kind.unit_nanos(), attributes);
            point.push_field(2, "startTimeUnixNano", Fixed(self.since));
            point.push_field(3, "timeUnixNano", Fixed(now));
            point
        });
        let points = (1, "dataPoints", Messages(told.collect()));
        let cumulative = (2, "aggregationTemporality", Choice(CUMULATIVE));
        let monotonic = (3, "isMonotonic", Flag(true));
        let (number, name, data) = match metric.kind {
            MetricKind::Counter => {
                (7, "sum", OtlpMessage::from_fields([points, cumulative, monotonic]))
            }
            MetricKind::Gauge => (5, "gauge", OtlpMessage::from_fields([points])),
            MetricKind::Milliseconds | MetricKind::Seconds => {
                (9, "histogram", OtlpMessage::from_fields([points, cumulative]))
            }
        };
        OtlpMessage::from_fields([
            (1, "name", Text(metric.name)),
            (2, "description", Text(metric.help)),
            (3, "unit", Text(metric_unit(metric))),
            (number, name, One(data)),
        ])
    }
}

/// The unit of a metric. A gauge in seconds has the unit in its name, as Prometheus requires.
fn metric_unit(metric: &MetricDefinition) -> &'static str {
    match metric.kind {
        MetricKind::Milliseconds => "ms",
        _ if metric.name.ends_with("_seconds") => "s",
        _ => "1",
    }
}

/// A data point without its times; `unit` is the number of nanoseconds in the metric's unit.
fn encode_value<'a>(
    value: &MetricValue,
    unit: f64,
    attributes: Vec<OtlpMessage<'a>>,
) -> OtlpMessage<'a> {
    let attributes = Messages(attributes);
    match value {
        MetricValue::Count(count) => {
            OtlpMessage::from_fields([(7, "attributes", attributes), (6, "asInt", Fixed(*count))])
        }
        MetricValue::Gauge(level) => OtlpMessage::from_fields([
            (7, "attributes", attributes),
            (4, "asDouble", Double(*level)),
        ]),
        MetricValue::Histogram(spread) => {
            let bounds = spread.bounds.iter().map(|bound| *bound as f64 / unit);
            OtlpMessage::from_fields([
                (9, "attributes", attributes),
                (4, "count", Fixed(spread.count())),
                (5, "sum", Double(spread.sum as f64 / unit)),
                (6, "bucketCounts", Fixeds(spread.counts.to_vec())),
                (7, "explicitBounds", Doubles(bounds.collect())),
            ])
        }
    }
}

fn encode_span(span: &TraceSpan) -> OtlpMessage<'_> {
    let attributes = span.attributes.iter().map(|(name, value)| encode_attribute(name, value));
    let kind = match span.kind {
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    };
    let status =
        OtlpMessage::from_fields([(3, "code", Choice(if span.has_failed { 2 } else { 0 }))]);
    let mut told = OtlpMessage::from_fields([
        (1, "traceId", Id(span.context.trace_bytes().to_vec())),
        (2, "spanId", Id(span.context.span_bytes().to_vec())),
        (5, "name", Text(&span.name)),
        (6, "kind", Choice(kind)),
        (7, "startTimeUnixNano", Fixed(span.start)),
        (8, "endTimeUnixNano", Fixed(span.end)),
        (9, "attributes", Messages(attributes.collect())),
        (15, "status", One(status)),
    ]);
    if let Some(parent) = &span.parent {
        told.push_field(4, "parentSpanId", Id(parent.to_vec()));
    }
    if let Some(state) = span.context.tracestate() {
        told.push_field(3, "traceState", Text(state));
    }
    told
}

fn instrumentation_scope() -> OtlpMessage<'static> {
    OtlpMessage::from_fields([
        (1, "name", Text("toolcrib")),
        (2, "version", Text(env!("CARGO_PKG_VERSION"))),
    ])
}

fn encode_attribute<'a>(name: &'a str, value: &'a str) -> OtlpMessage<'a> {
    let value = OtlpMessage::from_fields([(1, "stringValue", Text(value))]);
    OtlpMessage::from_fields([(1, "key", Text(name)), (2, "value", One(value))])
}
