//! The echo server over HTTP, written without an HTTP library, so that its responses can violate every rule.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::Orders;
use super::over_stdio::{large, slowly};
use super::reply::{CHANGED, Reply, reply};
use crate::bench::doors::server::{Ready, end_with_input};

const EVENTS: &str = "Content-Type: text/event-stream\r\n";

pub(super) fn run(orders: &Orders) -> anyhow::Result<()> {
    end_with_input();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let ready = Ready { address: listener.local_addr()?, keys: BTreeMap::new() };
    println!("{}", serde_json::to_string(&ready)?);
    thread::scope(|scope| {
        for connection in listener.incoming() {
            let connection = connection?;
            // A client may disconnect at any time: ignore the error.
            scope.spawn(|| drop(serve(orders, connection)));
        }
        Ok(())
    })
}

fn serve(orders: &Orders, mut connection: TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection.try_clone()?);
    while let Some((verb, body)) = read(&mut reader)? {
        if verb != "POST" {
            head(&mut connection, "405 Method Not Allowed", "Content-Length: 0\r\n")?;
            continue;
        }
        let asked: Value = serde_json::from_slice(&body).map_err(io::Error::other)?;
        answer(&mut connection, reply(orders, &asked))?;
    }
    Ok(())
}

fn answer(out: &mut TcpStream, reply: Reply) -> io::Result<()> {
    const JSON: &str = "Content-Type: application/json\r\nMcp-Session-Id: one\r\n";
    let json = |length: u64| format!("{JSON}Content-Length: {length}\r\n");
    match reply {
        Reply::Message(bytes) => events(out, &[&bytes]),
        Reply::Prepared(begin, rest) => {
            let begin = [b"data: ", begin.as_slice()].concat();
            let length = begin.len() + rest.len() + "\n\n".len();
            head(out, "200 OK", &stream_of(length))?;
            out.write_all(&begin)?;
            out.write_all(rest.as_bytes())?;
            out.write_all(b"\n\n")
        }
        Reply::Told(bytes) => events(out, &[CHANGED, &bytes]),
        Reply::Flood(count, bytes) => {
            head(out, "200 OK", &format!("{EVENTS}Connection: close\r\n"))?;
            let mut out = io::BufWriter::new(out);
            for _ in 0..count {
                event(&mut out, CHANGED)?;
            }
            event(&mut out, &bytes)?;
            out.flush()?;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        Reply::Large(begin, end) => {
            // Without a length header, which would reveal the size in advance.
            head(out, "200 OK", &format!("{JSON}Connection: close\r\n"))?;
            large(out, &begin)?;
            out.write_all(&end)?;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        Reply::Slowly(bytes) => {
            head(out, "200 OK", &json(bytes.len() as u64))?;
            slowly(out, &bytes)
        }
        Reply::Broken(part) => {
            head(out, "200 OK", &json(part.len() as u64 * 2))?;
            out.write_all(&part)?;
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        Reply::Anew => head(out, "404 Not Found", "Content-Length: 0\r\n"),
        Reply::Never => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        Reply::None => head(out, "202 Accepted", "Content-Length: 0\r\n"),
    }
}

fn head(out: &mut impl Write, status: &str, headers: &str) -> io::Result<()> {
    out.write_all(format!("HTTP/1.1 {status}\r\n{headers}\r\n").as_bytes())
}

/// Sends events as most servers do, in one write, so that no client waits for a second packet.
fn events(out: &mut impl Write, messages: &[&[u8]]) -> io::Result<()> {
    let mut body = Vec::new();
    messages.iter().try_for_each(|message| event(&mut body, message))?;
    let headers = stream_of(body.len());
    let mut bytes = format!("HTTP/1.1 200 OK\r\n{headers}\r\n").into_bytes();
    bytes.append(&mut body);
    out.write_all(&bytes)
}

fn stream_of(length: usize) -> String {
    format!("{EVENTS}Mcp-Session-Id: one\r\nContent-Length: {length}\r\n")
}

fn event(out: &mut impl Write, message: &[u8]) -> io::Result<()> {
    out.write_all(b"data: ")?;
    out.write_all(message)?;
    out.write_all(b"\n\n")
}

/// Reads the method and the body of the next request.
pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Option<(String, Vec<u8>)>> {
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
