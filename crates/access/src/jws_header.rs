//! Parses the header of a signed token strictly, without copying unused parts.
//!
//! Only `alg`, `kid` and `typ` are used. Keys in the header or referenced by it (`jwk`, `jku`, `x5c`, `x5u`) are
//! ignored: only keys that we fetched from the issuer count.

use std::borrow::Cow;
use std::fmt;

use json::strict_json::StrictValueSeed;
use serde::Deserialize;
use serde::de::{Deserializer as _, Error as _, MapAccess, Visitor};

use crate::{JwsAlgorithm, TokenError};

/// Header fields that change the meaning of the token: mandatory extensions, unencoded or compressed payloads,
/// encryption.
const UNSUPPORTED: [&str; 4] = ["crit", "b64", "zip", "enc"];

pub(crate) struct JwsHeader {
    pub(crate) algorithm: JwsAlgorithm,
    pub(crate) kid: Option<Box<str>>,
    pub(crate) media_type: TokenMediaType,
}

/// The value of `typ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenMediaType {
    None,
    /// `JWT`
    Jwt,
    /// `at+jwt` (RFC 9068).
    AccessToken,
    /// Any other type.
    Other,
}

/// The used fields of a header, borrowed from the input.
#[derive(Default)]
struct RawHeader<'a> {
    alg: Option<HeaderText<'a>>,
    kid: Option<HeaderText<'a>>,
    typ: Option<HeaderText<'a>>,
    unsupported: Option<&'static str>,
}

/// A string that borrows from the input unless it contains escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct HeaderText<'a>(#[serde(borrow)] Cow<'a, str>);

impl JwsHeader {
    pub(crate) fn parse_header(bytes: &[u8]) -> Result<Self, TokenError> {
        let malformed = TokenError::Malformed {
            rule: "its header is a JSON object without a member twice, with texts as `alg`, `kid`, `typ`",
        };
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let read = reader.deserialize_map(HeaderVisitor).map_err(|_| malformed)?;
        reader.end().map_err(|_| malformed)?;
        if let Some(member) = read.unsupported {
            return Err(TokenError::Unsupported { member });
        }
        let algorithm = read.alg.and_then(|HeaderText(name)| JwsAlgorithm::from_name(&name));
        Ok(Self {
            algorithm: algorithm.ok_or(TokenError::Algorithm)?,
            kid: read.kid.map(|HeaderText(kid)| kid.into()),
            media_type: read
                .typ
                .map_or(TokenMediaType::None, |HeaderText(name)| TokenMediaType::from_name(&name)),
        })
    }
}

impl TokenMediaType {
    /// Media types ignore case, and the prefix `application/` is optional (RFC 7515, section 4.1.9).
    fn from_name(name: &str) -> Self {
        let is = |known: &str| {
            let short = name.get(..12).filter(|start| start.eq_ignore_ascii_case("application/"));
            let short = short.and_then(|_| name.get(12..)).unwrap_or(name);
            short.eq_ignore_ascii_case(known)
        };
        if is("at+jwt") {
            Self::AccessToken
        } else if is("jwt") {
            Self::Jwt
        } else {
            Self::Other
        }
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = RawHeader<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<RawHeader<'de>, A::Error> {
        let mut read = RawHeader::default();
        let mut others: Vec<Cow<'de, str>> = Vec::new();
        while let Some(HeaderText(name)) = members.next_key()? {
            let place = match &*name {
                "alg" => &mut read.alg,
                "kid" => &mut read.kid,
                "typ" => &mut read.typ,
                other => {
                    if others.contains(&name) || MAX_FIELDS < others.len() {
                        return Err(A::Error::custom(DUPLICATE_FIELD));
                    }
                    let unsupported = UNSUPPORTED.into_iter().find(|known| *known == other);
                    read.unsupported = read.unsupported.or(unsupported);
                    members.next_value_seed(StrictValueSeed::default())?;
                    others.push(name);
                    continue;
                }
            };
            if place.is_some() {
                return Err(A::Error::custom(DUPLICATE_FIELD));
            }
            *place = Some(members.next_value()?);
        }
        Ok(read)
    }
}

const DUPLICATE_FIELD: &str = "a member stands there twice, or there are too many";

/// More fields than any real header has; comparing each with each stays cheap.
const MAX_FIELDS: usize = 64;
