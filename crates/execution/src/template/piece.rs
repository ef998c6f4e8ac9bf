//! What the functions of templates give: text that is encoded for one place of a request, and fits no other.

use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Object, ObjectRepr};
use model::BodyEncoding;

use super::multipart::Part;

#[derive(Clone, Debug)]
pub(super) enum Piece {
    /// There is no value, so there is nothing to send.
    Nothing,
    /// A segment of a path, or a part of one.
    Path(String),
    /// `a=b`, or several with `&`.
    Pair(String),
    /// `?a=b&c=d`
    Query(String),
    Header(String),
    /// `a=b`, or several with `; `.
    Cookie(String),
    /// A whole `Cookie` header.
    Cookies(String),
    Json(Vec<u8>),
    /// A body, or a part of one, that is not JSON.
    Body(Vec<u8>),
    Part(Vec<Part>),
    /// A whole `multipart/form-data` body, not yet encoded.
    Multipart(Vec<Part>),
}

impl Piece {
    /// The piece a function gave, or none if the value is a plain one.
    pub(super) fn of(value: &Value) -> Option<&Self> {
        value.downcast_object_ref()
    }
}

impl Object for Piece {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

impl From<Piece> for Value {
    fn from(piece: Piece) -> Self {
        Self::from_object(piece)
    }
}

/// Where a template's text goes. Each expression in it is handed to the place's function, which encodes plain values
/// and refuses pieces made for another place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    Address,
    /// Of a request that follows another one's answer.
    NextAddress,
    Header,
    CookieHeader,
    Body(BodyEncoding),
}

impl Place {
    pub(super) fn function(self) -> &'static str {
        match self {
            Self::Address | Self::NextAddress => "in_address",
            Self::Header => "in_header",
            Self::CookieHeader => "in_cookie_header",
            Self::Body(BodyEncoding::Json) => "in_json",
            Self::Body(BodyEncoding::Form) => "in_form",
            Self::Body(BodyEncoding::Multipart) => "in_multipart",
            Self::Body(BodyEncoding::Text | BodyEncoding::Bytes) => "in_text",
        }
    }
}
