//! Validates the claims of an access token (RFC 7519, section 4.1; RFC 9068; RFC 8725).
//!
//! A malformed claim is an error; it is never treated as missing.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::jws_header::TokenMediaType;
use crate::{Issuer, TokenError, TokenType};

/// Claims of ID tokens and logout tokens; an access token has none of them.
const OTHER_TOKEN_CLAIMS: [&str; 3] = ["nonce", "at_hash", "events"];
/// Claims of access tokens; at least one must be present.
const ACCESS_TOKEN_CLAIMS: [&str; 4] = ["scope", "scp", "client_id", "azp"];
/// Values of the claim `typ` in which Keycloak names its other tokens; their header says `JWT`.
const OTHER_TOKEN_TYPES: [&str; 4] = ["ID", "Refresh", "Offline", "Logout"];

pub(crate) fn check_type(
    media_type: TokenMediaType,
    claims: &Map<String, Value>,
    wanted: TokenType,
) -> Result<(), TokenError> {
    match (wanted, media_type) {
        (TokenType::AccessToken, TokenMediaType::AccessToken) => Ok(()),
        (
            TokenType::Any,
            TokenMediaType::None | TokenMediaType::Jwt | TokenMediaType::AccessToken,
        ) => looks_like_access_token(claims),
        (TokenType::AccessToken, _) => {
            Err(TokenError::WrongTokenType { rule: "its header's `typ` must be `at+jwt`" })
        }
        (TokenType::Any, TokenMediaType::Other) => {
            Err(TokenError::WrongTokenType { rule: "its header's `typ` must be `at+jwt` or `JWT`" })
        }
    }
}

fn looks_like_access_token(claims: &Map<String, Value>) -> Result<(), TokenError> {
    let other_type = claims.get("typ").and_then(Value::as_str);
    let of_others = OTHER_TOKEN_CLAIMS.iter().any(|name| claims.contains_key(*name));
    if of_others
        || other_type.is_some_and(|name| {
            OTHER_TOKEN_TYPES.iter().any(|other| other.eq_ignore_ascii_case(name))
        })
    {
        return Err(TokenError::WrongTokenType {
            rule: "it has claims of an id token or a logout token",
        });
    }
    let stands = |name: &&str| match claims.get(*name) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(elements)) => elements.iter().any(Value::is_string),
        _ => false,
    };
    if !ACCESS_TOKEN_CLAIMS.iter().any(stands) {
        return Err(TokenError::WrongTokenType {
            rule: "it must have a `scope`, `scp`, `client_id` or `azp`",
        });
    }
    Ok(())
}

pub(crate) fn check_audience(
    claims: &Map<String, Value>,
    issuer: &Issuer,
) -> Result<(), TokenError> {
    let is_ours = |name: &str| issuer.audiences.iter().any(|audience| **audience == *name);
    let malformed = TokenError::Claim { claim: "aud", rule: "must be a text or a list of texts" };
    let ours = match claims.get("aud") {
        Some(Value::String(name)) => is_ours(name),
        Some(Value::Array(names)) => {
            if !names.iter().all(Value::is_string) {
                return Err(malformed);
            }
            names.iter().filter_map(Value::as_str).any(is_ours)
        }
        Some(_) => return Err(malformed),
        None => false,
    };
    if ours { Ok(()) } else { Err(TokenError::Audience) }
}

/// Checks `exp`, `nbf` and `iat`; returns when the token expires.
pub(crate) fn check_times(
    claims: &Map<String, Value>,
    issuer: &Issuer,
    now: Timestamp,
) -> Result<Timestamp, TokenError> {
    let missing = TokenError::Claim { claim: "exp", rule: "is missing" };
    let expires_at = parse_time(claims, "exp")?.ok_or(missing)?;
    // Claims are whole seconds, so fractions of a second make no difference.
    let (now, skew) = (now.as_second(), issuer.skew.as_secs());
    if expires_at.as_second() <= now - skew {
        return Err(TokenError::Expired);
    }
    for claim in ["nbf", "iat"] {
        if parse_time(claims, claim)?.is_some_and(|time| now + skew < time.as_second()) {
            return Err(TokenError::NotYetValid);
        }
    }
    Ok(expires_at)
}

/// The time of a claim, in seconds since 1970 with or without a fraction.
fn parse_time(
    claims: &Map<String, Value>,
    claim: &'static str,
) -> Result<Option<Timestamp>, TokenError> {
    let Some(value) = claims.get(claim) else { return Ok(None) };
    let seconds = value.as_i64().or_else(|| value.as_f64().and_then(whole_seconds));
    let time = seconds.filter(|seconds| 0 <= *seconds).map(Timestamp::from_second);
    match time {
        Some(Ok(time)) => Ok(Some(time)),
        Some(Err(_)) | None => {
            Err(TokenError::Claim { claim, rule: "must be a number of seconds since 1970" })
        }
    }
}

fn whole_seconds(seconds: f64) -> Option<i64> {
    // Drops the fraction. The cast saturates at the ends of `i64`, which are not valid timestamps.
    (0.0 <= seconds).then_some(seconds as i64)
}

/// The subject: `sub`, or the client id if the client acts for itself.
pub(crate) fn find_subject(claims: &Map<String, Value>) -> Result<Arc<str>, TokenError> {
    for claim in ["sub", "client_id", "azp"] {
        match claims.get(claim) {
            None => {}
            Some(Value::String(name)) if !name.is_empty() => return Ok(name.as_str().into()),
            Some(_) => return Err(TokenError::Claim { claim, rule: "must be a text" }),
        }
    }
    Err(TokenError::Claim { claim: "sub", rule: "is missing: a token says whom it is for" })
}
