//! For programs that embed toolcrib: MCP in their own router or over standard input and output, and tools that exist
//! for a single request.

use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::http::Request;
use axum::http::request::Parts;
use endpoint::app_state::{AppState, ServerOptions};
use endpoint::caller::RequestUser;
use endpoint::request_context::RequestContext;
use endpoint::route_assembly::{add_request_middleware, build_router};
use endpoint::tool_listing::ListMode;
use endpoint::view_subscription::AuthenticatedCaller;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use toolcrib::{CallEndpoint, CallerIdentity, RequestProviders, ToolProvider, Toolcrib};
use tower::{Layer, Service};

use crate::McpPeer;

/// MCP at `/mcp` and `/mcp/{group}`, to merge into an axum router or to nest in one. [`AppState::stop`] aborts calls that
/// outlived their request.
///
/// By default only host names of this machine are accepted; [`ServerOptions::names`] adds others.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use toolcrib::{ProvidedTool, Registry, Toolcrib};
///
/// let registry = Registry::new();
/// registry.register_tool(ProvidedTool::new("hello", "Says hello"), || async { "hello" }, &[])?;
/// let (mcp, _) = mcp_server::mcp_router(Toolcrib::from_registry(registry).await?, mcp_server::ServerOptions::local());
/// let app = axum::Router::<()>::new()
///     .route("/", axum::routing::get(|| async { "my own page" }))
///     .merge(mcp);
/// # drop(app);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
pub fn mcp_router(crib: Toolcrib, options: ServerOptions) -> (Router, AppState) {
    mcp_only_router(crib, options)
}

fn mcp_only_router(crib: Toolcrib, options: ServerOptions) -> (Router, AppState) {
    let routes = crate::streamable_http::routes();
    let (router, app) = build_router(routes, crib, options, false, crate::McpEndpoint::register);
    (add_request_middleware(router, &app), app)
}

/// Serves MCP over standard input and output until the client closes its end. The process that started this program
/// needs no credential. Nothing else may write to standard output meanwhile.
pub async fn serve_stdio(crib: Toolcrib) -> std::io::Result<()> {
    serve_lines(crib, tokio::io::stdin(), tokio::io::stdout()).await
}

/// Serves MCP over any pair of streams, one message per line.
pub async fn serve_lines(
    crib: Toolcrib,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> std::io::Result<()> {
    let (_, app) = mcp_only_router(crib, ServerOptions::default());
    let who = AuthenticatedCaller::set_at_startup(CallerIdentity::anonymous());
    let peer = McpPeer::new(app.clone(), who, None, ListMode::default());
    let peer = peer.with_origin(CallEndpoint::Stdio, &RequestContext::default());
    let spoken = crate::mcp_stdio::serve_client(peer, BufReader::new(input), output).await;
    app.stop().await;
    spoken
}

/// A tower layer that adds providers to single requests, chosen by the request's headers or by extensions that an
/// earlier layer set. Their tools come after all others, and only this request sees them.
///
/// Any client can send any header. Trust only headers that you or your proxy set or verified.
///
/// ```
/// use std::sync::Arc;
///
/// use toolcrib::{ProvidedTool, Registry, ToolProvider};
///
/// let tools_of_ada = Registry::new();
/// let layer = mcp_server::providers_per_request(move |request| {
///     let user = request.headers.get("x-user").and_then(|user| user.to_str().ok());
///     match user {
///         Some("ada") => vec![Arc::new(tools_of_ada.clone()) as Arc<dyn ToolProvider>],
///         _ => Vec::new(),
///     }
/// });
/// let app = axum::Router::<()>::new().layer(layer);
/// # drop(app);
/// ```
pub fn providers_per_request<F>(provides: F) -> PerRequestLayer<impl Fn(&mut Parts) + Clone>
where
    F: Fn(&Parts) -> Vec<Arc<dyn ToolProvider>> + Clone,
{
    PerRequestLayer(move |parts: &mut Parts| {
        let earlier = parts.extensions.remove::<RequestProviders>().unwrap_or_default();
        let all = earlier.iter().cloned().chain(provides(parts)).collect::<Vec<_>>();
        if !all.is_empty() {
            parts.extensions.insert(RequestProviders::new(all));
        }
    })
}

/// A tower layer that assigns requests to users of your program. Everything that outlives a request (its session,
/// streams, tasks and questions) then belongs to that user alone, even if users share a credential or have none. The
/// layer grants nothing. With several layers, the outermost that names a user wins.
///
/// ```
/// let layer = mcp_server::user_per_request(|request| {
///     let user = request.headers.get("x-user").and_then(|user| user.to_str().ok());
///     user.map(str::to_owned)
/// });
/// let app = axum::Router::<()>::new().layer(layer);
/// # drop(app);
/// ```
pub fn user_per_request<F>(names: F) -> PerRequestLayer<impl Fn(&mut Parts) + Clone>
where
    F: Fn(&Parts) -> Option<String> + Clone,
{
    PerRequestLayer(move |parts: &mut Parts| {
        if parts.extensions.get::<RequestUser>().is_none()
            && let Some(name) = names(parts)
        {
            parts.extensions.insert(RequestUser(name.into()));
        }
    })
}

/// The layer of [`providers_per_request`] and [`user_per_request`].
#[derive(Clone, Copy, Debug)]
pub struct PerRequestLayer<F>(F);

/// The tower service of [`PerRequestLayer`]: edits the parts of each request before the inner service runs.
#[derive(Clone, Copy, Debug)]
pub struct PerRequestService<F, S> {
    edit_parts: F,
    inner: S,
}

impl<F: Clone, S> Layer<S> for PerRequestLayer<F> {
    type Service = PerRequestService<F, S>;

    fn layer(&self, inner: S) -> Self::Service {
        PerRequestService { edit_parts: self.0.clone(), inner }
    }
}

impl<F, S, B> Service<Request<B>> for PerRequestService<F, S>
where
    F: Fn(&mut Parts),
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        let (mut parts, body) = request.into_parts();
        (self.edit_parts)(&mut parts);
        self.inner.call(Request::from_parts(parts, body))
    }
}

#[cfg(test)]
mod tests;
