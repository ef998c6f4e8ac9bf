//! `api`: a small HTTP API with a specification. It echoes text, and can turn hostile at a given moment.
//!
//! Written without an HTTP library, so that its responses can violate every rule.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Manner, large, read, slowly};
use crate::bench::doors::server::{Ready, end_with_input};

/// Half of the size limit of a response.
const LONG: usize = 5 * 1024 * 1024;
const ITEM: &str = r#"{"name":"margherita","price":8.5,"tags":["hot","vegetarian"],"stock":null},"#;
const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

#[derive(clap::Args)]
pub(crate) struct Orders {
    /// What its tools are named after.
    #[arg(long)]
    name: String,
    /// What it does as soon as the file is there.
    #[arg(long, requires = "from")]
    manner: Option<Manner>,
    /// The file.
    #[arg(long)]
    from: Option<PathBuf>,
}

pub(crate) fn run(orders: &Orders) -> anyhow::Result<()> {
    end_with_input();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let ready = Ready { address: listener.local_addr()?, keys: BTreeMap::new() };
    println!("{}", serde_json::to_string(&ready)?);
    // Generate it in advance, so that the CPU time for this is not measured.
    let long = format!("[{}null]", ITEM.repeat(LONG / ITEM.len()));
    thread::scope(|scope| {
        for connection in listener.incoming() {
            let connection = connection?;
            // A client may disconnect at any time: ignore the error.
            scope.spawn(|| drop(serve(orders, connection, &long)));
        }
        Ok(())
    })
}

fn serve(orders: &Orders, mut connection: TcpStream, long: &str) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection.try_clone()?);
    while let Some((verb, body)) = read(&mut reader)? {
        // Documents have their own size limits, and are read one at a time.
        if verb == "GET" {
            answer(&mut connection, "200 OK", JSON, &specification(&orders.name).to_string())?;
            continue;
        }
        match orders.harm() {
            Some(manner) => harm(&mut connection, manner, &said(&body), long)?,
            None => answer(&mut connection, "200 OK", TEXT, &said(&body))?,
        }
    }
    Ok(())
}

fn harm(out: &mut TcpStream, manner: Manner, good: &str, long: &str) -> io::Result<()> {
    let broken_off = || Err(io::ErrorKind::ConnectionAborted.into());
    match manner {
        Manner::Hangs => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        Manner::SlowLoris => {
            out.write_all(head("200 OK", TEXT, good.len()).as_bytes())?;
            slowly(out, good.as_bytes())
        }
        Manner::LongAnswer => answer(out, "200 OK", JSON, long),
        Manner::LargeAnswer => {
            out.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")?;
            large(out, b"[\"")?;
            broken_off()
        }
        Manner::DiesInMidCall => {
            out.write_all(head("200 OK", TEXT, good.len() * 2).as_bytes())?;
            out.write_all(good.as_bytes())?;
            broken_off()
        }
        Manner::Fails => answer(out, "500 Internal Server Error", TEXT, "it is broken"),
        Manner::MalformedJson => answer(out, "200 OK", JSON, "{\"text\": [1, 2"),
        _ => answer(out, "200 OK", TEXT, good),
    }
}

fn head(status: &str, kind: &str, length: usize) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n")
}

/// Sends a short response in one write, so that no client waits for a second packet.
fn answer(out: &mut TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    let head = head(status, kind, body.len());
    match body.len() < LONG / 2 {
        true => out.write_all(format!("{head}{body}").as_bytes()),
        false => {
            out.write_all(head.as_bytes())?;
            out.write_all(body.as_bytes())
        }
    }
}

fn said(body: &[u8]) -> String {
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

impl Orders {
    /// The hostile behavior that is active now.
    fn harm(&self) -> Option<Manner> {
        self.manner.filter(|_| self.from.as_ref().is_some_and(|file| file.exists()))
    }
}
