//! Verifies access tokens of trusted issuers (requirement A10).
//!
//! The signature is verified first. Before that, only the claim `iss` is read, to select the issuer's keys.

use std::sync::Arc;

use jiff::Timestamp;
use json::strict_json;
use model::Claims;
use serde_json::{Map, Value};

use crate::compact_jws::CompactJws;
use crate::{Issuer, KeySet, TokenError, claim_checks};

/// A parsed token whose signature is not verified yet.
pub struct UnverifiedToken<'a> {
    signed: CompactJws<'a>,
    /// Untrusted until verified.
    claims: Map<String, Value>,
}

/// The content of a verified token.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedToken {
    pub claims: Claims,
    /// `sub`, or the client id if the client acts for itself.
    pub subject: Arc<str>,
    /// `exp`, without the clock skew.
    pub expires_at: Timestamp,
}

impl<'a> UnverifiedToken<'a> {
    /// Parses header and claims; verifies nothing.
    pub fn parse(text: &'a str) -> Result<Self, TokenError> {
        let signed = CompactJws::parse(text)?;
        let claims = strict_json::parse_object(&signed.payload).map_err(|_| {
            TokenError::Malformed { rule: "its claims are a JSON object without a member twice" }
        })?;
        if !claims.get("iss").is_some_and(Value::is_string) {
            return Err(TokenError::Claim { claim: "iss", rule: "is missing or not a text" });
        }
        Ok(Self { signed, claims })
    }

    /// The claimed issuer. Use it only to select the issuer's keys.
    pub fn issuer(&self) -> &str {
        self.claims.get("iss").and_then(Value::as_str).unwrap_or_default()
    }

    /// Verifies signature, type, audience and times, and returns the claims. Call it once: it moves the claims out.
    pub fn verify(
        &mut self,
        issuer: &Issuer,
        keys: &KeySet,
        now: Timestamp,
    ) -> Result<VerifiedToken, TokenError> {
        if *self.issuer() != *issuer.name {
            return Err(TokenError::UnknownIssuer);
        }
        self.signed.check_signature(keys, &issuer.algorithms)?;
        let claims = std::mem::take(&mut self.claims);
        claim_checks::check_type(self.signed.header.media_type, &claims, issuer.token_type)?;
        claim_checks::check_audience(&claims, issuer)?;
        let expires_at = claim_checks::check_times(&claims, issuer, now)?;
        let subject = claim_checks::find_subject(&claims)?;
        Ok(VerifiedToken { claims: Claims::from(claims), subject, expires_at })
    }
}

#[cfg(test)]
mod tests;
