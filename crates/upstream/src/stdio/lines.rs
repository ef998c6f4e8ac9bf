//! Reads a program's output in lines of bounded length.
//!
//! A line that exceeds a limit is skipped as a whole, and reading continues with the next line.

use std::io;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::ChildStdout;
use tokio::time::sleep;

use crate::aside::LONG;
use crate::pieces::{Bounds, EDGE, End, Pieces, Text, TooMuch};

const READ: usize = 16 * 1024;
/// Bytes of an over-long line to skip before pausing: the line is of no use and may never end.
const SKIPPED: usize = 1024 * 1024;
const REST: Duration = Duration::from_millis(10);

pub(crate) struct Lines {
    pipe: pipe::Receiver,
    /// The part of a long line that was moved out of the buffer, because moving all of it each time would take too
    /// long.
    pieces: Pieces,
    buffer: Vec<u8>,
    /// The start of the bytes that were not yet returned.
    start: usize,
    /// No line ends before this position.
    seen: usize,
    bounds: Bounds,
    /// Whether the reader is within a line that exceeds a limit.
    skips: bool,
    begin: Vec<u8>,
    end: End,
    /// How much was skipped since the last pause.
    useless: usize,
}

/// One line, without its line feed.
pub(crate) enum Line<'a> {
    Whole(Text<'a>),
    /// A line that exceeds a limit, with its beginning. It is returned as soon as the limit is exceeded.
    TooMuch(TooMuch, &'a [u8]),
    /// The end of the line that was last reported as too long.
    WasTooMuch(&'a [u8]),
}

impl Lines {
    pub(super) fn new(stdout: Option<ChildStdout>, bounds: Bounds) -> io::Result<Self> {
        let stdout = stdout.ok_or_else(|| io::Error::other("the program has no output"))?;
        let pipe = pipe::Receiver::from_owned_fd(stdout.into_owned_fd()?)?;
        Ok(Self {
            pipe,
            pieces: Pieces::default(),
            buffer: Vec::with_capacity(READ),
            start: 0,
            seen: 0,
            bounds,
            skips: false,
            begin: Vec::new(),
            end: End::default(),
            useless: 0,
        })
    }

    /// The next line; `None` at the end. It is cancel-safe.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            let end = self.end_of_line();
            let length = self.pieces.len() + end.unwrap_or(self.buffer.len()) - self.start;
            if let (false, Err(too_much)) = (self.skips, self.bounds.take(length)) {
                self.seen = end.unwrap_or(self.seen);
                return Ok(Some(self.skip(too_much)));
            }
            if let Some(end) = end {
                let start = std::mem::replace(&mut self.start, end + 1);
                self.seen = self.start;
                return Ok(Some(match std::mem::take(&mut self.skips) {
                    true => self.skipped(start, end),
                    false => self.whole(start, end),
                }));
            }
            if self.skips {
                self.end.keep(self.buffer.get(self.start..).unwrap_or_default());
            } else if LONG < self.buffer.len() - self.start
                && let Err(too_much) = self.set_aside()
            {
                return Ok(Some(self.skip(too_much)));
            }
            self.make_room();
            if SKIPPED < self.useless {
                sleep(REST).await;
                self.useless = 0;
            }
            let read = self.pipe.read_buf(&mut self.buffer).await?;
            if read == 0 {
                return Ok(None);
            }
            if self.skips {
                self.useless += read;
            }
        }
    }

    fn whole(&mut self, start: usize, end: usize) -> Line<'_> {
        if self.pieces.is_empty() && end - start <= LONG {
            return Line::Whole(Text::Short(self.buffer.get(start..end).unwrap_or_default()));
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        let last = self.buffer.get(start..end).unwrap_or_default();
        match pieces.extend(last, self.bounds) {
            Ok(()) => Line::Whole(Text::Long(pieces)),
            // The end of the line is returned by the next call.
            Err(too_much) => {
                (self.start, self.seen, self.pieces) = (start, end, pieces);
                self.skip(too_much)
            }
        }
    }

    /// Moves the buffered part of a long line into a chunk and starts a new buffer.
    fn set_aside(&mut self) -> Result<(), TooMuch> {
        let mut piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(LONG + READ));
        piece.drain(..self.start);
        (self.start, self.seen) = (0, 0);
        self.pieces.append(piece, self.bounds)
    }

    /// Starts skipping to the end of the line.
    fn skip(&mut self, too_much: TooMuch) -> Line<'_> {
        self.skips = true;
        let pieces = std::mem::take(&mut self.pieces);
        let buffered = self.buffer.get(self.start..).unwrap_or_default();
        let begin = if pieces.is_empty() { buffered } else { pieces.first() };
        self.begin = begin.get(..EDGE).unwrap_or(begin).to_vec();
        self.end = pieces.end();
        Line::TooMuch(too_much, &self.begin)
    }

    fn skipped(&mut self, start: usize, end: usize) -> Line<'_> {
        self.end.keep(self.buffer.get(start..end).unwrap_or_default());
        Line::WasTooMuch(self.end.bytes())
    }

    fn end_of_line(&mut self) -> Option<usize> {
        let unseen = self.buffer.get(self.seen..).unwrap_or_default();
        let end = memchr::memchr(b'\n', unseen).map(|at| self.seen + at);
        if end.is_none() {
            self.seen = self.buffer.len();
        }
        end
    }

    fn make_room(&mut self) {
        if self.skips || self.start == self.buffer.len() {
            self.buffer.clear();
        } else {
            self.buffer.drain(..self.start);
        }
        (self.start, self.seen) = (0, self.buffer.len());
        if LONG + READ < self.buffer.capacity() && self.buffer.len() < READ {
            self.buffer.shrink_to(LONG);
        }
        self.buffer.reserve(READ);
    }
}
