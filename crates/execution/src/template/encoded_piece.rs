//! The results of template functions: text that is encoded for one position of a request, and valid in no other.

use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Object, ObjectRepr};
use model::BodyEncoding;

use super::multipart::MultipartPart;

#[derive(Clone, Debug)]
pub(super) enum EncodedPiece {
    /// The value is missing, so there is nothing to send.
    Nothing,
    /// A segment of a path, or a part of one.
    Path(String),
    /// `a=b`, or several pairs joined with `&`.
    Pair(String),
    /// `?a=b&c=d`
    Query(String),
    Header(String),
    /// `a=b`, or several cookies joined with `; `.
    Cookie(String),
    /// A whole `Cookie` header.
    Cookies(String),
    Json(Vec<u8>),
    /// A body, or a part of one, that is not JSON.
    Body(Vec<u8>),
    Part(Vec<MultipartPart>),
    /// A whole `multipart/form-data` body, not encoded yet.
    Multipart(Vec<MultipartPart>),
}

impl EncodedPiece {
    /// The piece in an engine value, or `None` if it is a plain value.
    pub(super) fn from_value(value: &Value) -> Option<&Self> {
        value.downcast_object_ref()
    }
}

impl Object for EncodedPiece {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

impl From<EncodedPiece> for Value {
    fn from(piece: EncodedPiece) -> Self {
        Self::from_object(piece)
    }
}

/// The position of a template's text in the request. Each expression is passed to the function of its position, which
/// encodes plain values and rejects pieces made for another position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TemplatePosition {
    Address,
    /// The URL of a follow-up request.
    FollowUpAddress,
    Header,
    CookieHeader,
    Body(BodyEncoding),
}

impl TemplatePosition {
    pub(super) fn function_name(self) -> &'static str {
        match self {
            Self::Address | Self::FollowUpAddress => "in_address",
            Self::Header => "in_header",
            Self::CookieHeader => "in_cookie_header",
            Self::Body(BodyEncoding::Json) => "in_json",
            Self::Body(BodyEncoding::Form) => "in_form",
            Self::Body(BodyEncoding::Multipart) => "in_multipart",
            Self::Body(BodyEncoding::Text | BodyEncoding::Bytes) => "in_text",
        }
    }
}
