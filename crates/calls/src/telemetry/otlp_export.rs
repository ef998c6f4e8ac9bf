//! Pushes metrics and spans to a collector. A collector that hangs, rejects or is unreachable loses only its own data:
//! metrics are cumulative, so the next push contains everything; spans are retried for a while where that may help, and
//! spans that do not fit into the queue are dropped.

use std::sync::Arc;
use std::time::Duration;

use catalog::clock::Clock;
use limits::instruments::Counter;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;
use upstream::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use upstream::http::{
    ExchangeLimits, HttpClient, HttpError, Method, UpstreamRequest, Url, retry_after,
};

use super::metrics_snapshot::{MetricDefinition, MetricKind, MetricsSnapshot};
use super::otlp::{OtlpEncoder, OtlpMessage, OtlpProtocol};
use super::span::{SpanTracer, TraceSpan, unix_nanos};

/// How many spans are pushed at once, and how long they are collected.
const SPAN_BATCH: usize = 512;
const SPAN_BATCH_DELAY: Duration = Duration::from_secs(2);
/// How long spans are retried, and the first retry delay, which doubles.
const SPAN_RETRY_TIME: Duration = Duration::from_secs(60);
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
/// The most bytes to read of an answer: more than any collector sends.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

static EXPORTS: MetricDefinition = MetricDefinition {
    name: "toolcrib_telemetry_exports_total",
    kind: MetricKind::Counter,
    labels: &["signal", "outcome"],
    help: "Pushes to a collector.",
};
static DROPPED: MetricDefinition = MetricDefinition {
    name: "toolcrib_telemetry_spans_dropped_total",
    kind: MetricKind::Counter,
    labels: &[],
    help: "Spans that were dropped, since a collector did not take them in time.",
};

/// The metrics of the exporter itself.
pub static EXPORT_METRICS: [&MetricDefinition; 2] = [&EXPORTS, &DROPPED];

/// The collector of one signal. Not printable, because its headers contain secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct OtlpCollector {
    /// The full URL, including its path.
    pub url: Url,
    /// The encoding of pushes.
    pub protocol: OtlpProtocol,
    /// Headers of every push, including credentials.
    pub headers: HeaderMap,
    /// How long a push may take.
    pub timeout: Duration,
}

/// Where telemetry is pushed, and how.
#[derive(Clone)]
pub struct OtlpOptions {
    /// The collector of metrics; none if they are not pushed.
    pub metrics: Option<OtlpCollector>,
    /// The collector of spans; none if they are not pushed.
    pub traces: Option<OtlpCollector>,
    /// How often metrics are pushed.
    pub every: Duration,
    /// Attributes of the resource, `service.name` among them.
    pub resource: Vec<(String, String)>,
}

/// Pushes metrics and spans to collectors.
pub struct OtlpExporter {
    otlp: OtlpOptions,
    client: HttpClient,
    clock: Arc<dyn Clock>,
    encoder: OtlpEncoder,
    tracer: Arc<SpanTracer>,
    spans: Mutex<PendingSpans>,
    /// For metrics and for spans: successful and failed pushes.
    exports: [[Counter; 2]; 2],
}

/// Spans on their way. Spans of an interrupted push stay for the next one; a collector detects duplicates by their ids.
struct PendingSpans {
    queue: mpsc::Receiver<TraceSpan>,
    batch: Vec<TraceSpan>,
}

impl OtlpExporter {
    /// Pushes through this client, which may reach the collectors that the operator configured.
    pub fn new(otlp: OtlpOptions, client: HttpClient, clock: impl Clock + 'static) -> Arc<Self> {
        let now = clock.now();
        let (tracer, coming) = SpanTracer::new(now);
        let spans = PendingSpans { queue: coming, batch: Vec::new() };
        let teller = OtlpEncoder { resource: otlp.resource.clone(), since: unix_nanos(now) };
        let (spans, exports) = (Mutex::new(spans), Default::default());
        Arc::new(Self {
            otlp,
            client,
            clock: Arc::new(clock),
            encoder: teller,
            tracer,
            spans,
            exports,
        })
    }

    /// The tracer, if spans are pushed.
    pub fn tracer(&self) -> Option<Arc<SpanTracer>> {
        self.otlp.traces.as_ref().map(|_| Arc::clone(&self.tracer))
    }

