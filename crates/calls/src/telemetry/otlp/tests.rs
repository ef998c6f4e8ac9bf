//! The protobuf and the JSON encoding agree: OpenTelemetry's own parser reads the same from both.

use std::time::Duration;

use limits::instruments::{Counter, DURATION_BOUNDS, Histogram, SHORT_DURATION_BOUNDS};
use model::TraceContext;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use serde::de::DeserializeOwned;

use super::*;

static CALLS: MetricDefinition = metric("calls", MetricKind::Counter, &["source", "kind"]);
static NOTHING: MetricDefinition = metric("nothing", MetricKind::Counter, &[]);
static LEVEL: MetricDefinition = metric("level_seconds", MetricKind::Gauge, &[]);
static SECONDS: MetricDefinition = metric("call_seconds", MetricKind::Seconds, &["source"]);
static SHORT: MetricDefinition = metric("short", MetricKind::Milliseconds, &[]);
static LEFT_OUT: MetricDefinition = metric("left_out", MetricKind::Gauge, &["source"]);

const fn metric(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
) -> MetricDefinition {
    MetricDefinition { name, kind, labels, help: "What is “told”." }
}

fn teller() -> OtlpEncoder {
    let long = "x".repeat(20_000);
    let resource = [("service.name", "crib"), ("empty", ""), ("long", long.as_str())];
    let resource = resource.map(|(name, value)| (name.to_owned(), value.to_owned()));
    OtlpEncoder { resource: resource.to_vec(), since: 1_700_000_000_000_000_001 }
}

fn reading() -> MetricsSnapshot {
    let mut reading = MetricsSnapshot::with_metrics([&LEFT_OUT]);
    reading.add_count(&CALLS, &["pets", "tool"], 3);
    reading.add_count(&CALLS, &["größte", ""], u64::from(u32::MAX) + 1);
    reading.add_counter(&NOTHING, &Counter::default());
    reading.add_gauge_value(&LEVEL, &[], -0.25);
    let (long, short) = (Histogram::new(&DURATION_BOUNDS), Histogram::new(&SHORT_DURATION_BOUNDS));
    for millis in [1, 30, 4_000_000] {
        long.record_duration(Duration::from_millis(millis));
        short.record_duration(Duration::from_micros(millis));
    }
    reading.add_histogram(&SECONDS, &["pets"], &long);
    reading.add_histogram(&SHORT, &[], &short);
    reading
}

fn spans() -> Vec<TraceSpan> {
    let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let context = TraceContext::from_headers(text, Some("rojo=1,congo=t61")).unwrap();
    let of = |kind, parent, has_failed| TraceSpan {
        context: context.with_span([9; 8]),
        parent,
        name: "tools/call".to_owned(),
        kind,
        start: 1_700_000_000_000_000_001,
        end: u64::MAX,
        attributes: vec![("toolcrib.source", "pets".to_owned()), ("none", String::new())],
        has_failed,
    };
    let parent = Some(context.span_bytes());
    vec![of(SpanKind::Server, parent, true), of(SpanKind::Client, None, false)]
}

/// Parses the message from both encodings.
fn read<T: prost::Message + DeserializeOwned + Default>(message: &OtlpMessage<'_>) -> [T; 2] {
    let json = serde_json::from_slice(&OtlpProtocol::Json.encode_message(message)).unwrap();
    [json, T::decode(&*OtlpProtocol::Protobuf.encode_message(message)).unwrap()]
}

#[test]
fn metrics_are_the_same_in_both_encodings() {
    let (teller, reading) = (teller(), reading());
    let message = teller.metrics_message(&reading, 1_700_000_060_000_000_000);
    let [json, protobuf] = read::<ExportMetricsServiceRequest>(&message);
    assert_eq!(json, protobuf);
    let [all] = &protobuf.resource_metrics[..] else { unreachable!("one resource") };
    assert_eq!(all.resource.as_ref().unwrap().attributes.len(), 3);
    let [all] = &all.scope_metrics[..] else { unreachable!("one scope") };
    let names: Vec<&str> = all.metrics.iter().map(|metric| &*metric.name).collect();
    assert_eq!(names, ["calls", "nothing", "level_seconds", "call_seconds", "short"]);
    let units: Vec<&str> = all.metrics.iter().map(|metric| &*metric.unit).collect();
    assert_eq!(units, ["1", "1", "s", "s", "ms"]);
    // A counter that is zero is sent as zero, not as unknown.
    let Some(Data::Sum(sum)) = &all.metrics[1].data else { unreachable!("a counter") };
    assert_eq!(sum.data_points[0].value, Some(number_data_point::Value::AsInt(0)));
    let Some(Data::Histogram(times)) = &all.metrics[3].data else { unreachable!("times") };
    let point = &times.data_points[0];
    assert_eq!((point.count, point.bucket_counts.len()), (3, point.explicit_bounds.len() + 1));
    assert_eq!(point.start_time_unix_nano, 1_700_000_000_000_000_001);
}

#[test]
fn spans_are_the_same_in_both_encodings() {
    let (teller, spans) = (teller(), spans());
    let [json, protobuf] = read::<ExportTraceServiceRequest>(&teller.spans_message(&spans));
    assert_eq!(json, protobuf);
    let [server, client] = &protobuf.resource_spans[0].scope_spans[0].spans[..] else {
        unreachable!("two spans")
    };
    assert_eq!(server.parent_span_id, spans[0].parent.unwrap());
    assert_eq!((server.trace_id.len(), &*server.trace_state), (16, "rojo=1,congo=t61"));
    assert_eq!(
        (client.parent_span_id.len(), client.kind, client.end_time_unix_nano),
        (0, 3, u64::MAX)
    );
    assert_eq!(server.status.as_ref().unwrap().code, 2);
}
