//! The supported signature algorithms (RFC 7518, section 3.1, and RFC 8037). `none` is not supported.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a token is signed, by its registered name. Names are compared exactly: `rs256` is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Algorithm")]
pub enum JwsAlgorithm {
    /// RSA PKCS#1 v1.5 with SHA-256.
    RS256,
    /// RSA PKCS#1 v1.5 with SHA-384.
    RS384,
    /// RSA PKCS#1 v1.5 with SHA-512.
    RS512,
    /// RSA PSS with SHA-256.
    PS256,
    /// RSA PSS with SHA-384.
    PS384,
    /// RSA PSS with SHA-512.
    PS512,
    /// ECDSA on P-256 with SHA-256.
    ES256,
    /// ECDSA on P-384 with SHA-384.
    ES384,
    /// ECDSA on P-521 with SHA-512.
    ES512,
    /// Ed25519.
    EdDSA,
    /// HMAC with SHA-256 and a shared secret.
    HS256,
    /// HMAC with SHA-384 and a shared secret.
    HS384,
    /// HMAC with SHA-512 and a shared secret.
    HS512,
}

impl JwsAlgorithm {
    /// The default algorithms of an issuer. None of them uses a shared secret.
    pub const DEFAULT: [Self; 5] =
        [Self::RS256, Self::PS256, Self::ES256, Self::ES384, Self::EdDSA];

    /// The algorithm of this name, if it is supported.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::RS256,
            "RS384" => Self::RS384,
            "RS512" => Self::RS512,
            "PS256" => Self::PS256,
            "PS384" => Self::PS384,
            "PS512" => Self::PS512,
            "ES256" => Self::ES256,
            "ES384" => Self::ES384,
            "ES512" => Self::ES512,
            "EdDSA" => Self::EdDSA,
            "HS256" => Self::HS256,
            "HS384" => Self::HS384,
            "HS512" => Self::HS512,
            _ => return None,
        })
    }

    /// Whether it uses a shared secret, so that every verifier can also sign.
    pub fn needs_secret(self) -> bool {
        matches!(self, Self::HS256 | Self::HS384 | Self::HS512)
    }
}
