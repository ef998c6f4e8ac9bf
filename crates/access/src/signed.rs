//! A signed text in its compact form (RFC 7515, section 7.1), read strictly: three parts, one way to write each.
//!
//! Of the header only `alg`, `kid` and `typ` are used. Keys that a header brings along or points to (`jwk`, `jku`,
//! `x5c`, `x5u`) are not looked at: a key is the issuer's because we got it from there, not because a token says so.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::{Algorithm, KeySet, TokenError, strict_json};

/// The longest token, in bytes.
pub const MAX_TOKEN: usize = 16 << 10;

/// Members of a header after which nothing is as it seems: extensions we would have to understand, unencoded or
/// compressed payloads, encryption.
const UNSUPPORTED: [&str; 4] = ["crit", "b64", "zip", "enc"];

pub(crate) struct Signed<'a> {
    algorithm: Algorithm,
    kid: Option<String>,
    pub(crate) media_type: Option<String>,
    /// Header and payload as they were written.
    input: &'a str,
    /// Not to be trusted until [`Signed::check`] says so.
    pub(crate) payload: Vec<u8>,
    signature: Vec<u8>,
}

impl<'a> Signed<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, TokenError> {
        if MAX_TOKEN < text.len() {
            return Err(TokenError::TooLong { limit: MAX_TOKEN });
        }
        let three = TokenError::Malformed { rule: "it has three parts with dots between" };
        let (input, signature) = text.rsplit_once('.').ok_or(three)?;
        let (header, payload) = input.split_once('.').ok_or(three)?;
        if payload.contains('.') {
            return Err(three);
        }
        if signature.is_empty() {
            return Err(TokenError::Malformed { rule: "it has a signature" });
        }
        let header = strict_json::object(&decode(header)?);
        let mut header = header.map_err(|_| TokenError::Malformed {
            rule: "its header is a JSON object without a member twice",
        })?;
        if let Some(member) = UNSUPPORTED.into_iter().find(|member| header.contains_key(*member)) {
            return Err(TokenError::Unsupported { member });
        }
        let algorithm = take_text(&mut header, "alg")?;
        let algorithm = algorithm.as_deref().and_then(Algorithm::named);
        Ok(Self {
            algorithm: algorithm.ok_or(TokenError::Algorithm)?,
            kid: take_text(&mut header, "kid")?,
            media_type: take_text(&mut header, "typ")?,
            input,
            payload: decode(payload)?,
            signature: decode(signature)?,
        })
    }

    /// Whether one of the keys made the signature, with one of the algorithms.
    pub(crate) fn check(&self, keys: &KeySet, allowed: &[Algorithm]) -> Result<(), TokenError> {
        if !allowed.contains(&self.algorithm) {
            return Err(TokenError::Algorithm);
        }
        let check = keys.find(self.algorithm, self.kid.as_deref())?;
        match check.fits(self.input.as_bytes(), &self.signature) {
            true => Ok(()),
            false => Err(TokenError::Signature),
        }
    }
}

/// The payload of a signed text, whatever it is, if the signature is of one of the keys. For tokens there is
/// [`Token`](crate::Token), which also reads what they claim.
pub fn verify_signature(
    text: &str,
    keys: &KeySet,
    allowed: &[Algorithm],
) -> Result<Vec<u8>, TokenError> {
    let signed = Signed::parse(text)?;
    signed.check(keys, allowed)?;
    Ok(signed.payload)
}

/// No padding, no white space, and zeros where a last character has bits to spare.
fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    let decoded = URL_SAFE_NO_PAD.decode(part);
    decoded.map_err(|_| TokenError::Malformed { rule: "its parts are base64url without padding" })
}

fn take_text(header: &mut Map<String, Value>, name: &str) -> Result<Option<String>, TokenError> {
    match header.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => {
            Err(TokenError::Malformed { rule: "its header's `alg`, `kid`, `typ` are texts" })
        }
    }
}

#[cfg(test)]
mod tests;
