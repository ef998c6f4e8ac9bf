//! A response body in small chunks: processing a long chunk at once would block other tasks on the thread.

use bytes::Bytes;
use limits::low_priority::MAX_INLINE_BYTES;
use reqwest::Response;
use tokio::task::yield_now;
use url::Url;

pub(super) struct BodyChunks {
    response: Response,
    /// The part of the last chunk that was not yet returned.
    remaining: Bytes,
}

impl BodyChunks {
    pub(super) fn from_response(response: Response) -> Self {
        Self { response, remaining: Bytes::new() }
    }

    /// The next chunk; `None` at the end. It is cancel-safe.
    pub(super) async fn next(&mut self) -> reqwest::Result<Option<Bytes>> {
        match self.remaining.is_empty() {
            true => match self.response.chunk().await? {
                Some(chunk) => self.remaining = chunk,
                None => return Ok(None),
            },
            false => yield_now().await,
        }
        let little = MAX_INLINE_BYTES.min(self.remaining.len());
        Ok(Some(self.remaining.split_to(little)))
    }

    pub(super) fn url(&self) -> &Url {
        self.response.url()
    }

    /// The announced length of the body.
    pub(super) fn announced_length(&self) -> Option<u64> {
        self.response.content_length()
    }
}
