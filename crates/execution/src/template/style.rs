//! How values become text: the styles of OpenAPI parameters, after RFC 6570.
//!
//! The tables are in OpenAPI 3.0.4 and 3.1.1, "Style Examples". Null, an empty list and an empty object are nothing
//! (RFC 6570, 2.3), and so are null members. A list or object within a list or object is written as JSON, because no
//! style says how.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;

/// Everything but RFC 3986's unreserved characters.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// What RFC 6265 does not allow in a cookie's value.
const NOT_IN_COOKIES: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b',').add(b';').add(b'\\');
/// What a url parser would encode in a path by itself, or what no path should hold.
pub(super) const NOT_IN_PATHS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
/// Likewise in a query.
pub(super) const NOT_IN_QUERIES: &AsciiSet = &NOT_IN_PATHS.add(b'#').add(b'\'').add(b'\\');
/// What OpenAPI's `allowReserved` leaves as it is. Not `&`, `#`, `+` and `'`: a query reads them as its own, or a url
/// parser rewrites them.
const ALLOWED_RESERVED: &[u8] = b":/?[]@!$()*,;=";

/// What is escaped in which place.
#[derive(Clone, Copy)]
pub(super) enum Encoding {
    Percent,
    AllowReserved,
    Cookie,
    Plain,
}

impl Encoding {
    /// In a query, where OpenAPI may leave reserved characters as they are.
    pub(super) fn of_query(reserved: bool) -> Self {
        if reserved { Self::AllowReserved } else { Self::Percent }
    }

    pub(super) fn value(self, text: &str) -> String {
        match self {
            Self::Percent => percent_encoded(text),
            Self::AllowReserved => reserved_allowed(text),
            Self::Cookie => cookie_encoded(&text.replace('%', "%25")),
            Self::Plain => text.to_owned(),
        }
    }

    /// As a value, but `=` ends a name.
    pub(super) fn name(self, text: &str) -> String {
        match self {
            Self::AllowReserved => reserved_allowed(text).replace('=', "%3D"),
            Self::Cookie | Self::Percent => percent_encoded(text),
            Self::Plain => text.to_owned(),
        }
    }
}

pub(crate) fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// As it is where a cookie can hold it: few servers decode cookies.
pub(crate) fn cookie_encoded(text: &str) -> String {
    utf8_percent_encode(text, NOT_IN_COOKIES).to_string()
}

/// Reserved characters and what is percent-encoded already stay as they are (RFC 6570, 3.2.3).
fn reserved_allowed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let [first, behind @ ..] = bytes {
        let is_encoded =
            matches!(bytes, [b'%', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
        if is_encoded || ALLOWED_RESERVED.contains(first) {
            out.push(char::from(*first));
        } else {
            out.extend(percent_encoding::percent_encode(&[*first], RESERVED));
        }
        bytes = behind;
    }
    out
}

/// A value as far as styles look into it, encoded.
#[derive(Debug, PartialEq)]
pub(super) enum Shape {
    Nothing,
    One(String),
    List(Vec<String>),
    Object(Vec<(String, String)>),
}

impl Shape {
    pub(super) fn of(value: Option<&Json>, encoding: Encoding) -> Self {
        let write = |value: &Json| encoding.value(&text(value));
        match value {
            None | Some(Json::Null) => Self::Nothing,
            Some(Json::Array(items)) => {
                let items = items.iter().filter(|item| !item.is_null());
                Self::List(items.map(write).collect()).or_nothing()
            }
            Some(Json::Object(members)) => {
                let members = members.iter().filter(|(_, value)| !value.is_null());
                let members = members.map(|(name, value)| (encoding.name(name), write(value)));
                Self::Object(members.collect()).or_nothing()
            }
            Some(value) => Self::One(write(value)),
        }
    }

    /// The same, but an object stays whole, as JSON: whoever gives one does not name parameters.
    pub(super) fn whole(value: Option<&Json>, encoding: Encoding) -> Self {
        match value {
            Some(object @ Json::Object(members)) if !members.is_empty() => {
                Self::One(encoding.value(&text(object)))
            }
            value => Self::of(value, encoding),
        }
    }

    fn or_nothing(self) -> Self {
        match &self {
            Self::List(items) if items.is_empty() => Self::Nothing,
            Self::Object(members) if members.is_empty() => Self::Nothing,
            Self::Nothing | Self::One(_) | Self::List(_) | Self::Object(_) => self,
        }
    }

    /// One text without the parameter's name: `a,b`, `k,v,k,v`, or exploded `k=v,k=v`.
    pub(super) fn flat(&self, separator: &str, explode: bool) -> Option<String> {
        let between = if explode { "=" } else { separator };
        match self {
            Self::Nothing => None,
            Self::One(value) => Some(value.clone()),
            Self::List(items) => Some(items.join(separator)),
            Self::Object(members) => {
                let members =
                    members.iter().map(|(name, value)| [name.as_str(), value].join(between));
                Some(members.collect::<Vec<_>>().join(separator))
            }
        }
    }

    /// Pairs with the parameter's name: `a=1,2`, or exploded `a=1` and `a=2`, or `k=v` for every member.
    pub(super) fn pairs(&self, name: &str, separator: &str, explode: bool) -> Vec<String> {
        let pair = |name: &str, value: &str| format!("{name}={value}");
        match self {
            Self::List(items) if explode => items.iter().map(|item| pair(name, item)).collect(),
            Self::Object(members) if explode => {
                members.iter().map(|(name, value)| pair(name, value)).collect()
            }
            Self::Nothing | Self::One(_) | Self::List(_) | Self::Object(_) => {
                self.flat(separator, false).iter().map(|value| pair(name, value)).collect()
            }
        }
    }
}

/// A string as it is, anything else as compact JSON.
pub(super) fn text(value: &Json) -> Cow<'_, str> {
    match value {
        Json::String(text) => Cow::Borrowed(text),
        value => Cow::Owned(value.to_string()),
    }
}
