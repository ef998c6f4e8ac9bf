//! The base URL of each operation of a specification (requirement O7).
//!
//! It is always literal text: a server variable gets its default, never an argument.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use upstream::egress::MAX_URL;
use url::Url;

use super::operation::OpenApiOperation;
use super::specification_documents::DocumentValue;

/// Characters that must be percent-encoded in a path (RFC 3986, 3.3). `%` is kept: specifications write escapes.
const PATH_ENCODE_SET: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The base URL of operations that have no servers of their own, neither directly nor on their path.
#[derive(Debug)]
pub(super) struct OpenApiServers {
    /// The base URL from the settings, which overrides the specification.
    base_override: Option<String>,
    /// The URL of the specification.
    address: Option<Url>,
    root: String,
}

impl OpenApiServers {
    pub(super) fn new(given: Option<&Url>, address: Option<Url>, root: DocumentValue<'_>) -> Self {
        let mut servers = Self {
            base_override: given.map(|url| trim_url(url.clone())),
            address,
            root: String::new(),
        };
        servers.root = match root.get("swagger") {
            Some(_) => servers.swagger_base(root),
            None => servers.first_server(root).unwrap_or_else(|| servers.resolve_url("/")),
        };
        servers
    }

    /// The base URL of an operation, such as `https://api.example/v1`; only a path if there is no usable host.
    pub(super) fn base_url(&self, operation: &OpenApiOperation<'_>) -> String {
        if let Some(given) = &self.base_override {
            return given.clone();
        }
        let own = operation.most_specific_first().find_map(|place| self.first_server(place));
        own.unwrap_or_else(|| self.root.clone())
    }

    /// Whether the base URL of an operation has a host.
    pub(super) fn has_host(&self, operation: &OpenApiOperation<'_>) -> bool {
        self.base_url(operation).contains("://")
    }

    fn first_server(&self, place: DocumentValue<'_>) -> Option<String> {
        let server = place.list_items("servers").next()?;
        let url = server.string_field("url")?;
        let variables = server.get("variables");
        let value = |name: &str| {
            let variable = variables?.get(name)?;
            let said = variable.get("default").or_else(|| variable.list_items("enum").next())?;
            said.value.scalar_string()
        };
        Some(fill_variables(url, value).map(|url| self.resolve_url(&url)).unwrap_or_default())
    }

    fn swagger_base(&self, root: DocumentValue<'_>) -> String {
        let path = root.string_field("basePath").unwrap_or("/");
        let schemes: Vec<&str> =
            root.list_items("schemes").filter_map(|scheme| scheme.value.as_str()).collect();
        let scheme = match &self.address {
            _ if schemes.contains(&"https") => "https",
            _ if schemes.contains(&"http") => "http",
            Some(address) => address.scheme(),
            None => "https",
        };
        match root.string_field("host") {
            Some(host) => {
                self.resolve_url(&format!("{scheme}://{host}/{}", path.trim_start_matches('/')))
            }
            None => self.resolve_url(path),
        }
    }

    /// Resolves a URL relative to that of the specification.
    fn resolve_url(&self, text: &str) -> String {
        if let Ok(url) = Url::parse(text) {
            return if is_plain_web_url(&url) { trim_url(url) } else { String::new() };
        }
        if let Some(joined) = self.address.as_ref().and_then(|address| address.join(text).ok()) {
            return if is_plain_web_url(&joined) { trim_url(joined) } else { String::new() };
        }
        if text.contains("://") {
            return String::new();
        }
        if text.starts_with("//") {
            return Url::parse(&format!("https:{text}")).map(trim_url).unwrap_or_default();
        }
        let path = encode_literal_path(text.trim_matches('/'));
        if path.is_empty() { path } else { format!("/{path}") }
    }
}

fn is_plain_web_url(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
}

/// The URL without query, fragment and trailing slash; paths start with a slash.
fn trim_url(mut url: Url) -> String {
    url.set_query(None);
    url.set_fragment(None);
    String::from(url).trim_end_matches('/').to_owned()
}

/// Fills in every `{name}`; fails if one has no value or the result is too long.
fn fill_variables(text: &str, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut filled = String::new();
    for piece in split_pieces(text) {
        match piece {
            PathPiece::Text(text) => filled.push_str(text),
            PathPiece::Name(name) => filled.push_str(&value(name)?),
        }
        if MAX_URL < filled.len() {
            return None;
        }
    }
    Some(filled)
}

/// A part of a text with `{name}` placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathPiece<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// Splits a text into literals and `{name}` placeholders; an unmatched brace is literal.
pub(super) fn split_pieces(text: &str) -> impl Iterator<Item = PathPiece<'_>> {
    let mut rest = text;
    let mut name = None;
    std::iter::from_fn(move || {
        if let Some(name) = name.take() {
            return Some(PathPiece::Name(name));
        }
        if rest.is_empty() {
            return None;
        }
        let Some((end, close)) = find_variable(rest) else {
            return Some(PathPiece::Text(std::mem::take(&mut rest)));
        };
        let (before, from) = rest.split_at(end);
        let (inner, after) = from.split_at(close - end);
        let inner = inner.trim_start_matches('{');
        rest = after.strip_prefix('}').unwrap_or_default();
        if before.is_empty() {
            return Some(PathPiece::Name(inner));
        }
        name = Some(inner);
        Some(PathPiece::Text(before))
    })
}

/// The byte positions of the first `{name}`'s braces.
fn find_variable(text: &str) -> Option<(usize, usize)> {
    let mut open = None;
    for (at, c) in text.char_indices() {
        match c {
            '{' => open = Some(at),
            '}' => {
                if let Some(open) = open.take()
                    && open + 1 < at
                {
                    return Some((open, at));
                }
            }
            _ => {}
        }
    }
    None
}

/// Percent-encodes a text of the specification for use in a path.
pub(super) fn encode_literal_path(text: &str) -> String {
    utf8_percent_encode(text, PATH_ENCODE_SET).to_string()
}
