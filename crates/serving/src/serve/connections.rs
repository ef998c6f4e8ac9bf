//! Connections: so many at once, none that says nothing, and none cut off when the server stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How many connections there are at once; others wait in the queue of the system.
const CONNECTIONS: usize = 4096;
/// How long a request's head may take, and a connection may be idle.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// How long requests may go on after the server was told to stop.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// How long to wait after the system refused a connection.
const AFTER_A_FAILURE: Duration = Duration::from_millis(100);
/// Streams of one HTTP/2 connection.
const STREAMS: u32 = 256;

/// Serves until told to stop, then lets the requests at hand end.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    stopped: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
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
            let has_asked = Arc::new(AtomicBool::new(false));
            let connection = talk(stream, router, watcher, Arc::clone(&has_asked));
            // The first request is waited for here: until its first bytes, nobody below looks at a clock.
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                () = &mut connection => return,
                () = tokio::time::sleep(HEAD_WITHIN) => {}
            }
            if has_asked.load(Ordering::Relaxed) {
                connection.await;
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(LAST_ANSWERS, graceful.shutdown()).await.is_err() {
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
    has_asked: Arc<AtomicBool>,
) {
    stream.set_nodelay(true).ok();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
    builder.http2().keep_alive_interval(HEAD_WITHIN).keep_alive_timeout(HEAD_WITHIN);
    let router =
        router.layer(axum::middleware::map_request(move |request: axum::extract::Request| {
            has_asked.store(true, Ordering::Relaxed);
            std::future::ready(request)
        }));
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "a connection ended early");
    }
}