    /// Pushes for as long as it is polled.
    pub async fn run_pushes(&self, read: impl Fn() -> MetricsSnapshot) {
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

    /// Pushes the remaining telemetry, once. Spans that still remain are counted as dropped.
    pub async fn push_remaining(&self, reading: &MetricsSnapshot) {
        let spans = async { while self.push_spans(false).await {} };
        let all = async {
            tokio::join!(self.push_metrics(reading), spans);
        };
        let collectors = [&self.otlp.metrics, &self.otlp.traces];
        let longest = collectors.into_iter().flatten().map(|it| it.timeout).max();
        if tokio::time::timeout(longest.unwrap_or_default(), all).await.is_err() {
            let spans = self.spans.try_lock();
            let left = spans.map_or(0, |spans| spans.batch.len() + spans.queue.len());
            self.count_dropped(left);
            tracing::warn!(
                left,
                "the last of what was measured was not taken in time, nor were {left} spans"
            );
        }
    }

    /// Adds the metrics of the exporter itself.
    pub fn add_metrics(&self, into: &mut MetricsSnapshot) {
        for (signal, counters) in ["metrics", "traces"].iter().zip(&self.exports) {
            for (word, counter) in ["taken", "failed"].into_iter().zip(counters) {
                into.add_labelled_counter(&EXPORTS, &[signal, word], counter);
            }
        }
        into.add_counter(&DROPPED, &self.tracer.dropped);
    }

    async fn push_metrics(&self, reading: &MetricsSnapshot) {
        let Some(collector) = &self.otlp.metrics else { return };
        let message = self.encoder.metrics_message(reading, unix_nanos(self.clock.now()));
        let [metrics, _] = &self.exports;
        drop(self.send_message(collector, &message, metrics).await);
    }

    /// Pushes one batch of spans; waits for one if `waits`. Returns whether there were any spans.
    async fn push_spans(&self, waits: bool) -> bool {
        let mut spans = self.spans.lock().await;
        let PendingSpans { queue: coming, batch: group } = &mut *spans;
        if waits && group.is_empty() {
            if coming.recv_many(group, SPAN_BATCH).await == 0 {
                return std::future::pending().await;
            }
            if group.len() < SPAN_BATCH {
                tokio::time::sleep(SPAN_BATCH_DELAY).await;
            }
        }
        while group.len() < SPAN_BATCH
            && let Ok(span) = coming.try_recv()
        {
            group.push(span);
        }
        let Some(collector) = self.otlp.traces.as_ref().filter(|_| !group.is_empty()) else {
            return false;
        };
        let [_, traces] = &self.exports;
        let (until, mut rest) = (Instant::now() + SPAN_RETRY_TIME, FIRST_RETRY_DELAY);
        while let Err(not_taken) =
            self.send_message(collector, &self.encoder.spans_message(group), traces).await
        {
            let wished = not_taken.retry_in.map(|wished| wished.max(rest));
            let at = wished.and_then(|wished| Instant::now().checked_add(wished));
            let Some(at) = at.filter(|at| *at < until) else {
                self.count_dropped(group.len());
                break;
            };
            tokio::time::sleep_until(at).await;
            rest *= 2;
        }
        group.clear();
        true
    }

    fn count_dropped(&self, spans: usize) {
        self.tracer.dropped.add(u64::try_from(spans).unwrap_or(u64::MAX));
    }

    async fn send_message(
        &self,
        OtlpCollector { url, protocol, headers, timeout }: &OtlpCollector,
        message: &OtlpMessage<'_>,
        counters: &[Counter; 2],
    ) -> Result<(), PushRejected> {
        let mut headers = headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(protocol.media_type()));
        let (url, body) = (url.clone(), Some(protocol.encode_message(message)));
        let request = UpstreamRequest { method: Method::POST, url, headers, body };
        let limits = ExchangeLimits { deadline: *timeout, max_bytes: MAX_ANSWER_BYTES };
        let [taken, failed] = counters;
        let (problem, again_in) = match self.client.send(request, limits).await {
            Ok(answer) if (200..300).contains(&answer.status) => {
                taken.increment();
                return Ok(());
            }
            Ok(answer) => {
                // OTLP defines these as retryable; any other failure is permanent.
                let may_pass = matches!(answer.status, 429 | 502..=504);
                let wished =
                    retry_after(&answer.headers).map_or(Duration::ZERO, Duration::from_secs);
                let problem = format!("it answers with status {}", answer.status);
                (problem, may_pass.then_some(wished))
            }
            Err(error) => {
                // In every other case the collector may have accepted the push, or we may not reach it.
                let may_pass = matches!(
                    error,
                    HttpError::Connect { .. }
                        | HttpError::ResponseLost { .. }
                        | HttpError::Timeout { .. }
                );
                (model::format_error_chain(&error), may_pass.then_some(Duration::ZERO))
            }
        };
        // One log line is enough; the metric counts the rest.
        if failed.read() == 0 {
            tracing::warn!("a collector does not take what was measured: {problem}");
        }
        failed.increment();
        Err(PushRejected { retry_in: again_in })
    }
}

