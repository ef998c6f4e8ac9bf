//! A test upstream that answers every request with a given function and records it. Tests of several crates use it.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub(crate) struct Upstream {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    /// Answers each request with the result of `reply`, one request per connection. A connection without a request does
    /// not delay others.
    pub(crate) fn replying(reply: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&requests);
        let reply = Arc::new(reply);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (mut connection, reply) = (connection.unwrap(), Arc::clone(&reply));
                let seen = Arc::clone(&seen);
                thread::spawn(move || {
                    let request = read_request(&mut connection);
                    // Record the request before answering, so that a client with the answer sees it.
                    seen.lock().unwrap().push(request.clone());
                    // Ignore write errors: the client may close the connection early.
                    drop(connection.write_all(&reply(&request)));
                });
            }
        });
        Self { port, requests }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// All received requests; connections without a request count as empty ones.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

pub(crate) fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn read_request(connection: &mut TcpStream) -> String {
    let mut reader = BufReader::new(connection);
    let mut request = String::new();
    while reader.read_line(&mut request).unwrap_or(0) != 0 && !request.ends_with("\r\n\r\n") {}
    let length = request.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    // Non-text bodies, such as protobuf, are recorded lossily.
    request + &String::from_utf8_lossy(&body)
}
