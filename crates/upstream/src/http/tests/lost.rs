//! Missing and incomplete responses: the errors the caller gets, and that no request is sent twice.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::server::{AND_CLOSE, HANG_UP, Server, ok, read_request, reply};
use super::{
    ExchangeLimits, HeaderValue, HttpClient, HttpError, LookupFn, UpstreamRequest, body, client,
    client_with, get, post, soon, url,
};

#[tokio::test]
async fn a_slow_trickle_does_not_extend_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        read_request(&mut connection).await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n";
        connection.write_all(head).await.unwrap();
        let mut clock = tokio::time::interval(Duration::from_millis(10));
        while connection.write_all(b" ").await.is_ok() {
            clock.tick().await;
        }
    });
    let answer = client().send(post(url(&format!("http://127.0.0.1:{port}/"))), soon()).await;
    assert_eq!(
        body(answer).unwrap_err(),
        format!(
            "`http://127.0.0.1:{port}` did not answer within 200ms, so the outcome is unknown: \
             check there before you repeat the request"
        )
    );
}

#[tokio::test]
async fn a_stalled_response_is_abandoned_before_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok((mut connection, _)) = listener.accept().await {
            read_request(&mut connection).await.unwrap();
            let half = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n123";
            connection.write_all(half).await.unwrap();
            connections.push(connection);
        }
    });
    let hasty = HttpClient { silence: Duration::from_millis(200), ..client() };
    let asked = async |client: &HttpClient, millis| {
        let limits =
            ExchangeLimits { deadline: Duration::from_millis(millis), ..ExchangeLimits::default() };
        body(client.send(UpstreamRequest::get(url(&origin)), limits).await).unwrap_err()
    };
    let silent = format!("`{origin}` began to answer and then said nothing for");
    assert_eq!(asked(&hasty, 6_000).await, format!("{silent} 2s"), "a third of its time");
    let late = format!("`{origin}` did not answer within 200ms");
    assert_eq!(asked(&client(), 200).await, late, "ten seconds at least");
}

#[tokio::test]
async fn a_response_that_does_not_begin_is_abandoned_before_the_deadline() {
    // The server accepts connections and never sends a byte.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", silent.local_addr().unwrap());
    let hasty = HttpClient { first_byte_timeout: Duration::from_millis(200), ..client() };
    let limits = ExchangeLimits { deadline: Duration::from_secs(2), ..ExchangeLimits::default() };
    let asked = async |request| hasty.send(request, limits).await.map(drop).unwrap_err();
    let said = format!("`{origin}` did not answer within 200ms");
    assert_eq!(asked(UpstreamRequest::get(url(&origin))).await.to_string(), said);
    // Half of the call's deadline counts, however little of it is left.
    let first = |seconds| {
        client()
            .with_body_limiter(crate::LargeBodyLimiter::with_slots(1), Duration::from_secs(seconds))
            .first_byte_timeout
    };
    assert_eq!(
        [first(10), first(60)],
        [super::super::MIN_FIRST_BYTE_TIMEOUT, Duration::from_secs(30)]
    );
    let posted = asked(post(url(&origin))).await;
    assert!(matches!(posted, HttpError::Timeout { sent: true, repeatable: false, .. }));
}

#[tokio::test]
async fn a_deadline_before_the_connection_is_made_means_nothing_was_sent() {
    // The server accepts connections and never answers the TLS handshake.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("https://127.0.0.1:{}", silent.local_addr().unwrap().port());
    let answer = client().send(post(url(&origin)), soon()).await;
    assert!(matches!(answer, Err(HttpError::Timeout { sent: false, .. })));
    assert_eq!(
        body(answer).unwrap_err(),
        format!("`{origin}` did not answer within 200ms: nothing was sent, try again later")
    );
    let without_body = client().send(UpstreamRequest::get(url(&origin)), soon()).await;
    assert!(matches!(without_body, Err(HttpError::Timeout { sent: true, .. })));
}

