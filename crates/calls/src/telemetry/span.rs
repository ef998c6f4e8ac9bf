//! Spans of a trace, for an exporter. They wait in a bounded queue, and a call never waits for it.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use limits::instruments::Counter;
use model::TraceContext;
use tokio::sync::mpsc;

/// How many spans wait to be exported; further ones are dropped and counted.
pub(super) const SPAN_QUEUE: usize = 4_096;

/// Begins spans. It exists only if spans are exported.
pub struct SpanTracer {
    queue: mpsc::Sender<TraceSpan>,
    /// One moment by the monotonic clock and by the wall clock.
    began: (Instant, u64),
    pub(super) dropped: Counter,
}

/// The side of a request that a span describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A request from an agent to toolcrib.
    Server,
    /// A request from toolcrib to an upstream.
    Client,
}

/// An operation within a trace.
#[derive(Debug)]
pub(super) struct TraceSpan {
    pub(super) context: TraceContext,
    pub(super) parent: Option<[u8; 8]>,
    pub(super) name: String,
    pub(super) kind: SpanKind,
    /// In nanoseconds since 1970.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) attributes: Vec<(&'static str, String)>,
    pub(super) has_failed: bool,
}

/// A running operation. If it is dropped before its end, it counts as failed.
pub struct OpenSpan {
    tracer: Arc<SpanTracer>,
    start: Instant,
    /// `None` once it is in the queue.
    span: Option<Box<TraceSpan>>,
}

impl SpanTracer {
    pub(super) fn new(now: Timestamp) -> (Arc<Self>, mpsc::Receiver<TraceSpan>) {
        let (queue, spans) = mpsc::channel(SPAN_QUEUE);
        let began = (Instant::now(), unix_nanos(now));
        (Arc::new(Self { queue, began, dropped: Counter::default() }), spans)
    }

    /// Begins a span, in its own trace if it has no parent; `None` if the parent's trace is not sampled.
    pub fn begin_span(
        self: &Arc<Self>,
        parent: Option<&TraceContext>,
        kind: SpanKind,
        name: impl FnOnce() -> String,
    ) -> Option<OpenSpan> {
        let context = match parent {
            Some(parent) if !parent.is_sampled() => return None,
            Some(parent) => parent.with_span(random_bytes()),
            None => TraceContext::new(random_bytes(), random_bytes(), true)?,
        };
        let (parent, start) = (parent.map(TraceContext::span_bytes), Instant::now());
        let span = TraceSpan {
            context,
            parent,
            name: name(),
            kind,
            start: self.unix_nanos_at(start),
            end: 0,
            attributes: Vec::new(),
            has_failed: true,
        };
        Some(OpenSpan { tracer: Arc::clone(self), start, span: Some(Box::new(span)) })
    }

    fn unix_nanos_at(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.began.0).as_nanos();
        self.began.1.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

impl OpenSpan {
    /// The context for operations within this span.
    pub fn context(&self) -> Option<TraceContext> {
        self.span.as_ref().map(|span| span.context.clone())
    }

    /// Ends the span.
    pub fn finish(mut self, has_failed: bool, attributes: Vec<(&'static str, String)>) {
        if let Some(span) = &mut self.span {
            (span.has_failed, span.attributes) = (has_failed, attributes);
        }
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let Some(mut span) = self.span.take() else { return };
        let took = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        span.end = span.start.saturating_add(took);
        if self.tracer.queue.try_send(*span).is_err() {
            self.tracer.dropped.increment();
        }
    }
}

pub(super) fn unix_nanos(time: Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or_default()
}

fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_span_has_its_parent_and_a_full_queue_drops_spans() {
        let (tracer, mut spans) = SpanTracer::new(Timestamp::UNIX_EPOCH);
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent = TraceContext::from_headers(text, None).unwrap();
        let begin = |parent| tracer.begin_span(parent, SpanKind::Server, || "name".to_owned());
        let span = begin(Some(&parent)).unwrap();
        let context = span.context().unwrap();
        assert_eq!(context.trace_id(), parent.trace_id());
        assert_ne!(context.span_id(), parent.span_id());
        span.finish(false, vec![("a", "b".to_owned())]);
        let told = spans.recv().await.unwrap();
        assert_eq!((told.parent, told.has_failed), (Some(parent.span_bytes()), false));
        let quiet = TraceContext::from_headers(&text.replace("-01", "-00"), None).unwrap();
        assert!(begin(Some(&quiet)).is_none());
        for _ in 0..SPAN_QUEUE + 10 {
            drop(begin(None));
        }
        assert_eq!(tracer.dropped.read(), 10);
        assert!(spans.recv().await.unwrap().has_failed);
    }
}
