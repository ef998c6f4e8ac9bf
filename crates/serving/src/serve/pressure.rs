//! Whether more comes than can be done. Then only as many calls are under way as come to their end soon, and the others
//! wait for their turn. They are not refused, unless there are very many: a refusal costs about half of a call, and whoever
//! is refused asks again at once, so that next to nothing of the processor would be left for those who are let in. Who
//! waits asks for nothing else meanwhile.
//!
//! What tells is how late a task runs that only looks at the clock: everything that is ready to run stands before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Method, Request, StatusCode};
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// How often is looked.
const LOOK: Duration = Duration::from_millis(5);
/// Whoever is later than this, again and again, is not late by chance.
const LATE: Duration = Duration::from_millis(10);
const AGAIN: usize = 3;
/// There is time for more.
const IN_TIME: Duration = Duration::from_millis(2);
/// After so many looks at which nobody waited, all is well again.
const WELL: usize = 100;
/// Fewer calls than this are never too many: it may be somebody else who keeps the machine busy.
const FEW: usize = 128;
/// More than this do not wait: about as many as there may be connections.
const MAY_WAIT: usize = 16_384;
/// More than there can be connections.
const ALL: usize = Semaphore::MAX_PERMITS / 2;

const REFUSAL: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"the server has more calls than it can do: try again in a second","data":{"code":"rate_limited","retryable":true,"retry_after":1}}}"#;

/// What is known of it by everybody who answers.
pub(super) struct Pressure {
    /// Whoever has none waits, one after the other.
    places: Arc<Semaphore>,
    /// How many places there are.
    there_are: AtomicUsize,
    /// How many there should be: those that are too many go when their calls end.
    wanted: AtomicUsize,
    waiting: AtomicUsize,
}

/// What becomes of a request.
pub(super) enum Entered {
    /// It is let in, and counted if it is a call.
    In(Option<UnderWay>),
    /// It is to be answered with [`refusal`].
    Refused,
}

/// A call under way, for as long as this lives.
pub(super) struct UnderWay {
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
        }
    }
}

impl Pressure {
    /// Looks for as long as it is polled.
    pub(super) async fn watch(self: Arc<Self>) {
        let (mut late, mut well) = (0, 0);
        loop {
            let due = Instant::now() + LOOK;
            sleep_until(due).await;
            let by = due.elapsed();
            late = if LATE < by { late + 1 } else { 0 };
            let waiting = self.waiting.load(Relaxed);
            well = if waiting == 0 { well + 1 } else { 0 };
            let wanted = self.wanted.load(Relaxed);
            match self.is_open() {
                true if AGAIN <= late => {
                    tracing::warn!("more calls come than can be done: some have to wait");
                    self.limit(self.under_way() / 2);
                }
                true => {}
                false if AGAIN <= late => self.limit(wanted / 8 * 7),
                false if WELL <= well => {
                    tracing::info!("no call has to wait any more");
                    self.limit(ALL);
                }
                false if waiting != 0 && by < IN_TIME => self.limit(wanted + wanted / 16),
                false => {}
            }
        }
    }

    /// Lets a request in, when it is its turn.
    pub(super) async fn enter<B>(self: &Arc<Self>, request: &Request<B>) -> Entered {
        if !is_call(request) {
            return Entered::In(None);
        }
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return self.under_way_at(place);
        }
        let waits = Waits::new(&self.waiting);
        if MAY_WAIT < self.waiting.load(Relaxed) {
            return Entered::Refused;
        }
        let place = Arc::clone(&self.places).acquire_owned().await;
        drop(waits);
        // The places are never closed.
        place.map_or(Entered::Refused, |place| self.under_way_at(place))
    }

    fn under_way_at(self: &Arc<Self>, place: OwnedSemaphorePermit) -> Entered {
        Entered::In(Some(UnderWay { place: Some(place), pressure: Arc::clone(self) }))
    }

    fn under_way(&self) -> usize {
        self.there_are.load(Relaxed).saturating_sub(self.places.available_permits())
    }

    /// Nobody has to wait.
    fn is_open(&self) -> bool {
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
fn is_call<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    request.method() == Method::POST
        && (path.starts_with("/mcp")
            || path.starts_with("/tools/")
            || path.ends_with("/execute")
            || path == "/api/agents/tools/call")
}

