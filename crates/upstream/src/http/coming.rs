//! A response body in small chunks: processing a long chunk at once would block other tasks on the thread.

use bytes::Bytes;
use reqwest::Response;
use tokio::task::yield_now;
use url::Url;

use crate::aside::LONG;

pub(super) struct Coming {
    response: Response,
    /// The part of the last chunk that was not yet returned.
    rest: Bytes,
}

impl Coming {
    pub(super) fn of(response: Response) -> Self {
        Self { response, rest: Bytes::new() }
    }

    /// The next chunk; `None` at the end. It is cancel-safe.
    pub(super) async fn next(&mut self) -> reqwest::Result<Option<Bytes>> {
        match self.rest.is_empty() {
            true => match self.response.chunk().await? {
                Some(chunk) => self.rest = chunk,
                None => return Ok(None),
            },
            false => yield_now().await,
        }
        let little = LONG.min(self.rest.len());
        Ok(Some(self.rest.split_to(little)))
    }

    pub(super) fn url(&self) -> &Url {
        self.response.url()
    }

    /// The announced length of the body.
    pub(super) fn announced(&self) -> Option<u64> {
        self.response.content_length()
    }
}
