//! For programs that embed toolcrib: MCP in a router of theirs or over standard input and output, and tools that only one
//! request has.

use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::http::Request;
use axum::http::request::Parts;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use toolcrib::{CallDoor, Identity, RequestProviders, ToolProvider, Toolcrib};
use tower::{Layer, Service};

use crate::app::{App, Options};
use crate::coming::Coming;
use crate::mcp::{self, Peer};
use crate::router;
use crate::sight::Mode;
use crate::watching::Standing;

/// MCP at `/mcp` and `/mcp/{group}`, to merge into any router of axum or to nest in one. [`App::stop`] ends what still goes
/// on after an answer.
///
/// By default only the names of this machine are answered to; [`Options::names`] has others.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use toolcrib::{ProvidedTool, Registry, Toolcrib};
///
/// let registry = Registry::new();
/// registry.register_tool(ProvidedTool::new("hello", "Says hello"), || async { "hello" }, &[])?;
/// let (mcp, _) = serving::mcp_router(Toolcrib::of(registry).await?, serving::Options::local());
/// let app = axum::Router::<()>::new()
///     .route("/", axum::routing::get(|| async { "my own page" }))
///     .merge(mcp);
/// # drop(app);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
pub fn mcp_router(crib: Toolcrib, options: Options) -> (Router, App) {
    router::mcp_only(crib, options)
}

/// Speaks MCP over standard input and output until the other side has nothing more to say. Whoever started this program
/// is let in without a credential; nothing else may write to standard output meanwhile.
pub async fn stdio(crib: Toolcrib) -> std::io::Result<()> {
    speak(crib, tokio::io::stdin(), tokio::io::stdout()).await
}

/// The same over any two ends, one message a line.
pub async fn speak(
    crib: Toolcrib,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> std::io::Result<()> {
    let (_, app) = router::mcp_only(crib, Options::default());
    let who = Standing::here(Identity::anonymous());
    let peer = Peer::new(app.clone(), who, None, Mode::default());
    let peer = peer.coming(CallDoor::Stdio, &Coming::default());
    let spoken = mcp::stdio::speak(peer, BufReader::new(input), output).await;
    app.stop().await;
    spoken
}

/// A layer of tower that gives each request providers of its own, by what it says of itself: a header, or whatever
/// an earlier layer left in its extensions. Their tools come after all others, and only this request sees them.
///
/// Anybody can send a header. Read one that somebody you trust has set or checked.
///
/// ```
/// use std::sync::Arc;
///
/// use toolcrib::{ProvidedTool, Registry, ToolProvider};
///
/// let tools_of_ada = Registry::new();
/// let layer = serving::providers_per_request(move |request| {
///     let user = request.headers.get("x-user").and_then(|user| user.to_str().ok());
///     match user {
///         Some("ada") => vec![Arc::new(tools_of_ada.clone()) as Arc<dyn ToolProvider>],
///         _ => Vec::new(),
///     }
/// });
/// let app = axum::Router::<()>::new().layer(layer);
/// # drop(app);
/// ```
pub fn providers_per_request<F>(provides: F) -> PerRequest<impl Fn(&mut Parts) + Clone>
where
    F: Fn(&Parts) -> Vec<Arc<dyn ToolProvider>> + Clone,
{
    PerRequest(move |parts: &mut Parts| {
        let earlier = parts.extensions.remove::<RequestProviders>().unwrap_or_default();
        let all = earlier.iter().cloned().chain(provides(parts)).collect::<Vec<_>>();
        if !all.is_empty() {
            parts.extensions.insert(RequestProviders::new(all));
        }
    })
}

/// A layer of tower that says which of your users a request comes from. What goes on after a request, its session,
/// streams, tasks and questions, is then that user's alone, also where all of them show the same credential or none. It
/// grants nothing. Of several layers, the outermost that names somebody counts.
///
/// ```
/// let layer = serving::user_per_request(|request| {
///     let user = request.headers.get("x-user").and_then(|user| user.to_str().ok());
///     user.map(str::to_owned)
/// });
/// let app = axum::Router::<()>::new().layer(layer);
/// # drop(app);
/// ```
pub fn user_per_request<F>(names: F) -> PerRequest<impl Fn(&mut Parts) + Clone>
where
    F: Fn(&Parts) -> Option<String> + Clone,
{
    PerRequest(move |parts: &mut Parts| {
        if parts.extensions.get::<RequestUser>().is_none()
            && let Some(name) = names(parts)
        {
            parts.extensions.insert(RequestUser(name.into()));
        }
    })
}

/// Whom the program around us names as the user of a request.
#[derive(Clone)]
pub(crate) struct RequestUser(pub(crate) Arc<str>);

/// See [`providers_per_request`] and [`user_per_request`].
#[derive(Clone, Copy, Debug)]
pub struct PerRequest<F>(F);

/// A service whose requests have something of their own.
#[derive(Clone, Copy, Debug)]
pub struct EachRequest<F, S> {
    mark: F,
    inner: S,
}

impl<F: Clone, S> Layer<S> for PerRequest<F> {
    type Service = EachRequest<F, S>;

    fn layer(&self, inner: S) -> Self::Service {
        EachRequest { mark: self.0.clone(), inner }
    }
}

impl<F, S, B> Service<Request<B>> for EachRequest<F, S>
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
        (self.mark)(&mut parts);
        self.inner.call(Request::from_parts(parts, body))
    }
}

#[cfg(test)]
mod tests;
