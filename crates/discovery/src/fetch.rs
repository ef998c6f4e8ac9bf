//! Documents of sources, fetched whole or not at all: any other answer is an error that says what came.
//!
//! An answer that is half there, empty or a web page must never look like a source that has lost its tools.

use std::time::Duration;

use upstream::http::{HttpClient, Limits, Url};

use crate::DiscoveryError;
use crate::openapi::Address;

/// For one document.
pub const LIMITS: Limits =
    Limits { deadline: Duration::from_secs(60), max_bytes: 32 * 1024 * 1024 };

/// A document, and where it is from after redirects.
pub async fn fetch(
    client: &HttpClient,
    url: &Url,
    limits: Limits,
) -> Result<(Address, Vec<u8>), DiscoveryError> {
    let what = shown(url);
    let answer = match client.get_document(url, limits).await {
        Ok(answer) => answer,
        Err(source) => return Err(DiscoveryError::Fetch { what, source }),
    };
    match answer.status {
        200 => Ok((Address::Url(answer.url), answer.body)),
        status => Err(DiscoveryError::Status { what, status }),
    }
}

/// An address without its query, which may hold secrets.
pub(crate) fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// A web page would be read as YAML, and complained about in ways that do not help.
pub(crate) fn refuse_web_page(bytes: &[u8]) -> Result<(), DiscoveryError> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match text.trim_ascii_start().first() {
        Some(b'<') => Err(DiscoveryError::WebPage),
        Some(_) | None => Ok(()),
    }
}
