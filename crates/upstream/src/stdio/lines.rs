//! What a program says, in lines of bounded length.
//!
//! A line that is too long is left out as a whole, and reading goes on after it: what comes then is whole again.

use std::io;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::ChildStdout;

/// Above this, room is given back when it is no longer needed.
const KEPT_ROOM: usize = 256 * 1024;
const READ: usize = 16 * 1024;
/// What is kept of a line that is too long.
const HEAD: usize = 256;

pub(crate) struct Lines {
    pipe: pipe::Receiver,
    buffer: Vec<u8>,
    /// Where what was not handed out begins.
    start: usize,
    /// Up to where there is no end of a line.
    seen: usize,
    max: usize,
    skips: bool,
    /// The beginning of a line that is too long.
    head: Vec<u8>,
}

/// One line, without its end.
pub(crate) enum Line<'a> {
    Whole(&'a [u8]),
    /// Longer than allowed: how it begins.
    TooLong(&'a [u8]),
}

impl Lines {
    pub(super) fn new(stdout: Option<ChildStdout>, max: usize) -> io::Result<Self> {
        let stdout = stdout.ok_or_else(|| io::Error::other("the program has no output"))?;
        let pipe = pipe::Receiver::from_owned_fd(stdout.into_owned_fd()?)?;
        let (buffer, head) = (Vec::with_capacity(READ), Vec::new());
        Ok(Self { pipe, buffer, start: 0, seen: 0, max, skips: false, head })
    }

    /// The next line; nothing at the end. It can be dropped and called again.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            if let Some(end) = self.end_of_line() {
                let start = std::mem::replace(&mut self.start, end + 1);
                self.seen = self.start;
                if self.max < end - start {
                    self.skip(start);
                }
                if std::mem::take(&mut self.skips) {
                    return Ok(Some(Line::TooLong(&self.head)));
                }
                return Ok(self.buffer.get(start..end).map(Line::Whole));
            }
            self.make_room();
            if self.pipe.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    fn end_of_line(&mut self) -> Option<usize> {
        let unseen = self.buffer.get(self.seen..).unwrap_or_default();
        let end = unseen.iter().position(|byte| *byte == b'\n').map(|at| self.seen + at);
        if end.is_none() {
            self.seen = self.buffer.len();
        }
        end
    }

    fn skip(&mut self, start: usize) {
        if !std::mem::replace(&mut self.skips, true) {
            let line = self.buffer.get(start..).unwrap_or_default();
            self.head = line.get(..HEAD).unwrap_or(line).to_vec();
        }
    }

    fn make_room(&mut self) {
        if self.max < self.buffer.len() - self.start {
            self.skip(self.start);
        }
        if self.skips || self.start == self.buffer.len() {
            self.buffer.clear();
        } else {
            self.buffer.drain(..self.start);
        }
        (self.start, self.seen) = (0, self.buffer.len());
        if KEPT_ROOM < self.buffer.capacity() && self.buffer.len() < READ {
            self.buffer.shrink_to(KEPT_ROOM);
        }
        // Twice what is there, so that a long line is not moved for every piece of it.
        self.buffer.reserve(READ.max(self.buffer.len()).min(self.max.max(READ)));
    }
}
