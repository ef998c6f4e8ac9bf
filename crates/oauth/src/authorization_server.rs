//! Metadata of an authorization server (RFC 8414, and OpenID Connect Discovery).

use serde::Deserialize;
use upstream::http::{HttpError, origin_text};

use super::oauth_requests::{OAuthTransport, invalid_response, parse_document};
use super::user_consent::sanitize_text;
use super::{OAuthError, Url};

const ERROR_SUBJECT: &str = "the metadata of the authorization server";
const OAUTH_WELL_KNOWN: &str = "/.well-known/oauth-authorization-server";
const OPENID_WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// An authorization server with validated metadata.
#[derive(Clone)]
pub(super) struct AuthorizationServer {
    /// The issuer identifier exactly as written.
    pub(super) issuer: String,
    pub(super) origin: String,
    pub(super) token_endpoint: Url,
    pub(super) metadata: AuthorizationServerMetadata,
}

#[derive(Clone, Deserialize)]
pub(super) struct AuthorizationServerMetadata {
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
    mtls_endpoint_aliases: Option<MtlsEndpointAliases>,
}

/// Endpoints for clients with a certificate (RFC 8705, section 5).
#[derive(Clone, Deserialize)]
struct MtlsEndpointAliases {
    token_endpoint: Option<String>,
}

/// Fetches the metadata from all default locations, in the order of the MCP specification.
pub(super) async fn find_authorization_server(
    way: OAuthTransport<'_>,
    issuer: &str,
) -> Result<AuthorizationServer, OAuthError> {
    let place = way.parse_endpoint("the authorization server", issuer)?;
    if place.query().is_some() {
        return Err(invalid_response(ERROR_SUBJECT, &place, "the issuer has a query"));
    }
    // A document for exactly this issuer is valid at any location. Errors at other locations matter only if no
    // location has one.
    let mut amiss = None;
    for well_known in metadata_urls(&place) {
        match fetch_metadata(way, &well_known, issuer).await {
            Ok(Some(metadata)) => {
                let token = way.parse_endpoint("the place for tokens", &metadata.token_endpoint)?;
                let (issuer, origin) = (issuer.to_owned(), origin_text(&place));
                return Ok(AuthorizationServer { issuer, origin, token_endpoint: token, metadata });
            }
            // The server is unreachable, so the other locations would fail too.
            Err(OAuthError::Http { what, origin, source }) if is_unreachable(&source) => {
                return Err(OAuthError::Http { what, origin, source });
            }
            Ok(None) => {}
            Err(error) => amiss = amiss.or(Some(error)),
        }
    }
    Err(amiss.unwrap_or_else(|| invalid_response(ERROR_SUBJECT, &place, "there is none")))
}

fn is_unreachable(error: &HttpError) -> bool {
    matches!(
        error,
        HttpError::Connect { .. } | HttpError::Timeout { .. } | HttpError::EgressDenied(_)
    )
}

async fn fetch_metadata(
    way: OAuthTransport<'_>,
    url: &Url,
    issuer: &str,
) -> Result<Option<AuthorizationServerMetadata>, OAuthError> {
    let Some(document) = way.fetch_document(ERROR_SUBJECT, url).await? else { return Ok(None) };
    let metadata: AuthorizationServerMetadata = parse_document(ERROR_SUBJECT, url, document)?;
    // Compared byte by byte: a similar issuer may belong to another party.
    match metadata.issuer == issuer {
        true => Ok(Some(metadata)),
        false => {
            let (origin, found) = (origin_text(url), sanitize_text(&metadata.issuer));
            Err(OAuthError::WrongIssuer { what: ERROR_SUBJECT, origin, found })
        }
    }
}

fn metadata_urls(issuer: &Url) -> Vec<Url> {
    let place = |path: String| {
        let mut place = issuer.clone();
        place.set_path(&path);
        place
    };
    match issuer.path().trim_end_matches('/') {
        "" => vec![place(OAUTH_WELL_KNOWN.to_owned()), place(OPENID_WELL_KNOWN.to_owned())],
        path => vec![
            place(format!("{OAUTH_WELL_KNOWN}{path}")),
            place(format!("{OPENID_WELL_KNOWN}{path}")),
            place(format!("{path}{OPENID_WELL_KNOWN}")),
        ],
    }
}

impl AuthorizationServer {
    /// The token endpoint for clients with a certificate as written, if there is one.
    pub(super) fn mtls_token_endpoint(&self) -> Option<&str> {
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
            metadata_urls(&issuer.parse().unwrap()).into_iter().map(String::from).collect()
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
