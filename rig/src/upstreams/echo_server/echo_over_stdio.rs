//! The echo server over standard input and output.

use std::io::{BufRead as _, Write};
use std::time::Duration;
use std::{io, thread};

use serde_json::Value;

use super::EchoServerArgs;
use super::echo_reply::{EchoReply, LIST_CHANGED, reply_to};
use crate::seeded_random::SeededRandom;

const CHUNK_BYTES: usize = 64 * 1024;
/// 10 GB in total.
const CHUNK_COUNT: u64 = 10_000_000_000 / CHUNK_BYTES as u64;

pub(super) fn run(orders: &EchoServerArgs) -> anyhow::Result<()> {
    let mut random = SeededRandom::new(u64::from(std::process::id()));
    for line in io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let reply = reply_to(orders, &asked);
        if orders.delay == 0 || asked["method"] != "tools/call" {
            send_reply(reply)?;
            continue;
        }
        let delay = Duration::from_micros(random.below(orders.delay * 1000));
        thread::spawn(move || {
            thread::sleep(delay);
            // If the write fails, the client is gone.
            drop(send_reply(reply));
        });
    }
    Ok(())
}

fn send_reply(reply: EchoReply) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match reply {
        EchoReply::Message(bytes) => write_line(&mut out, bytes),
        EchoReply::Prepared(begin, rest) => {
            out.write_all(&begin)?;
            out.write_all(rest.as_bytes())?;
            write_line(&mut out, Vec::new())
        }
        EchoReply::AfterNotification(bytes) => {
            write_line(&mut out, [LIST_CHANGED, b"\n", &bytes].concat())
        }
        EchoReply::Flood(count, bytes) => {
            for _ in 0..count {
                write_line(&mut out, LIST_CHANGED.to_vec())?;
            }
            write_line(&mut out, bytes)
        }
        EchoReply::Large(begin, end) => {
            write_large(&mut out, &begin)?;
            write_line(&mut out, end)
        }
        EchoReply::Slowly(bytes) => write_slowly(&mut out, &bytes),
        EchoReply::Broken(part) => {
            out.write_all(&part)?;
            out.flush()?;
            std::process::exit(1)
        }
        EchoReply::SessionExpired => std::process::exit(1),
        EchoReply::Silence | EchoReply::NotARequest => Ok(()),
    }
}

/// Writes a line in one write; the buffer of standard output would split it in two.
fn write_line(out: &mut impl Write, mut bytes: Vec<u8>) -> io::Result<()> {
    bytes.push(b'\n');
    out.write_all(&bytes)?;
    out.flush()
}

/// Writes the beginning of a message and 10 GB after it.
pub(crate) fn write_large(out: &mut impl Write, begin: &[u8]) -> io::Result<()> {
    out.write_all(begin)?;
    let piece = vec![b'x'; CHUNK_BYTES];
    for _ in 0..CHUNK_COUNT {
        out.write_all(&piece)?;
    }
    Ok(())
}

/// Writes one byte per second.
pub(crate) fn write_slowly(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for byte in bytes {
        out.write_all(&[*byte])?;
        out.flush()?;
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
