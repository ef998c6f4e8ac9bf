//! Reads a program's output in lines of bounded length.
//!
//! A line that exceeds a limit is skipped as a whole, and reading continues with the next line.

use std::io;
use std::time::Duration;

use limits::low_priority::MAX_INLINE_BYTES;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::ChildStdout;
use tokio::time::sleep;

use crate::chunked::{
    ChunkedBuffer, EXCERPT_BYTES, MessageBounds, MessageText, MessageTooLarge, TailBuffer,
};

const READ_BYTES: usize = 16 * 1024;
/// Bytes of an over-long line to skip before pausing: the line is of no use and may never end.
const SKIP_BURST_BYTES: usize = 1024 * 1024;
const SKIP_PAUSE: Duration = Duration::from_millis(10);

pub struct OutputLines {
    pipe: pipe::Receiver,
    /// The part of a long line that was moved out of the buffer, because moving all of it each time would take too
    /// long.
    chunks: ChunkedBuffer,
    buffer: Vec<u8>,
    /// The start of the bytes that were not yet returned.
    start: usize,
    /// No line ends before this position.
    searched: usize,
    bounds: MessageBounds,
    /// Whether the reader is within a line that exceeds a limit.
    is_skipping: bool,
    begin: Vec<u8>,
    end: TailBuffer,
    /// How much was skipped since the last pause.
    skipped_bytes: usize,
}

/// One line, without its line feed.
pub enum OutputLine<'a> {
    Whole(MessageText<'a>),
    /// A line that exceeds a limit, with its beginning. It is returned as soon as the limit is exceeded.
    TooLong(MessageTooLarge, &'a [u8]),
    /// The end of the line that was last reported as too long.
    TooLongEnd(&'a [u8]),
}

impl OutputLines {
    pub(super) fn new(stdout: Option<ChildStdout>, bounds: MessageBounds) -> io::Result<Self> {
        let stdout = stdout.ok_or_else(|| io::Error::other("the program has no output"))?;
        let pipe = pipe::Receiver::from_owned_fd(stdout.into_owned_fd()?)?;
        Ok(Self {
            pipe,
            chunks: ChunkedBuffer::default(),
            buffer: Vec::with_capacity(READ_BYTES),
            start: 0,
            searched: 0,
            bounds,
            is_skipping: false,
            begin: Vec::new(),
            end: TailBuffer::default(),
            skipped_bytes: 0,
        })
    }

    /// The next line; `None` at the end. It is cancel-safe.
    pub async fn next(&mut self) -> io::Result<Option<OutputLine<'_>>> {
        loop {
            let end = self.find_line_end();
            let length = self.chunks.len() + end.unwrap_or(self.buffer.len()) - self.start;
            if let (false, Err(too_much)) = (self.is_skipping, self.bounds.check_bytes(length)) {
                self.searched = end.unwrap_or(self.searched);
                return Ok(Some(self.start_skipping(too_much)));
            }
            if let Some(end) = end {
                let start = std::mem::replace(&mut self.start, end + 1);
                self.searched = self.start;
                return Ok(Some(match std::mem::take(&mut self.is_skipping) {
                    true => self.finish_skipping(start, end),
                    false => self.whole_line(start, end),
                }));
            }
            if self.is_skipping {
                self.end.push_tail(self.buffer.get(self.start..).unwrap_or_default());
            } else if MAX_INLINE_BYTES < self.buffer.len() - self.start
                && let Err(too_much) = self.store_chunk()
            {
                return Ok(Some(self.start_skipping(too_much)));
            }
            self.reserve_buffer();
            if SKIP_BURST_BYTES < self.skipped_bytes {
                sleep(SKIP_PAUSE).await;
                self.skipped_bytes = 0;
            }
            let read = self.pipe.read_buf(&mut self.buffer).await?;
            if read == 0 {
                return Ok(None);
            }
            if self.is_skipping {
                self.skipped_bytes += read;
            }
        }
    }

    fn whole_line(&mut self, start: usize, end: usize) -> OutputLine<'_> {
        if self.chunks.is_empty() && end - start <= MAX_INLINE_BYTES {
            return OutputLine::Whole(MessageText::Short(
                self.buffer.get(start..end).unwrap_or_default(),
            ));
        }
        let mut pieces = std::mem::take(&mut self.chunks);
        let last = self.buffer.get(start..end).unwrap_or_default();
        match pieces.extend(last, self.bounds) {
            Ok(()) => OutputLine::Whole(MessageText::Long(pieces)),
            // The end of the line is returned by the next call.
            Err(too_much) => {
                (self.start, self.searched, self.chunks) = (start, end, pieces);
                self.start_skipping(too_much)
            }
        }
    }

    /// Moves the buffered part of a long line into a chunk and starts a new buffer.
    fn store_chunk(&mut self) -> Result<(), MessageTooLarge> {
        let mut piece =
            std::mem::replace(&mut self.buffer, Vec::with_capacity(MAX_INLINE_BYTES + READ_BYTES));
        piece.drain(..self.start);
        (self.start, self.searched) = (0, 0);
        self.chunks.append(piece, self.bounds)
    }

    /// Starts skipping to the end of the line.
    fn start_skipping(&mut self, too_much: MessageTooLarge) -> OutputLine<'_> {
        self.is_skipping = true;
        let pieces = std::mem::take(&mut self.chunks);
        let buffered = self.buffer.get(self.start..).unwrap_or_default();
        let begin = if pieces.is_empty() { buffered } else { pieces.leading_bytes() };
        self.begin = begin.get(..EXCERPT_BYTES).unwrap_or(begin).to_vec();
        self.end = pieces.trailing_bytes();
        OutputLine::TooLong(too_much, &self.begin)
    }

    fn finish_skipping(&mut self, start: usize, end: usize) -> OutputLine<'_> {
        self.end.push_tail(self.buffer.get(start..end).unwrap_or_default());
        OutputLine::TooLongEnd(self.end.bytes())
    }

    fn find_line_end(&mut self) -> Option<usize> {
        let unseen = self.buffer.get(self.searched..).unwrap_or_default();
        let end = memchr::memchr(b'\n', unseen).map(|at| self.searched + at);
        if end.is_none() {
            self.searched = self.buffer.len();
        }
        end
    }

    fn reserve_buffer(&mut self) {
        if self.is_skipping || self.start == self.buffer.len() {
            self.buffer.clear();
        } else {
            self.buffer.drain(..self.start);
        }
        (self.start, self.searched) = (0, self.buffer.len());
        if MAX_INLINE_BYTES + READ_BYTES < self.buffer.capacity() && self.buffer.len() < READ_BYTES
        {
            self.buffer.shrink_to(MAX_INLINE_BYTES);
        }
        self.buffer.reserve(READ_BYTES);
    }
}
