//! Verification of a signature with a key that was parsed for one algorithm.

use aws_lc_rs::hmac;
use aws_lc_rs::rsa::PublicEncryptingKey;
use aws_lc_rs::signature::{self, ParsedPublicKey, RsaPublicKeyComponents, VerificationAlgorithm};

use super::roca;
use crate::Algorithm;

/// One key, parsed for each algorithm it supports.
pub(super) type Checks = Vec<(Algorithm, Check)>;

pub(crate) enum Check {
    Public(ParsedPublicKey),
    Secret(Box<hmac::Key>),
}

/// The type of a public key, which determines its algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Rsa,
    P256,
    P384,
    P521,
    Ed25519,
}

type Pair = (Algorithm, &'static dyn VerificationAlgorithm);

const OF_RSA: &[Pair] = &[
    (Algorithm::RS256, &signature::RSA_PKCS1_2048_8192_SHA256),
    (Algorithm::RS384, &signature::RSA_PKCS1_2048_8192_SHA384),
    (Algorithm::RS512, &signature::RSA_PKCS1_2048_8192_SHA512),
    (Algorithm::PS256, &signature::RSA_PSS_2048_8192_SHA256),
    (Algorithm::PS384, &signature::RSA_PSS_2048_8192_SHA384),
    (Algorithm::PS512, &signature::RSA_PSS_2048_8192_SHA512),
];
// Fixed-length: JWS writes both integers in full (RFC 7518, section 3.4), unlike DER.
const OF_P256: &[Pair] = &[(Algorithm::ES256, &signature::ECDSA_P256_SHA256_FIXED)];
const OF_P384: &[Pair] = &[(Algorithm::ES384, &signature::ECDSA_P384_SHA384_FIXED)];
const OF_P521: &[Pair] = &[(Algorithm::ES512, &signature::ECDSA_P521_SHA512_FIXED)];
const OF_ED25519: &[Pair] = &[(Algorithm::EdDSA, &signature::ED25519)];

/// HMAC algorithms with their shortest secret in bytes, the size of the hash.
const OF_SECRETS: [(Algorithm, hmac::Algorithm, usize); 3] = [
    (Algorithm::HS256, hmac::HMAC_SHA256, 32),
    (Algorithm::HS384, hmac::HMAC_SHA384, 48),
    (Algorithm::HS512, hmac::HMAC_SHA512, 64),
];

impl Family {
    pub(super) const ALL: [Self; 5] =
        [Self::Rsa, Self::P256, Self::P384, Self::P521, Self::Ed25519];

    fn pairs(self) -> &'static [Pair] {
        match self {
            Self::Rsa => OF_RSA,
            Self::P256 => OF_P256,
            Self::P384 => OF_P384,
            Self::P521 => OF_P521,
            Self::Ed25519 => OF_ED25519,
        }
    }

    /// Parses a key: a SubjectPublicKeyInfo (RFC 5280), or a point for curves.
    pub(super) fn checks(self, bytes: &[u8]) -> Option<Checks> {
        if self == Self::Rsa {
            // This also checks the key size, which would otherwise only fail at the first signature.
            PublicEncryptingKey::from_der(bytes).ok()?;
        }
        let parse = |(algorithm, how): &Pair| {
            let key = ParsedPublicKey::new(*how, bytes).ok()?;
            Some((*algorithm, Check::Public(key)))
        };
        self.pairs().iter().map(parse).collect()
    }
}

/// Makes checks from an RSA modulus and exponent.
pub(super) fn rsa(n: &[u8], e: &[u8]) -> Option<Checks> {
    // Common exponents are 3 and 65537. Long ones make verification slow; even ones make it meaningless.
    let odd = e.last().is_some_and(|last| last % 2 == 1);
    if !odd || e == [1] || 4 < e.len() || roca::is_weak(n) {
        return None;
    }
    let components = RsaPublicKeyComponents { n, e };
    let key = components.to_parsed_public_key(&signature::RSA_PKCS1_2048_8192_SHA256).ok()?;
    Family::Rsa.checks(key.as_ref())
}

/// Makes checks from a secret; empty if it is shorter than any algorithm requires.
pub(super) fn secret(secret: &[u8]) -> Checks {
    let long_enough = OF_SECRETS.into_iter().filter(|(_, _, length)| *length <= secret.len());
    let check =
        |(algorithm, how, _)| (algorithm, Check::Secret(Box::new(hmac::Key::new(how, secret))));
    long_enough.map(check).collect()
}

impl Check {
    /// Whether the signature over this input was made with this key.
    pub(crate) fn fits(&self, input: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Public(key) => key.verify_sig(input, signature).is_ok(),
            Self::Secret(key) => hmac::verify(key, input, signature).is_ok(),
        }
    }

    /// Whether both are the same public key. Secrets are never equal here: no caller needs to compare them.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Public(one), Self::Public(two)) => one.as_ref() == two.as_ref(),
            (Self::Public(_) | Self::Secret(_), _) => false,
        }
    }
}
