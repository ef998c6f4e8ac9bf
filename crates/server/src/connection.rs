//! One connection: enforces its limits and lets requests in progress finish before it closes.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Version;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::response::Response;
use axum::{BoxError, http};
use config::connection_limits::ConnectionLimits;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tower::{Service, ServiceExt as _};

use crate::body_peek;
use crate::body_peek::PeekedBody;
use crate::connection_activity::{ConnectionActivity, MonitoredSocket};
use crate::listener::AcceptedConnection;
use crate::observed_body::ObservedBody;
use crate::repoll::RepollFuture;
pub(crate) use endpoint::load_shedding::{
    CallAdmission, LoadShedder, OverloadResponse, is_call_request,
};

/// Maximum size of a request head, in bytes.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// When the server stops, time for an idle connection to begin a request that may already be in transit.
const LAST_REQUEST_WAIT: Duration = Duration::from_secs(1);

/// The service that answers HTTP requests.
pub trait RequestHandler:
    Service<Request, Response = Response, Error = Infallible, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}
impl<S> RequestHandler for S where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// The byte stream of a connection: TCP, TLS or a Unix socket.
trait ConnectionStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> ConnectionStream for S {}

/// Serves one connection until the client closes it, the connection is idle for too long, or the server stops.
pub(super) async fn drive_connection(
    accepted: AcceptedConnection,
    endpoints: impl RequestHandler,
    pressure: Arc<LoadShedder>,
    limits: ConnectionLimits,
    stopping: watch::Receiver<bool>,
) {
    let pulse = Arc::new(ConnectionActivity::default());
    let stream = match open_stream(accepted, &pulse, limits).await {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!(%error, "a connection was not made: {error}"),
    };
    let builder = http_builder(limits);
    let service = TowerToHyperService::new(tower::service_fn({
        let pulse = Arc::clone(&pulse);
        move |request| {
            handle_request(request, endpoints.clone(), Arc::clone(&pressure), Arc::clone(&pulse))
        }
    }));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = RepollFuture::new(connection);
    let mut stopping = std::pin::pin!(wait_for_stop(stopping));
    let ended = loop {
        let before = pulse.take_sample();
        tokio::select! {
            biased;
            ended = &mut connection => break ended,
            () = &mut stopping => {
                pulse.mark_closing();
                if let Some(ended) = wait_for_last_request(&mut connection, &pulse).await {
                    break ended;
                }
                connection.future.as_mut().graceful_shutdown();
                break connection.await;
            }
            () = tokio::time::sleep(limits.idle_timeout) => {}
        }
        if !pulse.is_active_since(before) {
            return;
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection ended early");
    }
}

/// Resolves when the server stops.
async fn wait_for_stop(mut stopping: watch::Receiver<bool>) {
    // An error means that the sender is gone; the connection has to end in that case too.
    stopping.wait_for(|stopping| *stopping).await.ok();
}

/// Waits while a request may be in transit on an idle HTTP/1.1 connection: a graceful shutdown would close it at once.
/// HTTP/2 negotiates the end, and a busy connection closes after its response.
async fn wait_for_last_request<E>(
    mut connection: &mut (impl Future<Output = Result<(), E>> + Unpin),
    pulse: &ConnectionActivity,
) -> Option<Result<(), E>> {
    while !pulse.is_busy() && !pulse.is_http2() {
        tokio::select! {
            biased;
            ended = &mut connection => return Some(ended),
            () = tokio::time::sleep(LAST_REQUEST_WAIT) => {}
        }
        if !pulse.is_receiving_head() {
            break;
        }
    }
    None
}

async fn open_stream(
    accepted: AcceptedConnection,
    pulse: &Arc<ConnectionActivity>,
    limits: ConnectionLimits,
) -> io::Result<Box<dyn ConnectionStream>> {
    let pulse = Arc::clone(pulse);
    match accepted {
        AcceptedConnection::Tcp(socket) => {
            set_socket_options(&socket, limits);
            Ok(Box::new(MonitoredSocket::new(socket, pulse, limits.head_timeout)))
        }
        AcceptedConnection::Tls(socket, tls) => {
            set_socket_options(&socket, limits);
            let socket = MonitoredSocket::new(socket, pulse, limits.head_timeout);
            let mut stream =
                tokio::time::timeout(limits.head_timeout, tls.accept(socket)).await??;
            stream.get_mut().0.reset_head();
            Ok(Box::new(stream))
        }
        AcceptedConnection::Unix(socket) => {
            Ok(Box::new(MonitoredSocket::new(socket, pulse, limits.head_timeout)))
        }
    }
}

/// Sets TCP options, so that the kernel also detects a dead or stalled peer. Errors are ignored: options are optional.
fn set_socket_options(socket: &tokio::net::TcpStream, limits: ConnectionLimits) {
    socket.set_nodelay(true).ok();
    SockRef::from(socket).set_tcp_user_timeout(Some(limits.idle_timeout)).ok();
}

fn http_builder(limits: ConnectionLimits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // `MonitoredSocket` enforces the head timeout itself, for both HTTP versions.
    builder.http1().header_read_timeout(None).max_buf_size(MAX_HEAD_BYTES);
    builder.http2().timer(TokioTimer::new()).max_header_list_size(MAX_HEAD_BYTES as u32);
    builder.http2().max_concurrent_streams(limits.max_streams);
    builder
        .http2()
        .keep_alive_interval(limits.idle_timeout)
        .keep_alive_timeout(limits.idle_timeout);
    builder
}

/// Handles one request. It wraps the router from outside: a tower layer per connection would copy all routes.
async fn handle_request<B>(
    request: http::Request<B>,
    endpoints: impl RequestHandler,
    pressure: Arc<LoadShedder>,
    pulse: Arc<ConnectionActivity>,
) -> Result<http::Response<ObservedBody>, Infallible>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let has_streams = request.version() == Version::HTTP_2;
    let at_work = pulse.start_request(has_streams);
    let mut response = match is_call_request(&request) {
        true => handle_call(request, endpoints, pressure).await?,
        false => endpoints.oneshot(request.map(Body::new)).await?,
    };
    if pulse.is_closing() && !has_streams {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let response = response.map(|body| ObservedBody::new(body, Arc::clone(&pulse)));
    drop(at_work);
    Ok(response)
}

/// Handles a call after load shedding admitted it. A complete body waits before the handler sees the request; of a
/// longer body, the end is withheld until the call is admitted.
async fn handle_call<B>(
    request: http::Request<B>,
    endpoints: impl RequestHandler,
    pressure: Arc<LoadShedder>,
) -> Result<Response, Infallible>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let (turn, refusal, looks) = (
        CallAdmission::default(),
        OverloadResponse::for_request(&request),
        body_peek::peek_count(&request),
    );
    let (head, body) = request.into_parts();
    let body = match PeekedBody::peek(body, looks).await.into_complete() {
        Ok(whole) => turn.wait_for_admission(&pressure).await.then(|| Body::from(whole)),
        Err(body) => Some(Body::new(turn.withhold_body_end(body, Arc::clone(&pressure)))),
    };
    if let Some(body) = body {
        let call = endpoints.oneshot(Request::from_parts(head, body));
        let response = pressure.run_and_measure(&turn, call).await?;
        if !turn.is_refused() {
            return Ok(response);
        }
    }
    pressure.count_rejected();
    Ok(refusal.into_http_response())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use axum::response::IntoResponse as _;
    use http_body_util::{BodyExt as _, Full, StreamBody};

    use super::*;

    /// A handler that reads the body, as real handlers do, and counts complete requests.
    fn endpoints(answered: &Arc<AtomicUsize>) -> impl RequestHandler + use<> {
        let answered = Arc::clone(answered);
        tower::service_fn(move |request: Request| {
            let answered = Arc::clone(&answered);
            async move {
                let body = request.into_body().collect().await;
                if body.is_err() {
                    return Ok(axum::http::StatusCode::BAD_REQUEST.into_response());
                }
                answered.fetch_add(1, Relaxed);
                Ok::<_, Infallible>("done".into_response())
            }
        })
    }

    /// A body that is complete at once, and a body whose end is not known yet.
    fn bodies() -> [Body; 2] {
        let piece = http_body::Frame::data(Bytes::from_static(b"{}"));
        let pieces = futures_util::stream::once(async {
            tokio::task::yield_now().await;
            Ok::<_, BoxError>(piece)
        });
        [Body::new(Full::new(Bytes::from_static(b"{}"))), Body::new(StreamBody::new(pieces))]
    }

    async fn status(path: &str, body: Body, pressure: &Arc<LoadShedder>) -> (u16, usize) {
        let answered = Arc::new(AtomicUsize::new(0));
        let request = http::Request::post(path).body(body).unwrap();
        let response =
            handle_call(request, endpoints(&answered), Arc::clone(pressure)).await.unwrap();
        (response.status().as_u16(), answered.load(Relaxed))
    }

    #[tokio::test]
    async fn a_shed_call_gets_the_error_of_its_endpoint_however_its_body_arrives() {
        let pressure = Arc::new(LoadShedder::default());
        for body in bodies() {
            assert_eq!(status("/mcp", body, &pressure).await, (200, 1));
        }
        let full = Arc::new(LoadShedder::saturated());
        for body in bodies() {
            assert_eq!(status("/mcp", body, &full).await, (503, 0));
        }
        for body in bodies() {
            assert_eq!(status("/api/agents/tools/call", body, &full).await, (429, 0));
        }
        assert_eq!(full.waiting_and_rejected(), (0, 4), "nobody waits, and all were counted");
    }
}
