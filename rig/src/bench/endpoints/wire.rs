//! A minimal HTTP/1.1 client: requests are serialized once and sent often; a response is only searched for its end.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const VERSION: &str = "2026-07-28";
const END_OF_HEAD: &[u8] = b"\r\n\r\n";
const END_OF_CHUNKS: &[u8] = b"0\r\n\r\n";

/// `tools/list` with this key.
pub(crate) fn list_request(key: &str) -> Vec<u8> {
    mcp_request(key, "tools/list", None, json!({}))
}

/// `tools/call` with this key.
pub(crate) fn call_request(key: &str, name: &str, arguments: Value) -> Vec<u8> {
    mcp_request(key, "tools/call", Some(name), json!({"name": name, "arguments": arguments}))
}

/// `subscriptions/listen`: the response is a stream of changes.
pub(crate) fn listen_request(key: &str) -> Vec<u8> {
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    mcp_request(key, "subscriptions/listen", None, wanted)
}

fn mcp_request(key: &str, method: &str, name: Option<&str>, mut params: Value) -> Vec<u8> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": {"sampling": {}, "elicitation": {}, "roots": {"listChanged": true}},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    let more = format!("MCP-Protocol-Version: {VERSION}\r\nMcp-Method: {method}\r\n{name}");
    post_request("/mcp", key, &more, &body)
}

/// A request of an admin, without a body.
pub(crate) fn admin_request(key: &str, path: &str) -> Vec<u8> {
    post_request(path, key, "", "")
}

/// A REST call without arguments, with its own request id.
pub(crate) fn rest_call_request(key: &str, tool: &str, id: &str) -> Vec<u8> {
    let more = format!("X-Request-Id: {id}\r\n");
    post_request(&format!("/api/tools/{tool}/execute"), key, &more, "{}")
}

fn post_request(path: &str, key: &str, more: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench/1.0\r\n\
         Authorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{more}Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A connection that is reused for many requests.
pub(crate) struct BenchConnection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl BenchConnection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: Vec::new() })
    }

    /// Sends a request and reads the complete response. Returns the body as it was sent; fails unless the status is
    /// 200.
    pub(crate) async fn send_request(&mut self, request: &[u8]) -> anyhow::Result<&[u8]> {
        let (status, body) = self.send_for_any_status(request).await?;
        ensure!(status == 200, "refused, {status}: {}", String::from_utf8_lossy(body));
        Ok(body)
    }

    /// Sends a request and returns the response with any status.
    pub(crate) async fn send_for_any_status(
        &mut self,
        request: &[u8],
    ) -> anyhow::Result<(u16, &[u8])> {
        self.answer.clear();
        self.stream.write_all(request).await?;
        let start = self.read_head().await?;
        let head = str::from_utf8(&self.answer[..start])?;
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        match header_value(head, "content-length") {
            Some(length) => {
                let end = start + length.parse::<usize>()?;
                self.answer.reserve(end.saturating_sub(self.answer.len()));
                while self.answer.len() < end {
                    self.read_more().await?;
                }
            }
            None => {
                while !self.answer.ends_with(END_OF_CHUNKS) {
                    self.read_more().await?;
                }
            }
        }
        Ok((status, &self.answer[start..]))
    }

    /// Sends a request whose response is a stream, and waits for the first event.
    pub(crate) async fn subscribe(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.answer.clear();
        self.stream.write_all(request).await?;
        let start = self.read_head().await?;
        let is_good = self.answer.starts_with(b"HTTP/1.1 200 ");
        ensure!(is_good, "refused: {}", String::from_utf8_lossy(&self.answer));
        while find_bytes(&self.answer[start..], b"\n\n").is_none() {
            self.read_more().await?;
        }
        self.answer = Vec::new();
        Ok(())
    }

    /// Waits until the stream contains these bytes.
    pub(crate) async fn wait_for_bytes(&mut self, word: &[u8]) -> anyhow::Result<()> {
        loop {
            if let Some(place) = find_bytes(&self.answer, word) {
                self.answer.drain(..place + word.len());
                return Ok(());
            }
            self.read_more().await?;
        }
    }

    async fn read_head(&mut self) -> anyhow::Result<usize> {
        loop {
            if let Some(place) = find_bytes(&self.answer, END_OF_HEAD) {
                return Ok(place + END_OF_HEAD.len());
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> anyhow::Result<()> {
        if self.answer.capacity() == self.answer.len() {
            self.answer.reserve(1024);
        }
        let read = self.stream.read_buf(&mut self.answer).await?;
        ensure!(read != 0, "the server hung up: {}", String::from_utf8_lossy(&self.answer));
        Ok(())
    }
}

fn find_bytes(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn header_value<'a>(head: &'a str, wanted: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(wanted).then_some(value.trim())
    })
}

/// The JSON of a response, which may be the single event of a stream.
pub(crate) fn parse_json_body(body: &[u8]) -> anyhow::Result<Value> {
    let text = str::from_utf8(body)?;
    let event = text.lines().rev().find_map(|line| line.strip_prefix("data: "));
    serde_json::from_str(event.unwrap_or(text)).with_context(|| text.to_owned())
}
