//! Why a token is refused. No message repeats anything of the token: not a claim, not a key id, not a name it gives.

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Nobody looked into it.
    #[error("the token is longer than {limit} bytes")]
    TooLong {
        /// The most a token may have.
        limit: usize,
    },
    /// It is no signed JWT.
    #[error("this is not a signed JWT: {rule}")]
    Malformed {
        /// What a token is like.
        rule: &'static str,
    },
    /// It asks for something we do not do, and must not be read without it.
    #[error("tokens with `{member}` in their header are not taken")]
    Unsupported {
        /// The member of the header.
        member: &'static str,
    },
    /// No such algorithm, or not for this issuer.
    #[error("the token is signed with an algorithm that its issuer may not use")]
    Algorithm,
    /// From someone else.
    #[error("the token is from an issuer that is not trusted here")]
    UnknownIssuer,
    /// The issuer has no such key, or none that we know yet.
    #[error("the token is signed with a key that is not among its issuer's")]
    UnknownKey,
    /// The key is not for this algorithm.
    #[error("the token's key is not for its algorithm")]
    WrongKey,
    /// It names no key, or several have its name.
    #[error("the token does not say which of its issuer's keys it is signed with")]
    AmbiguousKey,
    /// The keys of the issuer could not be had. The token may be fine.
    #[error("the keys of the token's issuer cannot be had right now: try again later")]
    KeysUnavailable,
    /// It was changed, or signed by someone else.
    #[error("the token's signature does not fit")]
    Signature,
    /// It is over.
    #[error("the token has expired")]
    Expired,
    /// It begins later, or was made in the future.
    #[error("the token is not valid yet: is the clock right?")]
    NotYet,
    /// For someone else.
    #[error("the token is not for this server: its `aud` must name it")]
    Audience,
    /// An id token, a logout token or the like.
    #[error("this is not an access token: {rule}")]
    Type {
        /// What an access token is like.
        rule: &'static str,
    },
    /// A claim is missing or not what it must be.
    #[error("the token's `{claim}` {rule}")]
    Claim {
        /// Its name.
        claim: &'static str,
        /// What it must be.
        rule: &'static str,
    },
}
