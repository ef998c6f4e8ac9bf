//! Discovers the token requirements of an MCP server before there is a token: from its answer to an unauthenticated
//! request, and from its metadata.

use super::challenge::{self, Challenge, Need};
use super::grant::Grants;
use super::scope::{self, Known, MAX_SCOPES};
use super::{OAuthError, Url, resource};
use crate::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use crate::http::{Limits, Method, Request, origin};

/// A request without effect in every protocol version.
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// The tokens that an MCP server accepts.
#[derive(Clone, Debug)]
pub struct Protected {
    /// The resource identifier, exactly as the server writes it.
    pub resource: String,
    /// The issuers of such tokens; at least one.
    pub issuers: Vec<String>,
    /// The required scopes, as far as the server states them.
    pub scopes: Vec<Box<str>>,
}

impl Protected {
    /// The issuer to use: the one where the client is registered, if known, otherwise the first. Fails if the server no
    /// longer names the registered issuer, so that the client's secret is not sent to another one.
    pub fn issuer(&self, registered: Option<&str>) -> Result<&str, OAuthError> {
        let first = self.issuers.first().map(String::as_str).unwrap_or_default();
        match registered {
            None => Ok(first),
            Some(registered) => {
                let known = self.issuers.iter().find(|issuer| *issuer == registered);
                known.map(String::as_str).ok_or_else(|| OAuthError::RegisteredElsewhere {
                    origin: first.parse().map_or_else(|_| String::new(), |url| origin(&url)),
                })
            }
        }
    }
}

impl Grants {
    /// Discovers the token requirements of the MCP server at this URL (RFC 9728).
    pub async fn protected(&self, url: &Url) -> Result<Protected, OAuthError> {
        let challenge = self.challenge(url).await;
        let found = resource::find(self.way(), url, challenge.metadata.as_deref()).await?;
        let known =
            Known { challenged: &challenge.scopes, of_resource: &found.scopes, ..Known::default() };
        let scopes = scope::select(known);
        if MAX_SCOPES < scopes.len() {
            return Err(OAuthError::TooManyScopes { origin: origin(url), limit: MAX_SCOPES });
        }
        let scopes = scopes.into_iter().map(String::into_boxed_str).collect();
        Ok(Protected { resource: found.id, issuers: found.issuers, scopes })
    }

    /// The challenge for an unauthenticated request. Without one, the metadata may be at its default location.
    async fn challenge(&self, url: &Url) -> Challenge {
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
        ]);
        let (method, body) = (Method::POST, Some(PING.as_bytes().to_vec()));
        let limits = Limits { deadline: self.limits.request, max_bytes: self.limits.max_document };
        let request = Request { method, url: url.clone(), headers, body };
        let Ok(answer) = self.client.send(request, limits).await else {
            return Challenge::default();
        };
        let said = answer.headers.get_all(WWW_AUTHENTICATE).iter();
        let said: Vec<_> = said.filter_map(|value| value.to_str().ok()).collect();
        match challenge::need(answer.status, &said.join(", ")) {
            Some(Need::Token(challenge)) => challenge,
            Some(Need::Scopes(_) | Need::Fresh) | None => Challenge::default(),
        }
    }
}
