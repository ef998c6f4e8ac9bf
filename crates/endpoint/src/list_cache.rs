//! Cache of serialized lists. The key covers everything that a list depends on, so an entry is never stale.
//!
//! Many agents have the same tools and request them often. Views with equal stamps list the same tools
//! ([`toolcrib::ViewStamp`]) and share one serialized list. A change leads to a new stamp, and the old entry is evicted.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, VARY,
};
use axum::response::{IntoResponse as _, Response};
use limits::LruCache;
use toolcrib::{AgentView, ViewStamp};

use crate::etag::{EntityTag, IfNoneMatch};

/// Maximum size of all cached lists, in bytes.
const LIST_CACHE_BYTES: u64 = 64 << 20;
/// Approximate overhead of an entry, in bytes.
const ENTRY_OVERHEAD: usize = 256;

/// A serialized list; cheap to clone.
#[derive(Clone, Debug)]
pub struct SerializedList {
    pub bytes: Bytes,
    /// Entity tag of exactly these bytes.
    pub tag: EntityTag,
}

/// The representation of a list, as part of the cache key. Each name must stand for one representation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListVariant {
    name: &'static str,
    after: Option<Box<str>>,
}

impl ListVariant {
    pub const fn new(name: &'static str) -> Self {
        Self { name, after: None }
    }

    /// The variant that starts after a key: the next page, or the changes since a view.
    pub fn starting_after(self, last: impl Into<Box<str>>) -> Self {
        Self { after: Some(last.into()), ..self }
    }
}

/// The cached lists.
pub struct ListCache(LruCache<(ViewStamp, ListVariant), SerializedList>);

impl Default for ListCache {
    fn default() -> Self {
        let weight = |(_, form): &(ViewStamp, ListVariant), list: &SerializedList| {
            let after = form.after.as_ref().map_or(0, |after| after.len());
            u32::try_from(list.bytes.len() + after + ENTRY_OVERHEAD).unwrap_or(u32::MAX)
        };
        Self(LruCache::with_weight(LIST_CACHE_BYTES, weight))
    }
}

impl ListCache {
    /// The list in this variant, serialized on a cache miss. A view without a stamp is not cached.
    pub fn get_or_serialize(
        &self,
        view: &AgentView,
        form: ListVariant,
        write: impl FnOnce() -> Vec<u8>,
    ) -> SerializedList {
        match view.stamp() {
            Some(stamp) => self.0.get_with((stamp, form), || SerializedList::new(write())),
            None => SerializedList::new(write()),
        }
    }
}

impl SerializedList {
    /// A list outside of the cache.
    pub fn new(bytes: Vec<u8>) -> Self {
        let tag = EntityTag::of_bytes(&bytes);
        Self { bytes: bytes.into(), tag }
    }

    /// The response with the list, or 304. `private`: the list belongs to one caller, so shared caches must not store it.
    pub fn into_response_for(self, asked: &HeaderMap) -> Response {
        let headers: [(HeaderName, HeaderValue); 3] = [
            (ETAG, self.tag.to_header()),
            (CACHE_CONTROL, HeaderValue::from_static("private, no-cache")),
            (VARY, HeaderValue::from_static("Authorization")),
        ];
        if IfNoneMatch::from_headers(asked).contains_tag(self.tag) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        let kind = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        (headers, kind, Body::from(self.bytes)).into_response()
    }
}
