//! The echo server over HTTP, written without an HTTP library, so that its responses can violate every rule.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use std::{io, thread};

use serde_json::Value;

use super::EchoServerArgs;
use super::echo_over_stdio::{write_large, write_slowly};
use super::echo_reply::{EchoReply, LIST_CHANGED, reply_to};
use crate::bench::endpoints::bench_server::{ReadyMessage, exit_with_stdin};

const EVENTS: &str = "Content-Type: text/event-stream\r\n";

pub(super) fn run(orders: &EchoServerArgs) -> anyhow::Result<()> {
    exit_with_stdin();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let ready = ReadyMessage { address: listener.local_addr()?, keys: BTreeMap::new() };
    println!("{}", serde_json::to_string(&ready)?);
    thread::scope(|scope| {
        for connection in listener.incoming() {
            let connection = connection?;
            // A client may disconnect at any time: ignore the error.
            scope.spawn(|| drop(serve_connection(orders, connection)));
        }
        Ok(())
    })
}

fn serve_connection(orders: &EchoServerArgs, mut connection: TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection.try_clone()?);
    while let Some((verb, body)) = read_request(&mut reader)? {
        if verb != "POST" {
            write_head(&mut connection, "405 Method Not Allowed", "Content-Length: 0\r\n")?;
            continue;
        }
        let asked: Value = serde_json::from_slice(&body).map_err(io::Error::other)?;
        send_reply(&mut connection, reply_to(orders, &asked))?;
    }
    Ok(())
}

fn send_reply(out: &mut TcpStream, reply: EchoReply) -> io::Result<()> {
    const JSON: &str = "Content-Type: application/json\r\nMcp-Session-Id: one\r\n";
    let json = |length: u64| format!("{JSON}Content-Length: {length}\r\n");
    match reply {
        EchoReply::Message(bytes) => send_events(out, &[&bytes]),
        EchoReply::Prepared(begin, rest) => {
            let begin = [b"data: ", begin.as_slice()].concat();
            let length = begin.len() + rest.len() + "\n\n".len();
            write_head(out, "200 OK", &stream_headers(length))?;
            out.write_all(&begin)?;
            out.write_all(rest.as_bytes())?;
            out.write_all(b"\n\n")
        }
        EchoReply::AfterNotification(bytes) => send_events(out, &[LIST_CHANGED, &bytes]),
        EchoReply::Flood(count, bytes) => {
            write_head(out, "200 OK", &format!("{EVENTS}Connection: close\r\n"))?;
            let mut out = io::BufWriter::new(out);
            for _ in 0..count {
                write_event(&mut out, LIST_CHANGED)?;
            }
            write_event(&mut out, &bytes)?;
            out.flush()?;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        EchoReply::Large(begin, end) => {
            // Without a length header, which would reveal the size in advance.
            write_head(out, "200 OK", &format!("{JSON}Connection: close\r\n"))?;
            write_large(out, &begin)?;
            out.write_all(&end)?;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        EchoReply::Slowly(bytes) => {
            write_head(out, "200 OK", &json(bytes.len() as u64))?;
            write_slowly(out, &bytes)
        }
        EchoReply::Broken(part) => {
            write_head(out, "200 OK", &json(part.len() as u64 * 2))?;
            out.write_all(&part)?;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        EchoReply::SessionExpired => write_head(out, "404 Not Found", "Content-Length: 0\r\n"),
        EchoReply::Silence => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        EchoReply::NotARequest => write_head(out, "202 Accepted", "Content-Length: 0\r\n"),
    }
}

fn write_head(out: &mut impl Write, status: &str, headers: &str) -> io::Result<()> {
    out.write_all(format!("HTTP/1.1 {status}\r\n{headers}\r\n").as_bytes())
}

/// Sends events as most servers do, in one write, so that no client waits for a second packet.
fn send_events(out: &mut impl Write, messages: &[&[u8]]) -> io::Result<()> {
    let mut body = Vec::new();
    messages.iter().try_for_each(|message| write_event(&mut body, message))?;
    let headers = stream_headers(body.len());
    let mut bytes = format!("HTTP/1.1 200 OK\r\n{headers}\r\n").into_bytes();
    bytes.append(&mut body);
    out.write_all(&bytes)
}

fn stream_headers(length: usize) -> String {
    format!("{EVENTS}Mcp-Session-Id: one\r\nContent-Length: {length}\r\n")
}

fn write_event(out: &mut impl Write, message: &[u8]) -> io::Result<()> {
    out.write_all(b"data: ")?;
    out.write_all(message)?;
    out.write_all(b"\n\n")
}

/// Reads the method and the body of the next request.
pub(crate) fn read_request(reader: &mut impl BufRead) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(None);
        }
    }
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    let length = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.map_or(Ok(0), |(_, length)| length.trim().parse());
    let mut body = vec![0; length.map_err(io::Error::other)?];
    reader.read_exact(&mut body)?;
    Ok(Some((head.split(' ').next().unwrap_or_default().to_owned(), body)))
}
