//! A token: who an agent is, in its issuer's words (requirement A10).
//!
//! The signature comes first. Before it holds, the payload is looked at for one thing, `iss`, to know whose keys to use.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use model::Claims;
use serde::Deserialize;

use crate::claims;
use crate::signed::Signed;
use crate::{Issuer, KeySet, TokenError, strict_json};

/// A token that nobody has verified.
pub struct Token<'a> {
    signed: Signed<'a>,
    issuer: String,
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

/// Everything else is skipped, and read strictly once the signature holds.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    iss: Cow<'a, str>,
}

const NOT_AN_OBJECT: TokenError =
    TokenError::Malformed { rule: "its claims are a JSON object without a member twice" };

impl<'a> Token<'a> {
    /// Reads the header, and of the claims the issuer.
    pub fn parse(text: &'a str) -> Result<Self, TokenError> {
        let signed = Signed::parse(text)?;
        let named: Result<Named<'_>, _> = serde_json::from_slice(&signed.payload);
        let issuer = named.map_err(|error| match error.is_data() {
            true => TokenError::Claim { claim: "iss", rule: "is missing or not a text" },
            false => NOT_AN_OBJECT,
        })?;
        Ok(Self { issuer: issuer.iss.into_owned(), signed })
    }

    /// Who is said to have signed it: good for choosing whose keys to use, and for nothing else.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// What it says, if the issuer signed it, for us, and it is valid now.
    pub fn verify(
        &self,
        issuer: &Issuer,
        keys: &KeySet,
        now: Timestamp,
    ) -> Result<Verified, TokenError> {
        if *self.issuer != *issuer.name {
            return Err(TokenError::UnknownIssuer);
        }
        self.signed.check(keys, &issuer.algorithms)?;
        let claims = strict_json::object(&self.signed.payload).map_err(|_| NOT_AN_OBJECT)?;
        claims::check_type(self.signed.media_type.as_deref(), &claims, issuer.token_type)?;
        claims::check_audience(&claims, issuer)?;
        let expires_at = claims::check_times(&claims, issuer, now)?;
        let subject = claims::subject(&claims)?;
        Ok(Verified { claims: Claims::from(claims), subject, expires_at })
    }
}

#[cfg(test)]
mod tests;
