//! A rendered request without its credentials.
//!
//! It is shown in a dry run and logged before [`crate::SecurityRequirements::apply`] adds secrets. Its `Debug` contains neither
//! arguments nor secrets, so that it can appear in any message.

use std::fmt;

use url::Url;

/// A rendered request with the values of the arguments.
#[derive(Clone, PartialEq)]
pub struct RenderedRequest {
    /// `GET`, `POST`, …
    pub method: String,
    /// The URL, exactly as it is sent.
    pub url: Url,
    /// The headers, each name once.
    pub headers: Vec<(String, String)>,
    /// The body; an empty body differs from none.
    pub body: Option<Vec<u8>>,
}

impl RenderedRequest {
    /// The value of a header, by its case-insensitive name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// The `Content-Type` of the body.
    pub fn content_type(&self) -> Option<&str> {
        self.header("content-type")
    }

    /// Sets a header and replaces one with the same name.
    pub(crate) fn set_header(&mut self, name: &str, value: String) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value));
    }
}

impl fmt::Debug for RenderedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("RenderedRequest")
            .field("method", &self.method)
            .field("origin", &self.url.origin().ascii_serialization())
            .field("headers", &names)
            .field("body_bytes", &self.body.as_ref().map(Vec::len))
            .finish()
    }
}
