//! Requests that fail before their body is parsed: too large, too slow, of the wrong type, or ambiguous.

use std::io::{BufReader, Read as _, Write as _};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Wire, parse_json, read};
use crate::api::server::Server;
use crate::support::Folder;

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const LIMIT: usize = 4 << 20;

/// Status of the answer to a request whose head continues with these lines; 0 if there is no answer.
fn status(wire: &mut Wire<'_>, head: &str, body: &str) -> u16 {
    let request = format!("{}{head}\r\n{body}", wire.head());
    let came = wire.write(request.as_bytes());
    // Always reconnect: the next request must not be read as the rest of this one.
    wire.connection = None;
    wire.assert_still_answers();
    came.map_or(0, |(status, _)| status)
}

#[test]
fn bodies_of_other_media_types_are_rejected() {
    let server = Server::start();
    let mut wire = Wire::new(&server, &server.key);
    let length = format!("Content-Length: {}\r\n", PING.len());
    for kind in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: multipart/form-data; boundary=x\r\n",
        "Content-Type: text/json\r\n",
        "Content-Type: application/jsonl\r\n",
        "Content-Type: application/octet-stream\r\n",
        "Content-Type: \u{fc}\r\n",
        "Content-Type: ;application/json\r\n",
    ] {
        assert_eq!(status(&mut wire, &format!("{kind}{length}"), PING), 415, "{kind}");
    }
    for kind in ["application/json; charset=utf-8", "APPLICATION/JSON", "application/json;x=\"y\""]
    {
        let head = format!("Content-Type: {kind}\r\n{length}");
        assert_eq!(status(&mut wire, &head, PING), 200, "{kind}");
    }
    // Compressed bodies are not decompressed.
    let head = format!("Content-Type: application/json\r\nContent-Encoding: gzip\r\n{length}");
    assert!([200, 400, 415].contains(&status(&mut wire, &head, PING)));
}

#[test]
fn a_body_is_limited_to_four_mebibytes() {
    let server = Server::start();
    let mut wire = Wire::new(&server, &server.key);
    let padded = |length: usize| format!("{PING}{}", " ".repeat(length - PING.len()));
    assert_eq!(wire.send(padded(LIMIT).as_bytes()).0, 200);
    let kind = "Content-Type: application/json\r\n";
    let head = format!("{kind}Content-Length: {}\r\n", LIMIT + 1);
    assert_eq!(status(&mut wire, &head, &padded(LIMIT + 1)), 413);
    let head = format!("{kind}Content-Length: 99999999999999999999999999\r\n");
    assert!([0, 400, 413].contains(&status(&mut wire, &head, PING)));
}

