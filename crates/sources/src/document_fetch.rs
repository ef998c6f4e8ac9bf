//! Fetches the documents of sources. Only a complete document with status 200 counts; any other response is an error.
//!
//! A truncated response, an empty one or a web page must never look like a source that has lost its tools.

use std::time::Duration;

use upstream::http::{ExchangeLimits, HttpClient, Url};

use crate::DiscoveryError;
use crate::openapi::SpecificationAddress;

/// Deadline and size limit for one document.
pub const DOCUMENT_LIMITS: ExchangeLimits =
    ExchangeLimits { deadline: Duration::from_secs(60), max_bytes: 32 * 1024 * 1024 };

/// Fetches a document and returns it with its address after redirects.
pub async fn fetch_document(
    client: &HttpClient,
    url: &Url,
    limits: ExchangeLimits,
) -> Result<(SpecificationAddress, Vec<u8>), DiscoveryError> {
    let what = url_without_query(url);
    let answer = match client.get_document(url, limits).await {
        Ok(answer) => answer,
        Err(source) => return Err(DiscoveryError::FetchFailed { what, source }),
    };
    match answer.status {
        200 => Ok((SpecificationAddress::Url(answer.url), answer.body)),
        status => Err(DiscoveryError::UnexpectedStatus { what, status }),
    }
}

/// The URL without its query, which may contain secrets.
pub(crate) fn url_without_query(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// Rejects an HTML page before it is parsed as YAML, where the error messages would not help.
pub(crate) fn reject_web_page(bytes: &[u8]) -> Result<(), DiscoveryError> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match text.trim_ascii_start().first() {
        Some(b'<') => Err(DiscoveryError::WebPage),
        Some(_) | None => Ok(()),
    }
}
