//! A small `WebDriver` (W3C) client with one browser per test; tests send keys and read the page, nothing else.
#![expect(clippy::panic, clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

use serde_json::{Value, json};

pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";
pub(crate) const ESCAPE: &str = "\u{e00c}";
const CONTROL: &str = "\u{e009}";

/// Longest time until something appears.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// Running browser; closed at the end of the test.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    #[expect(clippy::disallowed_methods, reason = "a browser is a program of others")]
    pub(crate) fn open() -> Self {
        let driver = Command::new("chromedriver")
            .args(["--port=0", "--log-level=SEVERE"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut driver = driver.unwrap_or_else(|error| {
            panic!("install the packages `chromium` and `chromium-driver`, or run `cargo xtask test`: {error}")
        });
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        let port = port.expect("the driver says its port");
        let profile = tempfile::tempdir().unwrap();
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,900",
        ];
        let folder = format!("--user-data-dir={}", profile.path().display());
        let arguments: Vec<&str> = arguments.into_iter().chain([folder.as_str()]).collect();
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"performance": "ALL", "browser": "ALL"},
        }}});
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        let made = browser.command("POST", "/session", Some(&wanted));
        browser.session = format!("/session/{}", made["sessionId"].as_str().unwrap());
        browser
    }

    fn command(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, said) = exchange(self.port, method, path, body).unwrap();
        assert_eq!(status, 200, "{method} {path}: {said}");
        said["value"].clone()
    }

    fn post_value(&self, path: &str, body: &Value) -> Value {
        self.command("POST", &format!("{}{path}", self.session), Some(body))
    }

    pub(crate) fn go(&self, url: &str) {
        self.post_value("/url", &json!({"url": url}));
    }

    /// Value of a JavaScript expression. For reading only: tests act through the keyboard.
    pub(crate) fn evaluate(&self, expression: &str) -> Value {
        self.post_value(
            "/execute/sync",
            &json!({"script": format!("return {expression}"), "args": []}),
        )
    }

    /// Waits until a JavaScript expression is true.
    pub(crate) fn wait(&self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.evaluate(&format!("!!({expression})")) != json!(true) {
            if end < Instant::now() {
                panic!("not true: {expression}\n{}", self.text("body"));
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits until the page shows a text.
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait(&format!("document.body.innerText.includes({})", json!(text)));
    }

    /// Waits until the page no longer shows a text.
    pub(crate) fn wait_without(&self, text: &str) {
        self.wait(&format!("!document.querySelector('main').innerText.includes({})", json!(text)));
    }

    pub(crate) fn text(&self, selector: &str) -> String {
        let found =
            self.evaluate(&format!("document.querySelector({})?.innerText", json!(selector)));
        found.as_str().unwrap_or_default().to_owned()
    }

    /// Types into the focused element.
    pub(crate) fn keys(&self, text: &str) {
        let actions: Vec<Value> = text
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})))
            .collect();
        self.perform_actions(&actions);
    }

    /// Saves the open form.
    pub(crate) fn save(&self) {
        let key = |kind: &str, value: &str| json!({"type": kind, "value": value});
        self.perform_actions(&[
            key("keyDown", CONTROL),
            key("keyDown", ENTER),
            key("keyUp", ENTER),
            key("keyUp", CONTROL),
        ]);
    }

    fn perform_actions(&self, actions: &[Value]) {
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": actions});
        self.post_value("/actions", &json!({"actions": [keyboard]}));
    }

    /// Presses Tab until the element with this label or text has the focus.
    pub(crate) fn tab_to(&self, label: &str) {
        for _ in 0..120 {
            self.keys(TAB);
            let focused = self.evaluate(
                "(() => { const it = document.activeElement; \
                 return it.labels?.[0]?.innerText ?? it.getAttribute('aria-label') ?? it.innerText ?? ''; })()",
            );
            let focused = focused.as_str().unwrap_or_default().replace(" (required)", "");
            if focused.trim() == label {
                return;
            }
        }
        panic!("Tab does not lead to `{label}`:\n{}", self.text("body"));
    }

    /// Moves the focus to an element with Tab and presses it.
    pub(crate) fn press(&self, label: &str) {
        self.tab_to(label);
        self.keys(ENTER);
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        self.post_value("/se/log", &json!({"type": kind})).as_array().unwrap().clone()
    }

    /// URLs of all requests of the page.
    pub(crate) fn requests(&self) -> Vec<String> {
        let messages = self.log("performance").into_iter().filter_map(|entry| {
            let entry: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let message = &entry["message"];
            // The browser starts with a page of its own.
            let page = message["params"]["documentURL"].as_str().unwrap_or_default();
            let is_request =
                message["method"] == "Network.requestWillBeSent" && !page.starts_with("chrome");
            let url = message["params"]["request"]["url"].as_str().filter(|_| is_request)?;
            Some(url.to_owned())
        });
        messages.collect()
    }

    /// Errors in the browser's console, except for unsuccessful responses of the server.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let messages = self.log("browser").into_iter();
        let messages = messages.filter(|entry| entry["source"] != "network");
        messages.map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn reload(&self) {
        self.post_value("/refresh", &json!({}));
    }
}

/// One `WebDriver` request. The driver keeps the connection open, so the response ends with its content length.
fn exchange(port: u16, method: &str, path: &str, body: Option<&Value>) -> io::Result<(u16, Value)> {
    let body = body.map_or_else(String::new, Value::to_string);
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes())?;
    let mut reader = BufReader::new(stream);
    let (mut status, mut length) = (0, 0);
    for (number, line) in reader.by_ref().lines().enumerate() {
        let line = line?.to_ascii_lowercase();
        if number == 0 {
            status = line.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
        }
        if let Some(given) = line.strip_prefix("content-length:") {
            length = given.trim().parse().unwrap_or_default();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut said = vec![0; length];
    reader.read_exact(&mut said)?;
    Ok((status, serde_json::from_slice(&said)?))
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A driver that is asked to quit closes its browser too.
        drop(exchange(self.port, "DELETE", &self.session, None));
        drop(self.driver.kill());
        drop(self.driver.wait());
    }
}
