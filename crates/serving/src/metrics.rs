//! `GET /metrics` in the Prometheus text format. Call rates are confidential: the route is for admins. A separate
//! listener for metrics and health alone serves them without a credential.

pub(crate) mod doors;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use toolcrib::telemetry::{EXPORT_METRICS, METRICS, Metric, MetricKind, Reading, TEXT};

use crate::app::App;
use crate::caller::Admin;
use crate::health;
use crate::names::Names;
use crate::problem::{Code, Problem};
use crate::route::Route;

const PATH: &str = "/metrics";

/// Every metric that the server exports.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    METRICS.into_iter().chain(OURS).chain(EXPORT_METRICS)
}

static STREAMS: Metric = Metric {
    name: "toolcrib_streams_open",
    kind: MetricKind::Gauge,
    labels: &[],
    help: "Streams that stay open to tell of changes.",
};
static WAITING: Metric = Metric {
    name: "toolcrib_calls_waiting",
    kind: MetricKind::Gauge,
    labels: &[],
    help: "Calls that wait for their turn, since more come than can be done.",
};
static REFUSED: Metric = Metric {
    name: "toolcrib_calls_refused_total",
    kind: MetricKind::Counter,
    labels: &[],
    help: "Calls that were refused, since too many waited or for too long.",
};
static BUILD: Metric = Metric {
    name: "toolcrib_build_info",
    kind: MetricKind::Gauge,
    labels: &["version"],
    help: "Always 1; the version of the program.",
};
static OURS: [&Metric; 9] = [
    &doors::REQUESTS,
    &doors::REQUEST_DURATION,
    &doors::REQUESTS_ACTIVE,
    &doors::MCP_REQUESTS,
    &doors::MCP_SESSIONS,
    &STREAMS,
    &WAITING,
    &REFUSED,
    &BUILD,
];

pub(crate) fn routes() -> Vec<Route> {
    let admins = Route::get("get_metrics", PATH, for_admins);
    vec![admins.admin("about", "Show what was measured, for Prometheus").shows("text/plain")]
}

async fn for_admins(Admin(_): Admin, State(app): State<App>) -> Response {
    written(&app)
}

/// The router of the separate listener: metrics and health checks, without authentication.
pub(crate) fn alone(app: &App, names: Names) -> Router {
    let mut router = Router::new().route(PATH, get(async |State(app): State<App>| written(&app)));
    for route in health::routes() {
        router = router.route(route.path, route.into_handler());
    }
    let nothing = async || Problem::new(Code::NotFound, "only `/metrics` and `/health` are here");
    let named = middleware::from_fn_with_state(Arc::new(names), named);
    router.fallback(nothing).layer(named).with_state(app.clone())
}

async fn named(State(names): State<Arc<Names>>, request: Request, next: Next) -> Response {
    match names.check(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn written(app: &App) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(TEXT)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, reading(app).to_text()).into_response()
}

/// Collects the current value of every metric.
pub(crate) fn reading(app: &App) -> Reading {
    let mut reading = app.crib.reading();
    reading.also(OURS.into_iter().chain(EXPORT_METRICS));
    if let Some(exporter) = &app.options.exporter {
        exporter.read(&mut reading);
    }
    app.doors.read(&mut reading);
    reading.level(&STREAMS, &[], app.open_streams() as f64);
    let (waiting, refused) = app.pressure.read();
    reading.level(&WAITING, &[], waiting as f64);
    reading.counted(&REFUSED, &[], refused);
    reading.level(&BUILD, &[env!("CARGO_PKG_VERSION")], 1.0);
    reading
}
