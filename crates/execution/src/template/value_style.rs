//! Converts values to text by the styles of OpenAPI parameters, which follow RFC 6570.
//!
//! The tables are in OpenAPI 3.0.4 and 3.1.1, "Style Examples". Null, an empty list and an empty object count as
//! missing (RFC 6570, 2.3), and so do null fields. A list or object within a list or object is written as JSON, because
//! no style defines it.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;

/// All characters except the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Characters that RFC 6265 forbids in the value of a cookie.
const NOT_IN_COOKIES: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b',').add(b';').add(b'\\');
/// Characters that a URL parser would encode in a path, or that no path should contain.
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
/// Characters that a URL parser would encode in a query, or that no query should contain.
pub(super) const NOT_IN_QUERIES: &AsciiSet = &NOT_IN_PATHS.add(b'#').add(b'\'').add(b'\\');
/// Characters that `allowReserved` of OpenAPI leaves unencoded. Not `&`, `#`, `+` and `'`: they have a meaning in a
/// query, or a URL parser rewrites them.
const ALLOWED_RESERVED: &[u8] = b":/?[]@!$()*,;=";

/// The escaping of a position.
#[derive(Clone, Copy)]
pub(super) enum ValueEncoding {
    Percent,
    AllowReserved,
    Cookie,
    Plain,
}

impl ValueEncoding {
    /// The encoding of a query, where OpenAPI may allow reserved characters.
    pub(super) fn for_query(reserved: bool) -> Self {
        if reserved { Self::AllowReserved } else { Self::Percent }
    }

    pub(super) fn encode_value(self, text: &str) -> String {
        match self {
            Self::Percent => percent_encoded(text),
            Self::AllowReserved => encode_allowing_reserved(text),
            Self::Cookie => cookie_encoded(&text.replace('%', "%25")),
            Self::Plain => text.to_owned(),
        }
    }

    /// Encodes a name like a value, but also escapes `=`, which ends a name.
    pub(super) fn encode_name(self, text: &str) -> String {
        match self {
            Self::AllowReserved => encode_allowing_reserved(text).replace('=', "%3D"),
            Self::Cookie | Self::Percent => percent_encoded(text),
            Self::Plain => text.to_owned(),
        }
    }
}

pub(crate) fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Encodes only characters that a cookie cannot contain, because few servers decode cookies.
pub(crate) fn cookie_encoded(text: &str) -> String {
    utf8_percent_encode(text, NOT_IN_COOKIES).to_string()
}

/// Leaves reserved characters and existing percent-encodings unchanged (RFC 6570, 3.2.3).
fn encode_allowing_reserved(text: &str) -> String {
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

/// An encoded value, with the structure that styles distinguish.
#[derive(Debug, PartialEq)]
pub(super) enum ValueShape {
    Nothing,
    One(String),
    List(Vec<String>),
    Object(Vec<(String, String)>),
}

impl ValueShape {
    pub(super) fn from_value(value: Option<&Json>, encoding: ValueEncoding) -> Self {
        let write = |value: &Json| encoding.encode_value(&value_text(value));
        match value {
            None | Some(Json::Null) => Self::Nothing,
            Some(Json::Array(items)) => {
                let items = items.iter().filter(|item| !item.is_null());
                Self::List(items.map(write).collect()).or_nothing()
            }
            Some(Json::Object(members)) => {
                let members = members.iter().filter(|(_, value)| !value.is_null());
                let members =
                    members.map(|(name, value)| (encoding.encode_name(name), write(value)));
                Self::Object(members.collect()).or_nothing()
            }
            Some(value) => Self::One(write(value)),
        }
    }

    /// Keeps an object as one JSON value, so that the caller cannot choose parameter names.
    pub(super) fn from_whole_value(value: Option<&Json>, encoding: ValueEncoding) -> Self {
        match value {
            Some(object @ Json::Object(members)) if !members.is_empty() => {
                Self::One(encoding.encode_value(&value_text(object)))
            }
            value => Self::from_value(value, encoding),
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
    pub(super) fn to_flat_text(&self, separator: &str, explode: bool) -> Option<String> {
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

    /// Pairs with the parameter's name: `a=1,2`, or exploded `a=1` and `a=2`, or `k=v` for each field.
    pub(super) fn to_pairs(&self, name: &str, separator: &str, explode: bool) -> Vec<String> {
        let pair = |name: &str, value: &str| format!("{name}={value}");
        match self {
            Self::List(items) if explode => items.iter().map(|item| pair(name, item)).collect(),
            Self::Object(members) if explode => {
                members.iter().map(|(name, value)| pair(name, value)).collect()
            }
            Self::Nothing | Self::One(_) | Self::List(_) | Self::Object(_) => {
                self.to_flat_text(separator, false).iter().map(|value| pair(name, value)).collect()
            }
        }
    }
}

/// A string unchanged, any other value as compact JSON.
pub(super) fn value_text(value: &Json) -> Cow<'_, str> {
    match value {
        Json::String(text) => Cow::Borrowed(text),
        value => Cow::Owned(value.to_string()),
    }
}
