//! OTLP export, checked by a strict receiver that rejects unknown fields. The receiver reads JSON; unit tests beside
//! the code check that the protobuf encoding says the same.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::io::Read as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::calls::Shop;
use super::server::{Ask, Server};
use super::workflows::grant;
use crate::upstream::{Upstream, answer};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
const CANARY: &str = "canary-77c1";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Metrics {
    resource_metrics: [ResourceMetrics; 1],
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ResourceMetrics {
    resource: Resource,
    scope_metrics: [ScopeMetrics; 1],
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attribute {
    key: String,
    value: Text,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Text {
    string_value: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeMetrics {
    scope: Scope,
    metrics: Vec<Metric>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scope {
    name: String,
    version: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metric {
    name: String,
    description: String,
    unit: String,
    sum: Option<Sum>,
    gauge: Option<Gauge>,
    histogram: Option<Histogram>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Sum {
    aggregation_temporality: u8,
    is_monotonic: bool,
    data_points: Vec<Number>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Gauge {
    data_points: Vec<Number>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Number {
    attributes: Vec<Attribute>,
    start_time_unix_nano: String,
    time_unix_nano: String,
    as_int: Option<String>,
    as_double: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Histogram {
    aggregation_temporality: u8,
    data_points: Vec<Times>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Times {
    attributes: Vec<Attribute>,
    start_time_unix_nano: String,
    time_unix_nano: String,
    count: String,
    sum: f64,
    bucket_counts: Vec<String>,
    explicit_bounds: Vec<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Traces {
    resource_spans: [ResourceSpans; 1],
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ResourceSpans {
    resource: Resource,
    scope_spans: [ScopeSpans; 1],
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeSpans {
    scope: Scope,
    spans: Vec<Span>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Span {
    trace_id: String,
    span_id: String,
    parent_span_id: Option<String>,
    trace_state: Option<String>,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute>,
    status: Status,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Status {
    code: u8,
}

fn parse_integer(text: &str) -> u64 {
    text.parse().unwrap()
}

/// Bodies that were pushed to this path.
fn pushed<T: DeserializeOwned>(collector: &Upstream, path: &str) -> Vec<T> {
    let requests = collector.requests();
    let pushed = requests.iter().filter(|request| request.starts_with(&format!("POST {path} ")));
    pushed
        .map(|request| {
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert!(head.contains("content-type: application/json"), "{head}");
            assert!(head.contains("x-tenant: a b"), "{head}");
            serde_json::from_str(body).unwrap()
        })
        .collect()
}

/// Server that pushes to this endpoint.
fn server_pushing_to(endpoint: &str) -> Server {
    Server::start_with_environment(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1000"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
    ])
}

fn call(shop: &Shop) {
    call_with(shop, &json!({"name": "add_pet", "arguments": {"name": CANARY}}));
}

fn call_with(shop: &Shop, body: &Value) {
    let parent = format!("00-{TRACE}-{CALLER}-01");
    let ask = Ask::new("POST", "/api/agents/tools/call").bearer(&shop.key).json(body);
    let ask = ask.header("traceparent", &parent).header("tracestate", "rojo=1");
    shop.server.send(&ask.header("baggage", CANARY)).ok();
}

fn spans(collector: &Upstream) -> Vec<Span> {
    pushed::<Traces>(collector, "/v1/traces")
        .into_iter()
        .flat_map(|Traces { resource_spans: [one] }| {
            assert!(one.resource.attributes.iter().any(|it| it.key == "service.name"));
            let [ScopeSpans { scope, spans }] = one.scope_spans;
            assert_eq!((scope.name.as_str(), scope.version.is_empty()), ("toolcrib", false));
            spans
        })
        .collect()
}

#[test]
fn the_steps_of_a_workflow_are_child_spans() {
    let collector = Upstream::replying(|_| answer("200 OK", "", b"{}"));
    let mut shop = Shop::at(server_pushing_to(&collector.url("/")));
    grant(&shop, &json!([{"get": {"call": "pets__get_pet", "with": {"id": 7}}}]));
    call_with(&shop, &json!({"name": "adopt"}));
    let asked = shop.upstream.requests().pop().unwrap();
    assert_eq!(shop.server.stop().0, Some(0));
    let spans = spans(&collector);
    let of_source = |source: &str| {
        let is_of = |span: &&Span| {
            span.kind == 3 && span.attributes.iter().any(|it| it.value.string_value == source)
        };
        let found: Vec<_> = spans.iter().filter(is_of).collect();
        let [span] = found[..] else { unreachable!("{source}: {found:?}") };
        span
    };
    let (workflow, step) = (of_source("flows"), of_source("pets"));
    assert_eq!(step.parent_span_id.as_ref(), Some(&workflow.span_id));
    assert_eq!((step.trace_id.as_str(), workflow.trace_id.as_str()), (TRACE, TRACE));
    assert!(asked.contains(&format!("traceparent: 00-{TRACE}-{}-01", step.span_id)), "{asked}");
}

#[test]
fn metrics_and_spans_are_pushed_with_the_trace_of_the_upstream_request() {
    let collector = Upstream::replying(|_| answer("200 OK", "", b"{}"));
    let mut shop = Shop::at(server_pushing_to(&collector.url("/")));
    call(&shop);
    let asked = shop.upstream.requests().pop().unwrap();
    let (code, said) = shop.server.stop();
    assert_eq!(code, Some(0), "{said}");
    let spans = spans(&collector);
    let of_trace = |kind: u8| {
        let mut found = spans.iter().filter(|span| span.trace_id == TRACE && span.kind == kind);
        found.next().unwrap()
    };
    let (server, client) = (of_trace(2), of_trace(3));
    assert_eq!(server.name, "POST /api/agents/tools/call");
    assert_eq!(server.parent_span_id.as_deref(), Some(CALLER));
    assert_eq!((client.name.as_str(), client.status.code), ("tools/call", 0));
    assert_eq!(client.parent_span_id.as_ref(), Some(&server.span_id));
    assert_eq!(client.trace_state.as_deref(), Some("rojo=1"));
    assert!(client.attributes.iter().any(|it| it.value.string_value == "pets"));
    assert!(
        parse_integer(&client.start_time_unix_nano) <= parse_integer(&client.end_time_unix_nano)
    );
    let told = format!("traceparent: 00-{TRACE}-{}-01", client.span_id);
    assert!(asked.contains(&told), "{told}\n{asked}");

    let last = pushed::<Metrics>(&collector, "/v1/metrics").pop().unwrap();
    let Metrics { resource_metrics: [ResourceMetrics { resource, scope_metrics: [all] }] } = last;
    assert!(resource.attributes.iter().any(|it| it.value.string_value == "toolcrib"));
    assert_eq!(all.scope.name, "toolcrib");
    for metric in &all.metrics {
        let known = http_api::all_metrics().find(|known| known.name == metric.name).unwrap();
        assert_eq!(known.help, metric.description);
        let kinds = (metric.sum.is_some(), metric.gauge.is_some(), metric.histogram.is_some());
        let kind = match kinds {
            (true, false, false) => "counter",
            (false, true, false) => "gauge",
            (false, false, true) => "histogram",
            _ => "none",
        };
        assert_eq!(kind, known.kind.as_str(), "{}", metric.name);
        assert!(["1", "s", "ms"].contains(&metric.unit.as_str()));
        for Times { count, sum, bucket_counts, explicit_bounds, attributes, .. } in
            metric.histogram.iter().flat_map(|it| &it.data_points)
        {
            assert_eq!(bucket_counts.len(), explicit_bounds.len() + 1);
            let in_all: u64 = bucket_counts.iter().map(|count| parse_integer(count)).sum();
            assert_eq!((in_all, attributes.len()), (parse_integer(count), known.labels.len()));
            assert!(0.0 <= *sum);
        }
    }
    let named = |name: &str| all.metrics.iter().find(|metric| metric.name == name).unwrap();
    let calls = named("toolcrib_calls_total").sum.as_ref().unwrap();
    assert_eq!((calls.aggregation_temporality, calls.is_monotonic), (2, true));
    let [point] = &calls.data_points[..] else { unreachable!("one call: {calls:?}") };
    assert_eq!((point.as_int.as_deref(), point.attributes.len()), (Some("1"), 3));
    assert!(parse_integer(&point.start_time_unix_nano) < parse_integer(&point.time_unix_nano));
    let times = named("agent_resolution_time").histogram.as_ref().unwrap();
    let [times_point] = &times.data_points[..] else { unreachable!("{times:?}") };
    assert!(
        parse_integer(&times_point.start_time_unix_nano)
            < parse_integer(&times_point.time_unix_nano)
    );
    assert_eq!((times.aggregation_temporality, times_point.count.as_str()), (2, "1"));
    let tools = named("toolcrib_tools").gauge.as_ref().unwrap();
    assert_eq!(tools.data_points.iter().map(|it| it.as_double).collect::<Vec<_>>(), [Some(4.0)]);

    let everything = collector.requests().join("\n") + &said;
    for secret in [CANARY, shop.key.as_str(), "Rex", "staff"] {
        assert!(!everything.contains(secret), "{secret}\n{everything}");
    }
}

#[test]
fn a_failing_collector_delays_neither_calls_nor_shutdown() {
    // Accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok((mut connection, _)) = silent.accept() {
            drop(connection.read(&mut [0; 16]));
            kept.push(connection);
        }
    });
    let refusing = Upstream::replying(|_| answer("503 No", "", b"no"));
    for endpoint in [silent_url.as_str(), "http://127.0.0.1:9", &refusing.url("")] {
        let mut shop = Shop::at(server_pushing_to(endpoint));
        let start = Instant::now();
        for _ in 0..50 {
            call(&shop);
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{endpoint}: {:?}", start.elapsed());
        let stop = Instant::now();
        let (code, said) = shop.server.stop();
        assert_eq!(code, Some(0), "{said}");
        assert!(stop.elapsed() < Duration::from_secs(10), "{endpoint}: {:?}", stop.elapsed());
        // The push fails by its own deadline or by the shutdown, whichever comes first.
        let is_told = ["a collector does not take", "was not taken in time"];
        assert!(is_told.iter().any(|told| said.contains(told)), "{said}");
        assert!(said.lines().count() < 6, "it is said once: {said}");
        assert!(!said.contains("a b"), "{said}");
    }
}

#[test]
fn protobuf_is_the_default_protocol() {
    let collector = Upstream::replying(|_| answer("200 OK", "", b""));
    let server =
        Server::start_with_environment(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url("/"))]);
    let mut shop = Shop::at(server);
    call(&shop);
    let (code, said) = shop.server.stop();
    assert_eq!(code, Some(0), "{said}");
    let requests = collector.requests();
    for (path, word) in [("/v1/metrics", "toolcrib_calls_total"), ("/v1/traces", "tools/call")] {
        let pushed = requests.iter().find(|it| it.starts_with(&format!("POST {path} ")));
        let (head, body) = pushed.unwrap().split_once("\r\n\r\n").unwrap();
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        assert!(body.contains(word) && body.starts_with('\n'), "{body}");
    }
}

#[test]
fn an_unsupported_protocol_is_only_a_warning() {
    let mut server = Server::start_with_environment(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector.internal:4317"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    ]);
    server.get("/api/tools").ok();
    let (code, said) = server.stop();
    assert_eq!(code, Some(0), "{said}");
    for signal in ["metrics", "traces"] {
        let told = format!("no {signal} are pushed to a collector: OTEL_EXPORTER_OTLP_PROTOCOL");
        assert!(said.contains(&told), "{said}");
    }
    assert!(said.contains("`grpc`") && said.contains("`http/protobuf`"), "{said}");
}
