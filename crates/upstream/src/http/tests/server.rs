//! A server that sends prepared replies and records the requests.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::super::Url;

pub(super) struct Server {
    pub(super) port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<Semaphore>,
}

/// A reply that closes the connection instead.
pub(super) const HANG_UP: &str = "";

/// A header of a reply after which the server closes its side without announcing it; it still listens.
pub(super) const AND_CLOSE: &str = "X-Test: and-close\r\n";

const MAX_CONNECTIONS: u32 = 100;

impl Server {
    /// Sends the replies in turn, one per request on any connection, and then repeats the last one.
    pub(super) async fn replying<const N: usize>(replies: [impl Into<Vec<u8>>; N]) -> Self {
        let replies = Arc::new(replies.map(Into::into));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS as usize));
        let (seen, places) = (requests.clone(), connections.clone());
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let (seen, replies) = (seen.clone(), replies.clone());
                let place = places.clone().acquire_owned().await.unwrap();
                tokio::spawn(async move {
                    let _place = place;
                    while let Some(request) = read_request(&mut connection).await {
                        let earlier = {
                            let mut seen = seen.lock().unwrap();
                            seen.push(request);
                            seen.len() - 1
                        };
                        let reply = replies.get(earlier).or(replies.last()).unwrap();
                        if reply.is_empty() || connection.write_all(reply).await.is_err() {
                            return;
                        }
                        if String::from_utf8_lossy(reply).contains(AND_CLOSE) {
                            connection.shutdown().await.unwrap();
                        }
                    }
                });
            }
        });
        Self { port, requests, connections }
    }

    pub(super) fn url(&self, path: &str) -> Url {
        format!("http://127.0.0.1:{}{path}", self.port).parse().unwrap()
    }

    /// Waits until every connection is closed, so that all requests have been recorded.
    pub(super) async fn all_connections_closed(&self) {
        drop(self.connections.acquire_many(MAX_CONNECTIONS).await.unwrap());
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

pub(super) fn reply(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

pub(super) fn ok(body: &str) -> String {
    reply("200 OK", "", body)
}

pub(super) fn redirect(to: &str) -> String {
    reply("302 Found", &format!("Location: {to}\r\n"), "")
}

/// Reads a request with its whole body; `None` if the client closed the connection.
pub(super) async fn read_request(connection: &mut TcpStream) -> Option<String> {
    let mut request = String::new();
    while !is_complete(&request) {
        let byte = connection.read_u8().await.ok()?;
        request.push(char::from(byte));
    }
    Some(request)
}

fn is_complete(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}
