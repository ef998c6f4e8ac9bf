//! Whether more comes than can be done. Then calls are refused before anything is spent on them, so that those which
//! are under way come to their end: work that is given up half done would help nobody.
//!
//! What tells is how late a task runs that only looks at the clock: everything that is ready to run stands before it.
//! With few calls under way it is somebody else who keeps the machine busy, and to refuse them would not help.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Method, Request, StatusCode};
use axum::response::Response;
use tokio::time::{Instant, sleep_until};

/// How often is looked.
const LOOK: Duration = Duration::from_millis(5);
/// Whoever is later than this, again and again, is not late by chance.
const LATE: Duration = Duration::from_millis(10);
const AGAIN: usize = 3;
/// All is well again.
const IN_TIME: Duration = Duration::from_millis(2);
/// Fewer calls than this are never too many. A refusal costs about half of a call, so that to refuse early would leave
/// next to nothing of the processor for those who are let in.
const FEW: usize = 1024;

const REFUSAL: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"the server has more calls than it can do: try again in a second","data":{"code":"rate_limited","retryable":true,"retry_after":1}}}"#;

/// What is known of it by everybody who answers.
#[derive(Default)]
pub(super) struct Pressure {
    is_late: AtomicBool,
    calls: AtomicUsize,
}

/// What becomes of a request.
pub(super) enum Entered {
    /// It is let in, and counted if it is a call.
    In(Option<UnderWay>),
    /// It is to be answered with [`refusal`].
    Refused,
}

/// A call under way, for as long as this lives.
pub(super) struct UnderWay(Arc<Pressure>);

impl Pressure {
    /// Looks for as long as it is polled.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut late = 0;
        loop {
            let due = Instant::now() + LOOK;
            sleep_until(due).await;
            let by = due.elapsed();
            late = if LATE < by { late + 1 } else { 0 };
            if late == AGAIN {
                self.is_late.store(true, Relaxed);
            } else if by < IN_TIME {
                self.is_late.store(false, Relaxed);
            }
        }
    }

    /// Lets a request in, unless it is a call for which there is no time.
    pub(super) fn enter<B>(self: &Arc<Self>, request: &Request<B>) -> Entered {
        if !is_call(request) {
            return Entered::In(None);
        }
        let before = self.calls.fetch_add(1, Relaxed);
        let under_way = UnderWay(Arc::clone(self));
        if FEW <= before && self.is_late.load(Relaxed) {
            return Entered::Refused;
        }
        Entered::In(Some(under_way))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Relaxed);
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
    use super::*;

    fn request(method: Method, path: &str) -> Request<()> {
        Request::builder().method(method).uri(path).body(()).unwrap()
    }

    fn is_refused(pressure: &Arc<Pressure>, request: &Request<()>) -> bool {
        matches!(pressure.enter(request), Entered::Refused)
    }

    #[test]
    fn calls_are_refused_when_there_are_many_and_it_is_late() {
        let pressure = Arc::new(Pressure::default());
        let call = request(Method::POST, "/mcp");
        let mut under_way: Vec<_> = (0..FEW).map(|_| pressure.enter(&call)).collect();
        assert!(!is_refused(&pressure, &call), "all is in time");
        pressure.is_late.store(true, Relaxed);
        assert!(is_refused(&pressure, &call));
        for path in ["/api/tools/a:b/execute", "/api/agents/tools/call", "/tools/a", "/mcp/a"] {
            assert!(is_refused(&pressure, &request(Method::POST, path)), "{path}");
        }
        assert!(!is_refused(&pressure, &request(Method::GET, "/health")));
        assert!(!is_refused(&pressure, &request(Method::POST, "/api/sources/a/reset")));
        under_way.pop();
        assert!(!is_refused(&pressure, &call), "there are few");
    }

    #[test]
    fn whoever_is_late_again_and_again_is_under_pressure_until_all_is_in_time() {
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
        assert!(pressure.is_late.load(Relaxed));
        // Other work on the machine may make it late now and then.
        let is_over = async {
            while pressure.is_late.load(Relaxed) {
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
