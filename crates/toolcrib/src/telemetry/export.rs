//! Pushes what was measured and done to a collector. One that hangs, refuses or is not there costs nothing but what it
//! misses: numbers are sums, so the next push says it all, and spans that do not fit are dropped.

use std::sync::Arc;
use std::time::Duration;

use catalog::clock::Clock;
use tokio::sync::{Mutex, mpsc};
use upstream::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use upstream::http::{HttpClient, Limits, Method, Request, Url};

use super::meter::Counter;
use super::otlp::Teller;
use super::reading::{Metric, MetricKind, Reading};
use super::span::{Span, Tracer, nanos};

/// How many spans are pushed at once, and how long they are collected.
const GROUP: usize = 512;
const COLLECTED: Duration = Duration::from_secs(2);
/// More than any collector has to say.
const ANSWER: u64 = 64 << 10;

static EXPORTS: Metric = Metric {
    name: "toolcrib_telemetry_exports_total",
    kind: MetricKind::Counter,
    labels: &["signal", "outcome"],
    help: "Pushes to a collector.",
};
static DROPPED: Metric = Metric {
    name: "toolcrib_telemetry_spans_dropped_total",
    kind: MetricKind::Counter,
    labels: &[],
    help: "Spans that were dropped, since a collector did not take them in time.",
};

/// What exporters tell of themselves.
pub static EXPORT_METRICS: [&Metric; 2] = [&EXPORTS, &DROPPED];

/// Where to push, and how. It cannot be printed: headers hold secrets.
#[derive(Clone)]
pub struct Otlp {
    /// Where metrics go, if they go anywhere.
    pub metrics: Option<Url>,
    /// Where spans go, if they go anywhere.
    pub traces: Option<Url>,
    /// With every push, credentials among them.
    pub headers: HeaderMap,
    /// How long a push may take.
    pub timeout: Duration,
    /// How often metrics are pushed.
    pub every: Duration,
    /// Attributes of the resource, `service.name` among them.
    pub resource: Vec<(String, String)>,
}

/// Pushes to a collector.
pub struct Exporter {
    otlp: Otlp,
    client: HttpClient,
    clock: Arc<dyn Clock>,
    teller: Teller,
    tracer: Arc<Tracer>,
    spans: Mutex<mpsc::Receiver<Span>>,
    /// Of metrics and of spans, each taken and not.
    exports: [[Counter; 2]; 2],
}

impl Exporter {
    /// Through this client, which may reach what an operator has named.
    pub fn new(otlp: Otlp, client: HttpClient, clock: impl Clock + 'static) -> Arc<Self> {
        let now = clock.now();
        let (tracer, spans) = Tracer::new(now);
        let teller = Teller { resource: otlp.resource.clone(), since: nanos(now) };
        let (spans, exports) = (Mutex::new(spans), Default::default());
        Arc::new(Self { otlp, client, clock: Arc::new(clock), teller, tracer, spans, exports })
    }

    /// Begins the spans that are pushed, if any are.
    pub fn tracer(&self) -> Option<Arc<Tracer>> {
        self.otlp.traces.as_ref().map(|_| Arc::clone(&self.tracer))
    }

    /// Pushes for as long as it is polled.
    pub async fn push(&self, read: impl Fn() -> Reading) {
        let metrics = async {
            loop {
                tokio::time::sleep(self.otlp.every).await;
                self.push_metrics(&read()).await;
            }
        };
        let spans = async {
            loop {
                self.push_spans(true).await;
            }
        };
        tokio::join!(metrics, spans);
    }

    /// Pushes what is left, once.
    pub async fn push_last(&self, reading: &Reading) {
        let all = async {
            tokio::join!(self.push_metrics(reading), self.push_spans(false));
        };
        if tokio::time::timeout(self.otlp.timeout, all).await.is_err() {
            tracing::warn!("the last of what was measured was not taken in time");
        }
    }

    /// Adds how the pushes went.
    pub fn read(&self, into: &mut Reading) {
        for (signal, counters) in ["metrics", "traces"].iter().zip(&self.exports) {
            for (word, counter) in ["taken", "failed"].into_iter().zip(counters) {
                into.count_of(&EXPORTS, &[signal, word], counter);
            }
        }
        into.count(&DROPPED, &self.tracer.dropped);
    }

    async fn push_metrics(&self, reading: &Reading) {
        let Some(url) = &self.otlp.metrics else { return };
        let body = self.teller.metrics(reading, nanos(self.clock.now()));
        let [metrics, _] = &self.exports;
        self.send(url, body.to_string().into_bytes(), metrics).await;
    }

    /// One group of spans, when there is one; or all that there are now.
    async fn push_spans(&self, waits: bool) {
        let (mut spans, mut group) = (self.spans.lock().await, Vec::new());
        if waits {
            if spans.recv_many(&mut group, GROUP).await == 0 {
                return std::future::pending().await;
            }
            if group.len() < GROUP {
                tokio::time::sleep(COLLECTED).await;
            }
        }
        while group.len() < GROUP
            && let Ok(span) = spans.try_recv()
        {
            group.push(span);
        }
        let Some(url) = self.otlp.traces.as_ref().filter(|_| !group.is_empty()) else { return };
        let [_, traces] = &self.exports;
        self.send(url, self.teller.spans(&group).to_string().into_bytes(), traces).await;
    }

    async fn send(&self, url: &Url, body: Vec<u8>, counters: &[Counter; 2]) {
        let mut headers = self.otlp.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = Request { method: Method::POST, url: url.clone(), headers, body: Some(body) };
        let limits = Limits { deadline: self.otlp.timeout, max_bytes: ANSWER };
        let problem = match self.client.send(request, limits).await {
            Ok(answer) if (200..300).contains(&answer.status) => None,
            Ok(answer) => Some(format!("it answers with status {}", answer.status)),
            Err(error) => Some(model::sentence(&error)),
        };
        let [taken, failed] = counters;
        match problem {
            None => taken.one(),
            Some(problem) => {
                // Once is enough to know; the counter has the rest.
                if failed.read() == 0 {
                    tracing::warn!("a collector does not take what was measured: {problem}");
                }
                failed.one();
            }
        }
    }
}
