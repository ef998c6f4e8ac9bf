//! Classifies a response body by its media type: JSON, text, empty or bytes.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use json::strict_json;
use json::strict_json::ValueCounter;
use model::{BlobContent, Content, MediaContent};
use serde_json::Value;
use url::Url;

use super::escaping;

/// JSON with more values than this stays text; longer bodies may have more (`BYTES_PER_VALUE`). An object counts as
/// four values because of its memory.
const MAX_VALUES: usize = 500_000;
const BYTES_PER_VALUE: usize = 35;
const OCTET_STREAM: &str = "application/octet-stream";
/// Text media types outside of `text/`.
const TEXT_MEDIA_TYPES: [&str; 9] = [
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
pub(super) enum ResponseBody {
    Empty,
    Json(Value),
    /// Text, still to be decoded.
    Text,
    /// Bytes with their media type.
    Bytes(String),
}

impl ResponseBody {
    /// Classifies a body. Invalid JSON is text; without a `Content-Type` the bytes decide.
    pub(super) fn classify(content_type: Option<&str>, body: &[u8]) -> Self {
        if body.is_empty() {
            return Self::Empty;
        }
        let essence = media_type_essence(content_type.unwrap_or_default());
        if (is_json_type(&essence) || essence.is_empty())
            && !has_too_many_values(body)
            && let Ok(value) = strict_json::parse_tolerant(body)
        {
            return Self::Json(value);
        }
        Self::classify_document(content_type, body)
    }

    /// Classifies the body of a document, which is not parsed: JSON is text, and an empty body is empty text.
    pub(super) fn classify_document(content_type: Option<&str>, body: &[u8]) -> Self {
        let stated = content_type.unwrap_or_default();
        let essence = media_type_essence(stated);
        let is_text = is_json_type(&essence)
            || essence.starts_with("text/")
            || essence.ends_with("+xml")
            || essence.ends_with("+yaml")
            || TEXT_MEDIA_TYPES.contains(&essence.as_str())
            || essence.is_empty() && std::str::from_utf8(body).is_ok();
        match is_text {
            true => Self::Text,
            false if essence.is_empty() => Self::Bytes(OCTET_STREAM.to_owned()),
            false => Self::Bytes(essence),
        }
    }
}

fn is_json_type(essence: &str) -> bool {
    essence.ends_with("/json") || essence.ends_with("+json")
}

/// `text/html` of `Text/HTML; charset=utf-8`, or an empty string for an invalid media type.
fn media_type_essence(content_type: &str) -> String {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_part = |part: &str| model::header_names::is_header_name(part) && part.len() <= 127;
    match essence.split_once('/') {
        Some((kind, name)) if is_part(kind) && is_part(name) => essence,
        Some(_) | None => String::new(),
    }
}

/// Decodes a text body (UTF-8, or Latin-1 if declared) and escapes terminal control characters. The body may be long,
/// so valid text is not copied.
pub(super) fn decode_text(content_type: Option<&str>, body: Cow<'_, [u8]>) -> String {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    let stated = content_type.unwrap_or_default().to_ascii_lowercase();
    let charset = stated.split("charset=").nth(1).unwrap_or_default().trim_matches('"');
    if ["iso-8859-1", "latin1", "windows-1252"].iter().any(|known| charset.starts_with(known)) {
        return escaping::escape_hidden(
            body.iter().map(|byte| char::from(*byte)).collect::<String>(),
        );
    }
    // The byte order mark only declares UTF-8; it is not part of the text.
    let body = match body.strip_prefix(MARK) {
        Some(text) => text.to_vec(),
        None => body.into_owned(),
    };
    let text = String::from_utf8(body);
    escaping::escape_hidden(
        text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
}

/// Bytes as content: an image, audio, or a blob named after the path of the request.
pub(super) fn binary_content(url: &Url, content_type: &str, body: &[u8]) -> Content {
    let data = BASE64_STANDARD.encode(body);
    let mime_type = content_type.to_owned();
    match content_type.split('/').next() {
        Some("image") => Content::Image(MediaContent { data, mime_type }),
        Some("audio") => Content::Audio(MediaContent { data, mime_type }),
        Some(_) | None => {
            let uri = format!("upstream:{}", url.path());
            Content::Resource { resource: BlobContent { uri, mime_type, blob: data } }
        }
    }
}

/// Whether JSON has too many short values: its tree would take many times the memory of its text.
fn has_too_many_values(body: &[u8]) -> bool {
    ValueCounter::at_start().count_and_check(MAX_VALUES.max(body.len() / BYTES_PER_VALUE), body)
}
