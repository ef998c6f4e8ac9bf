//! Cache of serialized lists. The key covers everything that a list depends on, so an entry is never stale.
//!
//! Many agents have the same tools and request them often. Views with equal stamps list the same tools
//! ([`toolcrib::Stamp`]) and share one serialized list. A change leads to a new stamp, and the old entry is evicted.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, VARY,
};
use axum::response::{IntoResponse as _, Response};
use model::Cache;
use toolcrib::{AgentView, Stamp};

use crate::etag::{IfNoneMatch, Tag};

/// Maximum size of all cached lists, in bytes.
const LIMIT: u64 = 64 << 20;
/// Approximate overhead of an entry, in bytes.
const ENTRY: usize = 256;

/// A serialized list; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) bytes: Bytes,
    /// Entity tag of exactly these bytes.
    pub(crate) tag: Tag,
}

/// The representation of a list, as part of the cache key. Each name must stand for one representation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    name: &'static str,
    after: Option<Box<str>>,
}

impl Form {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, after: None }
    }

    /// The variant that starts after a key: the next page, or the changes since a view.
    pub(crate) fn after(self, last: impl Into<Box<str>>) -> Self {
        Self { after: Some(last.into()), ..self }
    }
}

/// The cached lists.
pub(crate) struct PreparedLists(Cache<(Stamp, Form), Prepared>);

impl Default for PreparedLists {
    fn default() -> Self {
        let weight = |(_, form): &(Stamp, Form), list: &Prepared| {
            let after = form.after.as_ref().map_or(0, |after| after.len());
            u32::try_from(list.bytes.len() + after + ENTRY).unwrap_or(u32::MAX)
        };
        Self(Cache::weighing(LIMIT, weight))
    }
}

impl PreparedLists {
    /// The list in this variant, serialized on a cache miss. A view without a stamp is not cached.
    pub(crate) fn get(
        &self,
        view: &AgentView,
        form: Form,
        write: impl FnOnce() -> Vec<u8>,
    ) -> Prepared {
        match view.stamp() {
            Some(stamp) => self.0.get_with((stamp, form), || Prepared::new(write())),
            None => Prepared::new(write()),
        }
    }
}

impl Prepared {
    /// A list outside of the cache.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let tag = Tag::of_bytes(&bytes);
        Self { bytes: bytes.into(), tag }
    }

    /// The response with the list, or 304. `private`: the list belongs to one caller, so shared caches must not store it.
    pub(crate) fn answer(self, asked: &HeaderMap) -> Response {
        let headers: [(HeaderName, HeaderValue); 3] = [
            (ETAG, self.tag.header()),
            (CACHE_CONTROL, HeaderValue::from_static("private, no-cache")),
            (VARY, HeaderValue::from_static("Authorization")),
        ];
        if IfNoneMatch::read(asked).has(self.tag) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        let kind = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        (headers, kind, Body::from(self.bytes)).into_response()
    }
}
