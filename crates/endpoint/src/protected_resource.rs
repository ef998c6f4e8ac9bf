//! This server as an OAuth protected resource (RFC 9728): its URL, the issuers whose tokens it accepts, and the challenge
//! that points clients there.

use axum::http::HeaderMap;
use axum::http::header::{HeaderValue, WWW_AUTHENTICATE};

pub use api_types::oauth_scope::OAuthScope;
use api_types::problem::INSUFFICIENT_SCOPE;
use api_types::server_names::PublicUrl;

/// Path of the metadata of the whole server; that of a nested resource appends its path (RFC 9728, 3.1).
pub const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

/// Path of the MCP endpoint over HTTP.
pub const MCP_PATH: &str = "/mcp";

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

impl ProtectedResource {
    /// Issuers with a URL. Tokens of other issuers are obtained in ways outside of OAuth discovery.
    pub fn authorization_servers(&self) -> impl Iterator<Item = &str> {
        let is_url = |issuer: &&str| {
            url::Url::parse(issuer).is_ok_and(|url| matches!(url.scheme(), "https" | "http"))
        };
        self.issuers.iter().map(|issuer| &**issuer).filter(is_url)
    }

    /// Adds to a challenge where clients obtain a token (RFC 9728, 5.1; RFC 6750, 3).
    pub(crate) fn complete_challenge(&self, route: &str, headers: &mut HeaderMap) {
        let Some(challenge) = headers.get(WWW_AUTHENTICATE) else { return };
        if self.authorization_servers().next().is_none() {
            return;
        }
        let mut text = challenge.to_str().unwrap_or("Bearer").to_owned();
        let path = if route.starts_with(MCP_PATH) { MCP_PATH } else { "" };
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

#[cfg(test)]
mod tests {
    use super::*;
    use api_types::oauth_scope::InvalidScope;
    use api_types::problem::insufficient_scope_challenge;

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
