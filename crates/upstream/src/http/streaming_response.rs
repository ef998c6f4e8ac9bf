//! A response whose body is read incrementally, for streams that stay open.

use super::body_chunks::BodyChunks;
use super::header::HeaderMap;
use super::{
    ExchangeLimits, HttpClient, HttpError, Method, UpstreamRequest, Url, check_encoding,
    origin_text,
};

/// A response whose headers have arrived. Dropping it ends the exchange. It has no `Debug`, as it may contain secrets.
pub struct StreamingResponse {
    pub status: u16,
    pub headers: HeaderMap,
    body: BodyChunks,
    method: Method,
    url: Url,
    limit: u64,
    read: u64,
}

impl HttpClient {
    /// Sends a request once and returns the response when its headers have arrived. The deadline covers only the
    /// headers: the reader of the body sets its own. The size limit covers the whole body.
    pub async fn open_stream(
        &self,
        request: UpstreamRequest,
        limits: ExchangeLimits,
    ) -> Result<StreamingResponse, HttpError> {
        let ExchangeLimits { deadline, max_bytes } = limits;
        let (url, repeatable) = (request.url.clone(), request.method.is_idempotent());
        let opening = self.open_with_limit(request, max_bytes);
        tokio::time::timeout(deadline, opening).await.unwrap_or_else(|_| {
            Err(HttpError::Timeout { origin: origin_text(&url), deadline, sent: true, repeatable })
        })
    }

    async fn open_with_limit(
        &self,
        request: UpstreamRequest,
        limit: u64,
    ) -> Result<StreamingResponse, HttpError> {
        self.egress.check_url(&request.url)?;
        let (url, method) = (request.url.clone(), request.method.clone());
        let client = self.pools_for(&url).client_for(&url).await?;
        let response = client.execute(request.into_reqwest(std::sync::Arc::default())).await;
        let mut response =
            response.map_err(|error| HttpError::from_reqwest(error, &url, &method))?;
        check_encoding(&response)?;
        let status = response.status().as_u16();
        let headers = std::mem::take(response.headers_mut());
        let body = BodyChunks::from_response(response);
        Ok(StreamingResponse { status, headers, body, method, url, limit, read: 0 })
    }
}

impl StreamingResponse {
    /// The next chunk; `None` at the end.
    pub async fn next_chunk(
        &mut self,
    ) -> Result<Option<impl AsRef<[u8]> + Send + use<>>, HttpError> {
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

    /// The origin of the response.
    pub fn origin(&self) -> String {
        origin_text(&self.url)
    }

    /// The announced length of the body.
    pub fn announced_length(&self) -> Option<u64> {
        self.body.announced_length()
    }

    /// Rejects a body whose announced length already exceeds the limit.
    pub(crate) fn check_announced(&self, limit: u64) -> Result<(), HttpError> {
        match self.announced_length() {
            announced @ Some(bytes) if limit < bytes => {
                Err(HttpError::TooLarge { limit, announced })
            }
            _ => Ok(()),
        }
    }

    /// Reads the rest of the body, at most `limit` bytes.
    pub async fn read_rest(&mut self, limit: u64) -> Result<Vec<u8>, HttpError> {
        self.check_announced(limit)?;
        let mut rest = Vec::new();
        while let Some(chunk) = self.next_chunk().await? {
            let chunk = chunk.as_ref();
            if limit < (rest.len() + chunk.len()) as u64 {
                return Err(HttpError::TooLarge { limit, announced: None });
            }
            rest.extend_from_slice(chunk);
        }
        Ok(rest)
    }
}
