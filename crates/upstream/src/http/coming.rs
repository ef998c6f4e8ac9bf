//! A body as it comes, a little at a time: whoever goes over much of it at once keeps others waiting for the thread.

use bytes::Bytes;
use reqwest::Response;
use tokio::task::yield_now;
use url::Url;

use crate::aside::LONG;

pub(super) struct Coming {
    response: Response,
    /// Of what has come.
    rest: Bytes,
}

impl Coming {
    pub(super) fn of(response: Response) -> Self {
        Self { response, rest: Bytes::new() }
    }

    /// Nothing at the end. It can be dropped and called again.
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

    /// How long it says it is.
    pub(super) fn announced(&self) -> Option<u64> {
        self.response.content_length()
    }
}
