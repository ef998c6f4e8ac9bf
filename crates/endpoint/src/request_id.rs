//! The id of a request, and the headers that every answer has.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::HeaderMap;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const REQUEST_ID_LIMIT: usize = 128;

/// Identifies one request in the log, in the journal and in its answer.
#[derive(Clone, Debug)]
pub struct RequestId(HeaderValue);

impl RequestId {
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// The id that the client sent, if it is printable ASCII within the length limit; otherwise a new one.
    pub(crate) fn from_header(given: Option<&HeaderValue>) -> Self {
        let is_good = |value: &&HeaderValue| {
            !value.is_empty()
                && value.len() <= REQUEST_ID_LIMIT
                && value.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        given.filter(is_good).map_or_else(Self::generate, |given| Self(given.clone()))
    }

    pub fn generate() -> Self {
        static START: LazyLock<String> =
            LazyLock::new(|| format!("{:016x}-", RandomState::new().hash_one("start")));
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}{number:x}", *START);
        Self(id.try_into().expect("digits may stand in a header"))
    }
}

/// Sets the headers that every answer has, including those of errors.
pub(crate) fn set_common_headers(headers: &mut HeaderMap, id: &RequestId) {
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(nothing);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(REQUEST_ID, id.0.clone());
}