#[test]
fn an_endless_chunked_body_is_cut_off() {
    let server = Server::start();
    let mut wire = Wire::new(&server, &server.key);
    let mut connection = server.connect();
    let head = wire.head();
    let head =
        format!("{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection.write_all(head.as_bytes()).unwrap();
    let piece = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let mut sent = 0;
    // Send until the server closes the connection; it may read no more than its limit and the socket buffers.
    while connection.write_all(piece.as_bytes()).is_ok() {
        sent += piece.len();
        assert!(sent < 64 << 20, "the server takes everything");
    }
    let answer = read(&mut BufReader::new(connection));
    assert!(answer.is_none_or(|((status, _), _)| status == 413));
    wire.assert_still_answers();
    for wrong in ["zz\r\n", "-1\r\n", "ffffffffffffffffff\r\n", "5\r\nab", "1\r\n \r\n0\r\nx"] {
        let mut connection = server.connect();
        connection.write_all(head.as_bytes()).unwrap();
        connection.write_all(wrong.as_bytes()).unwrap();
        connection.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = read(&mut BufReader::new(connection));
        assert!(answer.is_none_or(|((status, _), _)| status == 400), "{wrong:?}");
        wire.assert_still_answers();
    }
}

#[test]
fn ambiguous_lengths_and_headers_are_rejected() {
    let server = Server::start();
    let mut wire = Wire::new(&server, &server.key);
    let kind = "Content-Type: application/json\r\n";
    let length = format!("Content-Length: {}\r\n", PING.len());
    for head in [
        format!("{kind}{length}Content-Length: 5\r\n"),
        format!("{kind}Content-Length: {0}, 5\r\n", PING.len()),
        format!("{kind}Content-Length: +{}\r\n", PING.len()),
        format!("{kind}Content-Length: -1\r\n"),
        format!("{kind}Content-Length: 0x10\r\n"),
        format!("{kind}Content-Length: \r\n"),
        format!("{kind}Transfer-Encoding: gzip\r\n"),
        format!("{kind}Transfer-Encoding: chunked, identity\r\n"),
        format!("{kind}{length}X-Long: a\r\n b\r\n"),
        format!("{kind}{length}X-Long : a\r\n"),
        format!("{kind}{length}X\u{1}: a\r\n"),
        format!("{kind}{length}X: a\u{1}b\r\n"),
        format!("{kind}{length}X: a\0b\r\n"),
        format!("{kind}{length}: a\r\n"),
        format!("{kind}{length}no colon\r\n"),
        format!("{kind}{length}Host: two.example\r\n"),
    ] {
        let status = status(&mut wire, &head, PING);
        assert!([0, 400, 421].contains(&status), "{head:?}: {status}");
    }
    // With both headers, the chunks count (RFC 9112, section 6.3), and bytes behind them are no second request.
    let both = format!("{kind}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n");
    let pieces = format!("{:x}\r\n{PING}\r\n0\r\n\r\n", PING.len());
    assert!([0, 200, 400].contains(&status(&mut wire, &both, &pieces)));
}

#[test]
fn too_many_or_too_large_headers_are_rejected() {
    let server = Server::start();
    let mut wire = Wire::new(&server, &server.key);
    let rest = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", PING.len());
    let many: String = (0..10_000).map(|number| format!("X-{number}: a\r\n")).collect();
    let same = "X: a\r\n".repeat(10_000);
    let large = format!("X: {}\r\n", "a".repeat(100_000));
    let session = format!("Mcp-Session-Id: {}\r\n", "a".repeat(100_000));
    for headers in [many, same, large, session] {
        let status = status(&mut wire, &format!("{headers}{rest}"), PING);
        assert!([0, 400, 431].contains(&status), "{status}");
    }
}

#[test]
fn bytes_that_are_no_http_request_get_at_most_an_error() {
    let server = Server::start();
    let mut wire = Wire::new(&server, &server.key);
    for bytes in [
        &b"\r\n\r\n\r\n"[..],
        b"\0\0\0\0\0\0\0\0",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n",
        b"POST /mcp\r\n\r\n",
        b"POST /mcp HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"POST  /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /mcp HTTP/1.1 \r\nHost: localhost\r\n\r\n",
        b"P\xffST /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /m\xffcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /mcp HTTP/1.1\nHost: localhost\n\nPOST",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\xff\xff",
    ] {
        let mut connection = server.connect();
        drop(connection.write_all(bytes));
        drop(connection.shutdown(std::net::Shutdown::Write));
        let mut answer = Vec::new();
        drop(connection.take(1 << 20).read_to_end(&mut answer));
        let is_refusal = answer.is_empty()
            || answer.starts_with(b"HTTP/1.1 4")
            || answer.starts_with(b"HTTP/1.0 4")
            || answer.starts_with(b"\0");
        assert!(is_refusal, "{:?}: {:?}", bytes, String::from_utf8_lossy(&answer));
        wire.assert_still_answers();
    }
}

#[test]
fn a_client_that_stops_sending_is_disconnected() {
    let folder = Folder::empty();
    folder.write("config.json", json!({"limits": {"idle": 1, "head_within": 1}}).to_string());
    let server = Server::on_folder(folder, "--config config.json");
    let mut wire = Wire::new(&server, &server.key);
    let head = format!("{}Content-Type: application/json\r\nContent-Length: 100\r\n", wire.head());
    for beginning in [String::new(), "PO".to_owned(), head.clone()] {
        let mut connection = server.connect();
        connection.write_all(beginning.as_bytes()).unwrap();
        let start = Instant::now();
        let mut answer = Vec::new();
        drop(connection.read_to_end(&mut answer));
        assert!(start.elapsed() < Duration::from_secs(20), "{beginning:?}");
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{answer:?}");
        wire.connection = None;
        wire.assert_still_answers();
    }
    // Many idle connections at once do not block other clients.
    let crowd: Vec<_> = (0..200)
        .map(|_| {
            let mut connection = server.connect();
            connection.write_all(head.as_bytes()).unwrap();
            connection
        })
        .collect();
    wire.connection = None;
    let (status, body) = wire.send(PING.as_bytes());
    assert_eq!((status, &parse_json(&body)["id"]), (200, &json!(1)));
    drop(crowd);
}
