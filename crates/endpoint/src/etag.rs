//! Entity tags, and the conditions on them: `If-Match` for what an admin edits, `If-None-Match` for lists and files.

use api_types::problem::{Problem, ProblemCode};
use axum::http::header::{HeaderMap, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use model::Digest;
use serde::Serialize;

/// A strong entity tag (RFC 9110, 8.8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag(Digest);

impl EntityTag {
    /// The tag of everything an admin can edit; pass nothing that changes by itself.
    pub fn of_state(state: &impl Serialize) -> Self {
        Self(Digest::of_canonical(&serde_json::to_value(state).expect("states are JSON")))
    }

    /// The tag of exactly these bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Digest::of_bytes(bytes))
    }

    pub fn to_header(self) -> HeaderValue {
        HeaderValue::try_from(format!("\"{}\"", self.0)).expect("a digest is hexadecimal")
    }
}

/// The `If-Match` condition of a request (RFC 9110, 13.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// No header, or `*`.
    Anything,
    /// One of these tags. Weak tags are omitted, because they never match.
    OneOf(Vec<String>),
}

impl IfMatch {
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, Problem> {
        let malformed = || {
            let detail = "`If-Match` is `*` or a list of tags in quotes, as `ETag` says them";
            Problem::new(ProblemCode::InvalidRequest, detail)
        };
        let mut tags = Vec::new();
        for value in headers.get_all(IF_MATCH) {
            let text = value.to_str().map_err(|_| malformed())?;
            if text.trim() == "*" {
                return Ok(Self::Anything);
            }
            for tag in text.split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
                let opaque = tag.strip_prefix("W/").unwrap_or(tag);
                let inner = opaque.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
                let inner = inner.filter(|tag| !tag.contains('"')).ok_or_else(malformed)?;
                if opaque == tag {
                    tags.push(inner.to_owned());
                }
            }
        }
        Ok(if headers.contains_key(IF_MATCH) { Self::OneOf(tags) } else { Self::Anything })
    }

    pub fn is_satisfied_by(&self, now: EntityTag) -> bool {
        match self {
            Self::Anything => true,
            Self::OneOf(tags) => tags.contains(&now.0.to_string()),
        }
    }
}

/// The `If-None-Match` condition of a request (RFC 9110, 13.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IfNoneMatch {
    /// `*`: matches any state.
    Anything,
    /// These tags, without quotes and weakness: weak and strong compare equal here.
    OneOf(Vec<String>),
}

impl IfNoneMatch {
    /// Parses the header. Malformed tags match nothing, so the caller receives the full answer.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let mut tags = Vec::new();
        for text in values.flat_map(|text| text.split(',')).map(str::trim) {
            if text == "*" {
                return Self::Anything;
            }
            tags.push(text.trim_start_matches("W/").trim_matches('"').to_owned());
        }
        Self::OneOf(tags)
    }

    pub fn contains_tag(&self, now: EntityTag) -> bool {
        match self {
            Self::Anything => true,
            Self::OneOf(tags) => tags.contains(&now.0.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&'static str]) -> Option<IfMatch> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IF_MATCH, HeaderValue::from_static(value));
        }
        IfMatch::from_headers(&headers).ok()
    }

    #[test]
    fn lists_wildcards_and_weak_tags_are_parsed() {
        let tags = |tags: &[&str]| {
            Some(IfMatch::OneOf(tags.iter().map(|tag| (*tag).to_owned()).collect()))
        };
        assert_eq!(read(&[]), Some(IfMatch::Anything));
        assert_eq!(read(&["*"]), Some(IfMatch::Anything));
        assert_eq!(read(&["\"a\", \"b\"", "\"c\""]), tags(&["a", "b", "c"]));
        assert_eq!(read(&["W/\"a\""]), tags(&[]));
        for text in ["a", "\"a", "\"a\" \"b\""] {
            assert_eq!(read(&[text]), None, "{text}");
        }
    }

    #[test]
    fn if_none_match_accepts_weak_and_strong_tags() {
        let tag = EntityTag::of_bytes(b"list");
        let has = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, HeaderValue::from_str(value).unwrap());
            IfNoneMatch::from_headers(&headers).contains_tag(tag)
        };
        let text = tag.to_header().to_str().unwrap().to_owned();
        assert!(has(&text) && has(&format!("W/{text}")) && has(&format!("\"a\" , {text}")));
        assert!(has("*"));
        assert!(
            !has("\"a\"")
                && !has("")
                && !has(EntityTag::of_bytes(b"").to_header().to_str().unwrap())
        );
        assert!(!IfNoneMatch::from_headers(&HeaderMap::new()).contains_tag(tag));
    }

    #[test]
    fn a_tag_matches_itself() {
        let tag = EntityTag::of_state(&"state");
        let mut headers = HeaderMap::new();
        headers.insert(IF_MATCH, tag.to_header());
        let condition = IfMatch::from_headers(&headers).unwrap();
        assert!(condition.is_satisfied_by(tag));
        assert!(!condition.is_satisfied_by(EntityTag::of_state(&"other")));
    }
}
