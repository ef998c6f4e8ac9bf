//! Lists that are written once and then copied: kept under what they were written from, so they cannot be stale.
//!
//! Many agents see the same tools, and ask for them again and again. Views of one stamp list the same
//! ([`toolcrib::Stamp`]), so the bytes of one serve all; what changes is another stamp, and the old bytes fall out.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, VARY,
};
use axum::response::{IntoResponse as _, Response};
use model::Cache;
use toolcrib::{AgentView, Stamp};

use crate::etag::{IfNoneMatch, Tag};

/// Of all lists that are kept, in bytes.
const LIMIT: u64 = 64 << 20;
/// What an entry takes beside its bytes, about.
const ENTRY: usize = 256;

/// A list, ready to be sent; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) bytes: Bytes,
    /// Of exactly these bytes.
    pub(crate) tag: Tag,
}

/// How a list is written. Doors name their own forms; no two write differently under one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    name: &'static str,
    after: Option<Box<str>>,
}

impl Form {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, after: None }
    }

    /// The part of it that comes after this: the next page, or what is new since.
    pub(crate) fn after(self, last: impl Into<Box<str>>) -> Self {
        Self { after: Some(last.into()), ..self }
    }
}

/// The lists that are kept.
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
    /// The list in this form; it is written if it is not kept. Where nobody can say what a view was made of, nothing is.
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
    /// One that nobody will ask for again.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let tag = Tag::of_bytes(&bytes);
        Self { bytes: bytes.into(), tag }
    }

    /// The list, or that the caller has it already. It is the caller's own: no cache may show it to others.
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
