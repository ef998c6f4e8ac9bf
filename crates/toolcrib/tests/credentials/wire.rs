//! A minimal HTTP server with keep-alive connections, configurable replies, and a list of received requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    /// Path with query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl ReceivedRequest {
    /// All values of a header.
    pub(crate) fn header_values(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(known, _)| known == name);
        named.map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.header_values(name).first().copied()
    }

    /// The whole request as one string, to search in.
    pub(crate) fn text(&self) -> String {
        format!("{self:?}")
    }
}

/// The reply to one request.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// `None` closes the connection.
    status: Option<u16>,
    headers: String,
    body: String,
    after: Duration,
}

impl From<(u16, Value)> for Reply {
    fn from((status, body): (u16, Value)) -> Self {
        let (headers, body) = (String::new(), body.to_string());
        Self { status: Some(status), headers, body, after: Duration::ZERO }
    }
}

impl Reply {
    pub(crate) fn hangs_up() -> Self {
        Self { status: None, ..(200, Value::Null).into() }
    }

    /// An HTML error page, as a reverse proxy sends it.
    pub(crate) fn html_page(status: u16) -> Self {
        Self { body: "<h1>Sorry</h1>".to_owned(), ..(status, Value::Null).into() }
    }

    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        let headers = format!("{}{name}: {value}\r\n", self.headers);
        Self { headers, ..self }
    }

    pub(crate) fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }
}

pub(crate) struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Answers each request with the result of `reply`; a status and a body are enough.
    pub(crate) async fn replying<R: Into<Reply>>(
        reply: impl Fn(&ReceivedRequest) -> R + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, reply) = (Arc::<Mutex<Vec<ReceivedRequest>>>::default(), Arc::new(reply));
        let connections = Arc::<AtomicUsize>::default();
        let (seen, count) = (Arc::clone(&asked), Arc::clone(&connections));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let (seen, reply) = (Arc::clone(&seen), Arc::clone(&reply));
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    while let Some(asked) = read(&mut stream).await {
                        seen.lock().unwrap().push(asked.clone());
                        let Reply { status, headers, body, after } = reply(&asked).into();
                        tokio::time::sleep(after).await;
                        let Some(status) = status else { return };
                        let head = format!(
                            "HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\n\
                             Cache-Control: no-store\r\n{headers}Content-Length: {}\r\n\r\n{body}",
                            body.len()
                        );
                        if stream.write_all(head.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { port, asked, connections }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Number of accepted connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn received_requests(&self) -> Vec<ReceivedRequest> {
        self.asked.lock().unwrap().clone()
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
    let mut first = String::new();
    stream.read_line(&mut first).await.ok().filter(|read| 0 < *read)?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    Some(ReceivedRequest { method, path, headers, body: String::from_utf8(body).unwrap() })
}
