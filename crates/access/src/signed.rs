//! A signed text in its compact form (RFC 7515, section 7.1), read strictly: three parts, one way to write each.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::header::Header;
use crate::{Algorithm, KeySet, TokenError};

/// The longest token, in bytes.
pub const MAX_TOKEN: usize = 16 << 10;

pub(crate) struct Signed<'a> {
    pub(crate) header: Header,
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
        Ok(Self {
            header: Header::read(&decode(header)?)?,
            input,
            payload: decode(payload)?,
            signature: decode(signature)?,
        })
    }

    /// Whether one of the keys made the signature, with one of the algorithms.
    pub(crate) fn check(&self, keys: &KeySet, allowed: &[Algorithm]) -> Result<(), TokenError> {
        if !allowed.contains(&self.header.algorithm) {
            return Err(TokenError::Algorithm);
        }
        let mut checks = keys.find(self.header.algorithm, self.header.kid.as_deref())?;
        let input = self.input.as_bytes();
        match checks.any(|check| check.fits(input, &self.signature)) {
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

#[cfg(test)]
mod tests;