#[tokio::test]
async fn a_request_whose_response_is_lost_is_not_sent_again() {
    let client = client();
    for times in 1..=50 {
        let server = Server::replying([HANG_UP]).await;
        let answer = client.send(post(server.url("/")), ExchangeLimits::default()).await;
        assert!(matches!(answer, Err(HttpError::ResponseLost { .. })), "{times}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_request_is_not_sent_again_on_a_reused_connection() {
    let server = Server::replying([ok("first"), HANG_UP.to_owned()]).await;
    let client = client();
    assert!(client.send(post(server.url("/")), ExchangeLimits::default()).await.is_ok());
    let second = client.send(post(server.url("/")), ExchangeLimits::default()).await;
    assert!(matches!(second, Err(HttpError::ResponseLost { .. })));
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_request_is_not_sent_again_on_a_connection_closed_meanwhile() {
    for _ in 0..50 {
        let server = Server::replying([reply("200 OK", AND_CLOSE, "")]).await;
        let client = client();
        assert!(client.send(post(server.url("/first")), ExchangeLimits::default()).await.is_ok());
        let second = client.send(post(server.url("/second")), ExchangeLimits::default()).await;
        // The outcome depends on a race.
        assert!(matches!(second, Ok(_) | Err(HttpError::ResponseLost { .. })));
        drop(client);
        server.all_connections_closed().await;
        let again = server.requests().into_iter().filter(|request| request.contains("/second"));
        assert!(again.count() <= 1);
    }
}

#[tokio::test]
async fn a_truncated_response_is_an_unknown_outcome() {
    for half in [
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n123",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n123",
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n123",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            read_request(&mut connection).await.unwrap();
            connection.write_all(half.as_bytes()).await.unwrap();
        });
        let answer = client().send(post(url(&origin)), ExchangeLimits::default()).await;
        assert_eq!(
            body(answer).unwrap_err(),
            format!(
                "the answer of `{origin}` was lost, so the outcome is unknown: \
                 check there before you repeat the request"
            )
        );
    }
}

#[tokio::test]
async fn an_idempotent_request_has_no_unknown_outcome() {
    let server = Server::replying([HANG_UP]).await;
    let origin = format!("http://127.0.0.1:{}", server.port);
    let lost = Err(format!("the answer of `{origin}` was lost"));
    assert_eq!(body(get(&client(), server.url("/")).await), lost);
    let document = client().get_document(&server.url("/"), ExchangeLimits::default()).await;
    assert_eq!(body(document), lost);
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", silent.local_addr().unwrap());
    let late = Err(format!("`{origin}` did not answer within 200ms"));
    assert_eq!(body(client().send(UpstreamRequest::get(url(&origin)), soon()).await), late);
    assert_eq!(body(client().get_document(&url(&origin), soon()).await), late);
}

/// A port without a listener.
fn closed_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn a_refused_connection_means_nothing_was_sent() {
    let origin = format!("http://127.0.0.1:{}", closed_port());
    let answer = client().send(post(url(&origin)), ExchangeLimits::default()).await;
    assert!(matches!(answer, Err(HttpError::Connect { .. })));
    assert_eq!(
        body(answer).unwrap_err(),
        format!(
            "cannot connect to `{origin}`: check the address, its certificate, and that it is up"
        )
    );
    let no_tls = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let no_tls_url = url(&format!("https://{}/", no_tls.local_addr().unwrap()));
    tokio::spawn(
        async move { no_tls.accept().await.unwrap().0.write_all(b"HTTP/1.1 400\r\n").await },
    );
    let answer = client().send(post(no_tls_url), ExchangeLimits::default()).await;
    assert!(matches!(answer, Err(HttpError::Connect { .. })));
    let unknown: LookupFn = |_| Err(io::ErrorKind::NotFound.into());
    let answer = get(&client_with("10.0.0.0/8", unknown), url("https://api.test/")).await;
    assert!(matches!(answer, Err(HttpError::Connect { .. })));
}

#[tokio::test]
async fn a_lookup_without_a_permit_asks_the_caller_to_try_again() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    static OVER: AtomicBool = AtomicBool::new(false);
    let silent: LookupFn = |_| {
        ASKED.fetch_add(1, Ordering::Relaxed);
        while !OVER.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        Err(io::ErrorKind::NotFound.into())
    };
    /// Ends the lookups even if the test fails, because a runtime waits for its threads.
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            OVER.store(true, Ordering::Relaxed);
        }
    }
    let _ends = Ends;
    let client = client_with("10.0.0.0/8", silent).for_agent_hosts();
    let ask = |n: usize| {
        let client = client.clone();
        let url = url(&format!("https://a.silent{n}.test/"));
        tokio::spawn(async move { client.send(post(url), ExchangeLimits::default()).await })
    };
    let all: Vec<_> = (0..16).map(ask).collect();
    while ASKED.load(Ordering::Relaxed) < all.len() {
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    let more = ask(16);
    while !more.is_finished() {
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    let answer = more.await.unwrap();
    assert!(matches!(answer, Err(HttpError::Connect { .. })));
    assert_eq!(
        body(answer).unwrap_err(),
        "cannot connect to `https://a.silent16.test`: too many names are being looked up, \
         so try again in a moment"
    );
}

#[tokio::test]
async fn no_message_repeats_the_url_or_headers_of_the_request() {
    let server = Server::replying([HANG_UP]).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = format!("https://{}", silent.local_addr().unwrap());
    for origin in [
        format!("http://127.0.0.1:{}", closed_port()),
        format!("http://127.0.0.1:{}", server.port),
        silent,
        "http://me:secret@127.0.0.1".to_owned(),
        "http://10.0.0.1:25".to_owned(),
        "http://169.254.169.254".to_owned(),
    ] {
        let mut request = post(url(&format!("{origin}/secret?key=secret#secret")));
        request.headers.insert("x-key", HeaderValue::from_static("secret"));
        let error = client().send(request, soon()).await.err().unwrap();
        let mut texts = vec![format!("{error:?}")];
        let mut cause: Option<&dyn Error> = Some(&error);
        while let Some(error) = cause {
            texts.push(error.to_string());
            cause = error.source();
        }
        assert!(!texts.concat().contains("secret"), "{texts:?}");
    }
}
