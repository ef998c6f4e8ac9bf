//! A running server for each test, and an HTTP client simple enough to send invalid requests.
#![expect(clippy::panic, clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Child;
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::Folder;

/// Running server; killed at the end of the test.
pub(crate) struct Server {
    pub(crate) folder: Folder,
    child: Option<Child>,
    port: u16,
    /// Port of the metrics listener.
    metrics_port: u16,
    /// API key of the first admin.
    pub(crate) key: String,
}

/// HTTP request.
pub(crate) struct Ask {
    head: String,
    body: String,
}

/// HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Server {
    /// Starts on an empty journal.
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    pub(crate) fn start_with(options: &str) -> Self {
        Self::on_folder(Folder::empty(), options)
    }

    /// Starts in this folder, on a journal that has no admin yet.
    pub(crate) fn on_folder(folder: Folder, options: &str) -> Self {
        let server = Self { folder, child: None, port: 0, metrics_port: 0, key: String::new() };
        let listen = if options.contains("--listen") { "" } else { "--listen 127.0.0.1:0" };
        server.run(&format!("serve {listen} {options}"), "curl")
    }

    /// Starts with the demo data (`--demo`).
    pub(crate) fn demo() -> Self {
        let (folder, key) = (Folder::empty(), String::new());
        let server = Self { folder, child: None, port: 0, metrics_port: 0, key };
        server.run("serve --listen 127.0.0.1:0 --demo", "# Done")
    }

    /// Starts on an empty journal, with these environment variables.
    pub(crate) fn start_with_environment(environment: &[(&str, &str)]) -> Self {
        Self::on_folder_with_environment(Folder::empty(), "", environment)
    }

    /// Starts in this folder, on a journal without an admin, with these environment variables.
    pub(crate) fn on_folder_with_environment(
        folder: Folder,
        options: &str,
        environment: &[(&str, &str)],
    ) -> Self {
        let server = Self { folder, child: None, port: 0, metrics_port: 0, key: String::new() };
        let arguments = format!("serve --listen 127.0.0.1:0 {options}");
        let child = server.folder.start(&arguments, environment);
        server.wait_until_started(child, "curl")
    }

    /// Starts another node on the same journal.
    pub(crate) fn second_node(other: &Self, options: &str) -> Self {
        let (folder, key) = (Folder::empty(), other.key.clone());
        let server = Self { folder, child: None, port: 0, metrics_port: 0, key };
        server.run(&format!("serve --listen 127.0.0.1:0 {options}"), "API docs")
    }

    /// Stops the server and starts it again with other options.
    pub(crate) fn restart(mut self, options: &str) -> Self {
        self.stop();
        self.run(&format!("serve {options}"), "API docs")
    }

    /// Starts the program and reads its output up to a line that contains `last`.
    fn run(self, arguments: &str, last: &str) -> Self {
        let child = self.folder.start(arguments, &[]);
        self.wait_until_started(child, last)
    }

    fn wait_until_started(mut self, mut child: Child, last: &str) -> Self {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        loop {
            let Some(Ok(line)) = lines.next() else {
                let mut said = String::new();
                child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("the server did not start: {said}");
            };
            if let Some((_, place)) = line.split_once("serves on ") {
                // A Unix socket has no port.
                self.port = place.rsplit_once(':').unwrap().1.parse().unwrap_or(0);
            }
            if let Some(place) = line.trim().strip_prefix("Metrics ") {
                let (place, _) = place.rsplit_once("/metrics").unwrap();
                self.metrics_port = place.rsplit_once(':').unwrap().1.parse().unwrap();
            }
            if line.trim().starts_with("tcrib_") {
                self.key = line.trim().to_owned();
            }
            if let Some((_, key)) = line.split_once("ADMIN=") {
                self.key = key.trim().to_owned();
            }
            if line.contains(last) {
                break;
            }
        }
        self.child = Some(child);
        self
    }

    /// Stops the server; returns the exit code and its stderr.
    pub(crate) fn stop(&mut self) -> (Option<i32>, String) {
        self.request_stop();
        self.wait_for_exit()
    }

    pub(crate) fn request_stop(&self) {
        self.send_signal("TERM");
    }

    /// Sends a signal.
    pub(crate) fn send_signal(&self, name: &str) {
        self.child.iter().for_each(|child| signal(child, name));
    }

    /// Waits until the server has exited; returns the exit code and its stderr.
    pub(crate) fn wait_for_exit(&mut self) -> (Option<i32>, String) {
        let Some(child) = self.child.take() else { return (None, String::new()) };
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    /// Reads the log in the background until the server exits, so that a full pipe cannot block it.
    pub(crate) fn log(&mut self) -> JoinHandle<String> {
        let mut stderr = self.child.as_mut().and_then(|child| child.stderr.take()).unwrap();
        thread::spawn(move || {
            let mut said = String::new();
            stderr.read_to_string(&mut said).unwrap();
            said
        })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.port)
    }

    /// Sends a request on a connection of its own.
    pub(crate) fn send(&self, ask: &Ask) -> Answer {
        send(self.connect(), ask)
    }

    /// Sends a request to the metrics listener.
    pub(crate) fn send_to_metrics_port(&self, ask: &Ask) -> Answer {
        send(connect(self.metrics_port), ask)
    }

    /// Opens an event stream.
    pub(crate) fn open_events(&self, ask: &Ask) -> Events {
        let mut stream = self.connect();
        // HTTP/1.0, because there the body ends with the connection and has no chunks.
        let (head, body) = (ask.head.replacen("HTTP/1.1", "HTTP/1.0", 1), &ask.body);
        let length = format!("Content-Length: {}\r\n", body.len());
        let whole = format!("{head}Host: localhost\r\n{length}\r\n{body}");
        stream.write_all(whole.as_bytes()).unwrap();
        let mut events = Events(BufReader::new(stream));
        let status = events.line().unwrap();
        assert!(status.contains(" 200 "), "{status}");
        while !events.line().unwrap().is_empty() {}
        events
    }

    /// Request with the key of the first admin.
    pub(crate) fn ask(&self, method: &str, path: &str) -> Ask {
        Ask::new(method, path).bearer(&self.key)
    }

    /// Sends a `GET` with this credential.
    pub(crate) fn get_as(&self, credential: &str, path: &str) -> Answer {
        self.send(&Ask::new("GET", path).bearer(credential))
    }

    /// Sends a `POST` without a body as the first admin.
    pub(crate) fn post_empty(&self, path: &str) -> Answer {
        self.send(&self.ask("POST", path))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(&self.ask("GET", path))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(&self.ask("POST", path).json(body))
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(&self.ask("PUT", path).json(body))
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send(&self.ask("DELETE", path))
    }

    /// Polls until the answer meets the condition.
    pub(crate) fn wait_for(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let seen = self.get(path).ok();
            if wanted(&seen) {
                return seen;
            }
            assert!(Instant::now() < deadline, "{seen}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn send(mut stream: TcpStream, ask: &Ask) -> Answer {
    let length = ask.body.len();
    let length = if length == 0 { String::new() } else { format!("Content-Length: {length}\r\n") };
    let host = if ask.head.contains("\r\nHost:") { "" } else { "Host: localhost\r\n" };
    let head = format!("{}{host}{length}Connection: close\r\n\r\n", ask.head);
    // The server may close the connection before it has read everything.
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(ask.body.as_bytes())));
    let mut bytes = Vec::new();
    let mut piece = [0; 1 << 16];
    // An event stream does not end, so its head counts as the whole response.
    while !is_stream(&bytes) {
        match stream.read(&mut piece).unwrap() {
            0 => break,
            length => bytes.extend(&piece[..length]),
        }
    }
    Answer::read(&String::from_utf8(bytes).unwrap())
}

