//! `/.well-known/oauth-protected-resource`: where clients obtain tokens for this server (RFC 9728), and the challenge
//! that points there. The server issues no tokens itself: it has no `/authorize`, `/token` or `/register`.

use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{HeaderValue, WWW_AUTHENTICATE};
use model::is_scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app_state::AppState;
use crate::mcp;
use crate::problem::{Problem, ProblemCode};
use crate::route::ApiRoute;
use crate::server_names::PublicUrl;

/// Path of the metadata of the whole server; that of a nested resource appends its path (RFC 9728, 3.1).
const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("get_protected_resource", METADATA_PATH, get_server_metadata)
            .open_to_all("about", "Say where tokens for this server are to be had")
            .returns_json::<ProtectedResourceMetadata>(),
        ApiRoute::get(
            "get_protected_mcp",
            "/.well-known/oauth-protected-resource/mcp",
            get_mcp_metadata,
        )
        .open_to_all("about", "Say where tokens for MCP on this server are to be had")
        .returns_json::<ProtectedResourceMetadata>(),
    ]
}

/// This server as an OAuth protected resource: its URL, and the issuers whose tokens it accepts.
#[derive(Clone, Debug, Default)]
pub struct ProtectedResource {
    /// The public URL of the server.
    pub url: PublicUrl,
    /// Issuers of accepted tokens.
    pub issuers: Vec<Box<str>>,
    /// Scopes that clients must at least request; often none.
    pub scopes: Vec<OAuthScope>,
}

/// A scope (RFC 6749, 3.3).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline)]
pub struct OAuthScope(Box<str>);

/// Why a string is no scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a scope is one word without quotes, such as `tools`")]
pub struct InvalidScope;

impl FromStr for OAuthScope {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        let is_good = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        match !text.is_empty() && text.bytes().all(is_good) {
            true => Ok(Self(text.into())),
            false => Err(InvalidScope),
        }
    }
}

impl TryFrom<String> for OAuthScope {
    type Error = InvalidScope;

    fn try_from(text: String) -> Result<Self, InvalidScope> {
        text.parse()
    }
}

/// Longest list of scopes in a challenge, in bytes.
const MAX_CHALLENGE_SCOPES: usize = 4 << 10;

