//! Input that no client should send: each message gets the proper error, and the next valid request still succeeds
//! (MCP-05, MCP-09, MCP-14 to MCP-16).

mod bodies;
mod envelopes;
mod senders;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::server::Server;

/// Client that sends raw bytes and keeps its connection open as long as possible.
struct Wire<'a> {
    server: &'a Server,
    key: &'a str,
    connection: Option<BufReader<TcpStream>>,
}

/// Response: status and body.
type RawResponse = (u16, String);

impl<'a> Wire<'a> {
    fn new(server: &'a Server, key: &'a str) -> Self {
        Self { server, key, connection: None }
    }

    /// Beginning of every request head.
    fn head(&self) -> String {
        let key = self.key;
        format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n")
    }

    /// Sends a body with the content type JSON.
    fn send(&mut self, body: &[u8]) -> RawResponse {
        let length = body.len();
        let head = self.head();
        let kind = "Content-Type: application/json\r\n";
        let head = format!("{head}{kind}Content-Length: {length}\r\n\r\n");
        self.write(&[head.as_bytes(), body].concat()).expect("an answer")
    }

    /// Sends raw bytes; returns `None` if the server closed the connection without an answer.
    fn write(&mut self, bytes: &[u8]) -> Option<RawResponse> {
        let open = || BufReader::new(self.server.connect());
        let mut connection = self.connection.take().unwrap_or_else(open);
        // The server may close the connection before it has read everything.
        drop(connection.get_mut().write_all(bytes));
        let (came, stays) = read(&mut connection)?;
        self.connection = stays.then_some(connection);
        Some(came)
    }

    /// Checks that the server still answers a valid request, on this connection if it is open, otherwise on a new one.
    fn assert_still_answers(&mut self) {
        let ping = json!({"jsonrpc": "2.0", "id": "still there?", "method": "ping"});
        let (status, body) = self.send(ping.to_string().as_bytes());
        let expected = json!({"jsonrpc": "2.0", "id": "still there?", "result": {}});
        assert_eq!((status, parse_json(&body)), (200, expected));
    }
}

/// Reads one response and whether the connection stays open; `None` if the server sent nothing.
fn read(connection: &mut BufReader<TcpStream>) -> Option<(RawResponse, bool)> {
    connection.get_ref().set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut line = String::new();
    if connection.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let (mut length, mut stays) = (0, true);
    loop {
        line.clear();
        connection.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().ok()?,
            Some(("connection", "close")) => stays = false,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).ok()?;
    Some(((status, String::from_utf8(body).ok()?), stays))
}

fn parse_json(body: &str) -> Value {
    serde_json::from_str(body).map_err(|error| format!("{error}: {body}")).unwrap()
}

/// Status and JSON-RPC code of an error.
fn status_and_code((status, body): &RawResponse) -> (u16, i64) {
    let body = parse_json(body);
    assert!(body["result"].is_null(), "{body}");
    (*status, body["error"]["code"].as_i64().unwrap_or_default())
}
