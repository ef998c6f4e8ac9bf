//! Whether a connection still does something. One that asks for nothing, and takes nothing of what it was answered,
//! would keep its place for ever otherwise: nobody below looks at a clock while an answer is being written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Fewer bytes than this between two looks are not an answer that gets on: the frames that keep HTTP/2 awake are.
const GETTING_ON: u64 = 8 << 10;

/// What a connection has done so far, and what it does.
#[derive(Default)]
pub(super) struct Pulse {
    asked: AtomicU64,
    written: AtomicU64,
    /// Requests whose handlers are at work.
    at_work: AtomicUsize,
    /// Answers whose bodies are not at their end.
    pub(super) open: AtomicUsize,
    /// Those of them that would say more at once if they had it; the others wait for their reader.
    pub(super) speaking: AtomicUsize,
    /// The socket took no more when it was last tried.
    stuck: AtomicBool,
    /// The head of a request has begun and not ended.
    hears: AtomicBool,
    has_streams: AtomicBool,
    leaves: AtomicBool,
}

/// A look at a pulse, to compare with the next.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Look {
    asked: u64,
    written: u64,
}

/// A request whose handler is at work, for as long as this lives.
pub(super) struct AtWork(Arc<Pulse>);

impl Pulse {
    /// Notes a request; over HTTP/2 there may be several at once.
    pub(super) fn start(self: &Arc<Self>, has_streams: bool) -> AtWork {
        self.asked.fetch_add(1, Relaxed);
        self.at_work.fetch_add(1, Relaxed);
        self.has_streams.store(has_streams, Relaxed);
        AtWork(Arc::clone(self))
    }

    pub(super) fn look(&self) -> Look {
        Look { asked: self.asked.load(Relaxed), written: self.written.load(Relaxed) }
    }

    /// Whether anything has happened since, or happens now.
    pub(super) fn beats_since(&self, before: Look) -> bool {
        let now = self.look();
        let at_work = 0 < self.at_work.load(Relaxed);
        let stalls = self.stuck.load(Relaxed) && now.written == before.written;
        let speaks = 0 < self.speaking.load(Relaxed) && !stalls;
        let gets_on = GETTING_ON <= now.written - before.written;
        at_work || speaks || gets_on || now.asked != before.asked
    }

    /// Whether a request is being answered.
    pub(super) fn is_busy(&self) -> bool {
        0 < self.at_work.load(Relaxed) || 0 < self.open.load(Relaxed)
    }

    /// Whether a request has begun to come and is not complete.
    pub(super) fn hears(&self) -> bool {
        self.hears.load(Relaxed)
    }

    /// Whether it is HTTP/2, as far as requests have told.
    pub(super) fn has_streams(&self) -> bool {
        self.has_streams.load(Relaxed)
    }

    /// From now on answers say that they are the last.
    pub(super) fn leave(&self) {
        self.leaves.store(true, Relaxed);
    }

    pub(super) fn leaves(&self) -> bool {
        self.leaves.load(Relaxed)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Relaxed);
    }
}

/// A socket that notes what is read and written, and gives up on a head that does not come to its end.
pub(super) struct Felt<S> {
    socket: S,
    pulse: Arc<Pulse>,
    head_within: Duration,
    head: Option<Head>,
}

/// The head of a request that has begun.
struct Head {
    /// How many requests there were before it.
    asked: u64,
    deadline: Instant,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<S> Felt<S> {
    pub(super) fn new(socket: S, pulse: Arc<Pulse>, head_within: Duration) -> Self {
        Self { socket, pulse, head_within, head: None }
    }

    /// What came so far was no request but a handshake.
    pub(super) fn start_anew(&mut self) {
        self.head = None;
        self.pulse.hears.store(false, Relaxed);
    }

    fn note_read(&mut self, some: bool) {
        let asked = self.pulse.look().asked;
        if self.head.as_ref().is_some_and(|head| head.asked != asked) {
            self.start_anew();
        }
        // Frames of HTTP/2 come at any time; what is no request is left to the look at the pulse.
        if some && self.head.is_none() && !self.pulse.is_busy() && !self.pulse.has_streams() {
            let deadline = Instant::now() + self.head_within;
            self.head = Some(Head { asked, deadline, alarm: None });
            self.pulse.hears.store(true, Relaxed);
        }
    }

    fn note_written(&self, written: &Poll<io::Result<usize>>) {
        self.pulse.stuck.store(written.is_pending(), Relaxed);
        if let Poll::Ready(Ok(bytes)) = written {
            self.pulse.written.fetch_add(*bytes as u64, Relaxed);
        }
    }
}

impl Head {
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        let alarm = || Box::pin(tokio::time::sleep_until(deadline));
        self.alarm.get_or_insert_with(alarm).as_mut().poll(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Felt<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        self.note_read(before < buffer.filled().len());
        if let Some(head) = &mut self.head
            && read.is_pending()
            && head.poll_late(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Felt<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.note_written(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        self.note_written(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
