//! What a body is, by its type: JSON, text, nothing, or bytes.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use model::strict_json::Parts;
use model::{Blob, Content, Media, strict_json};
use serde_json::Value;
use url::Url;

use super::plain;

/// JSON with more values than this stays text, unless it is so long that more are usual; an object counts for four, by what
/// it takes.
const MAX_VALUES: usize = 500_000;
const BYTES_OF_VALUE: usize = 35;
const BYTES: &str = "application/octet-stream";
/// Types outside of `text/` that people read.
const TEXTS: [&str; 9] = [
    "application/ecmascript",
    "application/graphql",
    "application/javascript",
    "application/sql",
    "application/toml",
    "application/x-ndjson",
    "application/x-www-form-urlencoded",
    "application/xml",
    "application/yaml",
];

#[derive(Debug, PartialEq)]
pub(super) enum Body {
    Empty,
    Json(Value),
    /// To be [read](text).
    Text,
    /// With their type.
    Bytes(String),
}

impl Body {
    /// What calls itself JSON and is not is text. What does not say is what it looks like.
    pub(super) fn read(content_type: Option<&str>, body: &[u8]) -> Self {
        if body.is_empty() {
            return Self::Empty;
        }
        let essence = essence(content_type.unwrap_or_default());
        if (is_json(&essence) || essence.is_empty())
            && !has_too_many_values(body)
            && let Ok(value) = strict_json::tolerant(body)
        {
            return Self::Json(value);
        }
        Self::of_document(content_type, body)
    }

    /// The same of what is not looked into: JSON is text, and nothing is an empty one.
    pub(super) fn of_document(content_type: Option<&str>, body: &[u8]) -> Self {
        let stated = content_type.unwrap_or_default();
        let essence = essence(stated);
        let is_text = is_json(&essence)
            || essence.starts_with("text/")
            || essence.ends_with("+xml")
            || essence.ends_with("+yaml")
            || TEXTS.contains(&essence.as_str())
            || essence.is_empty() && std::str::from_utf8(body).is_ok();
        match is_text {
            true => Self::Text,
            false if essence.is_empty() => Self::Bytes(BYTES.to_owned()),
            false => Self::Bytes(essence),
        }
    }
}

fn is_json(essence: &str) -> bool {
    essence.ends_with("/json") || essence.ends_with("+json")
}

/// `text/html` of `Text/HTML; charset=utf-8`, or nothing if it is no type at all.
fn essence(content_type: &str) -> String {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_part = |part: &str| model::header::is_token(part) && part.len() <= 127;
    match essence.split_once('/') {
        Some((kind, name)) if is_part(kind) && is_part(name) => essence,
        Some(_) | None => String::new(),
    }
}

/// A body that is text, with nothing in it that a terminal would obey: UTF-8, or Latin-1 if it says so. It may be long, so it
/// is not copied if it can be as it is.
pub(super) fn text(content_type: Option<&str>, body: Cow<'_, [u8]>) -> String {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    let stated = content_type.unwrap_or_default().to_ascii_lowercase();
    let charset = stated.split("charset=").nth(1).unwrap_or_default().trim_matches('"');
    if ["iso-8859-1", "latin1", "windows-1252"].iter().any(|known| charset.starts_with(known)) {
        return plain::text(body.iter().map(|byte| char::from(*byte)).collect::<String>());
    }
    // The mark says that it is UTF-8, and is no part of the text.
    let body = match body.strip_prefix(MARK) {
        Some(text) => text.to_vec(),
        None => body.into_owned(),
    };
    let text = String::from_utf8(body);
    plain::text(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Bytes as content: a picture, a recording, or a blob that is called after the path it came from.
pub(super) fn bytes(url: &Url, content_type: &str, body: &[u8]) -> Content {
    let data = BASE64_STANDARD.encode(body);
    let mime_type = content_type.to_owned();
    match content_type.split('/').next() {
        Some("image") => Content::Image(Media { data, mime_type }),
        Some("audio") => Content::Audio(Media { data, mime_type }),
        Some(_) | None => {
            let uri = format!("upstream:{}", url.path());
            Content::Resource { resource: Blob { uri, mime_type, blob: data } }
        }
    }
}

/// Whether JSON has so many values that a tree of them would take many times the memory of the text.
fn has_too_many_values(body: &[u8]) -> bool {
    Parts::weighed().exceed(MAX_VALUES.max(body.len() / BYTES_OF_VALUE), body)
}
