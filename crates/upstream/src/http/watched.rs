//! A request body that records when it is first polled, because the request is being sent from then on.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

pub(super) struct Watched {
    body: reqwest::Body,
    taken: Arc<AtomicBool>,
}

impl Watched {
    pub(super) fn new(body: Vec<u8>, taken: Arc<AtomicBool>) -> Self {
        Self { body: body.into(), taken }
    }
}

impl Body for Watched {
    type Data = <reqwest::Body as Body>::Data;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.taken.store(true, Ordering::Relaxed);
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
