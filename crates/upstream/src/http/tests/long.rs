//! Long response bodies: how many of one upstream are read at once, and how they affect other upstreams.

use std::sync::{Mutex, mpsc};

use axum::{Router, routing};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

use super::certificate::Certificate;
use super::identity::{acceptor, trusting};
use super::*;

const MUCH: usize = 2 * LARGE_BODY_BYTES;
const TIME: Duration = Duration::from_secs(30);

fn blocked(wait: &Arc<Mutex<mpsc::Receiver<()>>>) -> impl FnOnce(UpstreamResponse) + Send + use<> {
    let wait = Arc::clone(wait);
    move |_| drop(wait.lock().map(|wait| wait.recv()))
}

#[tokio::test]
async fn a_chunk_that_arrived_at_once_is_returned_in_small_parts() {
    let text = "x".repeat(MAX_INLINE_BYTES) + &"y".repeat(MUCH);
    let server = Server::replying([ok(&text)]).await;
    let opened = client()
        .open_stream(UpstreamRequest::get(server.url("/")), ExchangeLimits::default())
        .await;
    let (mut opened, mut read) = (opened.ok().unwrap(), Vec::new());
    // Cancelling a read in between loses nothing.
    while let Some(chunk) = match opened.next_chunk().now_or_never() {
        Some(chunk) => chunk.ok().unwrap(),
        None => opened.next_chunk().await.ok().unwrap(),
    } {
        assert!(chunk.as_ref().len() <= MAX_INLINE_BYTES);
        read.extend_from_slice(chunk.as_ref());
    }
    assert!(read == text.as_bytes());
}

#[tokio::test]
async fn a_large_body_waits_until_the_one_before_is_dropped() {
    let server = Server::replying([ok(&"x".repeat(MUCH))]).await;
    let (one, other) = (
        client().with_body_limiter(LargeBodyLimiter::with_slots(8), TIME),
        client().with_body_limiter(LargeBodyLimiter::with_slots(8), TIME),
    );
    let ask = |client: &HttpClient| {
        let client = client.clone();
        let request = UpstreamRequest::get(server.url("/"));
        let limits =
            ExchangeLimits { deadline: Duration::from_secs(2), ..ExchangeLimits::default() };
        async move { client.send(request, limits).await }
    };
    let first = get(&one, server.url("/")).await.ok().unwrap();
    assert_eq!(first.body.len(), MUCH);
    assert!(matches!(ask(&one).await, Err(HttpError::QueuedTooLong { .. })));
    assert!(get(&other, server.url("/")).await.is_ok(), "others have a room of their own");
    assert!(get(&client(), server.url("/")).await.is_ok());
    drop(first);
    assert!(get(&one, server.url("/")).await.is_ok());
}

#[tokio::test]
async fn one_upstream_does_not_delay_the_parsing_of_others() {
    let server = Server::replying([ok("x")]).await;
    let (one, other) = (
        client().with_body_limiter(LargeBodyLimiter::with_slots(8), TIME),
        client().with_body_limiter(LargeBodyLimiter::with_slots(8), TIME),
    );
    let (go, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let mut works = Vec::new();
    for _ in 0..64 {
        let answer = get(&one, server.url("/")).await.ok().unwrap();
        let mut work = Box::pin(answer.read_low_priority(Duration::from_secs(60), blocked(&wait)));
        assert!((&mut work).now_or_never().is_none());
        works.push(work);
    }
    let answer = get(&other, server.url("/")).await.ok().unwrap();
    let read = answer.read_low_priority(Duration::from_secs(60), |answer| answer.body).await;
    assert_eq!(read, Some(b"x".to_vec()));
    drop(go);
    assert!(join_all(works).await.iter().all(Option::is_some));
}

#[tokio::test]
async fn parsing_that_times_out_goes_on_and_keeps_its_permits() {
    let server = Server::replying([ok(&"x".repeat(MUCH))]).await;
    let client = client().with_body_limiter(LargeBodyLimiter::with_slots(8), TIME);
    let (go, wait) = mpsc::channel::<()>();
    let answer = get(&client, server.url("/")).await.ok().unwrap();
    let read =
        answer.read_low_priority(soon().deadline, blocked(&Arc::new(Mutex::new(wait)))).await;
    assert_eq!(read, None);
    let limits = ExchangeLimits { deadline: Duration::from_secs(2), ..ExchangeLimits::default() };
    let next = client.send(UpstreamRequest::get(server.url("/")), limits).await;
    assert!(
        matches!(next, Err(HttpError::QueuedTooLong { repeatable: true, .. })),
        "it is still there"
    );
    drop(go);
    let next = get(&client, server.url("/")).await.ok().unwrap();
    assert_eq!(
        next.read_low_priority(Duration::from_secs(60), |it| it.body.len()).await,
        Some(MUCH)
    );
}

#[tokio::test]
async fn a_body_too_large_for_the_deadline_is_distinguished_from_a_busy_upstream() {
    let server = Server::replying([ok(&"x".repeat(48 * LARGE_BODY_BYTES))]).await;
    let room = LargeBodyLimiter::with_slots(8);
    let client = client().with_body_limiter(room.clone(), TIME);
    let limits = ExchangeLimits { deadline: Duration::from_secs(4), max_bytes: u64::MAX };
    let sent = || client.send(UpstreamRequest::get(server.url("/")), limits);
    assert!(matches!(sent().await, Err(HttpError::TooLongToRead { repeatable: true, .. })));
    let mut other = LargeBodyLease::unacquired(Some(&room), None);
    other.grow_to(LARGE_BODY_BYTES + 1).await;
    assert!(matches!(sent().await, Err(HttpError::QueuedTooLong { repeatable: true, .. })));
}

/// An HTTP/2 server, and its address.
async fn server_of_streams(own: &Certificate, answer: String) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let asked = url(&format!("https://localhost:{}/", listener.local_addr().unwrap().port()));
    let acceptor = acceptor(own, None, &[b"h2"]);
    let router = Router::new().route("/", routing::get(|| async move { answer }));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let stream = acceptor.accept(stream).await.unwrap();
            let service = TowerToHyperService::new(router.clone());
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new()).http2_only();
                drop(server.serve_connection(TokioIo::new(stream), service).await);
            });
        }
    });
    asked
}

#[tokio::test]
async fn responses_waiting_on_an_http2_connection_do_not_block_the_one_being_read() {
    let own = Certificate::new();
    let asked = server_of_streams(&own, "x".repeat(2 * MUCH)).await;
    let client = trusting(&own).with_body_limiter(LargeBodyLimiter::with_slots(8), TIME);
    let limits = ExchangeLimits { deadline: Duration::from_secs(120), ..ExchangeLimits::default() };
    let ask = || async {
        let answer = client.send(UpstreamRequest::get(asked.clone()), limits).await;
        answer.map(|answer| answer.body.len()).map_err(|error| error.to_string())
    };
    let answers = join_all((0..12).map(|_| ask())).await;
    assert_eq!(answers, vec![Ok(2 * MUCH); 12]);
}
