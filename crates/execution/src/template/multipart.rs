//! `multipart/form-data` bodies (RFC 7578).

use std::hash::{BuildHasher as _, RandomState};

use serde_json::Value as Json;

use super::attachment_uri::{DataUriFile, is_content_type};
use super::value_style;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct MultipartPart {
    name: String,
    file_name: Option<String>,
    content_type: Option<String>,
    bytes: Vec<u8>,
}

/// The maximum number of parts of one value. Each part has headers, so a small value can become a large body.
const MAX_PARTS: usize = 1_000;

/// The items that become parts: each item of a list, or the value itself.
fn part_items(value: &Json) -> Result<impl Iterator<Item = &Json>, &'static str> {
    let items = match value {
        Json::Array(items) => items.as_slice(),
        value => std::slice::from_ref(value),
    };
    match items.len() <= MAX_PARTS {
        true => Ok(items.iter().filter(|item| !item.is_null())),
        false => Err("has too many items to send each as a part"),
    }
}

/// Form fields: text, or JSON for objects and lists.
pub(super) fn field_parts(
    name: &str,
    value: &Json,
    content_type: Option<&str>,
) -> Result<Vec<MultipartPart>, &'static str> {
    let field = |value: &Json| {
        let json = (value.is_object() || value.is_array()).then_some("application/json");
        MultipartPart {
            name: name.to_owned(),
            file_name: None,
            content_type: concrete_content_type(content_type).or(json).map(str::to_owned),
            bytes: value_style::value_text(value).into_owned().into_bytes(),
        }
    };
    Ok(part_items(value)?.map(field).collect())
}

/// Files: data URIs are decoded, other texts are used unchanged. A file always has a name.
pub(super) fn file_parts(
    name: &str,
    value: &Json,
    content_type: Option<&str>,
) -> Result<Vec<MultipartPart>, &'static str> {
    let mut parts = Vec::new();
    for item in part_items(value)? {
        let text = value_style::value_text(item);
        let file = match DataUriFile::parse(&text) {
            Some(file) => file?,
            None => {
                DataUriFile { content_type: None, file_name: None, bytes: text.as_bytes().to_vec() }
            }
        };
        let content_type =
            concrete_content_type(content_type).map(str::to_owned).or(file.content_type);
        parts.push(MultipartPart {
            name: name.to_owned(),
            file_name: Some(file.file_name.unwrap_or_else(|| name.to_owned())),
            content_type: Some(content_type.unwrap_or("application/octet-stream".to_owned())),
            bytes: file.bytes,
        });
    }
    Ok(parts)
}

/// A concrete media type; OpenAPI also allows a choice such as `image/png, image/*`, which is ignored.
fn concrete_content_type(content_type: Option<&str>) -> Option<&str> {
    content_type.filter(|text| is_content_type(text))
}

/// The encoded body, and the boundary for its content type.
pub(super) fn encode_parts(parts: &[MultipartPart]) -> (Vec<u8>, String) {
    let boundary = choose_boundary(parts);
    let mut body = Vec::new();
    for part in parts {
        body.extend(format!("--{boundary}\r\n{}\r\n", part_head(part)).into_bytes());
        body.extend(&part.bytes);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{boundary}--\r\n").into_bytes());
    (body, boundary)
}

fn part_head(part: &MultipartPart) -> String {
    let mut head = format!("Content-Disposition: form-data; name=\"{}\"", escape_name(&part.name));
    if let Some(file_name) = &part.file_name {
        head.push_str(&format!("; filename=\"{}\"", escape_name(file_name)));
    }
    head.push_str("\r\n");
    if let Some(content_type) = &part.content_type {
        head.push_str(&format!("Content-Type: {content_type}\r\n"));
    }
    head
}

/// Escapes a name as browsers do (WHATWG HTML, "multipart/form-data encoding algorithm").
fn escape_name(name: &str) -> String {
    name.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22")
}

/// A random boundary that is not guessable and occurs in none of the parts.
fn choose_boundary(parts: &[MultipartPart]) -> String {
    loop {
        let random = [RandomState::new().hash_one(0), RandomState::new().hash_one(1)];
        let boundary = format!("toolcrib-{:016x}{:016x}", random[0], random[1]);
        let within = |bytes: &[u8]| {
            bytes.windows(boundary.len()).any(|window| window == boundary.as_bytes())
        };
        if !parts.iter().any(|part| within(&part.bytes)) {
            return boundary;
        }
    }
}
