//! Activity of a connection. A client that sends no request and reads no response would occupy its connection without
//! end otherwise: hyper has no time-out while a response is being written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Minimum bytes written between two samples that count as progress; HTTP/2 keep-alive frames are smaller.
const MIN_PROGRESS_BYTES: u64 = 8 << 10;

/// Activity counters and the current state of a connection.
#[derive(Default)]
pub(super) struct ConnectionActivity {
    request_count: AtomicU64,
    bytes_written: AtomicU64,
    /// Requests whose handlers are running.
    running_handlers: AtomicUsize,
    /// Response bodies that have not ended.
    pub(super) open_bodies: AtomicUsize,
    /// Open bodies that are waiting for their producer; the others wait for the client to read.
    pub(super) producing_bodies: AtomicUsize,
    /// Whether the last write to the socket was pending.
    is_write_blocked: AtomicBool,
    /// Whether a request head has begun and is incomplete.
    is_receiving_head: AtomicBool,
    is_http2: AtomicBool,
    is_closing: AtomicBool,
}

/// A sample of the activity, to compare with a later one.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ActivitySample {
    request_count: u64,
    bytes_written: u64,
}

/// Counts a running handler while this value lives.
pub(super) struct RunningHandler(Arc<ConnectionActivity>);

impl ConnectionActivity {
    /// Counts a request; over HTTP/2 several may run at once.
    pub(super) fn start_request(self: &Arc<Self>, has_streams: bool) -> RunningHandler {
        self.request_count.fetch_add(1, Relaxed);
        self.running_handlers.fetch_add(1, Relaxed);
        self.is_http2.store(has_streams, Relaxed);
        RunningHandler(Arc::clone(self))
    }

    pub(super) fn take_sample(&self) -> ActivitySample {
        ActivitySample {
            request_count: self.request_count.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
        }
    }

    /// Whether the connection was active since `before`, or is active now.
    pub(super) fn is_active_since(&self, before: ActivitySample) -> bool {
        let now = self.take_sample();
        let at_work = 0 < self.running_handlers.load(Relaxed);
        let stalls =
            self.is_write_blocked.load(Relaxed) && now.bytes_written == before.bytes_written;
        let speaks = 0 < self.producing_bodies.load(Relaxed) && !stalls;
        let gets_on = MIN_PROGRESS_BYTES <= now.bytes_written - before.bytes_written;
        at_work || speaks || gets_on || now.request_count != before.request_count
    }

    /// Whether a request is being handled or its response is being sent.
    pub(super) fn is_busy(&self) -> bool {
        0 < self.running_handlers.load(Relaxed) || 0 < self.open_bodies.load(Relaxed)
    }

    /// Whether a request head has begun and is incomplete.
    pub(super) fn is_receiving_head(&self) -> bool {
        self.is_receiving_head.load(Relaxed)
    }

    /// Whether the last request came over HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.is_http2.load(Relaxed)
    }

    /// Marks the connection as closing: further HTTP/1.1 responses announce it.
    pub(super) fn mark_closing(&self) {
        self.is_closing.store(true, Relaxed);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Relaxed)
    }
}

impl Drop for RunningHandler {
    fn drop(&mut self) {
        self.0.running_handlers.fetch_sub(1, Relaxed);
    }
}

/// A socket that counts reads and writes, and fails if a request head is not complete in time.
pub(super) struct MonitoredSocket<S> {
    socket: S,
    pulse: Arc<ConnectionActivity>,
    head_timeout: Duration,
    head: Option<PartialHead>,
}

/// A request head that has begun.
struct PartialHead {
    /// Number of requests before it.
    requests_before: u64,
    deadline: Instant,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<S> MonitoredSocket<S> {
    pub(super) fn new(socket: S, pulse: Arc<ConnectionActivity>, head_within: Duration) -> Self {
        Self { socket, pulse, head_timeout: head_within, head: None }
    }

    /// Forgets the bytes read so far: they were the TLS handshake and no request head.
    pub(super) fn reset_head(&mut self) {
        self.head = None;
        self.pulse.is_receiving_head.store(false, Relaxed);
    }

    fn note_read(&mut self, some: bool) {
        let asked = self.pulse.take_sample().request_count;
        if self.head.as_ref().is_some_and(|head| head.requests_before != asked) {
            self.reset_head();
        }
        // HTTP/2 frames arrive at any time; for them, the idle time-out of the connection is enough.
        if some && self.head.is_none() && !self.pulse.is_busy() && !self.pulse.is_http2() {
            let deadline = Instant::now() + self.head_timeout;
            self.head = Some(PartialHead { requests_before: asked, deadline, alarm: None });
            self.pulse.is_receiving_head.store(true, Relaxed);
        }
    }

    fn note_written(&self, written: &Poll<io::Result<usize>>) {
        self.pulse.is_write_blocked.store(written.is_pending(), Relaxed);
        if let Poll::Ready(Ok(bytes)) = written {
            self.pulse.bytes_written.fetch_add(*bytes as u64, Relaxed);
        }
    }
}

impl PartialHead {
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        let alarm = || Box::pin(tokio::time::sleep_until(deadline));
        self.alarm.get_or_insert_with(alarm).as_mut().poll(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MonitoredSocket<S> {
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
            && head.poll_deadline(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MonitoredSocket<S> {
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
