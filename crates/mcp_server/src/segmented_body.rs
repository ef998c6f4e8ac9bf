//! An HTTP body of several buffers with known length: cached parts are not copied into one buffer.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use http_body::{Frame, SizeHint};

pub(crate) struct SegmentedBody(VecDeque<Bytes>);

impl SegmentedBody {
    pub(crate) fn new(pieces: Vec<Bytes>) -> Self {
        Self(pieces.into())
    }
}

impl HttpBody for SegmentedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}
