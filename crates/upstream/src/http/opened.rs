//! An answer that is read as it comes, for streams that go on.

use super::coming::Coming;
use super::{HttpClient, HttpError, Limits, Method, Request, Url, header::HeaderMap};
use super::{check_encoding, origin};

/// An answer whose head is there. Dropping it ends the exchange. It cannot be printed: it may hold secrets.
pub struct Opened {
    /// The status code.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    body: Coming,
    method: Method,
    url: Url,
    limit: u64,
    read: u64,
}

impl HttpClient {
    /// Sends a request once and hands the answer over as soon as its head is there. The deadline is for the head only:
    /// whoever reads the body decides how long. The limit is for all of the body.
    pub async fn open(&self, request: Request, limits: Limits) -> Result<Opened, HttpError> {
        let Limits { deadline, max_bytes } = limits;
        let (url, repeatable) = (request.url.clone(), request.method.is_idempotent());
        let opening = self.open_within(request, max_bytes);
        tokio::time::timeout(deadline, opening).await.unwrap_or_else(|_| {
            Err(HttpError::Timeout { origin: origin(&url), deadline, sent: true, repeatable })
        })
    }

    async fn open_within(&self, request: Request, limit: u64) -> Result<Opened, HttpError> {
        self.egress.check_url(&request.url)?;
        let (url, method) = (request.url.clone(), request.method.clone());
        let client = self.connections_to(&url).to(&url).await?;
        let response = client.execute(request.prepare(std::sync::Arc::default())).await;
        let mut response =
            response.map_err(|error| HttpError::from_reqwest(error, &url, &method))?;
        check_encoding(&response)?;
        let status = response.status().as_u16();
        let headers = std::mem::take(response.headers_mut());
        let body = Coming::of(response);
        Ok(Opened { status, headers, body, method, url, limit, read: 0 })
    }
}

impl Opened {
    /// What came next; nothing at the end.
    pub async fn chunk(&mut self) -> Result<Option<impl AsRef<[u8]> + Send + use<>>, HttpError> {
        let chunk = self.body.next().await;
        let chunk =
            chunk.map_err(|error| HttpError::from_reqwest(error, &self.url, &self.method))?;
        let Some(chunk) = chunk else { return Ok(None) };
        self.read = self.read.saturating_add(chunk.len() as u64);
        if self.limit < self.read {
            return Err(HttpError::TooLarge { limit: self.limit, announced: None });
        }
        Ok(Some(chunk))
    }

    /// Whose it is.
    pub(crate) fn origin(&self) -> String {
        origin(&self.url)
    }

    /// How long it says it is.
    pub(crate) fn announced(&self) -> Option<u64> {
        self.body.announced()
    }

    /// What says itself that it is too large need not be read to find out.
    pub(crate) fn check_announced(&self, limit: u64) -> Result<(), HttpError> {
        match self.announced() {
            announced @ Some(bytes) if limit < bytes => {
                Err(HttpError::TooLarge { limit, announced })
            }
            _ => Ok(()),
        }
    }

    /// All that is left, at most `limit` bytes of it.
    pub async fn rest(&mut self, limit: u64) -> Result<Vec<u8>, HttpError> {
        self.check_announced(limit)?;
        let mut rest = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            let chunk = chunk.as_ref();
            if limit < (rest.len() + chunk.len()) as u64 {
                return Err(HttpError::TooLarge { limit, announced: None });
            }
            rest.extend_from_slice(chunk);
        }
        Ok(rest)
    }
}
