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
use tower::Service;

use crate::app::App;
use crate::around::around;
use crate::mcp;

/// All endpoints of the server; cheap to clone.
#[derive(Clone)]
pub struct Doors {
    app: App,
    routes: Router,
}

impl Doors {
    pub(crate) fn new(app: App, routes: Router) -> Self {
        Self { app, routes }
    }
}

impl Service<Request> for Doors {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if !is_message(&request) {
            return Box::pin(self.routes.call(request));
        }
        let app = self.app.clone();
        Box::pin(async move {
            let answered = around(&app, mcp::PATH, request, |mut request, id| {
                if app.crib.recorder().is_some() {
                    request.extensions_mut().insert(id.clone());
                }
                mcp::http::message(&app, request)
            });
            Ok(answered.await)
        })
    }
}

fn is_message(request: &Request) -> bool {
    let uri = request.uri();
    request.method() == Method::POST && uri.path() == mcp::PATH && uri.query().is_none()
}
