//! Requests to one server, with its API key and with limits on time and size.

use std::time::Duration;

use serde_json::Value;
use toolcrib::BoxError;
use upstream::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, IF_NONE_MATCH};
use upstream::http::{
    ExchangeLimits, HttpClient, HttpError, Method, UpstreamRequest, UpstreamResponse, Url,
};

/// Limits for models and tools, which may take a while.
const CALL_LIMITS: ExchangeLimits =
    ExchangeLimits { deadline: Duration::from_secs(120), max_bytes: 16 * 1024 * 1024 };
/// Limits for lists of tools, which are refreshed in the background.
const LIST_LIMITS: ExchangeLimits =
    ExchangeLimits { deadline: Duration::from_secs(10), max_bytes: 16 * 1024 * 1024 };

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Parses an address given by the user and checks that requests may be sent to it.
pub(crate) fn parse_address(client: &HttpClient, typed: &str) -> Result<Url, BoxError> {
    let url: Url = typed.parse().map_err(|why| format!("`{typed}` is no address: {why}"))?;
    client.check_url(&url)?;
    Ok(url)
}

/// `Authorization` header for a key.
pub(crate) fn bearer_header(key: &str) -> Result<HeaderValue, BoxError> {
    let mut shown = HeaderValue::try_from(format!("Bearer {key}"))?;
    shown.set_sensitive(true);
    Ok(shown)
}

/// Server with the key that it gets in every request.
pub(crate) struct RemoteServer {
    client: HttpClient,
    base: Url,
    authorization: Option<HeaderValue>,
}

impl RemoteServer {
    pub(crate) fn new(
        client: &HttpClient,
        base: &str,
        key: Option<&str>,
    ) -> Result<Self, BoxError> {
        let (base, authorization) =
            (parse_address(client, base)?, key.map(bearer_header).transpose()?);
        Ok(Self { client: client.clone(), base, authorization })
    }

    /// URL of a path below the server's address. No path leads to another server, because the key must not go there.
    pub(crate) fn url_below(&self, path: &str) -> Url {
        let base = self.base.as_str().trim_end_matches('/');
        let url = format!("{base}/{}", path.trim_start_matches('/'));
        url.parse().expect("an address with a longer path is an address")
    }

    /// Sends a `GET`. If `known` is the current entity tag, the answer is an empty 304.
    pub(crate) async fn get_if_changed(
        &self,
        url: Url,
        known: Option<HeaderValue>,
    ) -> Result<UpstreamResponse, HttpError> {
        let mut request = self.new_request(Method::GET, url);
        request.headers.extend(known.map(|known| (IF_NONE_MATCH, known)));
        self.client.send(request, LIST_LIMITS).await
    }

    /// Sends a request with a JSON body or without a body.
    pub(crate) async fn send_json(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
    ) -> Result<UpstreamResponse, HttpError> {
        let mut request = self.new_request(method, url);
        if let Some(body) = body {
            request.headers.insert(CONTENT_TYPE, JSON);
            request.body = Some(body.to_string().into_bytes());
        }
        self.client.send(request, CALL_LIMITS).await
    }

    fn new_request(&self, method: Method, url: Url) -> UpstreamRequest {
        let mut request = UpstreamRequest { method, ..UpstreamRequest::get(url) };
        request.headers.insert(ACCEPT, JSON);
        request.headers.extend(self.authorization.clone().map(|shown| (AUTHORIZATION, shown)));
        request
    }
}
