//! Requests to URLs that other parties name: checked by the egress policy, within limits, and encrypted.

use std::sync::Arc;

use json::strict_json;
use serde::de::DeserializeOwned;
use serde_json::Value;
use upstream::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use upstream::http::{
    ExchangeLimits, Host, HttpError, Method, UpstreamRequest, UpstreamResponse, origin_text,
    retry_after,
};

use super::oauth_settings::{OAuthLimits, OAuthSettings};
use super::{HttpClient, OAuthError, Url};

#[derive(Clone, Copy)]
pub(super) struct OAuthRequester<'a> {
    pub(super) client: &'a HttpClient,
    pub(super) oauth: &'a OAuthSettings,
}

impl<'a> OAuthRequester<'a> {
    pub(super) fn transport(&self) -> OAuthTransport<'a> {
        let OAuthSettings { limits, trusts_plain_http, .. } = *self.oauth;
        OAuthTransport { client: self.client, limits, trusts_plain_http }
    }
}

/// The HTTP client and rules for requests to authorization servers, without the settings of one authorization.
#[derive(Clone, Copy)]
pub(super) struct OAuthTransport<'a> {
    pub(super) client: &'a HttpClient,
    pub(super) limits: OAuthLimits,
    pub(super) trusts_plain_http: bool,
}

impl OAuthTransport<'_> {
    /// Fetches a JSON document; `None` if it is missing or not JSON. A few redirects within the same origin are
    /// followed; a document at another origin must be named explicitly.
    pub(super) async fn fetch_document(
        &self,
        what: &'static str,
        url: &Url,
    ) -> Result<Option<Value>, OAuthError> {
        match self.client.get_document(url, self.exchange_limits()).await {
            Ok(answer) if answer.status == 200 => {
                Ok(strict_json::parse_tolerant(&answer.body).ok())
            }
            // A failing server may have the document all the same.
            Ok(answer) => unavailable_error(&origin_text(url), &answer).map_or(Ok(None), Err),
            Err(HttpError::Redirected { .. }) => Ok(None),
            Err(error) => Err(http_error(what, url, error)),
        }
    }

    /// Sends a body once.
    pub(super) async fn post_body(
        &self,
        what: &'static str,
        url: &Url,
        mut headers: HeaderMap,
        kind: &'static str,
        body: String,
    ) -> Result<UpstreamResponse, OAuthError> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let (method, body) = (Method::POST, Some(body.into_bytes()));
        let request = UpstreamRequest { method, url: url.clone(), headers, body };
        let sent = self.client.send(request, self.exchange_limits()).await;
        sent.map_err(|error| http_error(what, url, error))
    }

    /// Parses and checks the URL of an endpoint that receives secrets or a user.
    pub(super) fn parse_endpoint(&self, what: &'static str, text: &str) -> Result<Url, OAuthError> {
        let url: Url = text.parse().map_err(|_| OAuthError::InvalidUrl { what })?;
        self.client.check_url(&url).map_err(|source| OAuthError::Forbidden { what, source })?;
        if url.fragment().is_some() {
            return Err(invalid_response(what, &url, "its url has a fragment"));
        }
        match url.scheme() == "https" || self.trusts_plain_http || is_loopback(&url) {
            true => Ok(url),
            false => Err(OAuthError::InsecureUrl { what, origin: origin_text(&url) }),
        }
    }

    fn exchange_limits(&self) -> ExchangeLimits {
        ExchangeLimits {
            deadline: self.limits.request_deadline,
            max_bytes: self.limits.max_document_bytes,
        }
    }
}

/// Whether the URL is on this machine, where requests need no TLS.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Deserializes a document.
pub(super) fn parse_document<T: DeserializeOwned>(
    what: &'static str,
    url: &Url,
    document: Value,
) -> Result<T, OAuthError> {
    serde_json::from_value(document)
        .map_err(|_| invalid_response(what, url, "a member of it is not what it must be"))
}

pub(super) fn invalid_response(what: &'static str, url: &Url, why: &'static str) -> OAuthError {
    OAuthError::InvalidResponse { what, origin: origin_text(url), why }
}

/// The error for a temporary status, whatever the body: the response may come from a proxy before the server.
pub(super) fn unavailable_error(origin: &str, answer: &UpstreamResponse) -> Option<OAuthError> {
    let UpstreamResponse { status, ref headers, .. } = *answer;
    matches!(status, 408 | 425 | 429 | 500..).then(|| OAuthError::TemporarilyUnavailable {
        origin: origin.to_owned(),
        status,
        retry_after: retry_after(headers),
    })
}

fn http_error(what: &'static str, url: &Url, error: HttpError) -> OAuthError {
    OAuthError::Http { what, origin: origin_text(url), source: Arc::new(error) }
}
