//! Discovers the token requirements of an MCP server before there is a token: from its answer to an unauthenticated
//! request, and from its metadata.

use upstream::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use upstream::http::{ExchangeLimits, Method, UpstreamRequest, origin_text};

use super::bearer_challenge::{BearerChallenge, TokenNeed};
use super::requested_scopes::{KnownScopes, MAX_SCOPES};
use super::token_grant::GrantClient;
use super::{OAuthError, Url, bearer_challenge, requested_scopes, resource_metadata};

/// A request without effect in every protocol version.
const PING_REQUEST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// The tokens that an MCP server accepts.
#[derive(Clone, Debug)]
pub struct TokenRequirements {
    /// The resource identifier, exactly as the server writes it.
    pub resource: String,
    /// The issuers of such tokens; at least one.
    pub issuers: Vec<String>,
    /// The required scopes, as far as the server states them.
    pub scopes: Vec<Box<str>>,
}

impl TokenRequirements {
    /// The issuer to use: the one where the client is registered, if known, otherwise the first. Fails if the server no
    /// longer names the registered issuer, so that the client's secret is not sent to another one.
    pub fn select_issuer(&self, registered: Option<&str>) -> Result<&str, OAuthError> {
        let first = self.issuers.first().map(String::as_str).unwrap_or_default();
        match registered {
            None => Ok(first),
            Some(registered) => {
                let known = self.issuers.iter().find(|issuer| *issuer == registered);
                known.map(String::as_str).ok_or_else(|| OAuthError::RegisteredElsewhere {
                    origin: first.parse().map_or_else(|_| String::new(), |url| origin_text(&url)),
                })
            }
        }
    }
}

impl GrantClient {
    /// Discovers the token requirements of the MCP server at this URL (RFC 9728).
    pub async fn discover_requirements(&self, url: &Url) -> Result<TokenRequirements, OAuthError> {
        let challenge = self.probe_challenge(url).await;
        let found = resource_metadata::find_resource(
            self.transport(),
            url,
            challenge.metadata_url.as_deref(),
        )
        .await?;
        let known = KnownScopes {
            challenged: &challenge.scopes,
            of_resource: &found.scopes,
            ..KnownScopes::default()
        };
        let scopes = requested_scopes::select_scopes(known);
        if MAX_SCOPES < scopes.len() {
            return Err(OAuthError::TooManyScopes { origin: origin_text(url), limit: MAX_SCOPES });
        }
        let scopes = scopes.into_iter().map(String::into_boxed_str).collect();
        Ok(TokenRequirements { resource: found.id, issuers: found.issuers, scopes })
    }

    /// The challenge for an unauthenticated request. Without one, the metadata may be at its default location.
    async fn probe_challenge(&self, url: &Url) -> BearerChallenge {
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
        ]);
        let (method, body) = (Method::POST, Some(PING_REQUEST.as_bytes().to_vec()));
        let limits = ExchangeLimits {
            deadline: self.limits.request_deadline,
            max_bytes: self.limits.max_document_bytes,
        };
        let request = UpstreamRequest { method, url: url.clone(), headers, body };
        let Ok(answer) = self.client.send(request, limits).await else {
            return BearerChallenge::default();
        };
        let said = answer.headers.get_all(WWW_AUTHENTICATE).iter();
        let said: Vec<_> = said.filter_map(|value| value.to_str().ok()).collect();
        match bearer_challenge::token_need(answer.status, &said.join(", ")) {
            Some(TokenNeed::Token(challenge)) => challenge,
            Some(TokenNeed::Scopes(_) | TokenNeed::Renewal) | None => BearerChallenge::default(),
        }
    }
}
