//! A JWS in compact serialisation (RFC 7515, section 7.1), parsed strictly: three parts, one valid spelling.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::jws_header::JwsHeader;
use crate::{JwsAlgorithm, KeySet, TokenError};

/// Longest token, in bytes.
pub const MAX_TOKEN: usize = 16 << 10;

pub(crate) struct CompactJws<'a> {
    pub(crate) header: JwsHeader,
    /// Encoded header and payload: the signed input.
    signing_input: &'a str,
    /// Untrusted until [`CompactJws::check_signature`] succeeds.
    pub(crate) payload: Vec<u8>,
    signature: Vec<u8>,
}

impl<'a> CompactJws<'a> {
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
        Ok(Self {
            header: JwsHeader::parse_header(&decode_part(header)?)?,
            signing_input: input,
            payload: decode_part(payload)?,
            signature: decode_part(signature)?,
        })
    }

    /// Verifies the signature with these keys and algorithms.
    pub(crate) fn check_signature(
        &self,
        keys: &KeySet,
        allowed: &[JwsAlgorithm],
    ) -> Result<(), TokenError> {
        if !allowed.contains(&self.header.algorithm) {
            return Err(TokenError::Algorithm);
        }
        let mut checks = keys.find(self.header.algorithm, self.header.kid.as_deref())?;
        let input = self.signing_input.as_bytes();
        match checks.any(|check| check.verifies(input, &self.signature)) {
            true => Ok(()),
            false => Err(TokenError::Signature),
        }
    }
}

/// Verifies a JWS with any payload and returns the payload. For access tokens, use [`UnverifiedToken`](crate::UnverifiedToken), which
/// also validates the claims.
pub fn verify_signature(
    text: &str,
    keys: &KeySet,
    allowed: &[JwsAlgorithm],
) -> Result<Vec<u8>, TokenError> {
    let signed = CompactJws::parse(text)?;
    signed.check_signature(keys, allowed)?;
    Ok(signed.payload)
}

/// Decodes base64url without padding or white space; unused bits of the last character must be zero.
fn decode_part(part: &str) -> Result<Vec<u8>, TokenError> {
    let decoded = URL_SAFE_NO_PAD.decode(part);
    decoded.map_err(|_| TokenError::Malformed { rule: "its parts are base64url without padding" })
}

#[cfg(test)]
mod tests;
