//! A token: who an agent is, in its issuer's words (requirement A10).
//!
//! The signature comes first. Before it holds, the claims are looked at for one thing, `iss`, to know whose keys to use.

use std::sync::Arc;

use jiff::Timestamp;
use model::{Claims, strict_json};
use serde_json::{Map, Value};

use crate::claims;
use crate::signed::Signed;
use crate::{Issuer, KeySet, TokenError};

/// A token that nobody has verified.
pub struct Token<'a> {
    signed: Signed<'a>,
    /// Not to be trusted yet.
    claims: Map<String, Value>,
}

/// What a token says, from someone who may say so.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// All of it.
    pub claims: Claims,
    /// `sub`; if there is none, the client that acts for itself.
    pub subject: Arc<str>,
    /// `exp`. The skew comes on top.
    pub expires_at: Timestamp,
}

impl<'a> Token<'a> {
    /// Reads header and claims; who made them is another question.
    pub fn parse(text: &'a str) -> Result<Self, TokenError> {
        let signed = Signed::parse(text)?;
        let claims = strict_json::object(&signed.payload).map_err(|_| TokenError::Malformed {
            rule: "its claims are a JSON object without a member twice",
        })?;
        if !claims.get("iss").is_some_and(Value::is_string) {
            return Err(TokenError::Claim { claim: "iss", rule: "is missing or not a text" });
        }
        Ok(Self { signed, claims })
    }

    /// Who is said to have signed it: good for choosing whose keys to use, and for nothing else.
    pub fn issuer(&self) -> &str {
        self.claims.get("iss").and_then(Value::as_str).unwrap_or_default()
    }

    /// What it says, if the issuer signed it, for us, and it is valid now. It says so once: the claims are handed out.
    pub fn verify(
        &mut self,
        issuer: &Issuer,
        keys: &KeySet,
        now: Timestamp,
    ) -> Result<Verified, TokenError> {
        if *self.issuer() != *issuer.name {
            return Err(TokenError::UnknownIssuer);
        }
        self.signed.check(keys, &issuer.algorithms)?;
        let claims = std::mem::take(&mut self.claims);
        claims::check_type(self.signed.header.media_type, &claims, issuer.token_type)?;
        claims::check_audience(&claims, issuer)?;
        let expires_at = claims::check_times(&claims, issuer, now)?;
        let subject = claims::subject(&claims)?;
        Ok(Verified { claims: Claims::from(claims), subject, expires_at })
    }
}

#[cfg(test)]
mod tests;