/// The challenge for a token with insufficient scopes; names all required scopes at once (RFC 6750, 3). A specification
/// may call any string a scope; strings that no token can contain are omitted.
pub(crate) fn insufficient_scope_challenge(scopes: &[String]) -> HeaderValue {
    let known: Vec<_> = scopes.iter().map(String::as_str).filter(|scope| is_scope(scope)).collect();
    let scopes = known.join(" ");
    let challenge = match scopes.len() {
        1..=MAX_CHALLENGE_SCOPES => {
            format!(r#"Bearer error="{INSUFFICIENT_SCOPE}", scope="{scopes}""#)
        }
        _ => format!(r#"Bearer error="{INSUFFICIENT_SCOPE}""#),
    };
    HeaderValue::try_from(challenge).expect("scopes are words that may stand in a header")
}

/// The `error` of such a challenge.
const INSUFFICIENT_SCOPE: &str = "insufficient_scope";

/// What this server is to whoever issues tokens (RFC 9728, 2).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Metadata")]
struct ProtectedResourceMetadata {
    /// What tokens are for: their audience.
    resource: String,
    /// Who issues them.
    authorization_servers: Vec<Box<str>>,
    /// How they are shown: `header`.
    bearer_methods_supported: [&'static str; 1],
    /// What to ask for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes_supported: Vec<Box<str>>,
    /// The name for people.
    resource_name: &'static str,
}

impl ProtectedResource {
    /// Issuers with a URL. Tokens of other issuers are obtained in ways outside of OAuth discovery.
    fn authorization_servers(&self) -> impl Iterator<Item = &str> {
        let is_url = |issuer: &&str| {
            url::Url::parse(issuer).is_ok_and(|url| matches!(url.scheme(), "https" | "http"))
        };
        self.issuers.iter().map(|issuer| &**issuer).filter(is_url)
    }

    fn metadata_for(&self, path: &str) -> Result<Json<ProtectedResourceMetadata>, Problem> {
        let authorization_servers: Vec<_> = self.authorization_servers().map(Box::from).collect();
        if authorization_servers.is_empty() {
            let detail = "no issuer's tokens are taken here: ask an admin for an API key";
            return Err(Problem::new(ProblemCode::NotFound, detail));
        }
        Ok(Json(ProtectedResourceMetadata {
            resource: format!("{}{path}", self.url),
            authorization_servers,
            bearer_methods_supported: ["header"],
            scopes_supported: self.scopes.iter().map(|scope| scope.0.clone()).collect(),
            resource_name: "toolcrib",
        }))
    }

    /// Adds to a challenge where clients obtain a token (RFC 9728, 5.1; RFC 6750, 3).
    pub(crate) fn complete_challenge(&self, route: &str, headers: &mut HeaderMap) {
        let Some(challenge) = headers.get(WWW_AUTHENTICATE) else { return };
        if self.authorization_servers().next().is_none() {
            return;
        }
        let mut text = challenge.to_str().unwrap_or("Bearer").to_owned();
        let path = if route.starts_with(mcp::MCP_PATH) { mcp::MCP_PATH } else { "" };
        let separator = if text.contains(' ') { ", " } else { " " };
        text += &format!("{separator}resource_metadata=\"{}{METADATA_PATH}{path}\"", self.url);
        // A challenge for insufficient scopes already lists the required ones.
        if !self.scopes.is_empty() && !text.contains(INSUFFICIENT_SCOPE) {
            let scopes: Vec<_> = self.scopes.iter().map(|scope| &*scope.0).collect();
            text += &format!(", scope=\"{}\"", scopes.join(" "));
        }
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(WWW_AUTHENTICATE, value);
        }
    }
}

async fn get_server_metadata(
    State(app): State<AppState>,
) -> Result<Json<ProtectedResourceMetadata>, Problem> {
    app.options.resource.metadata_for("")
}

async fn get_mcp_metadata(
    State(app): State<AppState>,
) -> Result<Json<ProtectedResourceMetadata>, Problem> {
    app.options.resource.metadata_for(mcp::MCP_PATH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(challenge: &str, route: &str, issuer: &str, scopes: &[&str]) -> String {
        let scopes = scopes.iter().map(|scope| scope.parse().unwrap()).collect();
        let url = "https://crib.example.com".parse().unwrap();
        let resource = ProtectedResource { url, issuers: vec![issuer.into()], scopes };
        let mut headers = HeaderMap::new();
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_str(challenge).unwrap());
        resource.complete_challenge(route, &mut headers);
        headers[WWW_AUTHENTICATE].to_str().unwrap().to_owned()
    }

    #[test]
    fn a_challenge_links_to_the_metadata_of_the_requested_resource() {
        let id = "https://id.example";
        assert_eq!(
            completed("Bearer", "/api/groups", id, &[]),
            r#"Bearer resource_metadata="https://crib.example.com/.well-known/oauth-protected-resource""#
        );
        assert_eq!(
            completed(r#"Bearer error="invalid_token""#, "/mcp", id, &["tools", "profile"]),
            r#"Bearer error="invalid_token", resource_metadata="https://crib.example.com/.well-known/oauth-protected-resource/mcp", scope="tools profile""#
        );
        assert!(completed("Bearer", "/mcp/{group}", id, &[]).ends_with("/mcp\""));
        assert_eq!(completed("Bearer", "/mcp", "an issuer of keys in a file", &[]), "Bearer");
    }

    #[test]
    fn an_insufficient_scope_challenge_lists_only_the_scopes_of_the_call() {
        let needed = |scopes: &[&str]| {
            let scopes: Vec<_> = scopes.iter().map(ToString::to_string).collect();
            insufficient_scope_challenge(&scopes).to_str().unwrap().to_owned()
        };
        let challenge = needed(&["pets:read", "a\"b", "two words", "", "ü", "back\\slash", "x"]);
        assert_eq!(challenge, r#"Bearer error="insufficient_scope", scope="pets:read x""#);
        assert_eq!(
            completed(&challenge, "/mcp", "https://id.example", &["tools"]),
            format!(
                "{challenge}, resource_metadata=\"https://crib.example.com/.well-known/oauth-protected-resource/mcp\""
            )
        );
        let bare = r#"Bearer error="insufficient_scope""#;
        assert_eq!(
            (needed(&["a b"]), needed(&["x".repeat(200).as_str(); 30])),
            (bare.into(), bare.into())
        );
        assert!(!completed(bare, "/", "https://id.example", &["tools"]).contains("scope=\""));
    }

    #[test]
    fn a_scope_is_a_single_token() {
        for bad in ["", "a b", "a\"", "a\\b", "ä"] {
            assert_eq!(bad.parse::<OAuthScope>(), Err(InvalidScope), "{bad}");
        }
    }
}
