//! A trusted issuer of tokens, and the requirements on its tokens.

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::JwsAlgorithm;

/// A trusted issuer, and the requirements on its tokens. The constructors validate the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    pub(crate) name: Box<str>,
    pub(crate) audiences: Vec<Box<str>>,
    pub(crate) algorithms: Vec<JwsAlgorithm>,
    pub(crate) token_type: TokenType,
    pub(crate) skew: SignedDuration,
}

/// How an access token is told from others that the same issuer signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenType {
    /// The header's `typ` says `at+jwt` (RFC 9068, section 4).
    #[default]
    AccessToken,
    /// For issuers older than that: any `typ` of a JWT, but the claims must look like those of an access token.
    Any,
}

/// The error for invalid settings of an issuer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIssuer {
    /// The name is empty.
    #[error("an issuer has a name, exactly as in the `iss` of its tokens")]
    NoName,
    /// Without an audience, tokens for any service would be accepted.
    #[error("issuer `{issuer}` needs an audience: what its tokens for this server have in `aud`")]
    NoAudience { issuer: String },
    /// Without an algorithm, no token could be accepted.
    #[error("issuer `{issuer}` needs an algorithm: leave `algorithms` out for the usual ones")]
    NoAlgorithm { issuer: String },
    /// An attacker could use a public key as an HMAC secret.
    #[error("issuer `{issuer}` mixes algorithms with a secret (`HS…`) and others: choose one kind")]
    MixedAlgorithms { issuer: String },
    /// The clock skew is negative or too large.
    #[error(
        "issuer `{issuer}` has a clock skew of more than {MAX_SKEW} seconds, or less than none"
    )]
    Skew { issuer: String },
}

/// Default clock skew, in seconds.
const DEFAULT_SKEW: i64 = 60;
/// Largest allowed clock skew, in seconds.
const MAX_SKEW: i64 = 300;

impl Issuer {
    /// An issuer with the default algorithms, the token type of RFC 9068 and a clock skew of a minute.
    pub fn new<S: Into<Box<str>>>(
        name: impl Into<Box<str>>,
        audiences: impl IntoIterator<Item = S>,
    ) -> Result<Self, InvalidIssuer> {
        let name = name.into();
        let audiences: Vec<Box<str>> = audiences.into_iter().map(Into::into).collect();
        if name.is_empty() {
            return Err(InvalidIssuer::NoName);
        }
        if audiences.is_empty() || audiences.iter().any(|audience| audience.is_empty()) {
            return Err(InvalidIssuer::NoAudience { issuer: name.into() });
        }
        let (algorithms, skew) =
            (JwsAlgorithm::DEFAULT.to_vec(), SignedDuration::from_secs(DEFAULT_SKEW));
        Ok(Self { name, audiences, algorithms, token_type: TokenType::default(), skew })
    }

    /// Replaces the allowed algorithms.
    pub fn with_algorithms(self, algorithms: Vec<JwsAlgorithm>) -> Result<Self, InvalidIssuer> {
        let with_secret = algorithms.iter().filter(|algorithm| algorithm.needs_secret()).count();
        if algorithms.is_empty() {
            return Err(InvalidIssuer::NoAlgorithm { issuer: self.name.into() });
        }
        if with_secret != 0 && with_secret != algorithms.len() {
            return Err(InvalidIssuer::MixedAlgorithms { issuer: self.name.into() });
        }
        Ok(Self { algorithms, ..self })
    }

    /// Replaces the rule that identifies access tokens.
    pub fn with_token_type(self, token_type: TokenType) -> Self {
        Self { token_type, ..self }
    }

    /// Replaces the allowed clock skew.
    pub fn with_skew(self, skew: SignedDuration) -> Result<Self, InvalidIssuer> {
        if skew.is_negative() || SignedDuration::from_secs(MAX_SKEW) < skew {
            return Err(InvalidIssuer::Skew { issuer: self.name.into() });
        }
        Ok(Self { skew, ..self })
    }

    /// The issuer's name, exactly as in `iss`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The algorithms that it may sign with.
    pub fn algorithms(&self) -> &[JwsAlgorithm] {
        &self.algorithms
    }

    /// The allowed clock skew.
    pub fn clock_skew(&self) -> SignedDuration {
        self.skew
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer() -> Issuer {
        Issuer::new("https://id.example", ["tools"]).unwrap()
    }

    #[test]
    fn an_issuer_without_a_name_or_an_audience_is_rejected() {
        assert_eq!(Issuer::new("", ["tools"]), Err(InvalidIssuer::NoName));
        let no_audience = Err(InvalidIssuer::NoAudience { issuer: "a".to_owned() });
        assert_eq!(Issuer::new("a", [""]), no_audience);
        assert_eq!(Issuer::new("a", Vec::<String>::new()), no_audience);
    }

    #[test]
    fn secret_and_public_key_algorithms_cannot_be_mixed() {
        use JwsAlgorithm::{ES256, HS256, HS512};
        let refused = issuer().with_algorithms(vec![ES256, HS256]).unwrap_err();
        assert!(matches!(refused, InvalidIssuer::MixedAlgorithms { .. }));
        assert!(issuer().with_algorithms(vec![HS256, HS512]).is_ok());
        let none = issuer().with_algorithms(Vec::new()).unwrap_err();
        assert!(matches!(none, InvalidIssuer::NoAlgorithm { .. }));
        assert!(!issuer().algorithms().iter().any(|algorithm| algorithm.needs_secret()));
    }

    #[test]
    fn the_skew_is_five_minutes_at_most() {
        let with = |seconds| issuer().with_skew(SignedDuration::from_secs(seconds));
        assert!(with(0).is_ok() && with(300).is_ok());
        assert!(with(-1).is_err() && with(301).is_err());
    }
}
