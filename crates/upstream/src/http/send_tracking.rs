//! A request body that records when it is first polled, because the request is being sent from then on.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

pub(super) struct SendTrackingBody {
    body: reqwest::Body,
    is_sent: Arc<AtomicBool>,
}

impl SendTrackingBody {
    pub(super) fn new(body: Vec<u8>, taken: Arc<AtomicBool>) -> Self {
        Self { body: body.into(), is_sent: taken }
    }
}

impl Body for SendTrackingBody {
    type Data = <reqwest::Body as Body>::Data;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.is_sent.store(true, Ordering::Relaxed);
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
