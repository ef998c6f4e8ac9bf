//! A server that stops under load answers every request that it accepted (LIF-01).
#![expect(clippy::panic, clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::server::Server;

/// Address and key for the clients, and the number of answers they got.
struct Load {
    address: String,
    key: String,
    answered: AtomicUsize,
}

impl Load {
    /// Connects, or returns `None` if the server no longer accepts connections.
    fn connect(&self) -> Option<BufReader<TcpStream>> {
        match TcpStream::connect(&self.address) {
            Ok(stream) => {
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                Some(BufReader::new(stream))
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => None,
            Err(error) => panic!("a connection was neither made nor refused: {error}"),
        }
    }

    /// Sends one request; returns whether the connection can be reused.
    fn ask(&self, stream: &mut BufReader<TcpStream>, request: &str) -> bool {
        let head = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n",
            self.key
        );
        stream.get_mut().write_all(format!("{head}\r\n").as_bytes()).expect("it takes a request");
        let (mut length, mut goes_on, mut status) = (0, true, String::new());
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).expect("an answer");
            assert!(line.ends_with("\r\n"), "a request got no answer: {status:?} {line:?}");
            match line.trim_end().split_once(": ") {
                None if line == "\r\n" => break,
                None => status = line,
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(("connection", "close")) => goes_on = false,
                Some(_) => {}
            }
        }
        stream.read_exact(&mut vec![0; length]).expect("a whole answer");
        assert!(status.starts_with("HTTP/1.1 2"), "{status}");
        self.answered.fetch_add(1, Ordering::Relaxed);
        goes_on
    }

    /// Sends each request on a new connection.
    fn use_new_connections(&self) {
        while let Some(mut stream) = self.connect() {
            self.ask(&mut stream, "GET /api/whoami");
        }
    }

    /// Sends requests on one connection until the server closes it, then reconnects.
    fn reuse_connections(&self, request: &str) {
        while let Some(mut stream) = self.connect() {
            while self.ask(&mut stream, request) {}
        }
    }

    /// Like `reuse_connections`, with a pause between requests; a connection closed during the pause is no failure.
    fn reuse_connections_with_pauses(&self) {
        while let Some(mut stream) = self.connect() {
            while self.ask(&mut stream, "GET /api/openapi.json") {
                thread::sleep(Duration::from_millis(100));
                stream.get_ref().set_nonblocking(true).unwrap();
                let is_closed = matches!(stream.fill_buf(), Ok([]));
                stream.get_ref().set_nonblocking(false).unwrap();
                if is_closed {
                    break;
                }
            }
        }
    }
}

#[test]
fn no_accepted_request_fails_when_the_server_stops_under_load() {
    for _ in 0..3 {
        let mut server = Server::start();
        let address = server.url("").replace("http://", "");
        let load = Load { address, key: server.key.clone(), answered: AtomicUsize::new(0) };
        let load = &load;
        thread::scope(|scope| {
            let mut clients = Vec::new();
            for _ in 0..4 {
                clients.push(scope.spawn(|| load.use_new_connections()));
                clients.push(scope.spawn(|| load.reuse_connections("GET /api/agents/tools")));
                clients.push(scope.spawn(|| load.reuse_connections_with_pauses()));
            }
            let deadline = Instant::now() + Duration::from_secs(60);
            while load.answered.load(Ordering::Relaxed) < 500 {
                assert!(Instant::now() < deadline, "the server is too slow");
                thread::sleep(Duration::from_millis(5));
            }
            let (code, said) = server.stop();
            assert_eq!((code, said.as_str()), (Some(0), ""));
            for client in clients {
                client.join().unwrap();
            }
        });
    }
}
