//! Metadata of a protected resource (RFC 9728), which names the authorization servers of an MCP server.

use serde::Deserialize;
use upstream::http::origin_text;

use super::oauth_requests::{OAuthTransport, invalid_response, parse_document};
use super::{OAuthError, Url};

const ERROR_SUBJECT: &str = "the metadata of the resource";
const WELL_KNOWN_PATH: &str = "/.well-known/oauth-protected-resource";
/// Further issuers are ignored.
const MAX_ISSUERS: usize = 16;

/// The validated metadata of a protected resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceMetadata {
    /// The resource identifier exactly as written, because tokens are requested for it.
    pub(super) id: String,
    /// At least one.
    pub(super) issuers: Vec<String>,
    pub(super) scopes: Vec<String>,
}

#[derive(Deserialize)]
struct ResourceDocument {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// Fetches the metadata from the URL that the server named, otherwise from the two default locations. A server without
/// metadata is its own authorization server, as all were in 2025-03-26.
pub(super) async fn find_resource(
    way: OAuthTransport<'_>,
    server: &Url,
    metadata: Option<&str>,
) -> Result<ResourceMetadata, OAuthError> {
    let named = metadata.map(|text| named_metadata_url(server, text)).transpose()?;
    let is_named = named.is_some();
    for place in named.map_or_else(|| well_known_urls(server), |named| vec![named]) {
        if let Some(document) = way.fetch_document(ERROR_SUBJECT, &place).await? {
            return check_document(server, parse_document(ERROR_SUBJECT, &place, document)?);
        }
    }
    match is_named {
        true => Err(invalid_response(ERROR_SUBJECT, server, "there is none where it says")),
        false => Ok(ResourceMetadata {
            id: canonical_url(server),
            issuers: vec![origin_text(server)],
            scopes: vec![],
        }),
    }
}

/// The metadata URL that the server named. It must have the server's own origin, so that no other party answers for the
/// server and the request is encrypted if the server is.
fn named_metadata_url(server: &Url, text: &str) -> Result<Url, OAuthError> {
    let place = server.join(text);
    let place =
        place.map_err(|_| invalid_response(ERROR_SUBJECT, server, "its place is no url"))?;
    match place.origin() == server.origin() {
        true => Ok(place),
        false => Err(invalid_response(
            ERROR_SUBJECT,
            server,
            "the server says that it is at another origin",
        )),
    }
}

fn well_known_urls(server: &Url) -> Vec<Url> {
    let place = |path: &str, query: Option<&str>| {
        let mut place = server.clone();
        place.set_path(path);
        place.set_query(query);
        place.set_fragment(None);
        place
    };
    let root = place(WELL_KNOWN_PATH, None);
    match server.path().trim_end_matches('/') {
        "" if server.query().is_none() => vec![root],
        path => vec![place(&format!("{WELL_KNOWN_PATH}{path}"), server.query()), root],
    }
}

/// Checks that the resource is the server or contains it. A token for another resource could be abused there.
fn check_document(
    server: &Url,
    document: ResourceDocument,
) -> Result<ResourceMetadata, OAuthError> {
    let wrong = || OAuthError::WrongResource { origin: origin_text(server) };
    let resource: Url = document.resource.parse().map_err(|_| wrong())?;
    let above = resource.path().trim_end_matches('/');
    let below = server.path().strip_prefix(above).ok_or_else(wrong)?;
    let is_part = below.is_empty() || below.starts_with('/');
    let says_more = resource.query().is_some_and(|query| Some(query) != server.query());
    let says_more = says_more || resource.fragment().is_some();
    if resource.origin() != server.origin() || !is_part || says_more {
        return Err(wrong());
    }
    let mut issuers = document.authorization_servers;
    issuers.truncate(MAX_ISSUERS);
    if issuers.is_empty() {
        return Err(invalid_response(ERROR_SUBJECT, server, "it names no authorization server"));
    }
    Ok(ResourceMetadata { id: document.resource, issuers, scopes: document.scopes_supported })
}

/// The URL in the canonical form of the MCP specification.
fn canonical_url(server: &Url) -> String {
    let mut server = server.clone();
    server.set_fragment(None);
    match (server.path(), server.query()) {
        ("/", None) => server.as_str().trim_end_matches('/').to_owned(),
        _ => server.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn accepts(server: &str, resource: &str) -> bool {
        let document = ResourceDocument {
            resource: resource.to_owned(),
            authorization_servers: vec!["https://as".to_owned()],
            scopes_supported: vec![],
        };
        check_document(&url(server), document).is_ok_and(|found| found.id == resource)
    }

    #[test]
    fn a_resource_must_be_the_server_or_contain_it() {
        let server = "https://a.example/b/mcp";
        for resource in ["", "/", "/b", "/b/", "/b/mcp"].map(|it| format!("https://a.example{it}"))
        {
            assert!(accepts(server, &resource), "{resource}");
        }
        for resource in [
            "https://evil.example/b/mcp",
            "http://a.example/b/mcp",
            "https://a.example:444/b/mcp",
            "https://a.example/b/mc",
            "https://a.example/b/mcp/more",
            "https://a.example/b/mcp#here",
            "https://a.example/b/mcp?tenant=other",
            "nonsense",
        ] {
            assert!(!accepts(server, resource), "{resource}");
        }
    }

    #[test]
    fn a_named_metadata_url_must_have_the_origin_of_the_server() {
        let server = url("https://a.example/mcp");
        let place = |text: &str| named_metadata_url(&server, text).ok().map(String::from);
        for text in ["/about", "https://a.example/about", "https://a.example:443/about"] {
            assert_eq!(place(text).as_deref(), Some("https://a.example/about"), "{text}");
        }
        for text in [
            "http://a.example/about",
            "https://evil.example/about",
            "//evil.example/about",
            "https://a.example:8443/about",
            "https://a.example@evil.example/about",
            "file:///etc/passwd",
            "https://",
        ] {
            assert_eq!(place(text), None, "{text}");
        }
    }

    #[test]
    fn default_metadata_locations_are_below_the_path_and_at_the_root() {
        let places = |server: &str| -> Vec<String> {
            well_known_urls(&url(server)).into_iter().map(String::from).collect()
        };
        let root = "https://a.example/.well-known/oauth-protected-resource";
        assert_eq!(places("https://a.example"), [root]);
        assert_eq!(places("https://a.example/b/mcp"), [format!("{root}/b/mcp"), root.to_owned()]);
        assert_eq!(places("https://a.example/b?c=d#e")[0], format!("{root}/b?c=d"));
    }
}
