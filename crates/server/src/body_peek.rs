//! A peek at the body frames that arrived together with the request head. hyper yields a body only at the second poll,
//! and each pending poll would pass through all layers of the handler. Therefore the body is polled here, before the
//! handler runs.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::body::Bytes;
use axum::http::header::EXPECT;
use axum::http::{Request, Version};
use http_body::{Body, Frame, SizeHint};

/// A body whose first frame may already be read.
pub(super) struct PeekedBody<B> {
    first_frame: Option<Result<Frame<Bytes>, BoxError>>,
    body: B,
}

/// How many polls a body needs until hyper yields what has arrived. Zero for requests with `Expect: 100-continue`:
/// polling the body would send the interim response.
pub(super) fn peek_count<B>(request: &Request<B>) -> usize {
    match request.version() {
        _ if request.headers().contains_key(EXPECT) => 0,
        Version::HTTP_2 => 1,
        _ => 2,
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> PeekedBody<B> {
    /// Polls the body up to `looks` times, and does not wait for frames that have not arrived.
    pub(super) async fn peek(mut body: B, mut looks: usize) -> Self {
        if looks == 0 || body.is_end_stream() {
            return Self { first_frame: None, body };
        }
        let first = poll_fn(|context| {
            looks -= 1;
            match Pin::new(&mut body).poll_frame(context) {
                Poll::Ready(first) => Poll::Ready(first),
                Poll::Pending if looks == 0 => Poll::Ready(None),
                Poll::Pending => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        });
        let first = first.await.map(|first| first.map_err(Into::into));
        Self { first_frame: first, body }
    }

    /// All bytes if the body is complete; otherwise returns the unchanged body.
    pub(super) fn into_complete(self) -> Result<Bytes, Self> {
        let is_all = self.body.is_end_stream();
        match self.first_frame {
            None if is_all => Ok(Bytes::new()),
            Some(Ok(first)) if is_all => first
                .into_data()
                .map_err(|trailers| Self { first_frame: Some(Ok(trailers)), body: self.body }),
            first => Err(Self { first_frame: first, body: self.body }),
        }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for PeekedBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(first) = self.first_frame.take() {
            return Poll::Ready(Some(first));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.first_frame.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let Some(Ok(first)) = &self.first_frame else { return self.body.size_hint() };
        let (first, rest) = (first.data_ref().map_or(0, Bytes::len) as u64, self.body.size_hint());
        let mut all = SizeHint::new();
        if let Some(upper) = rest.upper() {
            all.set_upper(first + upper);
        }
        all.set_lower(first + rest.lower());
        all
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full, StreamBody};

    use super::*;

    type Frames = tokio::sync::mpsc::UnboundedSender<Frame<Bytes>>;

    fn body() -> (Frames, impl Body<Data = Bytes, Error = BoxError> + Unpin) {
        let (sender, frames) = tokio::sync::mpsc::unbounded_channel();
        let frames = futures_util::stream::unfold(frames, |mut frames| async {
            Some((Ok(frames.recv().await?), frames))
        });
        (sender, Box::pin(StreamBody::new(frames)))
    }

    fn data(text: &'static str) -> Frame<Bytes> {
        Frame::data(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn a_complete_body_is_returned_whole() {
        let early = PeekedBody::peek(Full::new(Bytes::from_static(b"ab")), 1).await;
        assert_eq!(early.into_complete().ok().unwrap(), "ab");
        let nothing = PeekedBody::peek(Full::new(Bytes::new()), 1).await;
        assert_eq!(nothing.into_complete().ok().unwrap(), "");
    }

    #[tokio::test]
    async fn missing_frames_are_not_awaited_and_none_is_lost() {
        for first in [None, Some("a")] {
            let (sender, body) = body();
            first.into_iter().for_each(|first| sender.send(data(first)).unwrap());
            let Err(early) = PeekedBody::peek(body, 2).await.into_complete() else {
                panic!("more may come")
            };
            assert!(!early.is_end_stream());
            sender.send(data("b")).unwrap();
            drop(sender);
            let all = early.collect().await.unwrap().to_bytes();
            assert_eq!(all, first.unwrap_or_default().to_owned() + "b");
        }
    }

    #[tokio::test]
    async fn a_body_with_expect_continue_is_not_polled() {
        let request = Request::post("/mcp").header(EXPECT, "100-continue").body(()).unwrap();
        assert_eq!(peek_count(&request), 0);
        let (sender, body) = body();
        sender.send(data("a")).unwrap();
        let early = PeekedBody::peek(body, 0).await;
        assert!(early.first_frame.is_none());
    }
}
