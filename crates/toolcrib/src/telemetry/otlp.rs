//! OTLP messages: metrics and spans, as OpenTelemetry collectors accept them over HTTP.
//!
//! The numbers and names of fields are those of `opentelemetry-proto` v1.

mod message;
#[cfg(test)]
mod tests;

use self::message::Field::{
    Choice, Double, Doubles, Fixed, Fixeds, Flag, Id, Message as One, Messages, Text,
};
pub(super) use self::message::Message;
use super::reading::{Family, Metric, MetricKind, Point, Reading, Value};
use super::span::{Span, SpanKind};

/// The OTLP encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `http/protobuf`, which every collector supports.
    Protobuf,
    /// `http/json`, which people can read.
    Json,
}

impl Protocol {
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }

    pub(super) fn write(self, message: &Message<'_>) -> Vec<u8> {
        match self {
            Self::Protobuf => message.to_protobuf(),
            Self::Json => message.to_json().to_string().into_bytes(),
        }
    }
}

/// Builds messages about one resource.
#[derive(Clone, Debug)]
pub(super) struct Teller {
    /// Attributes of the resource, `service.name` among them.
    pub(super) resource: Vec<(String, String)>,
    /// When counting began, in nanoseconds since 1970.
    pub(super) since: u64,
}

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`: all numbers are sums since the start.
const CUMULATIVE: u8 = 2;

impl Teller {
    pub(super) fn metrics<'a>(&'a self, reading: &'a Reading, now: u64) -> Message<'a> {
        let told = reading.families.iter().filter(|family| !family.points.is_empty());
        let metrics = told.map(|family| self.metric(family, now)).collect();
        let all = [(1, "scope", One(scope())), (2, "metrics", Messages(metrics))];
        self.request("resourceMetrics", "scopeMetrics", Message::of(all))
    }

    pub(super) fn spans<'a>(&'a self, spans: &'a [Span]) -> Message<'a> {
        let spans = spans.iter().map(span).collect();
        let all = [(1, "scope", One(scope())), (2, "spans", Messages(spans))];
        self.request("resourceSpans", "scopeSpans", Message::of(all))
    }

    /// Wraps a signal: both signals have one resource and one scope.
    fn request<'a>(
        &'a self,
        of_resource: &'static str,
        of_scope: &'static str,
        all: Message<'a>,
    ) -> Message<'a> {
        let own = self.resource.iter().map(|(name, value)| attribute(name, value)).collect();
        let resource = Message::of([(1, "attributes", Messages(own))]);
        let told = [(1, "resource", One(resource)), (2, of_scope, Messages(vec![all]))];
        Message::of([(1, of_resource, Messages(vec![Message::of(told)]))])
    }

    fn metric<'a>(&'a self, Family { metric, points }: &'a Family, now: u64) -> Message<'a> {
        let told = points.iter().map(|Point { labels, value }| {
            let labels = metric.labels.iter().zip(labels);
            let attributes = labels.map(|(name, value)| attribute(name, value)).collect();
            let mut point = value_of(value, metric.kind.nanos(), attributes);
            point.add(2, "startTimeUnixNano", Fixed(self.since));
            point.add(3, "timeUnixNano", Fixed(now));
            point
        });
        let points = (1, "dataPoints", Messages(told.collect()));
        let cumulative = (2, "aggregationTemporality", Choice(CUMULATIVE));
        let monotonic = (3, "isMonotonic", Flag(true));
        let (number, name, data) = match metric.kind {
            MetricKind::Counter => (7, "sum", Message::of([points, cumulative, monotonic])),
            MetricKind::Gauge => (5, "gauge", Message::of([points])),
            MetricKind::Milliseconds | MetricKind::Seconds => {
                (9, "histogram", Message::of([points, cumulative]))
            }
        };
        Message::of([
            (1, "name", Text(metric.name)),
            (2, "description", Text(metric.help)),
            (3, "unit", Text(unit_of(metric))),
            (number, name, One(data)),
        ])
    }
}

/// The unit of a metric. A gauge in seconds has the unit in its name, as Prometheus requires.
fn unit_of(metric: &Metric) -> &'static str {
    match metric.kind {
        MetricKind::Milliseconds => "ms",
        _ if metric.name.ends_with("_seconds") => "s",
        _ => "1",
    }
}

/// A data point without its times; `unit` is the number of nanoseconds in the metric's unit.
fn value_of<'a>(value: &Value, unit: f64, attributes: Vec<Message<'a>>) -> Message<'a> {
    let attributes = Messages(attributes);
    match value {
        Value::Count(count) => {
            Message::of([(7, "attributes", attributes), (6, "asInt", Fixed(*count))])
        }
        Value::Level(level) => {
            Message::of([(7, "attributes", attributes), (4, "asDouble", Double(*level))])
        }
        Value::Spread(spread) => {
            let bounds = spread.bounds.iter().map(|bound| *bound as f64 / unit);
            Message::of([
                (9, "attributes", attributes),
                (4, "count", Fixed(spread.count())),
                (5, "sum", Double(spread.sum as f64 / unit)),
                (6, "bucketCounts", Fixeds(spread.counts.to_vec())),
                (7, "explicitBounds", Doubles(bounds.collect())),
            ])
        }
    }
}

fn span(span: &Span) -> Message<'_> {
    let attributes = span.attributes.iter().map(|(name, value)| attribute(name, value));
    let kind = match span.kind {
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    };
    let status = Message::of([(3, "code", Choice(if span.has_failed { 2 } else { 0 }))]);
    let mut told = Message::of([
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
        told.add(4, "parentSpanId", Id(parent.to_vec()));
    }
    if let Some(state) = span.context.state() {
        told.add(3, "traceState", Text(state));
    }
    told
}

fn scope() -> Message<'static> {
    Message::of([(1, "name", Text("toolcrib")), (2, "version", Text(env!("CARGO_PKG_VERSION")))])
}

fn attribute<'a>(name: &'a str, value: &'a str) -> Message<'a> {
    let value = Message::of([(1, "stringValue", Text(value))]);
    Message::of([(1, "key", Text(name)), (2, "value", One(value))])
}
