//! Who gives tokens for a server: the metadata of a protected resource (RFC 9728).

use serde::Deserialize;

use super::fetch::{Way, parsed, unusable};
use super::{OAuthError, Url};
use crate::http::origin;

const WHAT: &str = "the metadata of the resource";
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// More are not looked at.
const MAX_SERVERS: usize = 16;

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    /// Exactly as it was written: that is what tokens are asked for.
    pub(super) id: String,
    /// At least one.
    pub(super) issuers: Vec<String>,
    pub(super) scopes: Vec<String>,
}

#[derive(Deserialize)]
struct Document {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// Looks where the server said, if it did, otherwise at the two places where it is usual. A server that has none is its own
/// authorization server, as all were in 2025-03-26.
pub(super) async fn find(
    way: Way<'_>,
    server: &Url,
    metadata: Option<&str>,
) -> Result<Resource, OAuthError> {
    let named = metadata.map(|text| named_place(server, text)).transpose()?;
    let is_named = named.is_some();
    for place in named.map_or_else(|| usual_places(server), |named| vec![named]) {
        if let Some(document) = way.document(WHAT, &place).await? {
            return checked(server, parsed(WHAT, &place, document)?);
        }
    }
    match is_named {
        true => Err(unusable(WHAT, server, "there is none where it says")),
        false => {
            Ok(Resource { id: canonical(server), issuers: vec![origin(server)], scopes: vec![] })
        }
    }
}

/// Where the server says. It speaks for its own origin and no other: nothing is asked elsewhere, nor where it can be overheard
/// if the server itself cannot.
fn named_place(server: &Url, text: &str) -> Result<Url, OAuthError> {
    let place = server.join(text);
    let place = place.map_err(|_| unusable(WHAT, server, "its place is no url"))?;
    match place.origin() == server.origin() {
        true => Ok(place),
        false => Err(unusable(WHAT, server, "the server says that it is at another origin")),
    }
}

fn usual_places(server: &Url) -> Vec<Url> {
    let place = |path: &str, query: Option<&str>| {
        let mut place = server.clone();
        place.set_path(path);
        place.set_query(query);
        place.set_fragment(None);
        place
    };
    let root = place(WELL_KNOWN, None);
    match server.path().trim_end_matches('/') {
        "" if server.query().is_none() => vec![root],
        path => vec![place(&format!("{WELL_KNOWN}{path}"), server.query()), root],
    }
}

/// The server itself, or what it is a part of. Tokens for anything else would be of use to somebody else.
fn checked(server: &Url, document: Document) -> Result<Resource, OAuthError> {
    let wrong = || OAuthError::WrongResource { origin: origin(server) };
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
    issuers.truncate(MAX_SERVERS);
    if issuers.is_empty() {
        return Err(unusable(WHAT, server, "it names no authorization server"));
    }
    Ok(Resource { id: document.resource, issuers, scopes: document.scopes_supported })
}

/// Without what makes no difference, as the specification of MCP writes it.
fn canonical(server: &Url) -> String {
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
        let document = Document {
            resource: resource.to_owned(),
            authorization_servers: vec!["https://as".to_owned()],
            scopes_supported: vec![],
        };
        checked(&url(server), document).is_ok_and(|found| found.id == resource)
    }

    #[test]
    fn a_resource_is_the_server_or_what_it_is_a_part_of() {
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
    fn metadata_that_a_server_names_is_at_its_own_origin() {
        let server = url("https://a.example/mcp");
        let place = |text: &str| named_place(&server, text).ok().map(String::from);
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
    fn metadata_is_looked_for_below_the_path_and_then_at_the_root() {
        let places = |server: &str| -> Vec<String> {
            usual_places(&url(server)).into_iter().map(String::from).collect()
        };
        let root = "https://a.example/.well-known/oauth-protected-resource";
        assert_eq!(places("https://a.example"), [root]);
        assert_eq!(places("https://a.example/b/mcp"), [format!("{root}/b/mcp"), root.to_owned()]);
        assert_eq!(places("https://a.example/b?c=d#e")[0], format!("{root}/b?c=d"));
    }
}
