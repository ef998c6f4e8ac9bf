//! Builds a router and the shared state from a list of routes.

use std::sync::Arc;

use api_types::problem::{Problem, ProblemCode};
use axum::http::Extensions;
use axum::{Router, middleware};
use toolcrib::{StateCipher, Toolcrib};

use crate::app_state::{AppState, ServerOptions};
use crate::background_tasks::BackgroundTasks;
use crate::endpoint_metrics::EndpointMetrics;
use crate::request_middleware;
use crate::route::ApiRoute;

/// The router of these routes, still without the middleware of every request, and the state that the handlers share.
pub fn build_router(
    routes: Vec<ApiRoute>,
    crib: Toolcrib,
    options: ServerOptions,
    has_rest: bool,
    register_endpoints: impl FnOnce(&mut Extensions, StateCipher, &Arc<BackgroundTasks>),
) -> (Router<AppState>, AppState) {
    let metrics = EndpointMetrics::new(routes.iter().map(|route| route.path));
    let app = AppState::new(crib, options, metrics, has_rest, register_endpoints);
    let mut router = Router::new();
    for route in routes {
        router = router.route(route.path, route.into_handler());
    }
    let router = router.method_not_allowed_fallback(|| async {
        Problem::new(ProblemCode::MethodNotAllowed, "the `Allow` header says what can be done here")
    });
    (router, app)
}

/// Adds the middleware of every request, and the shared state.
pub fn add_request_middleware(router: Router<AppState>, app: &AppState) -> Router {
    let middleware =
        middleware::from_fn_with_state(app.clone(), request_middleware::process_request);
    router.layer(middleware).with_state(app.clone())
}