/// For whoever speaks MCP, and understood by all others.
pub(super) fn refusal() -> Response {
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

    /// What becomes of it at once; nothing if it has to wait.
    fn at_once(pressure: &Arc<Pressure>, request: &Request<()>) -> Option<Entered> {
        pressure.enter(request).now_or_never()
    }

    fn is_in(entered: &Option<Entered>) -> bool {
        matches!(entered, Some(Entered::In(_)))
    }

    #[test]
    fn calls_wait_when_there_are_many_and_go_on_one_after_the_other() {
        let pressure = Arc::new(Pressure::default());
        let call = request(Method::POST, "/mcp");
        let mut under_way: Vec<_> = (0..2 * FEW).map(|_| at_once(&pressure, &call)).collect();
        assert!(under_way.iter().all(is_in), "nobody has said that they are too many");
        pressure.limit(FEW);
        for path in
            ["/mcp", "/api/tools/a:b/execute", "/api/agents/tools/call", "/tools/a", "/mcp/a"]
        {
            assert!(at_once(&pressure, &request(Method::POST, path)).is_none(), "{path}");
        }
        assert!(is_in(&at_once(&pressure, &request(Method::GET, "/health"))));
        assert!(is_in(&at_once(&pressure, &request(Method::POST, "/api/sources/a/reset"))));

        under_way.truncate(FEW);
        let mut waits = pin!(pressure.enter(&call));
        assert!(waits.as_mut().now_or_never().is_none(), "those that were too many are gone");
        under_way.pop();
        assert!(waits.now_or_never().is_some(), "one in for one out");
        pressure.limit(ALL);
        assert!(is_in(&at_once(&pressure, &call)));
        drop(under_way);
        assert_eq!(pressure.places.available_permits(), ALL, "no place is lost");
        assert_eq!(pressure.waiting.load(Relaxed), 0);
    }

    #[test]
    fn when_very_many_wait_others_are_refused_at_once() {
        let pressure = Arc::new(Pressure::default());
        let call = request(Method::POST, "/mcp");
        pressure.limit(FEW);
        let under_way: Vec<_> = (0..FEW).map(|_| at_once(&pressure, &call)).collect();
        let mut waiting: Vec<_> = (0..MAY_WAIT).map(|_| Box::pin(pressure.enter(&call))).collect();
        for waits in &mut waiting {
            assert!(waits.as_mut().now_or_never().is_none());
        }
        assert!(matches!(at_once(&pressure, &call), Some(Entered::Refused)));
        waiting.pop();
        assert!(at_once(&pressure, &call).is_none(), "somebody did not wait any longer");
        drop(under_way);
    }

    #[test]
    fn whoever_is_late_again_and_again_is_under_pressure_until_nobody_waits() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let pressure = Arc::new(Pressure::default());
        runtime.spawn(Arc::clone(&pressure).watch());
        let work = async |milliseconds| {
            for _ in 0..2 * AGAIN {
                std::thread::sleep(Duration::from_millis(milliseconds));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        runtime.block_on(work(40));
        assert!(!pressure.is_open());
        // Other work on the machine may make it late now and then.
        let is_over = async {
            while !pressure.is_open() {
                tokio::time::sleep(LOOK).await;
            }
        };
        runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(60), is_over).await })
            .unwrap();
    }

    #[test]
    fn a_refusal_is_an_answer_of_the_protocol() {
        let refused = refusal();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[RETRY_AFTER], "1");
        let said: serde_json::Value = serde_json::from_str(REFUSAL).unwrap();
        assert_eq!(said["error"]["data"]["retryable"], true);
    }
}
