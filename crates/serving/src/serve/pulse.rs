//! Whether a connection still does something. One that asks for nothing, and takes nothing of what it was answered,
//! would keep its place for ever otherwise: nobody below looks at a clock while an answer is being written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Fewer bytes than this between two looks are not an answer that gets on: the frames that keep HTTP/2 awake are.
const GETTING_ON: u64 = 8 << 10;

/// What a connection has done so far.
#[derive(Default)]
pub(super) struct Pulse {
    asked: AtomicU64,
    at_work: AtomicUsize,
    written: AtomicU64,
}

/// A look at a pulse, to compare with the next.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Look {
    asked: u64,
    written: u64,
}

/// A request that is being answered, for as long as this lives.
pub(super) struct AtWork(Arc<Pulse>);

impl Pulse {
    pub(super) fn start(self: &Arc<Self>) -> AtWork {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.at_work.fetch_add(1, Ordering::Relaxed);
        AtWork(Arc::clone(self))
    }

    pub(super) fn look(&self) -> Look {
        let (asked, written) =
            (self.asked.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed));
        Look { asked, written }
    }

    /// Whether anything has happened since, or happens now.
    pub(super) fn beats_since(&self, before: Look) -> bool {
        let now = self.look();
        let at_work = 0 < self.at_work.load(Ordering::Relaxed);
        at_work || now.asked != before.asked || GETTING_ON <= now.written - before.written
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that notes what is written.
pub(super) struct Felt {
    pub(super) stream: TcpStream,
    pub(super) pulse: Arc<Pulse>,
}

impl Felt {
    fn note(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.pulse.written.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
    }
}

impl AsyncRead for Felt {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Felt {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
