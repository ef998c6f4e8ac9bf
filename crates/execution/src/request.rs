//! A request, ready to be sent but for its credentials.
//!
//! It is shown to people (a dry run) and logged before [`crate::Security::apply`] puts secrets into it. Its `Debug`
//! tells neither arguments nor secrets, so that it can stand in any message.

use std::fmt;

use url::Url;

/// A request, with what the agent gave in its places.
#[derive(Clone, PartialEq)]
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// The address, exactly as it is sent.
    pub url: Url,
    /// The headers, each name once.
    pub headers: Vec<(String, String)>,
    /// The body. An empty one is a body too.
    pub body: Option<Vec<u8>>,
}

impl Request {
    /// A header, by its name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// The type of the body.
    pub fn content_type(&self) -> Option<&str> {
        self.header("content-type")
    }

    /// Sets a header, in place of one with the same name.
    pub(crate) fn set_header(&mut self, name: &str, value: String) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value));
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("origin", &self.url.origin().ascii_serialization())
            .field("headers", &names)
            .field("body_bytes", &self.body.as_ref().map(Vec::len))
            .finish()
    }
}
