//! Middleware of every request: host check, request id, security headers, token challenge, access log and spans.
//! A panic in a handler becomes a problem answer.

use std::panic::AssertUnwindSafe;

use api_types::problem::Problem;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use toolcrib::telemetry::{OpenSpan, SpanKind};

use crate::app_state::AppState;
use crate::endpoint_metrics::method_label;
use crate::request_context;
use crate::request_id::{REQUEST_ID, RequestId, set_common_headers};

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
pub async fn process_routed_request<A: Future<Output = Response>>(
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
