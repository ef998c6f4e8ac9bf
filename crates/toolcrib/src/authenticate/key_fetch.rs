//! Reads the keys of an issuer from their location: completely and within limits, or not at all.

use std::path::{Path, PathBuf};
use std::time::Duration;

use access::{InvalidKeySet, KeySet};
use limits::bounded_read;
use limits::bounded_read::BoundedReadError;
use serde::Deserialize;
use upstream::http::{ExchangeLimits, Host, HttpClient, HttpError, Url};

use super::issuer_config::IssuerError;

/// The largest key set or metadata document of an issuer, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The location of an issuer's keys.
#[derive(Clone, Debug)]
pub(super) enum KeyLocation {
    /// The `jwks_uri` in the issuer's metadata.
    Discovery {
        issuer: Box<str>,
        url: Url,
    },
    Jwks(Url),
    JwksFile(PathBuf),
    PemFile(PathBuf),
}

/// Why keys could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyFetchError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("`{what}` answered with status {status}")]
    Status { what: String, status: u16 },
    #[error("it was not all there within {deadline:?}")]
    TooSlow { deadline: Duration },
    #[error("the issuer's document is not JSON with an `issuer` and a `jwks_uri`")]
    NotADocument,
    #[error("the issuer's document is of another issuer: the names must be exactly the same")]
    OtherIssuer,
    #[error("the issuer's `jwks_uri` is not an `https` url")]
    NotSecure,
    #[error("the file `{path}` cannot be read")]
    File { path: String, source: BoundedReadError },
    #[error(transparent)]
    Keys(#[from] InvalidKeySet),
}

/// The metadata of an issuer (OpenID Connect Discovery 1.0, section 3; RFC 8414, section 2).
#[derive(Deserialize)]
struct IssuerMetadata {
    issuer: String,
    jwks_uri: Url,
}

impl KeyLocation {
    pub(super) fn from_issuer(issuer: &str) -> Result<Self, IssuerError> {
        let url: Option<Url> = issuer.parse().ok();
        let url = url.filter(|url| matches!(url.scheme(), "https" | "http"));
        let url = url.ok_or_else(|| IssuerError::NoUrl { issuer: issuer.to_owned() })?;
        Ok(Self::Discovery { issuer: issuer.into(), url })
    }

    /// The URL, if an attacker on the network path could change the keys. Loopback has no network path.
    pub(super) fn plain_http_url(&self) -> Option<&Url> {
        let (Self::Discovery { url, .. } | Self::Jwks(url)) = self else { return None };
        let here = match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        };
        (url.scheme() != "https" && !here).then_some(url)
    }

    /// Reads the keys; the deadline covers all requests together.
    pub(super) async fn read_keys(
        &self,
        client: &HttpClient,
        deadline: Duration,
    ) -> Result<KeySet, KeyFetchError> {
        let read = async {
            match self {
                Self::Discovery { issuer, url } => {
                    let keys = discover_keys_url(issuer, url, client, deadline).await?;
                    Ok(KeySet::from_jwks(&fetch_document(client, &keys, deadline).await?)?)
                }
                Self::Jwks(url) => {
                    Ok(KeySet::from_jwks(&fetch_document(client, url, deadline).await?)?)
                }
                Self::JwksFile(path) => Ok(KeySet::from_jwks(&read_local_file(path).await?)?),
                Self::PemFile(path) => {
                    let bytes = read_local_file(path).await?;
                    let text = str::from_utf8(&bytes).map_err(|_| InvalidKeySet::NotPem)?;
                    Ok(KeySet::from_pem(text)?)
                }
            }
        };
        let read = tokio::time::timeout(deadline, read).await;
        read.unwrap_or(Err(KeyFetchError::TooSlow { deadline }))
    }
}

