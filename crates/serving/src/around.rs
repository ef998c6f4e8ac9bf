//! What holds for every request and answer: an id to find it by, headers that keep browsers out of trouble, the way
//! to a token where one is missing, a line in the log.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_LIMIT: usize = 128;

/// Names one request, in the log, in the journal and in its answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestId(Arc<str>);

impl RequestId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The caller's own, if it can be printed.
    fn of(request: &Request) -> Self {
        let given = request.headers().get(REQUEST_ID).and_then(|value| value.to_str().ok());
        let is_good = |text: &&str| {
            !text.is_empty()
                && text.len() <= REQUEST_ID_LIMIT
                && text.bytes().all(|byte| byte.is_ascii_graphic())
        };
        given.filter(is_good).map_or_else(Self::new, |text| Self(text.into()))
    }

    fn new() -> Self {
        static START: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one("start"));
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(format!("{:016x}-{number:x}", *START).into())
    }
}

pub(crate) async fn every_request(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Response {
    let start = Instant::now();
    let id = RequestId::of(&request);
    request.extensions_mut().insert(id.clone());
    let method = request.method().clone();
    // The route and not the path: what an id holds is nothing for a log.
    let path = request.extensions().get::<MatchedPath>().cloned();
    let path = path.as_ref().map_or("", |path| path.as_str());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(nothing);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        headers.insert(REQUEST_ID, value);
    }
    app.options.resource.complete(path, headers);
    let (status, took) = (response.status().as_u16(), start.elapsed().as_millis());
    tracing::info!(request = id.as_str(), "{method} {path} {status} in {took} ms");
    response
}
