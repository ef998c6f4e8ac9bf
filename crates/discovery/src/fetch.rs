//! Fetches the documents of sources. Only a complete document with status 200 counts; any other response is an error.
//!
//! A truncated response, an empty one or a web page must never look like a source that has lost its tools.

use std::time::Duration;

use upstream::http::{HttpClient, Limits, Url};

use crate::DiscoveryError;
use crate::openapi::Address;

/// Deadline and size limit for one document.
pub const LIMITS: Limits =
    Limits { deadline: Duration::from_secs(60), max_bytes: 32 * 1024 * 1024 };

/// Fetches a document and returns it with its address after redirects.
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

/// The URL without its query, which may contain secrets.
pub(crate) fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// Rejects an HTML page before it is parsed as YAML, where the error messages would not help.
pub(crate) fn refuse_web_page(bytes: &[u8]) -> Result<(), DiscoveryError> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match text.trim_ascii_start().first() {
        Some(b'<') => Err(DiscoveryError::WebPage),
        Some(_) | None => Ok(()),
    }
}
