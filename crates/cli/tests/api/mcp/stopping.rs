//! Cancelled calls: by notification in the legacy generation, by disconnecting in the modern one.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::Era::{Legacy, Modern};
use super::{Client, error_of_answer, grant, key, request};
use crate::api::server::Server;

/// Upstream that never answers, and reports each request and each disconnect.
struct SilentUpstream {
    port: u16,
    heard: mpsc::Receiver<&'static str>,
}

impl SilentUpstream {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, heard) = mpsc::channel();
        thread::spawn(move || {
            for connection in listener.incoming() {
                let tell = tell.clone();
                thread::spawn(move || {
                    let mut reader = BufReader::new(connection.unwrap());
                    let mut line = String::new();
                    while reader.read_line(&mut line).unwrap_or(0) != 0
                        && !line.ends_with("\r\n\r\n")
                    {}
                    tell.send("asked").ok();
                    // This read ends when the client disconnects: nothing more is sent.
                    drop(reader.read(&mut [0; 16]));
                    tell.send("left").ok();
                });
            }
        });
        Self { port, heard }
    }

    fn next(&self) -> &'static str {
        self.heard.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    fn is_quiet(&self) -> bool {
        self.heard.recv_timeout(Duration::from_millis(300)).is_err()
    }
}

/// Server whose tool `wait` never answers, granted to the role `staff`.
fn world() -> (Server, SilentUpstream, String) {
    let (server, upstream) = (Server::start(), SilentUpstream::new());
    let operation = json!({"operationId": "wait", "responses": {"200": {"description": "ok"}}});
    let text = json!({
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"},
        "servers": [{"url": format!("http://127.0.0.1:{}", upstream.port)}],
        "paths": {"/wait": {"get": operation}},
    });
    let settings = json!({"kind": "openapi", "specification": {"text": text.to_string()}});
    let source = json!({"name": "s", "settings": settings, "allow": ["127.0.0.1"]});
    server.post("/api/sources", &source).ok();
    server.wait_for("/api/sources/s", |source| !source["inventory"].is_null());
    server.post("/api/groups", &json!({"name": "all", "selectors": [{"source": "s"}]})).ok();
    grant(&server, "staff", "all");
    let key = key(&server, "bot", &json!({"role": "staff"}));
    (server, upstream, key)
}

fn cancelled_notification(id: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

#[test]
fn a_call_is_cancelled_by_a_notification_of_its_own_session() {
    let (server, upstream, bot) = world();
    let other = key(&server, "other", &json!({"role": "staff"}));
    let client = Client::new(&server, &bot).initialized();
    thread::scope(|scope| {
        let call = scope.spawn(|| client.send(Legacy, "tools/call", json!({"name": "wait"})));
        assert_eq!(upstream.next(), "asked");
        // A cancellation from another session, another caller, without a session, or for another call has no effect.
        let again = Client::new(&server, &bot).initialized();
        let foreign = Client::new(&server, &other).initialized();
        for client in [&again, &foreign, &Client::new(&server, &bot)] {
            assert_eq!(client.post(&cancelled_notification(json!(7))).status, 202);
        }
        for id in [json!("7"), json!(8), json!(null), json!({})] {
            assert_eq!(client.post(&cancelled_notification(id)).status, 202);
        }
        assert!(upstream.is_quiet());
        assert_eq!(client.post(&cancelled_notification(json!(7))).status, 202);
        assert_eq!(upstream.next(), "left");
        let answer = call.join().unwrap();
        assert_eq!(error_of_answer(&answer), (200, -32000, "the request was cancelled".to_owned()));
    });
    assert_eq!(client.tools(Legacy), "wait");
}

#[test]
fn a_call_is_cancelled_when_the_client_disconnects() {
    let (server, upstream, bot) = world();
    let client = Client::new(&server, &bot);
    let body = request(Modern, json!(1), "tools/call", json!({"name": "wait"})).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {bot}\r\nContent-Length: {}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: wait\r\n\r\n",
        body.len()
    );
    let mut connection = server.connect();
    connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
    assert_eq!(upstream.next(), "asked");
    assert!(upstream.is_quiet());
    drop(connection);
    assert_eq!(upstream.next(), "left");
    assert_eq!(client.tools(Modern), "wait");
}

#[test]
fn a_long_call_becomes_a_stream_and_is_cancelled_by_disconnecting() {
    let (server, upstream, bot) = world();
    let client = Client::new(&server, &bot);
    // The response head arrives once the call has taken a while.
    let events = server.open_events(&client.ask(Modern, "tools/call", json!({"name": "wait"})));
    assert_eq!(upstream.next(), "asked");
    drop(events);
    assert_eq!(upstream.next(), "left");
    assert_eq!(client.tools(Modern), "wait");
}
