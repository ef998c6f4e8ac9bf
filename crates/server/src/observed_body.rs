//! The observed body of a response: while the handler still produces it, a silent stream counts as active.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use axum::Error;
use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};

use crate::connection_activity::ConnectionActivity;

/// A response body that counts in the connection's activity until it ends or is dropped.
pub(super) struct ObservedBody {
    body: Body,
    pulse: Arc<ConnectionActivity>,
    is_open: bool,
    is_producing: bool,
}

impl ObservedBody {
    pub(super) fn new(body: Body, pulse: Arc<ConnectionActivity>) -> Self {
        let is_open = !http_body::Body::is_end_stream(&body);
        if is_open {
            pulse.open_bodies.fetch_add(1, Relaxed);
        }
        Self { body, pulse, is_open, is_producing: false }
    }

    /// Records whether the body waits for its producer (`true`) or for the client to read (`false`).
    fn set_producing(&mut self, speaks: bool) {
        match (self.is_producing, speaks) {
            (false, true) => drop(self.pulse.producing_bodies.fetch_add(1, Relaxed)),
            (true, false) => drop(self.pulse.producing_bodies.fetch_sub(1, Relaxed)),
            (true, true) | (false, false) => {}
        }
        self.is_producing = speaks;
    }

    fn mark_ended(&mut self) {
        self.set_producing(false);
        if std::mem::take(&mut self.is_open) {
            self.pulse.open_bodies.fetch_sub(1, Relaxed);
        }
    }
}

impl http_body::Body for ObservedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Pending => self.set_producing(true),
            Poll::Ready(Some(Ok(_))) => self.set_producing(false),
            Poll::Ready(Some(Err(_)) | None) => self.mark_ended(),
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

impl Drop for ObservedBody {
    fn drop(&mut self) {
        self.mark_ended();
    }
}
