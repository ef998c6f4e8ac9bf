//! All endpoints as one tower service: `serve` uses it, and embedders can mount it.
//!
//! A plain message to `/mcp` bypasses the router, because routing through boxes and layers would cost more than the
//! answer. All other requests use the route table, including MCP requests that name a group or a mode.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use endpoint::app_state::AppState;
use endpoint::request_middleware::process_routed_request;
use tower::Service;

/// All endpoints of the server; cheap to clone.
#[derive(Clone)]
pub struct EndpointRouter {
    app: AppState,
    routes: Router,
}

impl EndpointRouter {
    pub(crate) fn new(app: AppState, routes: Router) -> Self {
        Self { app, routes }
    }
}

impl Service<Request> for EndpointRouter {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if !is_plain_mcp_message(&request) {
            return Box::pin(self.routes.call(request));
        }
        let app = self.app.clone();
        Box::pin(async move {
            let answered =
                process_routed_request(&app, mcp_server::MCP_PATH, request, |mut request, id| {
                    if app.crib.recorder().is_some() {
                        request.extensions_mut().insert(id.clone());
                    }
                    mcp_server::streamable_http::handle_message(&app, request)
                });
            Ok(answered.await)
        })
    }
}

fn is_plain_mcp_message(request: &Request) -> bool {
    let uri = request.uri();
    request.method() == Method::POST && uri.path() == mcp_server::MCP_PATH && uri.query().is_none()
}
