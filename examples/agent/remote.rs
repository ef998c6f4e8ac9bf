//! A server that is asked with one key, within limits of time and size.

use std::time::Duration;

use serde_json::Value;
use toolcrib::BoxError;
use toolcrib::upstream::http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, IF_NONE_MATCH,
};
use toolcrib::upstream::http::{Answer, HttpClient, HttpError, Limits, Method, Request, Url};

/// For everything but lists of tools, which are asked for in the meantime: a model, or a tool, may think for a while.
const PATIENT: Limits = Limits { deadline: Duration::from_secs(120), max_bytes: 16 * 1024 * 1024 };
const SOON: Limits = Limits { deadline: Duration::from_secs(10), max_bytes: 16 * 1024 * 1024 };

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What somebody typed, if it can be asked.
pub(crate) fn address(client: &HttpClient, typed: &str) -> Result<Url, BoxError> {
    let url: Url = typed.parse().map_err(|why| format!("`{typed}` is no address: {why}"))?;
    client.check_url(&url)?;
    Ok(url)
}

/// How a key is shown.
pub(crate) fn bearer(key: &str) -> Result<HeaderValue, BoxError> {
    let mut shown = HeaderValue::try_from(format!("Bearer {key}"))?;
    shown.set_sensitive(true);
    Ok(shown)
}

/// A server, and the key that it is shown.
pub(crate) struct Remote {
    client: HttpClient,
    base: Url,
    authorization: Option<HeaderValue>,
}

impl Remote {
    pub(crate) fn new(
        client: &HttpClient,
        base: &str,
        key: Option<&str>,
    ) -> Result<Self, BoxError> {
        let (base, authorization) = (address(client, base)?, key.map(bearer).transpose()?);
        Ok(Self { client: client.clone(), base, authorization })
    }

    /// A path below the address of the server. Whatever it says, it leads to no other, where the key must not go.
    pub(crate) fn at(&self, path: &str) -> Url {
        let base = self.base.as_str().trim_end_matches('/');
        let url = format!("{base}/{}", path.trim_start_matches('/'));
        url.parse().expect("an address with a longer path is an address")
    }

    /// Asks for what is there; if that is what is known already, the answer says so (304) and is empty.
    pub(crate) async fn get(
        &self,
        url: Url,
        known: Option<HeaderValue>,
    ) -> Result<Answer, HttpError> {
        let mut request = self.request(Method::GET, url);
        request.headers.extend(known.map(|known| (IF_NONE_MATCH, known)));
        self.client.send(request, SOON).await
    }

    /// Sends JSON, or nothing.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
    ) -> Result<Answer, HttpError> {
        let mut request = self.request(method, url);
        if let Some(body) = body {
            request.headers.insert(CONTENT_TYPE, JSON);
            request.body = Some(body.to_string().into_bytes());
        }
        self.client.send(request, PATIENT).await
    }

    fn request(&self, method: Method, url: Url) -> Request {
        let mut request = Request { method, ..Request::get(url) };
        request.headers.insert(ACCEPT, JSON);
        request.headers.extend(self.authorization.clone().map(|shown| (AUTHORIZATION, shown)));
        request
    }
}
