//! Metrics of the endpoints: HTTP requests by route, MCP messages by method. Label values come from fixed tables;
//! anything else counts as `other`, so callers cannot create new time series.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use toolcrib::telemetry::{Counter, Gauge, Histogram, Metric, MetricKind, Reading, TIMES};

const OTHER: &str = "other";
const STATUSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", OTHER];
/// Methods of the MCP specification.
const MESSAGES: [&str; 19] = [
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

pub(super) static REQUESTS: Metric = Metric {
    name: "toolcrib_http_requests_total",
    kind: MetricKind::Counter,
    labels: &["method", "route", "status"],
    help: "Requests that were answered.",
};
pub(super) static REQUEST_DURATION: Metric = Metric {
    name: "toolcrib_http_request_duration_seconds",
    kind: MetricKind::Seconds,
    labels: &["route"],
    help: "How long it took until an answer began.",
};
pub(super) static REQUESTS_ACTIVE: Metric = Metric {
    name: "toolcrib_http_requests_active",
    kind: MetricKind::Gauge,
    labels: &[],
    help: "Requests whose answer has not begun.",
};
pub(super) static MCP_REQUESTS: Metric = Metric {
    name: "toolcrib_mcp_requests_total",
    kind: MetricKind::Counter,
    labels: &["method"],
    help: "Requests of MCP over HTTP.",
};
pub(super) static MCP_SESSIONS: Metric = Metric {
    name: "toolcrib_mcp_sessions_total",
    kind: MetricKind::Counter,
    labels: &[],
    help: "Sessions of MCP that began, in versions that have them.",
};

/// Counters and durations of all routes and of MCP.
pub(crate) struct Doors {
    routes: HashMap<&'static str, RouteMeters>,
    unknown: RouteMeters,
    active: Gauge,
    messages: [Counter; MESSAGES.len()],
    sessions: Counter,
}

struct RouteMeters {
    counts: [[Counter; STATUSES.len()]; METHODS.len()],
    times: Histogram,
}

impl RouteMeters {
    fn new() -> Self {
        Self { counts: Default::default(), times: Histogram::new(&TIMES) }
    }

    fn read(&self, route: &str, into: &mut Reading) {
        for (method, counters) in METHODS.iter().zip(&self.counts) {
            for (status, counter) in STATUSES.into_iter().zip(counters) {
                into.count_of(&REQUESTS, &[method, route, status], counter);
            }
        }
        into.times(&REQUEST_DURATION, &[route], &self.times);
    }
}

/// The HTTP method as a label value: `other` if it is not in the table.
pub(crate) fn method_word(method: &Method) -> &'static str {
    METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or(OTHER)
}

/// A request in progress; dropping it decrements the gauge of active requests.
pub(crate) struct Measured<'a> {
    doors: &'a Doors,
    start: Instant,
}

impl Doors {
    /// Creates the metrics for the routes with these paths.
    pub(crate) fn new(paths: impl Iterator<Item = &'static str>) -> Self {
        Self {
            routes: paths.map(|path| (path, RouteMeters::new())).collect(),
            unknown: RouteMeters::new(),
            active: Gauge::default(),
            messages: Default::default(),
            sessions: Counter::default(),
        }
    }

    pub(crate) fn begin(&self) -> Measured<'_> {
        self.active.change(1);
        Measured { doors: self, start: Instant::now() }
    }

    /// Counts an MCP request.
    pub(crate) fn message(&self, method: &str) {
        let place = MESSAGES.iter().position(|known| *known == method);
        if let Some(counter) = self.messages.get(place.unwrap_or(MESSAGES.len() - 1)) {
            counter.one();
        }
    }

    pub(crate) fn session(&self) {
        self.sessions.one();
    }

    pub(super) fn read(&self, into: &mut Reading) {
        let mut routes: Vec<_> = self.routes.iter().collect();
        routes.sort_unstable_by_key(|(path, _)| **path);
        for (path, meters) in routes {
            // Some parsers of the text format take any `}` for the end of the labels.
            meters.read(&path.replace('{', ":").replace('}', ""), into);
        }
        self.unknown.read(OTHER, into);
        into.gauge(&REQUESTS_ACTIVE, &self.active);
        for (method, counter) in MESSAGES.into_iter().zip(&self.messages) {
            into.count_of(&MCP_REQUESTS, &[method], counter);
        }
        into.count(&MCP_SESSIONS, &self.sessions);
    }
}

impl Measured<'_> {
    /// Counts the request as answered; returns how long it took.
    pub(crate) fn end(self, path: &str, method: &Method, status: StatusCode) -> Duration {
        let (took, route) = (self.start.elapsed(), self.doors.routes.get(path));
        let route = route.unwrap_or(&self.doors.unknown);
        let method = METHODS.iter().position(|known| *known == method.as_str());
        let counters = route.counts.get(method.unwrap_or(METHODS.len() - 1));
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(counter) = counters.and_then(|counters| counters.get(class)) {
            counter.one();
        }
        route.times.took(took);
        took
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        self.doors.active.change(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_never_contain_text_of_callers() {
        let doors = Doors::new(["/mcp"].into_iter());
        for number in 0..10_000 {
            let method = Method::from_bytes(format!("M{number}").as_bytes()).unwrap();
            doors.begin().end(&format!("/{number}"), &method, StatusCode::NOT_FOUND);
            doors.message(&format!("m/{number}"));
        }
        doors.begin().end("/mcp", &Method::POST, StatusCode::OK);
        drop(doors.begin());
        let mut reading = Reading::default();
        doors.read(&mut reading);
        let text = reading.to_text();
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
