//! Activity of a connection. A client that sends no request and reads no response would occupy its connection without
//! end otherwise: hyper has no time-out while a response is being written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Minimum bytes written between two samples that count as progress; HTTP/2 keep-alive frames are smaller.
const GETTING_ON: u64 = 8 << 10;

/// Activity counters and the current state of a connection.
#[derive(Default)]
pub(super) struct Pulse {
    asked: AtomicU64,
    written: AtomicU64,
    /// Requests whose handlers are running.
    at_work: AtomicUsize,
    /// Response bodies that have not ended.
    pub(super) open: AtomicUsize,
    /// Open bodies that are waiting for their producer; the others wait for the client to read.
    pub(super) speaking: AtomicUsize,
    /// Whether the last write to the socket was pending.
    stuck: AtomicBool,
    /// Whether a request head has begun and is incomplete.
    hears: AtomicBool,
    has_streams: AtomicBool,
    leaves: AtomicBool,
}

/// A sample of the activity, to compare with a later one.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Look {
    asked: u64,
    written: u64,
}

/// Counts a running handler while this value lives.
pub(super) struct AtWork(Arc<Pulse>);

impl Pulse {
    /// Counts a request; over HTTP/2 several may run at once.
    pub(super) fn start(self: &Arc<Self>, has_streams: bool) -> AtWork {
        self.asked.fetch_add(1, Relaxed);
        self.at_work.fetch_add(1, Relaxed);
        self.has_streams.store(has_streams, Relaxed);
        AtWork(Arc::clone(self))
    }

    pub(super) fn look(&self) -> Look {
        Look { asked: self.asked.load(Relaxed), written: self.written.load(Relaxed) }
    }

    /// Whether the connection was active since `before`, or is active now.
    pub(super) fn beats_since(&self, before: Look) -> bool {
        let now = self.look();
        let at_work = 0 < self.at_work.load(Relaxed);
        let stalls = self.stuck.load(Relaxed) && now.written == before.written;
        let speaks = 0 < self.speaking.load(Relaxed) && !stalls;
        let gets_on = GETTING_ON <= now.written - before.written;
        at_work || speaks || gets_on || now.asked != before.asked
    }

    /// Whether a request is being handled or its response is being sent.
    pub(super) fn is_busy(&self) -> bool {
        0 < self.at_work.load(Relaxed) || 0 < self.open.load(Relaxed)
    }

    /// Whether a request head has begun and is incomplete.
    pub(super) fn hears(&self) -> bool {
        self.hears.load(Relaxed)
    }

    /// Whether the last request came over HTTP/2.
    pub(super) fn has_streams(&self) -> bool {
        self.has_streams.load(Relaxed)
    }

    /// Marks the connection as closing: further HTTP/1.1 responses announce it.
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

/// A socket that counts reads and writes, and fails if a request head is not complete in time.
pub(super) struct Felt<S> {
    socket: S,
    pulse: Arc<Pulse>,
    head_within: Duration,
    head: Option<Head>,
}

/// A request head that has begun.
struct Head {
    /// Number of requests before it.
    asked: u64,
    deadline: Instant,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<S> Felt<S> {
    pub(super) fn new(socket: S, pulse: Arc<Pulse>, head_within: Duration) -> Self {
        Self { socket, pulse, head_within, head: None }
    }

    /// Forgets the bytes read so far: they were the TLS handshake and no request head.
    pub(super) fn start_anew(&mut self) {
        self.head = None;
        self.pulse.hears.store(false, Relaxed);
    }

    fn note_read(&mut self, some: bool) {
        let asked = self.pulse.look().asked;
        if self.head.as_ref().is_some_and(|head| head.asked != asked) {
            self.start_anew();
        }
        // HTTP/2 frames arrive at any time; for them, the idle time-out of the connection is enough.
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
