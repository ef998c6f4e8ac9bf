//! Metrics of the endpoints: HTTP requests by route, MCP messages by method. Label values come from fixed tables;
//! anything else counts as `other`, so callers cannot create new time series.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use toolcrib::telemetry::{
    Counter, DURATION_BOUNDS, Gauge, Histogram, MetricDefinition, MetricKind, MetricsSnapshot,
};

const OTHER: &str = "other";
const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
const HTTP_METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", OTHER];
/// Methods of the MCP specification.
const MCP_METHODS: [&str; 19] = [
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
    OTHER,
];

pub static REQUESTS: MetricDefinition = MetricDefinition {
    name: "toolcrib_http_requests_total",
    kind: MetricKind::Counter,
    labels: &["method", "route", "status"],
    help: "Requests that were answered.",
};
pub static REQUEST_DURATION: MetricDefinition = MetricDefinition {
    name: "toolcrib_http_request_duration_seconds",
    kind: MetricKind::Seconds,
    labels: &["route"],
    help: "How long it took until an answer began.",
};
pub static REQUESTS_ACTIVE: MetricDefinition = MetricDefinition {
    name: "toolcrib_http_requests_active",
    kind: MetricKind::Gauge,
    labels: &[],
    help: "Requests whose answer has not begun.",
};
pub static MCP_REQUESTS: MetricDefinition = MetricDefinition {
    name: "toolcrib_mcp_requests_total",
    kind: MetricKind::Counter,
    labels: &["method"],
    help: "Requests of MCP over HTTP.",
};
pub static MCP_SESSIONS: MetricDefinition = MetricDefinition {
    name: "toolcrib_mcp_sessions_total",
    kind: MetricKind::Counter,
    labels: &[],
    help: "Sessions of MCP that began, in versions that have them.",
};

/// Counters and durations of all routes and of MCP.
pub struct EndpointMetrics {
    routes: HashMap<&'static str, RouteMeters>,
    unknown: RouteMeters,
    active: Gauge,
    mcp_requests: [Counter; MCP_METHODS.len()],
    mcp_sessions: Counter,
}

struct RouteMeters {
    counts: [[Counter; STATUS_CLASSES.len()]; HTTP_METHODS.len()],
    times: Histogram,
}

impl RouteMeters {
    fn new() -> Self {
        Self { counts: Default::default(), times: Histogram::new(&DURATION_BOUNDS) }
    }

    fn collect_into(&self, route: &str, into: &mut MetricsSnapshot) {
        for (method, counters) in HTTP_METHODS.iter().zip(&self.counts) {
            for (status, counter) in STATUS_CLASSES.into_iter().zip(counters) {
                into.add_labelled_counter(&REQUESTS, &[method, route, status], counter);
            }
        }
        into.add_histogram(&REQUEST_DURATION, &[route], &self.times);
    }
}

/// The HTTP method as a label value: `other` if it is not in the table.
pub(crate) fn method_label(method: &Method) -> &'static str {
    HTTP_METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or(OTHER)
}

/// A request in progress; dropping it decrements the gauge of active requests.
pub(crate) struct ActiveRequest<'a> {
    metrics: &'a EndpointMetrics,
    start: Instant,
}

impl EndpointMetrics {
    /// Creates the metrics for the routes with these paths.
    pub(crate) fn new(paths: impl Iterator<Item = &'static str>) -> Self {
        Self {
            routes: paths.map(|path| (path, RouteMeters::new())).collect(),
            unknown: RouteMeters::new(),
            active: Gauge::default(),
            mcp_requests: Default::default(),
            mcp_sessions: Counter::default(),
        }
    }

    pub(crate) fn begin_request(&self) -> ActiveRequest<'_> {
        self.active.add_signed(1);
        ActiveRequest { metrics: self, start: Instant::now() }
    }

    /// Counts an MCP request.
    pub fn count_mcp_request(&self, method: &str) {
        let place = MCP_METHODS.iter().position(|known| *known == method);
        if let Some(counter) = self.mcp_requests.get(place.unwrap_or(MCP_METHODS.len() - 1)) {
            counter.increment();
        }
    }

    pub fn count_mcp_session(&self) {
        self.mcp_sessions.increment();
    }

    pub fn collect_into(&self, into: &mut MetricsSnapshot) {
        let mut routes: Vec<_> = self.routes.iter().collect();
        routes.sort_unstable_by_key(|(path, _)| **path);
        for (path, meters) in routes {
            // Some parsers of the text format take any `}` for the end of the labels.
            meters.collect_into(&path.replace('{', ":").replace('}', ""), into);
        }
        self.unknown.collect_into(OTHER, into);
        into.add_gauge(&REQUESTS_ACTIVE, &self.active);
        for (method, counter) in MCP_METHODS.into_iter().zip(&self.mcp_requests) {
            into.add_labelled_counter(&MCP_REQUESTS, &[method], counter);
        }
        into.add_counter(&MCP_SESSIONS, &self.mcp_sessions);
    }
}

impl ActiveRequest<'_> {
    /// Counts the request as answered; returns how long it took.
    pub(crate) fn finish_request(
        self,
        path: &str,
        method: &Method,
        status: StatusCode,
    ) -> Duration {
        let (took, route) = (self.start.elapsed(), self.metrics.routes.get(path));
        let route = route.unwrap_or(&self.metrics.unknown);
        let method = HTTP_METHODS.iter().position(|known| *known == method.as_str());
        let counters = route.counts.get(method.unwrap_or(HTTP_METHODS.len() - 1));
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(counter) = counters.and_then(|counters| counters.get(class)) {
            counter.increment();
        }
        route.times.record_duration(took);
        took
    }
}

impl Drop for ActiveRequest<'_> {
    fn drop(&mut self) {
        self.metrics.active.add_signed(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_never_contain_text_of_callers() {
        let metrics = EndpointMetrics::new(["/mcp"].into_iter());
        for number in 0..10_000 {
            let method = Method::from_bytes(format!("M{number}").as_bytes()).unwrap();
            metrics.begin_request().finish_request(
                &format!("/{number}"),
                &method,
                StatusCode::NOT_FOUND,
            );
            metrics.count_mcp_request(&format!("m/{number}"));
        }
        metrics.begin_request().finish_request("/mcp", &Method::POST, StatusCode::OK);
        drop(metrics.begin_request());
        let mut reading = MetricsSnapshot::default();
        metrics.collect_into(&mut reading);
        let text = reading.to_prometheus_text();
        let lines = text.lines().filter(|it| !it.starts_with('#') && !it.contains("duration"));
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                r#"toolcrib_http_requests_total{method="POST",route="/mcp",status="2xx"} 1"#,
                r#"toolcrib_http_requests_total{method="other",route="other",status="4xx"} 10000"#,
                "toolcrib_http_requests_active 0",
                r#"toolcrib_mcp_requests_total{method="other"} 10000"#,
                "toolcrib_mcp_sessions_total 0",
            ]
        );
    }
}
