//! Whether more comes than can be done. Then only as many calls are under way as come to their end soon, and the others
//! wait for their turn. They are not refused, unless there are very many: a refusal costs about half of a call, and whoever
//! is refused asks again at once, so that next to nothing of the processor would be left for those who are let in. Who
//! waits asks for nothing else meanwhile.
//!
//! What tells is that the threads of the runtime are never idle. Then fewer calls at a time do no harm; and when there is
//! time, there are more. A call takes its place when the whole of it is there (`turn.rs`).

mod turn;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Method, Request, StatusCode};
use axum::response::Response;
use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use toolcrib::telemetry::Counter;

pub(super) use self::turn::Turn;

/// How often is looked.
const LOOK: Duration = Duration::from_millis(10);
/// Whoever is busy for this share of the time, again and again, has no time left; and for this one, it has.
const BUSY: f64 = 0.95;
const AGAIN: usize = 3;
const IN_TIME: f64 = 0.85;
/// After so many looks at which nobody waited, all is well again.
const WELL: usize = 50;
/// Fewer calls than this are never too many.
const FEW: usize = 64;
/// More than this do not wait, about as many as there may be connections; and none for longer.
const MAY_WAIT: usize = 16_384;
const LONGEST: Duration = Duration::from_secs(30);
/// More than there can be connections.
const ALL: usize = Semaphore::MAX_PERMITS / 2;

const REFUSAL: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"the server has more calls than it can do: try again in a second","data":{"code":"rate_limited","retryable":true,"retry_after":1}}}"#;

/// What is known of it by everybody who answers.
pub(crate) struct Pressure {
    /// Whoever has none waits, one after the other.
    places: Arc<Semaphore>,
    /// How many places there are.
    there_are: AtomicUsize,
    /// How many there should be: those that are too many go when their calls end.
    wanted: AtomicUsize,
    waiting: AtomicUsize,
    refused: Counter,
}

/// A call under way, for as long as this lives.
struct UnderWay {
    place: Option<OwnedSemaphorePermit>,
    pressure: Arc<Pressure>,
}

/// Somebody who waits, for as long as this lives.
struct Waits<'a>(&'a AtomicUsize);

impl Default for Pressure {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(ALL)),
            there_are: AtomicUsize::new(ALL),
            wanted: AtomicUsize::new(ALL),
            waiting: AtomicUsize::new(0),
            refused: Counter::default(),
        }
    }
}

impl Pressure {
    /// Looks for as long as it is polled.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut workers = Workers::here();
        let (mut busy, mut well) = (0, 0);
        loop {
            sleep(LOOK).await;
            let Some(share) = workers.busy_share() else { continue };
            busy = if BUSY <= share { busy + 1 } else { 0 };
            let waiting = self.waiting.load(Relaxed);
            well = if waiting == 0 { well + 1 } else { 0 };
            let wanted = self.wanted.load(Relaxed);
            match self.is_open() {
                true if AGAIN <= busy && FEW < self.under_way() => {
                    tracing::warn!("more calls come than can be done: some have to wait");
                    self.limit(self.under_way() / 4);
                }
                true => {}
                false if BUSY <= share => self.limit(wanted / 4 * 3),
                false if WELL <= well => {
                    tracing::info!("no call has to wait any more");
                    self.limit(ALL);
                }
                false if waiting != 0 && share < IN_TIME => self.limit(wanted + wanted / 4),
                false => {}
            }
        }
    }

    /// A place for a call, if there is one now.
    fn try_enter(self: &Arc<Self>) -> Option<UnderWay> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(UnderWay { place: Some(place), pressure: Arc::clone(self) })
    }

    /// A place for a call, when it is its turn. None if it is to be answered with [`refusal`].
    async fn enter(self: Arc<Self>) -> Option<UnderWay> {
        let waits = Waits::new(&self.waiting);
        if MAY_WAIT < self.waiting.load(Relaxed) {
            return None;
        }
        let place = timeout(LONGEST, Arc::clone(&self.places).acquire_owned()).await;
        drop(waits);
        // An error if it took too long; the places are never closed.
        let place = place.ok()?.ok()?;
        Some(UnderWay { place: Some(place), pressure: self })
    }

    /// What is answered to a call that did not get its turn.
    pub(super) fn refuse(&self) -> Response {
        self.refused.one();
        refusal()
    }

    /// How many calls wait, and how many were refused.
    pub(crate) fn read(&self) -> (usize, u64) {
        (self.waiting.load(Relaxed), self.refused.read())
    }

    fn under_way(&self) -> usize {
        self.there_are.load(Relaxed).saturating_sub(self.places.available_permits())
    }

    /// Nobody has to wait.
    pub(super) fn is_open(&self) -> bool {
        self.wanted.load(Relaxed) == ALL
    }

    /// So many may be under way from now on; only [`watch`](Self::watch) says so.
    fn limit(&self, calls: usize) {
        let wanted = calls.max(FEW);
        self.wanted.store(wanted, Relaxed);
        let there_are = self.there_are.load(Relaxed);
        if there_are < wanted {
            self.there_are.fetch_add(wanted - there_are, Relaxed);
            self.places.add_permits(wanted - there_are);
        } else {
            let gone = self.places.forget_permits(there_are - wanted);
            self.there_are.fetch_sub(gone, Relaxed);
        }
    }

    /// Whether a place is one too many; then it is counted as gone.
    fn is_too_many(&self) -> bool {
        let wanted = self.wanted.load(Relaxed);
        let one_less = |there_are| (wanted < there_are).then(|| there_are - 1);
        wanted < self.there_are.load(Relaxed)
            && self.there_are.fetch_update(Relaxed, Relaxed, one_less).is_ok()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(place) = self.place.take()
            && self.pressure.is_too_many()
        {
            place.forget();
        }
    }
}