/// The collector did not accept a push.
struct PushRejected {
    /// When to retry, if a retry may help.
    retry_in: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use catalog::clock::SystemClock;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use upstream::egress::EgressPolicy;

    use super::super::span::SpanKind;
    use super::*;

    /// A collector that answers with this status, or never; and the number of spans that it received.
    async fn collector(status: Option<u16>) -> (Url, Arc<AtomicUsize>) {
        collector_of(move |_| status, "").await
    }

    /// A collector that may answer each push differently.
    async fn collector_of(
        status: impl Fn(usize) -> Option<u16> + Send + 'static,
        headers: &'static str,
    ) -> (Url, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let told = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&told);
        tokio::spawn(async move {
            for number in 0.. {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut text = String::new();
                while !is_whole(&text) {
                    let mut bytes = [0; 64 << 10];
                    let read = stream.read(&mut bytes).await.unwrap();
                    text.push_str(std::str::from_utf8(bytes.get(..read).unwrap()).unwrap());
                }
                counted.fetch_add(text.matches("\"spanId\"").count(), Ordering::Relaxed);
                let Some(status) = status(number) else { return std::future::pending().await };
                let answer = format!(
                    "HTTP/1.1 {status} Said\r\n{headers}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        (url.parse().unwrap(), told)
    }

    fn is_whole(text: &str) -> bool {
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        length.unwrap().parse::<usize>().unwrap() <= body.len()
    }

    fn exporter(traces: Url, timeout: Duration) -> Arc<OtlpExporter> {
        let otlp = OtlpOptions {
            metrics: None,
            traces: Some(OtlpCollector {
                url: traces,
                protocol: OtlpProtocol::Json,
                headers: HeaderMap::new(),
                timeout,
            }),
            every: Duration::from_secs(60),
            resource: Vec::new(),
        };
        let client = HttpClient::new(EgressPolicy { allow_private: true, allowed: Vec::new() });
        OtlpExporter::new(otlp, client, SystemClock)
    }

    fn done(exporter: &OtlpExporter, spans: usize) {
        for _ in 0..spans {
            drop(exporter.tracer.begin_span(None, SpanKind::Server, || "name".to_owned()));
        }
    }

    #[tokio::test]
    async fn spans_of_an_interrupted_push_are_pushed_in_the_end_with_all_others() {
        let (url, told) = collector(Some(200)).await;
        let exporter = exporter(url, Duration::from_secs(20));
        done(&exporter, 3);
        let push = exporter.run_pushes(MetricsSnapshot::default);
        assert!(tokio::time::timeout(Duration::from_millis(100), push).await.is_err());
        done(&exporter, 2 * SPAN_BATCH);
        exporter.push_remaining(&MetricsSnapshot::default()).await;
        assert_eq!(told.load(Ordering::Relaxed), 3 + 2 * SPAN_BATCH);
        assert_eq!(exporter.tracer.dropped.read(), 0);
    }

    #[tokio::test]
    async fn spans_that_a_collector_may_accept_later_are_pushed_again() {
        for status in [429, 502, 503, 504] {
            let (url, told) =
                collector_of(move |number| Some([status, 200][number.min(1)]), "").await;
            let exporter = exporter(url, Duration::from_secs(20));
            done(&exporter, 3);
            assert!(exporter.push_spans(false).await);
            assert_eq!((told.load(Ordering::Relaxed), exporter.tracer.dropped.read()), (6, 0));
        }
        // Some are rejected permanently, and some would be accepted only after the retry time.
        for (status, wishes) in [(400, ""), (503, "Retry-After: 18446744073709551615\r\n")] {
            let (url, told) = collector_of(move |_| Some(status), wishes).await;
            let exporter = exporter(url, Duration::from_secs(20));
            done(&exporter, 3);
            assert!(exporter.push_spans(false).await);
            assert_eq!((told.load(Ordering::Relaxed), exporter.tracer.dropped.read()), (3, 3));
        }
    }

    #[tokio::test]
    async fn spans_that_a_collector_does_not_accept_are_counted() {
        for status in [Some(503), None] {
            let (url, _) = collector(status).await;
            let exporter = exporter(url, Duration::from_millis(500));
            done(&exporter, SPAN_BATCH + 10);
            exporter.push_remaining(&MetricsSnapshot::default()).await;
            assert_eq!(exporter.tracer.dropped.read(), SPAN_BATCH as u64 + 10, "{status:?}");
        }
    }
}