async fn read_local_file(path: &Path) -> Result<Vec<u8>, KeyFetchError> {
    let path = path.to_owned();
    let shown = path.display().to_string();
    let read = tokio::task::spawn_blocking(move || bounded_read::read_file(&path, MAX_BYTES)).await;
    let read = read.expect("reading a file does not panic");
    read.map_err(|source| KeyFetchError::File { path: shown, source })
}

async fn fetch_document(
    client: &HttpClient,
    url: &Url,
    deadline: Duration,
) -> Result<Vec<u8>, KeyFetchError> {
    let answer =
        client.get_document(url, ExchangeLimits { deadline, max_bytes: MAX_BYTES }).await?;
    match answer.status {
        200 => Ok(answer.body),
        status => Err(KeyFetchError::Status { what: without_query(url), status }),
    }
}

/// The URL without its query, which may contain secrets.
fn without_query(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// The `jwks_uri` that the issuer publishes. The document must be the issuer's own, or anyone could speak for it.
async fn discover_keys_url(
    issuer: &str,
    url: &Url,
    client: &HttpClient,
    deadline: Duration,
) -> Result<Url, KeyFetchError> {
    let [openid, oauth] = well_known_urls(url);
    let document = match fetch_metadata(issuer, &openid, client, deadline).await {
        // The host is unreachable, so the second URL is too.
        Err(
            error @ KeyFetchError::Http(
                HttpError::Connect { .. } | HttpError::Timeout { .. } | HttpError::EgressDenied(_),
            ),
        ) => return Err(error),
        // Report the first error if the second URL has no document either.
        Err(error) => fetch_metadata(issuer, &oauth, client, deadline).await.map_err(|_| error)?,
        Ok(document) => document,
    };
    let keys = document.jwks_uri;
    // An issuer without TLS, which is always a private one, has its keys on the same host.
    let beside = url.scheme() == "http" && keys.scheme() == "http" && keys.host() == url.host();
    if keys.scheme() != "https" && !beside {
        return Err(KeyFetchError::NotSecure);
    }
    Ok(keys)
}

async fn fetch_metadata(
    issuer: &str,
    url: &Url,
    client: &HttpClient,
    deadline: Duration,
) -> Result<IssuerMetadata, KeyFetchError> {
    let document = fetch_document(client, url, deadline).await?;
    let document: IssuerMetadata =
        serde_json::from_slice(&document).map_err(|_| KeyFetchError::NotADocument)?;
    match document.issuer == issuer {
        true => Ok(document),
        false => Err(KeyFetchError::OtherIssuer),
    }
}

/// The metadata URLs: OpenID Connect appends the well-known part to the path, RFC 8414 inserts it before.
fn well_known_urls(issuer: &Url) -> [Url; 2] {
    let path = issuer.path().trim_end_matches('/');
    let at = |path: String| {
        let mut url = issuer.clone();
        url.set_path(&path);
        url.set_query(None);
        url.set_fragment(None);
        url
    };
    [
        at(format!("{path}/.well-known/openid-configuration")),
        at(format!("/.well-known/oauth-authorization-server{path}")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_queried_at_two_well_known_urls() {
        let places = |url: &str| well_known_urls(&url.parse().unwrap()).map(String::from);
        let root = [
            "https://id.example/.well-known/openid-configuration",
            "https://id.example/.well-known/oauth-authorization-server",
        ];
        assert_eq!(places("https://id.example"), root);
        assert_eq!(places("https://id.example/?a#b"), root);
        let below = [
            "https://id.example/realms/a/.well-known/openid-configuration",
            "https://id.example/.well-known/oauth-authorization-server/realms/a",
        ];
        assert_eq!(places("https://id.example/realms/a"), below);
        assert_eq!(places("https://id.example/realms/a/"), below);
    }

    #[test]
    fn only_an_http_url_can_be_queried() {
        for issuer in ["accounts.example", "urn:example:id", "file:///etc/passwd", ""] {
            assert!(
                matches!(KeyLocation::from_issuer(issuer), Err(IssuerError::NoUrl { .. })),
                "{issuer}"
            );
        }
    }
}
