//! Tests of the accept loop: limits, time-outs and the graceful shutdown.

use std::net::SocketAddr;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use futures_util::stream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;

/// Seconds, because a response must arrive within this time and the machine may be busy.
const HEAD_WITHIN: Duration = Duration::from_secs(2);
const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const ASK_ONCE: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Starts a server with short time-outs and returns its address.
async fn server(places: usize, head_within: Duration) -> SocketAddr {
    let limits = ConnectionLimits {
        max_connections: places,
        head_timeout: head_within,
        idle_timeout: head_within,
        ..ConnectionLimits::default()
    };
    serving(limits).await.0
}

/// Starts a server with a stop signal.
async fn serving(limits: ConnectionLimits) -> (SocketAddr, oneshot::Sender<()>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let slow = move || tokio::time::sleep(limits.idle_timeout + Duration::from_secs(1));
    let router = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/slow", get(slow))
        .route("/large", get(|| async { vec![b'x'; 32 << 20] }))
        .route("/beats", get(move || async move { parts(8, limits.idle_timeout / 2, "beat") }))
        .route("/thinks", get(move || async move { parts(1, limits.idle_timeout * 3, "thought") }))
        .route(
            "/endless",
            get(|| async { parts(usize::MAX, Duration::ZERO, &"x".repeat(64 << 10)) }),
        );
    let (stop, stopped) = oneshot::channel();
    let stopped = async {
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    (address, stop, tokio::spawn(serve_connections(listener, router, limits, stopped)))
}

/// A body that sends `text` `times` times, and sleeps before each part.
fn parts(times: usize, before: Duration, text: &str) -> Body {
    let text = Bytes::from(text.to_owned());
    let next = move |left: usize| {
        let text = text.clone();
        async move {
            tokio::time::sleep(before).await;
            let left = left.checked_sub(1)?;
            Some((Ok::<_, std::io::Error>(text), left))
        }
    };
    Body::from_stream(stream::unfold(times, next))
}

/// Connects and sends `text`.
async fn say(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// Reads until the server closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    drop(tokio::time::timeout(Duration::from_secs(30), read).await.expect("nobody hung up"));
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends `text` and reads until the server closes the connection.
async fn ask(address: SocketAddr, text: &str) -> String {
    rest(say(address, text).await).await
}

#[tokio::test]
async fn a_connection_with_an_unfinished_request_is_closed() {
    let address = server(10, Duration::from_millis(200)).await;
    for beginning in ["", "G", "GET / HTTP/1.1\r\nHost:", "PRI * HTTP/2.0\r\n", "P"] {
        let answer = ask(address, beginning).await;
        assert!(!answer.contains("200 OK"), "{answer}");
    }
}

#[tokio::test]
async fn a_request_head_has_its_own_deadline() {
    let (head_within, idle) = (Duration::from_secs(1), Duration::from_secs(3600));
    let (address, ..) = serving(ConnectionLimits {
        head_timeout: head_within,
        idle_timeout: idle,
        ..ConnectionLimits::default()
    })
    .await;
    assert_eq!(ask(address, "GET / HTTP/1.1\r\nHost:").await, "");
    let mut second = say(address, ASK).await;
    second.readable().await.unwrap();
    second.write_all(b"GET / HTTP/1.1\r\nHost:").await.unwrap();
    assert!(rest(second).await.ends_with("hello"));
    // A slow trickle of bytes does not extend the deadline.
    let mut dribbles = say(address, "GET / HTTP/1.1\r\nX: ").await;
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if dribbles.write_all(b"x").await.is_err() {
            return;
        }
    }
    panic!("nobody hung up");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let address = server(10, HEAD_WITHIN).await;
    let idle = ask(address, ASK).await;
    assert!(idle.contains("200 OK") && idle.ends_with("hello"), "{idle}");
}

#[tokio::test]
async fn a_response_may_take_longer_than_the_idle_timeout() {
    let address = server(10, HEAD_WITHIN).await;
    let answer = ask(address, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(answer.contains("200 OK"), "{answer}");
}

#[tokio::test]
async fn a_stream_stays_open_while_it_sends_or_will_send() {
    let address = server(10, HEAD_WITHIN).await;
    let beats = ask(address, "GET /beats HTTP/1.1\r\nHost: a\r\n\r\n");
    let thinks = ask(address, "GET /thinks HTTP/1.1\r\nHost: a\r\n\r\n");
    let (beats, thinks) = tokio::join!(beats, thinks);
    assert!(beats.matches("beat").count() == 8 && beats.ends_with("\r\n0\r\n\r\n"), "{beats}");
    assert!(thinks.contains("thought") && thinks.ends_with("\r\n0\r\n\r\n"), "{thinks}");
}

#[tokio::test]
async fn a_client_that_does_not_read_loses_its_connection() {
    for path in ["/large", "/endless"] {
        let address = server(1, HEAD_WITHIN).await;
        let stalled = say(address, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        let answer = ask(address, ASK_ONCE).await;
        assert!(answer.contains("200 OK"), "{path}: {answer}");
        drop(stalled);
    }
}

#[tokio::test]
async fn an_idle_http2_connection_is_closed() {
    let address = server(10, Duration::from_millis(500)).await;
    let settings = "\0\0\0\u{4}\0\0\0\0\0";
    ask(address, &format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{settings}")).await;
}

#[tokio::test]
async fn a_connection_above_the_limit_waits_for_a_slot() {
    let address = server(1, HEAD_WITHIN).await;
    let silent = TcpStream::connect(address).await.unwrap();
    let answer = ask(address, ASK_ONCE).await;
    assert!(answer.contains("200 OK"), "{answer}");
    drop(silent);
}

#[tokio::test]
async fn a_request_head_above_the_limit_is_rejected() {
    let address = server(10, HEAD_WITHIN).await;
    let ask_with = |bytes: usize| {
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: {}\r\n\r\n",
            "x".repeat(bytes)
        )
    };
    assert!(ask(address, &ask_with(30 << 10)).await.contains("200 OK"));
    let answer = ask(address, &ask_with(33 << 10)).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn requests_sent_before_the_shutdown_are_answered() {
    let limits = ConnectionLimits { max_connections: 3, ..ConnectionLimits::default() };
    let (address, stop, served) = serving(limits).await;
    // Three connections have a slot, and two wait in the accept queue.
    let mut fresh = say(address, "").await;
    let mut kept = say(address, ASK).await;
    kept.readable().await.unwrap();
    let stream = say(address, "GET /beats HTTP/1.1\r\nHost: a\r\n\r\n").await;
    stream.readable().await.unwrap();
    let waiting = [say(address, ASK).await, say(address, ASK).await];
    stop.send(()).unwrap();
    // After a moment the connections know about the shutdown; a request sent now is still answered.
    tokio::time::sleep(Duration::from_millis(300)).await;
    for stream in [&mut fresh, &mut kept] {
        stream.write_all(ASK.as_bytes()).await.unwrap();
    }
    for (stream, answers) in [(fresh, 1), (kept, 2)] {
        let answer = rest(stream).await;
        assert_eq!(answer.matches("hello").count(), answers, "{answer}");
        assert_eq!(answer.matches("connection: close").count(), 1, "{answer}");
    }
    for stream in waiting {
        assert!(rest(stream).await.ends_with("hello"));
    }
    assert!(!served.is_finished());
    drop(stream);
    served.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