/// Event stream.
pub(crate) struct Events(BufReader<TcpStream>);

/// One event of a stream.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) body: Value,
}

impl Events {
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.0.read_line(&mut line).unwrap();
        (0 < length).then(|| line.trim_end().to_owned())
    }

    /// The next event, or `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        loop {
            let line = self.line()?;
            match line.split_once(": ") {
                Some(("event", name)) => event.name = name.to_owned(),
                Some(("id", id)) => event.id = id.to_owned(),
                Some(("data", body)) => event.body = serde_json::from_str(body).unwrap(),
                Some(("", _)) => {}
                None if line.is_empty() && event.name.is_empty() => {}
                None if line.is_empty() => return Some(event),
                _ => panic!("no line of an event: {line:?}"),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Whether the response is an event stream.
fn is_stream(answer: &[u8]) -> bool {
    let answer = String::from_utf8_lossy(answer);
    answer.split_once("\r\n\r\n").is_some_and(|(head, _)| head.contains("text/event-stream"))
}

#[expect(clippy::disallowed_methods, reason = "a signal is sent by a program")]
pub(crate) fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let status = std::process::Command::new("kill").args(["-s", name, &id]).status();
    assert!(status.unwrap().success());
}

impl Ask {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self { head: format!("{method} {path} HTTP/1.1\r\n"), body: String::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.head += &format!("{name}: {value}\r\n");
        self
    }

    pub(crate) fn bearer(self, key: &str) -> Self {
        self.header("Authorization", &format!("Bearer {key}"))
    }

    /// Sends the request without waiting for the response.
    pub(crate) fn write_to(&self, connection: &mut TcpStream) {
        let length = format!("Content-Length: {}\r\n", self.body.len());
        let whole = format!("{}Host: localhost\r\n{length}\r\n{}", self.head, self.body);
        connection.write_all(whole.as_bytes()).unwrap();
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.text("application/json", &body.to_string())
    }

    /// Sends the request to the server at this URL.
    pub(crate) fn send_to(&self, url: &str) -> Answer {
        send(connect(url.rsplit_once(':').unwrap().1.parse().unwrap()), self)
    }

    pub(crate) fn text(self, media_type: &str, body: &str) -> Self {
        Self { body: body.to_owned(), ..self.header("Content-Type", media_type) }
    }
}

impl Answer {
    fn read(text: &str) -> Self {
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        };
        Self { status, headers: lines.map(header).collect(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The challenge up to its `resource_metadata` parameter.
    pub(crate) fn challenge(&self) -> &str {
        let whole = self.header("www-authenticate");
        let (challenge, _) = whole.split_once(" resource_metadata=\"").expect("the way to a token");
        challenge.trim_end_matches(',')
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// JSON body of a successful response.
    pub(crate) fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.json()
    }

    /// `field: message` for each validation error.
    pub(crate) fn errors(&self) -> String {
        assert_eq!(self.status, 422, "{self:?}");
        let problem = self.json();
        let errors = problem["errors"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let error =
            |error: &Value| format!("{}: {}", text(&error["field"]), text(&error["message"]));
        errors.map(error).collect::<Vec<_>>().join("\n")
    }

    /// `409 already_exists: detail` of a problem document.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        assert_eq!(problem["type"], format!("/problems/{}", problem["code"].as_str().unwrap()));
        let text = |name: &str| problem[name].as_str().unwrap().to_owned();
        format!("{} {}: {}", self.status, text("code"), text("detail"))
    }
}
