//! Connections: so many at once, none that says nothing, and none cut off when the server stops.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use super::pulse::{Felt, Pulse};

/// What connections may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many there are at once; others wait in the queue of the system.
    pub places: usize,
    /// How long the head of a request may take, and a connection may be idle.
    pub head_within: Duration,
    /// How long requests may go on after the server was told to stop.
    pub last_answers: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let (head_within, last_answers) = (Duration::from_secs(30), Duration::from_secs(10));
        Self { places: 4096, head_within, last_answers }
    }
}

/// How long to wait after the system refused a connection.
const AFTER_A_FAILURE: Duration = Duration::from_millis(100);
/// Streams of one HTTP/2 connection.
const STREAMS: u32 = 256;

/// Serves until told to stop, then lets the requests at hand end.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    stopped: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(limits.places));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut stopped = std::pin::pin!(stopped);
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = &mut stopped => break,
        };
        let (stream, place) = accepted;
        let (router, watcher) = (router.clone(), graceful.watcher());
        connections.spawn(async move {
            let _place = place;
            let pulse = Arc::new(Pulse::default());
            let connection = talk(stream, router, watcher, Arc::clone(&pulse), limits);
            let mut connection = std::pin::pin!(connection);
            loop {
                let before = pulse.look();
                tokio::select! {
                    () = &mut connection => return,
                    () = tokio::time::sleep(limits.head_within) => {}
                }
                if !pulse.beats_since(before) {
                    return;
                }
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(limits.last_answers, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time and are dropped");
    }
    connections.shutdown().await;
}

/// The next connection, when there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, tokio::sync::OwnedSemaphorePermit) {
    let place = Arc::clone(places).acquire_owned().await.expect("the places are never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            // A peer that is gone already, or too many open files: both pass.
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted: {error}");
                tokio::time::sleep(AFTER_A_FAILURE).await;
            }
        }
    }
}

async fn talk(
    stream: TcpStream,
    router: Router,
    watcher: hyper_util::server::graceful::Watcher,
    pulse: Arc<Pulse>,
    limits: Limits,
) {
    stream.set_nodelay(true).ok();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.head_within);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
    builder.http2().keep_alive_interval(limits.head_within).keep_alive_timeout(limits.head_within);
    let stream = Felt { stream, pulse: Arc::clone(&pulse) };
    // Around the router and not inside: a layer of its own would copy all routes for every connection.
    let service = TowerToHyperService::new(tower::service_fn(move |request| {
        let (at_work, router) = (pulse.start(), router.clone());
        async move {
            let answer = router.oneshot(request).await;
            drop(at_work);
            answer
        }
    }));
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Seconds, because an answer is expected within them and the machine may be busy.
    const HEAD_WITHIN: Duration = Duration::from_secs(2);

    /// A server that is in a hurry, and where it is.
    async fn server(places: usize, head_within: Duration) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let slow = move || tokio::time::sleep(head_within + Duration::from_secs(1));
        let large = || async { vec![b'x'; 32 << 20] };
        let router = Router::new().route("/", get(|| async { "hello" }));
        let router = router.route("/slow", get(slow)).route("/large", get(large));
        let limits = Limits { places, head_within, ..Limits::default() };
        tokio::spawn(serve(listener, router, limits, std::future::pending()));
        address
    }

    /// Sends something and reads until the server hangs up.
    async fn ask(address: std::net::SocketAddr, text: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        drop(tokio::time::timeout(Duration::from_secs(30), read).await.expect("nobody hung up"));
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn who_does_not_finish_a_request_is_hung_up_on() {
        let address = server(10, Duration::from_millis(200)).await;
        for beginning in ["", "G", "GET / HTTP/1.1\r\nHost:", "PRI * HTTP/2.0\r\n", "P"] {
            let answer = ask(address, beginning).await;
            assert!(!answer.contains("200 OK"), "{answer}");
        }
    }

    #[tokio::test]
    async fn who_asks_nothing_more_is_hung_up_on() {
        let address = server(10, HEAD_WITHIN).await;
        let idle = ask(address, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(idle.contains("200 OK") && idle.ends_with("hello"), "{idle}");
    }

    #[tokio::test]
    async fn an_answer_may_take_longer_than_a_question() {
        let address = server(10, HEAD_WITHIN).await;
        let answer = ask(address, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(answer.contains("200 OK"), "{answer}");
    }

    #[tokio::test]
    async fn who_does_not_read_the_answer_loses_the_place() {
        let address = server(1, HEAD_WITHIN).await;
        let mut stalled = TcpStream::connect(address).await.unwrap();
        stalled.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let answer = ask(address, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        assert!(answer.contains("200 OK"), "{answer}");
        drop(stalled);
    }

    #[tokio::test]
    async fn who_keeps_http_2_open_for_nothing_is_hung_up_on() {
        let address = server(10, Duration::from_millis(500)).await;
        let settings = "\0\0\0\u{4}\0\0\0\0\0";
        ask(address, &format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{settings}")).await;
    }

    #[tokio::test]
    async fn who_finds_no_place_waits_for_one() {
        let address = server(1, HEAD_WITHIN).await;
        let silent = TcpStream::connect(address).await.unwrap();
        let answer = ask(address, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        assert!(answer.contains("200 OK"), "{answer}");
        drop(silent);
    }
}
