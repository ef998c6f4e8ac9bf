//! An issuer: whose tokens are taken, and what they must say.

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Algorithm;

/// Whose tokens are taken, and what they must say. One that exists makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    pub(crate) name: Box<str>,
    pub(crate) audiences: Vec<Box<str>>,
    pub(crate) algorithms: Vec<Algorithm>,
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

/// Why there can be no such issuer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIssuer {
    /// Nobody.
    #[error("an issuer has a name, exactly as in the `iss` of its tokens")]
    NoName,
    /// Tokens for anyone would be taken.
    #[error("issuer `{issuer}` needs an audience: what its tokens for this server have in `aud`")]
    NoAudience {
        /// The issuer.
        issuer: String,
    },
    /// No token could be taken.
    #[error("issuer `{issuer}` needs an algorithm: leave `algorithms` out for the usual ones")]
    NoAlgorithm {
        /// The issuer.
        issuer: String,
    },
    /// A public key could be taken for a secret.
    #[error("issuer `{issuer}` mixes algorithms with a secret (`HS…`) and others: choose one kind")]
    MixedAlgorithms {
        /// The issuer.
        issuer: String,
    },
    /// Clocks are better than that.
    #[error(
        "issuer `{issuer}` has a clock skew of more than {MAX_SKEW} seconds, or less than none"
    )]
    Skew {
        /// The issuer.
        issuer: String,
    },
}

/// How far clocks may be apart if nothing else was said, in seconds.
const SKEW: i64 = 60;
/// How far they may be apart at most, in seconds.
const MAX_SKEW: i64 = 300;

impl Issuer {
    /// An issuer with the usual algorithms, RFC 9068's type of tokens and a minute of skew.
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
        let (algorithms, skew) = (Algorithm::DEFAULT.to_vec(), SignedDuration::from_secs(SKEW));
        Ok(Self { name, audiences, algorithms, token_type: TokenType::default(), skew })
    }

    /// The same with these algorithms and no others.
    pub fn with_algorithms(self, algorithms: Vec<Algorithm>) -> Result<Self, InvalidIssuer> {
        let with_secret = algorithms.iter().filter(|algorithm| algorithm.needs_secret()).count();
        if algorithms.is_empty() {
            return Err(InvalidIssuer::NoAlgorithm { issuer: self.name.into() });
        }
        if with_secret != 0 && with_secret != algorithms.len() {
            return Err(InvalidIssuer::MixedAlgorithms { issuer: self.name.into() });
        }
        Ok(Self { algorithms, ..self })
    }

    /// The same with another way to tell its access tokens.
    pub fn with_token_type(self, token_type: TokenType) -> Self {
        Self { token_type, ..self }
    }

    /// The same with clocks that may be so far apart.
    pub fn with_skew(self, skew: SignedDuration) -> Result<Self, InvalidIssuer> {
        if skew.is_negative() || SignedDuration::from_secs(MAX_SKEW) < skew {
            return Err(InvalidIssuer::Skew { issuer: self.name.into() });
        }
        Ok(Self { skew, ..self })
    }

    /// Exactly as in `iss`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it may sign with.
    pub fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// How far its clock may be from ours.
    pub fn skew(&self) -> SignedDuration {
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
    fn an_issuer_without_a_name_or_an_audience_is_refused() {
        assert_eq!(Issuer::new("", ["tools"]), Err(InvalidIssuer::NoName));
        let no_audience = Err(InvalidIssuer::NoAudience { issuer: "a".to_owned() });
        assert_eq!(Issuer::new("a", [""]), no_audience);
        assert_eq!(Issuer::new("a", Vec::<String>::new()), no_audience);
    }

    #[test]
    fn secrets_and_public_keys_are_never_mixed() {
        use Algorithm::{ES256, HS256, HS512};
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