/// The threads of the runtime.
struct Workers {
    metrics: RuntimeMetrics,
    seen_at: Instant,
    busy: Duration,
}

impl Workers {
    fn here() -> Self {
        let metrics = Handle::current().metrics();
        Self { busy: busy(&metrics), metrics, seen_at: Instant::now() }
    }

    /// For which share of the time they had something to do since they last said so; nothing if they say it later, as they
    /// do after a number of tasks, however long these take.
    fn busy_share(&mut self) -> Option<f64> {
        let (now, busy) = (Instant::now(), busy(&self.metrics));
        if busy == self.busy {
            return None;
        }
        let time = (now - self.seen_at).mul_f64(self.metrics.num_workers() as f64);
        let share = (busy - self.busy).div_duration_f64(time);
        (self.seen_at, self.busy) = (now, busy);
        Some(share)
    }
}

fn busy(metrics: &RuntimeMetrics) -> Duration {
    (0..metrics.num_workers()).map(|worker| metrics.worker_total_busy_duration(worker)).sum()
}

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// What is asked of tools, and not of the server: whoever wants to know how it is doing is told.
pub(super) fn is_call<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    request.method() == Method::POST
        && (path.starts_with("/mcp")
            || path.starts_with("/tools/")
            || path.ends_with("/execute")
            || path == "/api/agents/tools/call")
}

/// For whoever speaks MCP, and understood by all others.
fn refusal() -> Response {
    let mut response = Response::new(Body::from(REFUSAL));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    fn request(method: Method, path: &str) -> Request<()> {
        Request::builder().method(method).uri(path).body(()).unwrap()
    }

    #[test]
    fn only_what_is_asked_of_tools_has_to_wait() {
        for path in
            ["/mcp", "/api/tools/a:b/execute", "/api/agents/tools/call", "/tools/a", "/mcp/a"]
        {
            assert!(is_call(&request(Method::POST, path)), "{path}");
        }
        assert!(!is_call(&request(Method::GET, "/health")));
        assert!(!is_call(&request(Method::POST, "/api/sources/a/reset")));
    }

    #[tokio::test]
    async fn calls_wait_when_there_are_many_and_go_on_one_after_the_other() {
        let pressure = Arc::new(Pressure::default());
        let mut under_way: Vec<_> = (0..2 * FEW).map(|_| pressure.try_enter()).collect();
        assert!(under_way.iter().all(Option::is_some), "nobody has said that they are too many");
        pressure.limit(FEW);
        assert!(pressure.try_enter().is_none());

        under_way.truncate(FEW);
        let mut waits = pin!(Arc::clone(&pressure).enter());
        assert!(waits.as_mut().now_or_never().is_none(), "those that were too many are gone");
        under_way.pop();
        assert!(waits.now_or_never().flatten().is_some(), "one in for one out");
        pressure.limit(ALL);
        assert!(pressure.try_enter().is_some());
        drop(under_way);
        assert_eq!(pressure.places.available_permits(), ALL, "no place is lost");
        assert_eq!(pressure.waiting.load(Relaxed), 0);
    }

    #[tokio::test]
    async fn when_very_many_wait_others_are_refused_at_once() {
        let pressure = Arc::new(Pressure::default());
        pressure.limit(FEW);
        let under_way: Vec<_> = (0..FEW).map(|_| pressure.try_enter()).collect();
        let enter = || Box::pin(Arc::clone(&pressure).enter());
        let mut waiting: Vec<_> = (0..MAY_WAIT).map(|_| enter()).collect();
        for waits in &mut waiting {
            assert!(waits.as_mut().now_or_never().is_none());
        }
        assert!(matches!(enter().now_or_never(), Some(None)));
        waiting.pop();
        assert!(enter().now_or_never().is_none(), "somebody did not wait any longer");
        drop(under_way);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let pressure = Arc::new(Pressure::default());
        pressure.limit(FEW);
        let under_way: Vec<_> = (0..FEW).map(|_| pressure.try_enter()).collect();
        assert!(Arc::clone(&pressure).enter().await.is_none());
        drop(under_way);
    }

    #[test]
    fn whoever_is_never_idle_is_under_pressure_until_nobody_waits() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap();
        let pressure = Arc::new(Pressure::default());
        let under_way: Vec<_> = (0..2 * FEW).map(|_| pressure.try_enter()).collect();
        runtime.spawn(Arc::clone(&pressure).watch());
        let becomes = |is_open| {
            let by = std::time::Instant::now() + Duration::from_secs(60);
            while pressure.is_open() != is_open {
                assert!(std::time::Instant::now() < by, "{is_open}");
                std::thread::sleep(LOOK);
            }
        };
        std::thread::sleep(LOOK * 10);
        assert!(pressure.is_open(), "there are many, and they wait for others");
        let works = runtime.spawn(async {
            loop {
                std::thread::sleep(Duration::from_millis(1));
                tokio::task::yield_now().await;
            }
        });
        becomes(false);
        works.abort();
        becomes(true);
        drop(under_way);
    }

    #[test]
    fn a_refusal_is_an_answer_of_the_protocol_and_counted() {
        let pressure = Pressure::default();
        let refused = pressure.refuse();
        assert_eq!(pressure.read(), (0, 1));
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[RETRY_AFTER], "1");
        let said: serde_json::Value = serde_json::from_str(REFUSAL).unwrap();
        assert_eq!(said["error"]["data"]["retryable"], true);
    }
}
