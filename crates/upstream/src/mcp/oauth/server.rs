//! Metadata of an authorization server (RFC 8414, and OpenID Connect Discovery).

use serde::Deserialize;

use super::consent::plain;
use super::fetch::{Way, parsed, unusable};
use super::{OAuthError, Url};
use crate::http::{HttpError, origin};

const WHAT: &str = "the metadata of the authorization server";
const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// An authorization server with validated metadata.
#[derive(Clone)]
pub(super) struct Server {
    /// The issuer identifier exactly as written.
    pub(super) issuer: String,
    pub(super) origin: String,
    pub(super) token: Url,
    pub(super) metadata: Metadata,
}

#[derive(Clone, Deserialize)]
pub(super) struct Metadata {
    issuer: String,
    token_endpoint: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) registration_endpoint: Option<String>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
    /// `None` means Basic (RFC 8414, section 2).
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
    mtls_endpoint_aliases: Option<Aliases>,
}

/// Endpoints for clients with a certificate (RFC 8705, section 5).
#[derive(Clone, Deserialize)]
struct Aliases {
    token_endpoint: Option<String>,
}

/// Fetches the metadata from all default locations, in the order of the MCP specification.
pub(super) async fn find(way: Way<'_>, issuer: &str) -> Result<Server, OAuthError> {
    let place = way.place("the authorization server", issuer)?;
    if place.query().is_some() {
        return Err(unusable(WHAT, &place, "the issuer has a query"));
    }
    // A document for exactly this issuer is valid at any location. Errors at other locations matter only if no
    // location has one.
    let mut amiss = None;
    for well_known in places(&place) {
        match at(way, &well_known, issuer).await {
            Ok(Some(metadata)) => {
                let token = way.place("the place for tokens", &metadata.token_endpoint)?;
                let (issuer, origin) = (issuer.to_owned(), origin(&place));
                return Ok(Server { issuer, origin, token, metadata });
            }
            // The server is unreachable, so the other locations would fail too.
            Err(OAuthError::Http { what, origin, source }) if is_nobody_there(&source) => {
                return Err(OAuthError::Http { what, origin, source });
            }
            Ok(None) => {}
            Err(error) => amiss = amiss.or(Some(error)),
        }
    }
    Err(amiss.unwrap_or_else(|| unusable(WHAT, &place, "there is none")))
}

fn is_nobody_there(error: &HttpError) -> bool {
    matches!(error, HttpError::Connect { .. } | HttpError::Timeout { .. } | HttpError::Refused(_))
}

async fn at(way: Way<'_>, url: &Url, issuer: &str) -> Result<Option<Metadata>, OAuthError> {
    let Some(document) = way.document(WHAT, url).await? else { return Ok(None) };
    let metadata: Metadata = parsed(WHAT, url, document)?;
    // Compared byte by byte: a similar issuer may belong to another party.
    match metadata.issuer == issuer {
        true => Ok(Some(metadata)),
        false => {
            let (origin, found) = (origin(url), plain(&metadata.issuer));
            Err(OAuthError::WrongIssuer { what: WHAT, origin, found })
        }
    }
}

fn places(issuer: &Url) -> Vec<Url> {
    let place = |path: String| {
        let mut place = issuer.clone();
        place.set_path(&path);
        place
    };
    match issuer.path().trim_end_matches('/') {
        "" => vec![place(OAUTH.to_owned()), place(OPENID.to_owned())],
        path => vec![
            place(format!("{OAUTH}{path}")),
            place(format!("{OPENID}{path}")),
            place(format!("{path}{OPENID}")),
        ],
    }
}

impl Server {
    /// The token endpoint for clients with a certificate as written, if there is one.
    pub(super) fn token_with_certificate(&self) -> Option<&str> {
        self.metadata.mtls_endpoint_aliases.as_ref()?.token_endpoint.as_deref()
    }

    /// Requires PKCE, because without it a stolen code is as good as a token.
    pub(super) fn check_pkce(&self) -> Result<(), OAuthError> {
        let methods = &self.metadata.code_challenge_methods_supported;
        match methods.iter().any(|method| method == "S256") {
            true => Ok(()),
            false => Err(OAuthError::NoPkce { origin: self.origin.clone() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_locations_follow_the_specification() {
        let places = |issuer: &str| -> Vec<String> {
            places(&issuer.parse().unwrap()).into_iter().map(String::from).collect()
        };
        assert_eq!(
            places("https://as.example"),
            [
                "https://as.example/.well-known/oauth-authorization-server",
                "https://as.example/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            places("https://as.example/one/two/"),
            [
                "https://as.example/.well-known/oauth-authorization-server/one/two",
                "https://as.example/.well-known/openid-configuration/one/two",
                "https://as.example/one/two/.well-known/openid-configuration",
            ]
        );
    }
}
