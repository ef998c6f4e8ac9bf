//! An upstream of our own: answers every request as told, and remembers what it was asked. Tests of several crates use it.
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
    /// Answers each request, one per connection, with what `reply` makes of it. Whoever connects and asks nothing yet keeps
    /// nobody waiting.
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
                    // Before the answer, so that whoever has it finds the request noted.
                    seen.lock().unwrap().push(request.clone());
                    // Who has read enough hangs up.
                    drop(connection.write_all(&reply(&request)));
                });
            }
        });
        Self { port, requests }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Everything it was asked, connections without a request included.
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
    // What is no text in it, as in protobuf, stands between what is.
    request + &String::from_utf8_lossy(&body)
}
