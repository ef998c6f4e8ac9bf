//! Tests against local servers that misbehave in ways no proper server would.

use server::{Server, ok, reply};

use super::*;
use crate::egress_resolver::LookupFn;

#[path = "../../tests/support/certificate.rs"]
mod certificate;
mod identity;
mod long;
mod lost;
mod redirects;
mod refusal;
mod server;
mod size;
mod trust;

/// A client that may reach test servers on the loopback interface.
fn client() -> HttpClient {
    HttpClient::new(EgressPolicy { allow_private: true, allowed: vec![] })
}

fn client_with(allowed: &str, lookup: LookupFn) -> HttpClient {
    let allowed: AllowedDestination = allowed.parse().unwrap();
    let egress = Arc::new(EgressPolicy { allow_private: false, allowed: vec![allowed] });
    let connections = ConnectionPools::new(egress.clone(), DnsLookups::new(lookup));
    HttpClient { connections, egress, ..client() }
}

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn post(url: Url) -> UpstreamRequest {
    UpstreamRequest {
        method: Method::POST,
        body: Some(b"pizza".to_vec()),
        ..UpstreamRequest::get(url)
    }
}

fn soon() -> ExchangeLimits {
    ExchangeLimits { deadline: Duration::from_millis(200), ..ExchangeLimits::default() }
}

async fn get(client: &HttpClient, url: Url) -> Result<UpstreamResponse, HttpError> {
    client.send(UpstreamRequest::get(url), ExchangeLimits::default()).await
}

fn body(answer: Result<UpstreamResponse, HttpError>) -> Result<String, String> {
    let answer = answer.map_err(|error| error.to_string())?;
    Ok(String::from_utf8(answer.body).unwrap())
}

#[tokio::test]
async fn a_response_is_returned_whatever_its_status() {
    let server =
        Server::replying([reply("404 Not Found", "Content-Type: text/plain\r\n", "no")]).await;
    let answer = get(&client(), server.url("/a?b=c")).await.ok().unwrap();
    assert_eq!((answer.status, answer.content_type()), (404, Some("text/plain")));
    assert_eq!((answer.body, answer.url), (b"no".to_vec(), server.url("/a?b=c")));
}

#[tokio::test]
async fn a_request_contains_only_the_given_headers_and_a_few_more() {
    let server = Server::replying([reply("200 OK", "Set-Cookie: a=b\r\n", "")]).await;
    let client = client();
    let mut request = post(server.url("/a?b=c"));
    request.headers.insert("x-key", HeaderValue::from_static("k"));
    request.headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    request.headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("1"));
    client.send(request.clone(), ExchangeLimits::default()).await.ok().unwrap();
    client.send(request, ExchangeLimits::default()).await.ok().unwrap();
    let expected = format!(
        "POST /a?b=c HTTP/1.1\r\nx-key: k\r\ncontent-length: 5\r\naccept: */*\r\n\
         user-agent: toolcrib/{}\r\naccept-encoding: gzip\r\nhost: 127.0.0.1:{}\r\n\r\npizza",
        env!("CARGO_PKG_VERSION"),
        server.port
    );
    assert_eq!(server.requests(), [expected.clone(), expected]);
}

#[tokio::test]
async fn content_length_is_sent_where_a_body_is_usual() {
    let server = Server::replying([ok("")]).await;
    for (method, body) in [
        (Method::POST, None),
        (Method::PUT, Some(vec![])),
        (Method::GET, None),
        (Method::DELETE, None),
        (Method::GET, Some(b"pizza".to_vec())),
    ] {
        let request = UpstreamRequest { method, body, ..UpstreamRequest::get(server.url("/")) };
        client().send(request, ExchangeLimits::default()).await.ok().unwrap();
    }
    let lengths = server.requests().into_iter().map(|request| {
        let length = request.lines().find_map(|line| line.strip_prefix("content-length: "));
        length.map(str::to_owned)
    });
    let lengths: Vec<_> = lengths.collect();
    assert_eq!(
        lengths,
        [Some("0".to_owned()), Some("0".to_owned()), None, None, Some("5".to_owned())]
    );
}
