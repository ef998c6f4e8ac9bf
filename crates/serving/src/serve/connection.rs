//! One connection: within its limits, and to the end of what was asked.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::http::{self, Version};
use axum::response::Response;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tower::{Service, ServiceExt as _};

use super::again::Again;
use super::connections::Limits;
use super::early::{self, Early};
use super::listener::Accepted;
use super::pressure::{Pressure, Refusal, Turn, is_call};
use super::pulse::{Felt, Pulse};
use super::spoken::Spoken;

/// The largest head of a request, in bytes.
const HEAD: usize = 32 << 10;
/// How long a connection that is quiet may still begin a request when the server stops: it may be on its way.
const LAST_WORD: Duration = Duration::from_secs(1);

/// What answers requests.
pub trait Answers:
    Service<Request, Response = Response, Error = Infallible, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}
impl<S> Answers for S where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// What is spoken over.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Serves whoever came until they are done, do nothing, or the server stops.
pub(super) async fn attend(
    accepted: Accepted,
    doors: impl Answers,
    pressure: Arc<Pressure>,
    limits: Limits,
    stopping: watch::Receiver<bool>,
) {
    let pulse = Arc::new(Pulse::default());
    let stream = match open(accepted, &pulse, limits).await {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!(%error, "a connection was not made: {error}"),
    };
    let builder = builder(limits);
    let service = TowerToHyperService::new(tower::service_fn({
        let pulse = Arc::clone(&pulse);
        move |request| answer(request, doors.clone(), Arc::clone(&pressure), Arc::clone(&pulse))
    }));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = Again::new(connection);
    let mut stopping = std::pin::pin!(told(stopping));
    let ended = loop {
        let before = pulse.look();
        tokio::select! {
            biased;
            ended = &mut connection => break ended,
            () = &mut stopping => {
                pulse.leave();
                if let Some(ended) = last_word(&mut connection, &pulse).await {
                    break ended;
                }
                connection.future.as_mut().graceful_shutdown();
                break connection.await;
            }
            () = tokio::time::sleep(limits.idle) => {}
        }
        if !pulse.beats_since(before) {
            return;
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection ended early");
    }
}

/// Ends when the server stops.
async fn told(mut stopping: watch::Receiver<bool>) {
    // It is an error that nobody can tell any more; then everything ends anyway.
    stopping.wait_for(|stopping| *stopping).await.ok();
}

/// Waits while a request may be on its way to a connection that would be closed at once if it were told to end. HTTP/2
/// ends by agreement and one that is busy after its answer.
async fn last_word<E>(
    mut connection: &mut (impl Future<Output = Result<(), E>> + Unpin),
    pulse: &Pulse,
) -> Option<Result<(), E>> {
    while !pulse.is_busy() && !pulse.has_streams() {
        tokio::select! {
            biased;
            ended = &mut connection => return Some(ended),
            () = tokio::time::sleep(LAST_WORD) => {}
        }
        if !pulse.hears() {
            break;
        }
    }
    None
}

async fn open(
    accepted: Accepted,
    pulse: &Arc<Pulse>,
    limits: Limits,
) -> io::Result<Box<dyn Stream>> {
    let pulse = Arc::clone(pulse);
    match accepted {
        Accepted::Tcp(socket) => {
            tell_how(&socket, limits);
            Ok(Box::new(Felt::new(socket, pulse, limits.head_within)))
        }
        Accepted::Tls(socket, tls) => {
            tell_how(&socket, limits);
            let socket = Felt::new(socket, pulse, limits.head_within);
            let mut stream = tokio::time::timeout(limits.head_within, tls.accept(socket)).await??;
            stream.get_mut().0.start_anew();
            Ok(Box::new(stream))
        }
        Accepted::Unix(socket) => Ok(Box::new(Felt::new(socket, pulse, limits.head_within))),
    }
}

/// A peer that is gone, or takes nothing, is found out by the system too. What cannot be set is no reason to hang up.
fn tell_how(socket: &tokio::net::TcpStream, limits: Limits) {
    socket.set_nodelay(true).ok();
    SockRef::from(socket).set_tcp_user_timeout(Some(limits.idle)).ok();
}

fn builder(limits: Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // A head that does not come is our own affair (`pulse.rs`), for both versions.
    builder.http1().header_read_timeout(None).max_buf_size(HEAD);
    builder.http2().timer(TokioTimer::new()).max_header_list_size(HEAD as u32);
    builder.http2().max_concurrent_streams(limits.streams);
    builder.http2().keep_alive_interval(limits.idle).keep_alive_timeout(limits.idle);
    builder
}

/// Around the doors and not inside: a layer of its own would copy all routes for every connection.
async fn answer<B>(
    request: http::Request<B>,
    doors: impl Answers,
    pressure: Arc<Pressure>,
    pulse: Arc<Pulse>,
) -> Result<http::Response<Spoken>, Infallible>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let has_streams = request.version() == Version::HTTP_2;
    let at_work = pulse.start(has_streams);
    let mut response = match is_call(&request) {
        true => answer_call(request, doors, pressure).await?,
        false => doors.oneshot(request.map(Body::new)).await?,
    };
    if pulse.leaves() && !has_streams {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let response = response.map(|body| Spoken::new(body, Arc::clone(&pulse)));
    drop(at_work);
    Ok(response)
}

/// A call has its turn first. One that came whole waits before anybody looks at it; of another, the end is kept back.
async fn answer_call<B>(
    request: http::Request<B>,
    doors: impl Answers,
    pressure: Arc<Pressure>,
) -> Result<Response, Infallible>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let (turn, refusal, looks) = (Turn::default(), Refusal::of(&request), early::looks(&request));
    let (head, body) = request.into_parts();
    let body = match Early::of(body, looks).await.whole() {
        Ok(whole) => turn.wait(&pressure).await.then(|| Body::from(whole)),
        Err(body) => Some(Body::new(turn.after(body, Arc::clone(&pressure)))),
    };
    if let Some(body) = body {
        let call = doors.oneshot(Request::from_parts(head, body));
        let response = pressure.carry_out(&turn, call).await?;
        if !turn.is_refused() {
            return Ok(response);
        }
    }
    pressure.count_refused();
    Ok(refusal.response())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use axum::response::IntoResponse as _;
    use http_body_util::{BodyExt as _, Full, StreamBody};

    use super::*;

    /// Reads what it is sent, as handlers do, and counts what came whole.
    fn doors(answered: &Arc<AtomicUsize>) -> impl Answers + use<> {
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

    /// A body that comes at once, and one of which nobody can say yet that this is all.
    fn bodies() -> [Body; 2] {
        let piece = http_body::Frame::data(Bytes::from_static(b"{}"));
        let pieces = futures_util::stream::once(async {
            tokio::task::yield_now().await;
            Ok::<_, BoxError>(piece)
        });
        [Body::new(Full::new(Bytes::from_static(b"{}"))), Body::new(StreamBody::new(pieces))]
    }

    async fn status(path: &str, body: Body, pressure: &Arc<Pressure>) -> (u16, usize) {
        let answered = Arc::new(AtomicUsize::new(0));
        let request = http::Request::post(path).body(body).unwrap();
        let response = answer_call(request, doors(&answered), Arc::clone(pressure)).await.unwrap();
        (response.status().as_u16(), answered.load(Relaxed))
    }

    #[tokio::test]
    async fn who_finds_no_place_is_refused_in_the_words_of_its_door_however_the_body_comes() {
        let pressure = Arc::new(Pressure::default());
        for body in bodies() {
            assert_eq!(status("/mcp", body, &pressure).await, (200, 1));
        }
        let full = Arc::new(Pressure::full());
        for body in bodies() {
            assert_eq!(status("/mcp", body, &full).await, (503, 0));
        }
        for body in bodies() {
            assert_eq!(status("/api/agents/tools/call", body, &full).await, (429, 0));
        }
        assert_eq!(full.read(), (0, 4), "nobody waits, and all were counted");
    }
}
