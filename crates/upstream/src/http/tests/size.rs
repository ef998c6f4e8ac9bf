//! The size limit holds whatever length was announced and however the body is encoded.

use std::io::Write as _;

use flate2::write::GzEncoder;
use flate2::{Compress, Compression, FlushCompress};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::server::{Server, ok, read_request, reply};
use super::{
    ExchangeLimits, HttpError, LARGE_BODY_BYTES, MAX_INLINE_BYTES, Method, UpstreamRequest, body,
    client, get, reserve_body, url,
};

fn at_most(max_bytes: u64) -> ExchangeLimits {
    ExchangeLimits { max_bytes, ..ExchangeLimits::default() }
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn encoded(encoding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("Content-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n", body.len());
    [b"HTTP/1.1 200 OK\r\n", head.as_bytes(), body].concat()
}

#[tokio::test]
async fn gzip_is_decoded_and_the_decoded_size_is_limited() {
    let server = Server::replying([encoded("gzip", &gzipped(&"x".repeat(1000)))]).await;
    let request = UpstreamRequest::get(server.url("/"));
    let decoded = client().send(request.clone(), at_most(1000)).await;
    assert_eq!(body(decoded), Ok("x".repeat(1000)));
    let decoded = client().send(request, at_most(999)).await;
    assert!(matches!(decoded, Err(HttpError::TooLarge { limit: 999, announced: None })));
}

#[tokio::test]
async fn other_encodings_are_rejected() {
    for encoding in ["br", "zstd", "deflate", "gzip, gzip", "x-gzip"] {
        let server = Server::replying([encoded(encoding, &gzipped("x"))]).await;
        assert!(matches!(
            get(&client(), server.url("/")).await,
            Err(HttpError::UnsupportedEncoding)
        ));
    }
    let server = Server::replying([encoded("identity", b"as it is")]).await;
    assert_eq!(body(get(&client(), server.url("/")).await), Ok("as it is".to_owned()));
}

#[tokio::test]
async fn an_encoding_header_without_a_body_is_accepted() {
    let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\n";
    let server = Server::replying([head]).await;
    let request = UpstreamRequest { method: Method::HEAD, ..UpstreamRequest::get(server.url("/")) };
    let answer = client().send(request, at_most(10)).await;
    assert_eq!(body(answer), Ok(String::new()));
}

/// A mebibyte of zeros compressed to about a thousandth of its size, to be repeated without end.
fn block_of_a_gzip_bomb() -> Vec<u8> {
    let mut block = Vec::with_capacity(64 * 1024);
    let mut compress = Compress::new(Compression::best(), false);
    compress.compress_vec(&vec![0; 1024 * 1024], &mut block, FlushCompress::Full).unwrap();
    assert!(block.len() < 2048);
    block
}

#[tokio::test]
async fn reading_a_gzip_bomb_stops_at_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let endless = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        read_request(&mut connection).await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n";
        connection.write_all(head).await.unwrap();
        connection.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]).await.unwrap();
        let block = block_of_a_gzip_bomb();
        while connection.write_all(&block).await.is_ok() {}
    });
    let answer = get(&client(), url(&format!("http://127.0.0.1:{port}/"))).await;
    assert!(matches!(answer, Err(HttpError::TooLarge { limit: 10_485_760, announced: None })));
    endless.await.expect("it ends only because the client hung up");
}

#[tokio::test]
async fn only_the_beginning_of_an_error_response_is_read() {
    let much = "x".repeat(10 * MAX_INLINE_BYTES);
    let failed = reply("400 Bad Request", "", &much);
    let more = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 10000000000\r\n\r\n";
    let server = Server::replying([failed, format!("{more}{much}"), ok(&much)]).await;
    for (status, read) in [(400, MAX_INLINE_BYTES), (500, MAX_INLINE_BYTES), (200, much.len())] {
        let answer = get(&client(), server.url("/")).await.ok().unwrap();
        assert_eq!((answer.status, answer.body.len()), (status, read));
    }
}

#[tokio::test]
async fn an_error_page_is_read_whole_and_an_error_document_is_cut() {
    let much = "ü".repeat(MAX_INLINE_BYTES);
    let failed = || reply("404 Not Found", "", &much);
    let server = Server::replying([failed(), failed()]).await;
    let small =
        ExchangeLimits { max_bytes: MAX_INLINE_BYTES as u64 + 1, ..ExchangeLimits::default() };
    let document = client().get_document(&server.url("/"), small).await.ok().unwrap();
    assert_eq!((document.status, document.body.len()), (404, MAX_INLINE_BYTES));
    let page = client().get_page(&server.url("/"), ExchangeLimits::default()).await.ok().unwrap();
    assert_eq!((page.status, page.body == much.as_bytes()), (404, true));
}

#[tokio::test]
async fn an_announced_length_counts_only_if_it_exceeds_the_limit() {
    let too_much = "HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n";
    let server = Server::replying([too_much]).await;
    assert_eq!(
        body(get(&client(), server.url("/")).await).unwrap_err(),
        "the answer is too large: at most 10485760 bytes are read, and 10000000000 were announced"
    );
    let too_little = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345 and more";
    let server = Server::replying([too_little]).await;
    assert_eq!(body(get(&client(), server.url("/")).await), Ok("12345".to_owned()));
}

#[tokio::test]
async fn without_an_announced_length_the_bytes_are_counted() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n";
    let server = Server::replying([chunked]).await;
    let request = UpstreamRequest::get(server.url("/"));
    let answer = client().send(request.clone(), at_most(5)).await;
    assert_eq!(body(answer), Ok("12345".to_owned()));
    let answer = client().send(request, at_most(4)).await;
    assert_eq!(body(answer).unwrap_err(), "the answer is too large: at most 4 bytes are read");
}

#[test]
fn a_large_body_is_not_reallocated_repeatedly() {
    let mut body = vec![0; LARGE_BODY_BYTES];
    reserve_body(&mut body, 1, 8 * LARGE_BODY_BYTES as u64);
    assert_eq!(body.capacity(), 8 * LARGE_BODY_BYTES);
    reserve_body(&mut body, 8 * LARGE_BODY_BYTES, 8 * LARGE_BODY_BYTES as u64);
    assert_eq!(body.capacity(), 9 * LARGE_BODY_BYTES, "whatever was announced");
    let mut short = Vec::new();
    reserve_body(&mut short, LARGE_BODY_BYTES, 8 * LARGE_BODY_BYTES as u64);
    assert_eq!(short.capacity(), 0);
}
