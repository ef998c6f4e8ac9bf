//! Middleware of every request: host check, request id, security headers, token challenge, access log and spans.
//! A panic in a handler becomes a problem answer.

use std::hash::{BuildHasher as _, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderMap;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use toolcrib::telemetry::{OpenSpan, SpanKind};

use crate::app_state::AppState;
use crate::metrics::endpoint_metrics::method_label;
use crate::problem::Problem;
use crate::request_context;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_LIMIT: usize = 128;

/// Identifies one request in the log, in the journal and in its answer.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    pub(crate) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// The id that the client sent, if it is printable ASCII within the length limit; otherwise a new one.
    pub(crate) fn from_header(given: Option<&HeaderValue>) -> Self {
        let is_good = |value: &&HeaderValue| {
            !value.is_empty()
                && value.len() <= REQUEST_ID_LIMIT
                && value.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        given.filter(is_good).map_or_else(Self::new, |given| Self(given.clone()))
    }

    pub(crate) fn new() -> Self {
        static START: LazyLock<String> =
            LazyLock::new(|| format!("{:016x}-", RandomState::new().hash_one("start")));
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}{number:x}", *START);
        Self(id.try_into().expect("digits may stand in a header"))
    }
}

pub(crate) async fn process_request(
    State(app): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    // Log the route, not the path: a path holds ids, which do not belong in a log.
    let path = request.extensions().get::<MatchedPath>().cloned();
    let path = path.as_ref().map_or("", |path| path.as_str());
    process_routed_request(&app, path, request, |mut request, id| {
        request.extensions_mut().insert(id.clone());
        next.run(request)
    })
    .await
}

/// Processes a request whose route is known.
pub(crate) async fn process_routed_request<A: Future<Output = Response>>(
    app: &AppState,
    path: &str,
    mut request: Request,
    answer: impl FnOnce(Request, &RequestId) -> A,
) -> Response {
    let measured = app.endpoint_metrics.begin_request();
    let id = RequestId::from_header(request.headers().get(&REQUEST_ID));
    let method = request.method().clone();
    let span = start_request_span(app, path, &request);
    if let Some(context) = span.as_ref().and_then(OpenSpan::context) {
        request.extensions_mut().insert(context);
    }
    let mut response = match app.options.names.check_request(&request) {
        Err(problem) => problem.into_response(),
        Ok(()) => {
            let answered = AssertUnwindSafe(answer(request, &id)).catch_unwind().await;
            let panicked = |_| Problem::internal_error("a handler panicked").into_response();
            answered.unwrap_or_else(panicked)
        }
    };
    let headers = response.headers_mut();
    set_common_headers(headers, &id);
    app.options.resource.complete_challenge(path, headers);
    let took = measured.finish_request(path, &method, response.status()).as_millis();
    let status = response.status().as_u16();
    if let Some(span) = span {
        let attributes = vec![
            ("http.request.method", method_label(&method).to_owned()),
            ("http.route", path.to_owned()),
            ("http.response.status_code", status.to_string()),
        ];
        span.finish(500 <= status, attributes);
    }
    tracing::info!(request = id.as_str(), "{method} {path} {status} in {took} ms");
    response
}

/// Sets the headers that every answer has, including those of errors.
pub(crate) fn set_common_headers(headers: &mut HeaderMap, id: &RequestId) {
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(nothing);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(REQUEST_ID, id.0.clone());
}

/// Starts a span for the request if spans are exported. Health and metrics probes get none: they are only noise.
fn start_request_span(app: &AppState, path: &str, request: &Request) -> Option<OpenSpan> {
    let tracer = app.crib.tracer()?;
    if path.starts_with("/health") || path == "/metrics" {
        return None;
    }
    let method = method_label(request.method());
    let route = if path.is_empty() { "other" } else { path };
    let parent = request_context::parse_trace_context(request.headers());
    tracer.begin_span(parent.as_ref(), SpanKind::Server, || format!("{method} {route}"))
}
