//! `api`: a small HTTP API with a specification. It echoes text, and can turn hostile at a given moment.
//!
//! Written without an HTTP library, so that its responses can violate every rule.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;
use std::{io, thread};

use serde_json::{Value, json};

use super::echo_server::{HostileBehavior, read_request, write_large, write_slowly};
use crate::bench::endpoints::bench_server::{ReadyMessage, exit_with_stdin};

/// Half of the size limit of a response.
const LONG_BYTES: usize = 5 * 1024 * 1024;
const ITEM: &str = r#"{"name":"margherita","price":8.5,"tags":["hot","vegetarian"],"stock":null},"#;
const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

#[derive(clap::Args)]
pub(crate) struct EchoApiArgs {
    /// What its tools are named after.
    #[arg(long)]
    name: String,
    /// What it does as soon as the file is there.
    #[arg(long, requires = "from")]
    manner: Option<HostileBehavior>,
    /// The file.
    #[arg(long)]
    from: Option<PathBuf>,
}

pub(crate) fn run(orders: &EchoApiArgs) -> anyhow::Result<()> {
    exit_with_stdin();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let ready = ReadyMessage { address: listener.local_addr()?, keys: BTreeMap::new() };
    println!("{}", serde_json::to_string(&ready)?);
    // Generate it in advance, so that the CPU time for this is not measured.
    let long = format!("[{}null]", ITEM.repeat(LONG_BYTES / ITEM.len()));
    thread::scope(|scope| {
        for connection in listener.incoming() {
            let connection = connection?;
            // A client may disconnect at any time: ignore the error.
            scope.spawn(|| drop(serve_connection(orders, connection, &long)));
        }
        Ok(())
    })
}

fn serve_connection(orders: &EchoApiArgs, mut connection: TcpStream, long: &str) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection.try_clone()?);
    while let Some((verb, body)) = read_request(&mut reader)? {
        // Documents have their own size limits, and are read one at a time.
        if verb == "GET" {
            send_response(
                &mut connection,
                "200 OK",
                JSON,
                &specification(&orders.name).to_string(),
            )?;
            continue;
        }
        match orders.active_harm() {
            Some(manner) => send_harm(&mut connection, manner, &text_argument(&body), long)?,
            None => send_response(&mut connection, "200 OK", TEXT, &text_argument(&body))?,
        }
    }
    Ok(())
}

fn send_harm(
    out: &mut TcpStream,
    manner: HostileBehavior,
    good: &str,
    long: &str,
) -> io::Result<()> {
    let broken_off = || Err(io::ErrorKind::ConnectionAborted.into());
    match manner {
        HostileBehavior::Hangs => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        HostileBehavior::SlowLoris => {
            out.write_all(response_head("200 OK", TEXT, good.len()).as_bytes())?;
            write_slowly(out, good.as_bytes())
        }
        HostileBehavior::LongAnswer => send_response(out, "200 OK", JSON, long),
        HostileBehavior::LargeAnswer => {
            out.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")?;
            write_large(out, b"[\"")?;
            broken_off()
        }
        HostileBehavior::DiesInMidCall => {
            out.write_all(response_head("200 OK", TEXT, good.len() * 2).as_bytes())?;
            out.write_all(good.as_bytes())?;
            broken_off()
        }
        HostileBehavior::Fails => {
            send_response(out, "500 Internal Server Error", TEXT, "it is broken")
        }
        HostileBehavior::MalformedJson => send_response(out, "200 OK", JSON, "{\"text\": [1, 2"),
        _ => send_response(out, "200 OK", TEXT, good),
    }
}

fn response_head(status: &str, kind: &str, length: usize) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n")
}

/// Sends a short response in one write, so that no client waits for a second packet.
fn send_response(out: &mut TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    let head = response_head(status, kind, body.len());
    match body.len() < LONG_BYTES / 2 {
        true => out.write_all(format!("{head}{body}").as_bytes()),
        false => {
            out.write_all(head.as_bytes())?;
            out.write_all(body.as_bytes())
        }
    }
}

fn text_argument(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body["text"].as_str().unwrap_or_default().to_owned()
}

fn specification(name: &str) -> Value {
    let text =
        json!({"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}});
    let operation = |what: &str| {
        let body = json!({"required": true, "content": {"application/json": {"schema": text}}});
        json!({"post": {"operationId": format!("{name}_{what}"), "requestBody": body,
            "responses": {"200": {"description": "the text", "content": {"text/plain": {}}}}}})
    };
    json!({"openapi": "3.1.0", "info": {"title": name, "version": "1.0.0"},
        "paths": {"/echo": operation("echo"), "/again": operation("again"), "/once": operation("once")}})
}

impl EchoApiArgs {
    /// The hostile behavior that is active now.
    fn active_harm(&self) -> Option<HostileBehavior> {
        self.manner.filter(|_| self.from.as_ref().is_some_and(|file| file.exists()))
    }
}
