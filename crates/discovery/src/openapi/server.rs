//! The base URL of each operation of a specification (requirement O7).
//!
//! It is always literal text: a server variable gets its default, never an argument.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use upstream::egress::MAX_URL;
use url::Url;

use super::documents::Place;
use super::operation::Operation;

/// Characters that must be percent-encoded in a path (RFC 3986, 3.3). `%` is kept: specifications write escapes.
const PATH: &AsciiSet = &CONTROLS
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
pub(super) struct Servers {
    /// The base URL from the settings, which overrides the specification.
    given: Option<String>,
    /// The URL of the specification.
    address: Option<Url>,
    root: String,
}

impl Servers {
    pub(super) fn new(given: Option<&Url>, address: Option<Url>, root: Place<'_>) -> Self {
        let mut servers =
            Self { given: given.map(|url| trimmed(url.clone())), address, root: String::new() };
        servers.root = match root.get("swagger") {
            Some(_) => servers.swagger(root),
            None => servers.first(root).unwrap_or_else(|| servers.resolved("/")),
        };
        servers
    }

    /// The base URL of an operation, such as `https://api.example/v1`; only a path if there is no usable host.
    pub(super) fn base(&self, operation: &Operation<'_>) -> String {
        if let Some(given) = &self.given {
            return given.clone();
        }
        let own = operation.nearest().find_map(|place| self.first(place));
        own.unwrap_or_else(|| self.root.clone())
    }

    /// Whether the base URL of an operation has a host.
    pub(super) fn has_host(&self, operation: &Operation<'_>) -> bool {
        self.base(operation).contains("://")
    }

    fn first(&self, place: Place<'_>) -> Option<String> {
        let server = place.items("servers").next()?;
        let url = server.text("url")?;
        let variables = server.get("variables");
        let value = |name: &str| {
            let variable = variables?.get(name)?;
            let said = variable.get("default").or_else(|| variable.items("enum").next())?;
            said.value.scalar()
        };
        Some(filled(url, value).map(|url| self.resolved(&url)).unwrap_or_default())
    }

    fn swagger(&self, root: Place<'_>) -> String {
        let path = root.text("basePath").unwrap_or("/");
        let schemes: Vec<&str> =
            root.items("schemes").filter_map(|scheme| scheme.value.as_str()).collect();
        let scheme = match &self.address {
            _ if schemes.contains(&"https") => "https",
            _ if schemes.contains(&"http") => "http",
            Some(address) => address.scheme(),
            None => "https",
        };
        match root.text("host") {
            Some(host) => {
                self.resolved(&format!("{scheme}://{host}/{}", path.trim_start_matches('/')))
            }
            None => self.resolved(path),
        }
    }

    /// Resolves a URL relative to that of the specification.
    fn resolved(&self, text: &str) -> String {
        if let Ok(url) = Url::parse(text) {
            return if is_web(&url) { trimmed(url) } else { String::new() };
        }
        if let Some(joined) = self.address.as_ref().and_then(|address| address.join(text).ok()) {
            return if is_web(&joined) { trimmed(joined) } else { String::new() };
        }
        if text.contains("://") {
            return String::new();
        }
        if text.starts_with("//") {
            return Url::parse(&format!("https:{text}")).map(trimmed).unwrap_or_default();
        }
        let path = literal_path(text.trim_matches('/'));
        if path.is_empty() { path } else { format!("/{path}") }
    }
}

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
}

/// The URL without query, fragment and trailing slash; paths start with a slash.
fn trimmed(mut url: Url) -> String {
    url.set_query(None);
    url.set_fragment(None);
    String::from(url).trim_end_matches('/').to_owned()
}

/// Fills in every `{name}`; fails if one has no value or the result is too long.
fn filled(text: &str, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut filled = String::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Name(name) => filled.push_str(&value(name)?),
        }
        if MAX_URL < filled.len() {
            return None;
        }
    }
    Some(filled)
}

/// A part of a text with `{name}` placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// Splits a text into literals and `{name}` placeholders; an unmatched brace is literal.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    let mut name = None;
    std::iter::from_fn(move || {
        if let Some(name) = name.take() {
            return Some(Piece::Name(name));
        }
        if rest.is_empty() {
            return None;
        }
        let Some((end, close)) = variable(rest) else {
            return Some(Piece::Text(std::mem::take(&mut rest)));
        };
        let (before, from) = rest.split_at(end);
        let (inner, after) = from.split_at(close - end);
        let inner = inner.trim_start_matches('{');
        rest = after.strip_prefix('}').unwrap_or_default();
        if before.is_empty() {
            return Some(Piece::Name(inner));
        }
        name = Some(inner);
        Some(Piece::Text(before))
    })
}

/// The byte positions of the first `{name}`'s braces.
fn variable(text: &str) -> Option<(usize, usize)> {
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
pub(super) fn literal_path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}
