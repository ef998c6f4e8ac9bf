//! All routes in one table. The router, the OpenAPI document, its page, and the test that calls every route with every
//! role are derived from it. See `docs/adr/0013-one-table-of-routes.md`.

use std::sync::LazyLock;

use api_types::problem;
use api_types::problem::{Problem, ProblemCode};
use api_types::type_schemas::{SchemaSet, TypeSchema};
use axum::extract::Request;
use axum::http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Redirect, Response};
use endpoint::app_state::{AppState, ServerOptions};
use endpoint::route::ApiRoute;
use endpoint::route_assembly::{add_request_middleware, build_router};
use mcp_server::McpEndpoint;
use toolcrib::Toolcrib;

use crate::admin::{
    access, executions, followed_config, groups, history, issuers, keys, labels, plan_and_apply,
    policies, search_preview, secrets, sources, tools,
};
use crate::agents::pending_calls::PendingCalls;
use crate::docs_page::DocsPage;
use crate::endpoint_router::EndpointRouter;
use crate::{
    activity_stream, agent_stream, agents, console, docs_page, health_checks, http_manifest,
    metrics, openapi_document, protected_resource_metadata, whoami,
};

fn route_table() -> Vec<ApiRoute> {
    [
        about_routes(),
        console::routes(),
        health_checks::routes(),
        metrics::routes(),
        protected_resource_metadata::routes(),
        whoami::routes(),
        agents::routes(),
        mcp_server::streamable_http::routes(),
        agents::agent_call::routes(),
        crate::agents::pending_calls::routes(),
        agents::result_parts::routes(),
        agent_stream::routes(),
        http_manifest::routes(),
        sources::routes(),
        tools::routes(),
        groups::routes(),
        policies::routes(),
        labels::routes(),
        keys::routes(),
        secrets::routes(),
        history::routes(),
        issuers::routes(),
        access::routes(),
        search_preview::routes(),
        executions::routes(),
        activity_stream::routes(),
        followed_config::routes(),
        plan_and_apply::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn about_routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("get_openapi", "/api/openapi.json", get_openapi)
            .open_to_all("about", "Describe this API as OpenAPI 3.1")
            .returns_document("application/json"),
        ApiRoute::get("get_docs", "/api/docs", get_docs)
            .open_to_all("about", "Describe this API as a page to read")
            .returns_document("text/html"),
    ]
}

/// The API documents, rendered at the first request for one.
static API_DOCUMENTS: LazyLock<ApiDocuments> = LazyLock::new(|| {
    let routes = route_table();
    let problem = TypeSchema::for_type::<problem::ProblemBody>();
    let shapes = routes.iter().flat_map(ApiRoute::type_schemas).chain([problem]);
    let schemas = SchemaSet::from_types(shapes.collect::<Vec<_>>());
    let document = openapi_document::build_document(&routes, &schemas);
    let openapi = serde_json::to_string(&document).expect("the document is JSON");
    ApiDocuments { openapi, docs: docs_page::render_page(&document) }
});

struct ApiDocuments {
    openapi: String,
    docs: DocsPage,
}

/// Builds all endpoints of a server, and the state that its handlers share.
pub fn build_endpoints(crib: Toolcrib, options: ServerOptions) -> (EndpointRouter, AppState) {
    assemble_endpoints(route_table(), crib, options)
}

fn assemble_endpoints(
    routes: Vec<ApiRoute>,
    crib: Toolcrib,
    options: ServerOptions,
) -> (EndpointRouter, AppState) {
    let has_rest = routes.iter().any(|route| route.path == agents::result_parts::RESULT_PATH);
    let (router, app) =
        build_router(routes, crib, options, has_rest, |extensions, seal, background| {
            McpEndpoint::register(extensions, seal, background);
            extensions.insert(PendingCalls::default());
        });
    let router = router.fallback(answer_unknown_path);
    (EndpointRouter::new(app.clone(), add_request_middleware(router, &app)), app)
}

/// Redirects a browser that opens the server's address to the console; answers 404 to everything else.
async fn answer_unknown_path(request: Request) -> Response {
    let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
    if request.uri().path() == "/" && accepts.is_some_and(|kinds| kinds.contains("text/html")) {
        return Redirect::temporary("console").into_response();
    }
    let detail = "there is nothing at this path; `/api/docs` shows every path";
    Problem::new(ProblemCode::NotFound, detail).into_response()
}

async fn get_openapi() -> Response {
    let kind = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (kind, API_DOCUMENTS.openapi.clone()).into_response()
}

async fn get_docs() -> Response {
    let DocsPage { html, policy } = API_DOCUMENTS.docs.clone();
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, policy),
    ];
    (headers, html).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use axum::body::{Body, to_bytes};
    use serde_json::Value;
    use toolcrib::{Catalog, JournalLocation, SystemClock};
    use tower::ServiceExt as _;
    use upstream::egress::EgressPolicy;
    use upstream::http::HttpClient;

    use super::*;

    async fn crib() -> Toolcrib {
        let journal = JournalLocation::Memory.open(SystemClock).await.unwrap();
        let catalog = Arc::new(Catalog::open(journal).await.unwrap());
        let client = HttpClient::new(EgressPolicy { allow_private: false, allowed: Vec::new() });
        Toolcrib::new(catalog, client, SystemClock, toolcrib::ToolcribOptions::default())
    }

    /// Status and body that a route outside of the table answers.
    async fn answer(route: ApiRoute) -> (u16, Value) {
        let path = route.path;
        let (router, _) = assemble_endpoints(vec![route], crib().await, ServerOptions::default());
        let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.headers()["cache-control"], "no-store");
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_panicking_handler_answers_500_without_the_panic_message() {
        async fn panics() -> String {
            panic!("hunter2")
        }
        let (status, problem) = answer(ApiRoute::get("panics", "/panics", panics)).await;
        assert_eq!((status, &problem["code"]), (500, &Value::from("internal_error")));
        assert!(!problem.to_string().contains("hunter2"), "{problem}");
    }

    #[tokio::test]
    async fn draining_wakes_every_waiter() {
        let (_, app) = assemble_endpoints(route_table(), crib().await, ServerOptions::default());
        let waiting = tokio::spawn({
            let app = app.clone();
            async move { app.wait_for_draining().await }
        });
        app.start_draining();
        waiting.await.unwrap();
        app.wait_for_draining().await;
    }

    #[tokio::test]
    async fn a_handler_that_exceeds_its_deadline_is_aborted() {
        let route = ApiRoute::get("waits", "/waits", std::future::pending::<String>);
        let (status, problem) = answer(route.with_deadline(Duration::from_millis(10))).await;
        assert_eq!((status, &problem["code"]), (503, &Value::from("deadline_exceeded")));
    }
}
