//! The observed body of a response: while the handler still produces it, a silent stream counts as active.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use axum::Error;
use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};

use super::pulse::Pulse;

/// A response body that counts in the connection's activity until it ends or is dropped.
pub(super) struct Spoken {
    body: Body,
    pulse: Arc<Pulse>,
    is_open: bool,
    speaks: bool,
}

impl Spoken {
    pub(super) fn new(body: Body, pulse: Arc<Pulse>) -> Self {
        let is_open = !http_body::Body::is_end_stream(&body);
        if is_open {
            pulse.open.fetch_add(1, Relaxed);
        }
        Self { body, pulse, is_open, speaks: false }
    }

    /// Records whether the body waits for its producer (`true`) or for the client to read (`false`).
    fn note(&mut self, speaks: bool) {
        match (self.speaks, speaks) {
            (false, true) => drop(self.pulse.speaking.fetch_add(1, Relaxed)),
            (true, false) => drop(self.pulse.speaking.fetch_sub(1, Relaxed)),
            (true, true) | (false, false) => {}
        }
        self.speaks = speaks;
    }

    fn end(&mut self) {
        self.note(false);
        if std::mem::take(&mut self.is_open) {
            self.pulse.open.fetch_sub(1, Relaxed);
        }
    }
}

impl http_body::Body for Spoken {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Pending => self.note(true),
            Poll::Ready(Some(Ok(_))) => self.note(false),
            Poll::Ready(Some(Err(_)) | None) => self.end(),
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Spoken {
    fn drop(&mut self) {
        self.end();
    }
}
