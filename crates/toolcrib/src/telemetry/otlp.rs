//! OTLP as JSON: what was measured and done, as collectors of OpenTelemetry take it over HTTP (`http/json`).

use serde_json::{Value as Json, json};

use super::reading::{Family, MetricKind, Point, Reading, Value};
use super::span::{Span, SpanKind};

/// Who tells it, and since when.
#[derive(Clone, Debug)]
pub(super) struct Teller {
    /// Attributes of the resource, `service.name` among them.
    pub(super) resource: Vec<(String, String)>,
    /// When counting began, in nanoseconds since 1970.
    pub(super) since: u64,
}

/// All numbers are sums since the start.
const CUMULATIVE: u8 = 2;

impl Teller {
    fn resource(&self) -> Json {
        let attributes = self.resource.iter().map(|(name, value)| attribute(name, value));
        json!({"attributes": attributes.collect::<Vec<_>>()})
    }

    pub(super) fn metrics(&self, reading: &Reading, now: u64) -> Json {
        let metrics: Vec<Json> = reading
            .families
            .iter()
            .filter(|family| !family.points.is_empty())
            .map(|family| self.metric(family, now))
            .collect();
        json!({"resourceMetrics": [{"resource": self.resource(),
            "scopeMetrics": [{"scope": scope(), "metrics": metrics}]}]})
    }

    fn metric(&self, Family { metric, points }: &Family, now: u64) -> Json {
        let points: Vec<Json> = points
            .iter()
            .map(|Point { labels, value }| {
                let labels = metric.labels.iter().zip(labels);
                let attributes: Vec<Json> =
                    labels.map(|(name, value)| attribute(name, value)).collect();
                let mut point = json!({"attributes": attributes, "timeUnixNano": now.to_string(),
                    "startTimeUnixNano": self.since.to_string()});
                match value {
                    Value::Count(count) => point["asInt"] = count.to_string().into(),
                    Value::Level(level) => point["asDouble"] = (*level).into(),
                    Value::Spread(spread) => {
                        let unit = metric.kind.nanos();
                        let counts = spread.counts.iter().map(ToString::to_string);
                        let bounds = spread.bounds.iter().map(|bound| *bound as f64 / unit);
                        point["count"] = spread.count().to_string().into();
                        point["sum"] = (spread.sum as f64 / unit).into();
                        point["bucketCounts"] = counts.collect::<Vec<_>>().into();
                        point["explicitBounds"] = bounds.collect::<Vec<_>>().into();
                    }
                }
                point
            })
            .collect();
        let (unit, member, points) = match metric.kind {
            MetricKind::Counter => {
                let sum = json!({"aggregationTemporality": CUMULATIVE, "isMonotonic": true,
                    "dataPoints": points});
                ("1", "sum", sum)
            }
            MetricKind::Gauge => ("1", "gauge", json!({"dataPoints": points})),
            MetricKind::Milliseconds | MetricKind::Seconds => {
                let unit = if metric.kind == MetricKind::Seconds { "s" } else { "ms" };
                let times = json!({"aggregationTemporality": CUMULATIVE, "dataPoints": points});
                (unit, "histogram", times)
            }
        };
        json!({"name": metric.name, "description": metric.help, "unit": unit, (member): points})
    }

    pub(super) fn spans(&self, spans: &[Span]) -> Json {
        let spans: Vec<Json> = spans.iter().map(span).collect();
        json!({"resourceSpans": [{"resource": self.resource(),
            "scopeSpans": [{"scope": scope(), "spans": spans}]}]})
    }
}

fn span(span: &Span) -> Json {
    let attributes = span.attributes.iter().map(|(name, value)| attribute(name, value));
    let kind = match span.kind {
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    };
    let mut told = json!({
        "traceId": span.context.trace_id(),
        "spanId": span.context.span_id(),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.to_string(),
        "attributes": attributes.collect::<Vec<_>>(),
        "status": {"code": if span.has_failed { 2 } else { 0 }},
    });
    if let Some(parent) = &span.parent {
        told["parentSpanId"] = parent.as_str().into();
    }
    if let Some(state) = span.context.state() {
        told["traceState"] = state.into();
    }
    told
}

fn scope() -> Json {
    json!({"name": "toolcrib", "version": env!("CARGO_PKG_VERSION")})
}

fn attribute(name: &str, value: &str) -> Json {
    json!({"key": name, "value": {"stringValue": value}})
}
