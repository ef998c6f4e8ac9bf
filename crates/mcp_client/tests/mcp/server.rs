//! A scripted HTTP server for MCP tests, with one request per connection.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_client::McpTarget;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;
use upstream::http::header::HeaderMap;

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
    /// The raw body, which need not be JSON.
    pub(crate) text: String,
}

/// The reply to one request.
pub(crate) enum Reply {
    /// A status, headers, and an optional JSON body.
    Json(u16, Vec<(&'static str, String)>, Option<Value>),
    /// An event stream of these pieces.
    Stream(Vec<StreamPart>),
    /// Raw bytes, then the connection closes.
    Raw(Vec<u8>),
    /// No reply; the connection stays open.
    Silence,
}

pub(crate) enum StreamPart {
    /// Raw text.
    Text(String),
    /// A JSON-RPC message as a server-sent event.
    Message(Value),
    /// Waits until the channel holds `true`.
    Until(watch::Receiver<bool>),
    /// Every message of this channel, as server-sent events.
    From(broadcast::Receiver<Value>),
    /// Like `From`, until the second channel holds `true`.
    FromUntil(broadcast::Receiver<Value>, watch::Receiver<bool>),
    /// One byte every 50 ms, endlessly.
    Trickle,
    /// The same bytes at full speed, endlessly.
    Endless,
    /// Keeps the stream open without sending.
    Hold,
}

pub(crate) struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
    /// Number of connections that the client closed while the server held them open.
    pub(crate) left: watch::Receiver<u32>,
}

impl Server {
    pub(crate) async fn start(
        reply: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, reply) = (Arc::<Mutex<Vec<ReceivedRequest>>>::default(), Arc::new(reply));
        let (leaves, left) = watch::channel(0);
        let seen = asked.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (reply, seen, leaves) = (reply.clone(), seen.clone(), leaves.clone());
                tokio::spawn(async move {
                    let mut connection = BufReader::new(connection);
                    let Some(asked) = read(&mut connection).await else { return };
                    seen.lock().unwrap().push(asked.clone());
                    let reply = reply(&asked);
                    if answer(connection.get_mut(), reply).await.is_none() {
                        leaves.send_modify(|count| *count += 1);
                    }
                });
            }
        });
        Self { port, asked, left }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn target(&self) -> McpTarget {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer of-the-source".parse().unwrap());
        let client = HttpClient::new(EgressPolicy { allow_private: true, allowed: vec![] });
        McpTarget::Http { client, url: self.url("/mcp").parse().unwrap(), headers }
    }

    pub(crate) fn received_requests(&self) -> Vec<ReceivedRequest> {
        self.asked.lock().unwrap().clone()
    }

    /// All requests in short form: `POST initialize`, `GET`, …
    pub(crate) fn request_summaries(&self) -> Vec<String> {
        let told = |asked: &ReceivedRequest| match asked.method() {
            "" => asked.verb.clone(),
            method => format!("{} {method}", asked.verb),
        };
        self.received_requests().iter().map(told).collect()
    }
}

impl ReceivedRequest {
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }

    pub(crate) fn result(&self, result: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result})
    }

    pub(crate) fn error(&self, code: i64) -> Value {
        let error = json!({"code": code, "message": "no"});
        json!({"jsonrpc": "2.0", "id": self.body["id"], "error": error})
    }
}

impl Reply {
    pub(crate) fn result(asked: &ReceivedRequest, result: Value) -> Self {
        Self::Json(200, vec![], Some(asked.result(result)))
    }

    pub(crate) fn error(asked: &ReceivedRequest, status: u16, code: i64) -> Self {
        Self::Json(status, vec![], Some(asked.error(code)))
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::Json(status, vec![], None)
    }
}

async fn read(connection: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if connection.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (verb, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let pair = |line: &str| line.split_once(": ").map(|(n, v)| (n.to_lowercase(), v.to_owned()));
    let headers: Vec<_> = lines.filter_map(pair).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    connection.read_exact(&mut body).await.ok()?;
    let text = String::from_utf8(body).unwrap_or_default();
    let body = serde_json::from_str(&text).unwrap_or_default();
    Some(ReceivedRequest { verb, path, headers, body, text })
}

/// Returns `None` if the client closed the connection.
async fn answer(to: &mut TcpStream, reply: Reply) -> Option<()> {
    match reply {
        Reply::Raw(bytes) => to.write_all(&bytes).await.ok(),
        Reply::Silence => send(to, StreamPart::Hold).await,
        Reply::Json(status, headers, body) => {
            let body = body.map(|body| body.to_string()).unwrap_or_default();
            let mut head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n");
            for (name, value) in headers {
                head += &format!("{name}: {value}\r\n");
            }
            head += &format!(
                "content-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            to.write_all((head + &body).as_bytes()).await.ok()
        }
        Reply::Stream(pieces) => {
            let head =
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n";
            to.write_all(head.as_bytes()).await.ok()?;
            for piece in pieces {
                send(to, piece).await?;
            }
            Some(())
        }
    }
}

async fn send(to: &mut TcpStream, piece: StreamPart) -> Option<()> {
    match piece {
        StreamPart::Text(text) => to.write_all(text.as_bytes()).await.ok(),
        StreamPart::Message(message) => to.write_all(event(&message).as_bytes()).await.ok(),
        StreamPart::Until(mut said) => said.wait_for(|said| *said).await.map(drop).ok(),
        StreamPart::From(mut messages) => loop {
            tokio::select! {
                message = messages.recv() => {
                    to.write_all(event(&message.ok()?).as_bytes()).await.ok()?;
                }
                gone = to.read_u8() => { gone.ok()?; }
            }
        },
        StreamPart::FromUntil(messages, mut said) => tokio::select! {
            sent = Box::pin(send(to, StreamPart::From(messages))) => sent,
            Ok(_) = said.wait_for(|said| *said) => Some(()),
        },
        StreamPart::Trickle => loop {
            to.write_all(b"d").await.ok()?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        },
        StreamPart::Endless => loop {
            to.write_all(&[b'x'; 65536]).await.ok()?;
        },
        StreamPart::Hold => to.read_u8().await.map(drop).ok(),
    }
}

fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}
