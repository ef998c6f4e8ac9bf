//! The echo server over standard input and output.

use std::io::{self, BufRead as _, Write};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::Orders;
use super::reply::{CHANGED, Reply, reply};
use crate::random::Random;

const PIECE: usize = 64 * 1024;
/// 10 GB in total.
const PIECES: u64 = 10_000_000_000 / PIECE as u64;

pub(super) fn run(orders: &Orders) -> anyhow::Result<()> {
    let mut random = Random::new(u64::from(std::process::id()));
    for line in io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let reply = reply(orders, &asked);
        if orders.delay == 0 || asked["method"] != "tools/call" {
            say(reply)?;
            continue;
        }
        let delay = Duration::from_micros(random.below(orders.delay * 1000));
        thread::spawn(move || {
            thread::sleep(delay);
            // If the write fails, the client is gone.
            drop(say(reply));
        });
    }
    Ok(())
}

fn say(reply: Reply) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match reply {
        Reply::Message(bytes) => line(&mut out, bytes),
        Reply::Prepared(begin, rest) => {
            out.write_all(&begin)?;
            out.write_all(rest.as_bytes())?;
            line(&mut out, Vec::new())
        }
        Reply::Told(bytes) => line(&mut out, [CHANGED, b"\n", &bytes].concat()),
        Reply::Flood(count, bytes) => {
            for _ in 0..count {
                line(&mut out, CHANGED.to_vec())?;
            }
            line(&mut out, bytes)
        }
        Reply::Large(begin, end) => {
            large(&mut out, &begin)?;
            line(&mut out, end)
        }
        Reply::Slowly(bytes) => slowly(&mut out, &bytes),
        Reply::Broken(part) => {
            out.write_all(&part)?;
            out.flush()?;
            std::process::exit(1)
        }
        Reply::Anew => std::process::exit(1),
        Reply::Never | Reply::None => Ok(()),
    }
}

/// Writes a line in one write; the buffer of standard output would split it in two.
fn line(out: &mut impl Write, mut bytes: Vec<u8>) -> io::Result<()> {
    bytes.push(b'\n');
    out.write_all(&bytes)?;
    out.flush()
}

/// Writes the beginning of a message and 10 GB after it.
pub(crate) fn large(out: &mut impl Write, begin: &[u8]) -> io::Result<()> {
    out.write_all(begin)?;
    let piece = vec![b'x'; PIECE];
    for _ in 0..PIECES {
        out.write_all(&piece)?;
    }
    Ok(())
}

/// Writes one byte per second.
pub(crate) fn slowly(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for byte in bytes {
        out.write_all(&[*byte])?;
        out.flush()?;
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
