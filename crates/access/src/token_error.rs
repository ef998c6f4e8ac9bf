//! The reasons for rejecting a token. No message repeats any part of the token: no claim, no key id, no name.

/// Why a token was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token is over the length limit and was not parsed.
    #[error("the token is longer than {limit} bytes")]
    TooLong {
        /// Longest accepted token, in bytes.
        limit: usize,
    },
    /// It is not a signed JWT.
    #[error("this is not a signed JWT: {rule}")]
    Malformed {
        /// The violated rule.
        rule: &'static str,
    },
    /// It needs an extension that is not supported, so it must not be interpreted.
    #[error("tokens with `{member}` in their header are not taken")]
    Unsupported {
        /// The header field.
        member: &'static str,
    },
    /// The algorithm is unknown, or not allowed for this issuer.
    #[error("the token is signed with an algorithm that its issuer may not use")]
    Algorithm,
    /// The issuer is not trusted here.
    #[error("the token is from an issuer that is not trusted here")]
    UnknownIssuer,
    /// The issuer has no such key, as far as known.
    #[error("the token is signed with a key that is not among its issuer's")]
    UnknownKey,
    /// The key does not support this algorithm.
    #[error("the token's key is not for its algorithm")]
    WrongKey,
    /// The token names no key, or several keys match.
    #[error("the token does not say which of its issuer's keys it is signed with")]
    AmbiguousKey,
    /// The issuer's keys could not be fetched. The token may be valid.
    #[error("the keys of the token's issuer cannot be had right now: try again later")]
    KeysUnavailable,
    /// The token was changed, or signed with a different key.
    #[error("the token's signature does not fit")]
    Signature,
    /// The time in `exp` has passed.
    #[error("the token has expired")]
    Expired,
    /// The time in `nbf` or `iat` is in the future.
    #[error("the token is not valid yet: is the clock right?")]
    NotYetValid,
    /// The audience is a different service.
    #[error("the token is not for this server: its `aud` must name it")]
    Audience,
    /// It is an ID token, a logout token or the like.
    #[error("this is not an access token: {rule}")]
    WrongTokenType {
        /// The violated rule.
        rule: &'static str,
    },
    /// A claim is missing or malformed.
    #[error("the token's `{claim}` {rule}")]
    Claim {
        /// The claim's name.
        claim: &'static str,
        /// The violated rule.
        rule: &'static str,
    },
}
