//! `GET /metrics` in the Prometheus text format. Call rates are confidential: the route is for admins. A separate
//! listener for metrics and health alone serves them without a credential.

use std::sync::Arc;

use api_types::problem::{Problem, ProblemCode};
use api_types::server_names::ServerNames;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::route::ApiRoute;
use toolcrib::telemetry::{
    EXPORT_METRICS, METRICS, MetricDefinition, MetricKind, MetricsSnapshot, PROMETHEUS_CONTENT_TYPE,
};

use crate::health_checks;

const METRICS_PATH: &str = "/metrics";

/// Every metric that the server exports.
pub fn all_metrics() -> impl Iterator<Item = &'static MetricDefinition> {
    METRICS.into_iter().chain(SERVER_METRICS).chain(EXPORT_METRICS)
}

static STREAMS_OPEN: MetricDefinition = MetricDefinition {
    name: "toolcrib_streams_open",
    kind: MetricKind::Gauge,
    labels: &[],
    help: "Streams that stay open to tell of changes.",
};
static CALLS_WAITING: MetricDefinition = MetricDefinition {
    name: "toolcrib_calls_waiting",
    kind: MetricKind::Gauge,
    labels: &[],
    help: "Calls that wait for their turn, since more come than can be done.",
};
static CALLS_REFUSED: MetricDefinition = MetricDefinition {
    name: "toolcrib_calls_refused_total",
    kind: MetricKind::Counter,
    labels: &[],
    help: "Calls that were refused, since too many waited or for too long.",
};
static BUILD_VERSION: MetricDefinition = MetricDefinition {
    name: "toolcrib_build_info",
    kind: MetricKind::Gauge,
    labels: &["version"],
    help: "Always 1; the version of the program.",
};
static SERVER_METRICS: [&MetricDefinition; 9] = [
    &endpoint::endpoint_metrics::REQUESTS,
    &endpoint::endpoint_metrics::REQUEST_DURATION,
    &endpoint::endpoint_metrics::REQUESTS_ACTIVE,
    &endpoint::endpoint_metrics::MCP_REQUESTS,
    &endpoint::endpoint_metrics::MCP_SESSIONS,
    &STREAMS_OPEN,
    &CALLS_WAITING,
    &CALLS_REFUSED,
    &BUILD_VERSION,
];

pub fn routes() -> Vec<ApiRoute> {
    let admins = ApiRoute::get("get_metrics", METRICS_PATH, get_metrics);
    vec![
        admins
            .for_admins("about", "Show what was measured, for Prometheus")
            .returns_document("text/plain"),
    ]
}

async fn get_metrics(Admin(_): Admin, State(app): State<AppState>) -> Response {
    metrics_response(&app)
}

/// The router of the separate listener: metrics and health checks, without authentication.
pub fn metrics_only_router(app: &AppState, names: ServerNames) -> Router {
    let mut router = Router::new()
        .route(METRICS_PATH, get(async |State(app): State<AppState>| metrics_response(&app)));
    for route in health_checks::routes() {
        router = router.route(route.path, route.into_handler());
    }
    let nothing =
        async || Problem::new(ProblemCode::NotFound, "only `/metrics` and `/health` are here");
    let named = middleware::from_fn_with_state(Arc::new(names), check_host);
    router.fallback(nothing).layer(named).with_state(app.clone())
}

async fn check_host(
    State(names): State<Arc<ServerNames>>,
    request: Request,
    next: Next,
) -> Response {
    match names.check_request(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn metrics_response(app: &AppState) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(PROMETHEUS_CONTENT_TYPE)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, collect_metrics(app).to_prometheus_text()).into_response()
}

/// Collects the current value of every metric.
pub fn collect_metrics(app: &AppState) -> MetricsSnapshot {
    let mut reading = app.crib.read_metrics();
    reading.add_metrics(SERVER_METRICS.into_iter().chain(EXPORT_METRICS));
    if let Some(exporter) = &app.options.exporter {
        exporter.add_metrics(&mut reading);
    }
    app.endpoint_metrics.collect_into(&mut reading);
    reading.add_gauge_value(&STREAMS_OPEN, &[], app.open_streams() as f64);
    let (waiting, refused) = app.load_shedder.waiting_and_rejected();
    reading.add_gauge_value(&CALLS_WAITING, &[], waiting as f64);
    reading.add_count(&CALLS_REFUSED, &[], refused);
    reading.add_gauge_value(&BUILD_VERSION, &[env!("CARGO_PKG_VERSION")], 1.0);
    reading
}
