//! The API behind the tools: it knows one order, accepts others, and records the requests.

use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::{io, thread};

use serde_json::{Value, json};

pub(crate) struct OrderApi {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl OrderApi {
    /// Serves until the process ends.
    pub(crate) fn open() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                // A client that disconnects sent no complete request: ignore the error.
                drop(serve_connection(connection, &seen));
            }
        });
        Ok(Self { url, requests })
    }

    /// The requests since the last call of this function: `METHOD PATH BODY`, and the credential if there was one.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().expect("nobody panics with the list"))
    }
}

fn serve_connection(mut connection: TcpStream, seen: &Mutex<Vec<String>>) -> io::Result<()> {
    let request = RecordedRequest::read_request(&mut BufReader::new(&mut connection))?;
    // Record the request before the response, so that a caller with the response finds it.
    seen.lock().expect("nobody panics with the list").push(request.to_string());
    let body = request.reply().to_string();
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json";
    write!(connection, "{head}\r\nContent-Length: {length}\r\n\r\n{body}")
}

struct RecordedRequest {
    /// `METHOD PATH`.
    target: String,
    credential: String,
    body: String,
}

impl RecordedRequest {
    fn read_request(reader: &mut impl io::BufRead) -> io::Result<Self> {
        let mut head = String::new();
        while reader.read_line(&mut head)? != 0 && !head.ends_with("\r\n\r\n") {}
        let header = |name: &str| {
            let mut headers = head.lines().filter_map(|line| line.split_once(": "));
            headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        let length =
            header("content-length").map_or(Ok(0), str::parse).map_err(io::Error::other)?;
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok(Self {
            target: head.split_once(" HTTP/1.1\r\n").map_or("", |(target, _)| target).to_owned(),
            credential: header("authorization").unwrap_or_default().to_owned(),
            body: String::from_utf8(body).map_err(io::Error::other)?,
        })
    }

    fn reply(&self) -> Value {
        let ordered: Value = serde_json::from_str(&self.body).unwrap_or_default();
        match self.target.as_str() {
            "GET /orders/7" => json!({"id": 7, "state": "in the oven"}),
            "POST /orders" => json!({"id": 8, "ordered": ordered}),
            _ => json!({"state": "nothing is known of that"}),
        }
    }
}

impl std::fmt::Display for RecordedRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = [&self.target, &self.body, &self.credential];
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).cloned().collect();
        formatter.write_str(&words.join(" "))
    }
}
