//! Verification of a signature with a key that was parsed for one algorithm.

use aws_lc_rs::rsa::PublicEncryptingKey;
use aws_lc_rs::signature::{ParsedPublicKey, RsaPublicKeyComponents, VerificationAlgorithm};
use aws_lc_rs::{hmac, signature};

use super::roca;
use crate::JwsAlgorithm;

/// One key, parsed for each algorithm it supports.
pub(super) type AlgorithmChecks = Vec<(JwsAlgorithm, SignatureCheck)>;

pub(crate) enum SignatureCheck {
    Public(ParsedPublicKey),
    Secret(Box<hmac::Key>),
}

/// The type of a public key, which determines its algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyFamily {
    Rsa,
    P256,
    P384,
    P521,
    Ed25519,
}

type AlgorithmPair = (JwsAlgorithm, &'static dyn VerificationAlgorithm);

const RSA_ALGORITHMS: &[AlgorithmPair] = &[
    (JwsAlgorithm::RS256, &signature::RSA_PKCS1_2048_8192_SHA256),
    (JwsAlgorithm::RS384, &signature::RSA_PKCS1_2048_8192_SHA384),
    (JwsAlgorithm::RS512, &signature::RSA_PKCS1_2048_8192_SHA512),
    (JwsAlgorithm::PS256, &signature::RSA_PSS_2048_8192_SHA256),
    (JwsAlgorithm::PS384, &signature::RSA_PSS_2048_8192_SHA384),
    (JwsAlgorithm::PS512, &signature::RSA_PSS_2048_8192_SHA512),
];
// Fixed-length: JWS writes both integers in full (RFC 7518, section 3.4), unlike DER.
const P256_ALGORITHMS: &[AlgorithmPair] =
    &[(JwsAlgorithm::ES256, &signature::ECDSA_P256_SHA256_FIXED)];
const P384_ALGORITHMS: &[AlgorithmPair] =
    &[(JwsAlgorithm::ES384, &signature::ECDSA_P384_SHA384_FIXED)];
const P521_ALGORITHMS: &[AlgorithmPair] =
    &[(JwsAlgorithm::ES512, &signature::ECDSA_P521_SHA512_FIXED)];
const ED25519_ALGORITHMS: &[AlgorithmPair] = &[(JwsAlgorithm::EdDSA, &signature::ED25519)];

/// HMAC algorithms with their shortest secret in bytes, the size of the hash.
const SECRET_ALGORITHMS: [(JwsAlgorithm, hmac::Algorithm, usize); 3] = [
    (JwsAlgorithm::HS256, hmac::HMAC_SHA256, 32),
    (JwsAlgorithm::HS384, hmac::HMAC_SHA384, 48),
    (JwsAlgorithm::HS512, hmac::HMAC_SHA512, 64),
];

impl KeyFamily {
    pub(super) const ALL: [Self; 5] =
        [Self::Rsa, Self::P256, Self::P384, Self::P521, Self::Ed25519];

    fn algorithm_pairs(self) -> &'static [AlgorithmPair] {
        match self {
            Self::Rsa => RSA_ALGORITHMS,
            Self::P256 => P256_ALGORITHMS,
            Self::P384 => P384_ALGORITHMS,
            Self::P521 => P521_ALGORITHMS,
            Self::Ed25519 => ED25519_ALGORITHMS,
        }
    }

    /// Parses a key: a `SubjectPublicKeyInfo` (RFC 5280), or a point for curves.
    pub(super) fn parse_checks(self, bytes: &[u8]) -> Option<AlgorithmChecks> {
        if self == Self::Rsa {
            // This also checks the key size, which would otherwise only fail at the first signature.
            PublicEncryptingKey::from_der(bytes).ok()?;
        }
        let parse = |(algorithm, how): &AlgorithmPair| {
            let key = ParsedPublicKey::new(*how, bytes).ok()?;
            Some((*algorithm, SignatureCheck::Public(key)))
        };
        self.algorithm_pairs().iter().map(parse).collect()
    }
}

/// Makes checks from an RSA modulus and exponent.
pub(super) fn rsa_checks(n: &[u8], e: &[u8]) -> Option<AlgorithmChecks> {
    // Common exponents are 3 and 65537. Long ones make verification slow; even ones make it meaningless.
    let odd = e.last().is_some_and(|last| last % 2 == 1);
    if !odd || e == [1] || 4 < e.len() || roca::is_weak(n) {
        return None;
    }
    let components = RsaPublicKeyComponents { n, e };
    let key = components.to_parsed_public_key(&signature::RSA_PKCS1_2048_8192_SHA256).ok()?;
    KeyFamily::Rsa.parse_checks(key.as_ref())
}

/// Makes checks from a secret; empty if it is shorter than any algorithm requires.
pub(super) fn secret_checks(secret: &[u8]) -> AlgorithmChecks {
    let long_enough =
        SECRET_ALGORITHMS.into_iter().filter(|(_, _, length)| *length <= secret.len());
    let check = |(algorithm, how, _)| {
        (algorithm, SignatureCheck::Secret(Box::new(hmac::Key::new(how, secret))))
    };
    long_enough.map(check).collect()
}

impl SignatureCheck {
    /// Whether the signature over this input was made with this key.
    pub(crate) fn verifies(&self, input: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Public(key) => key.verify_sig(input, signature).is_ok(),
            Self::Secret(key) => hmac::verify(key, input, signature).is_ok(),
        }
    }

    /// Whether both are the same public key. Secrets are never equal here: no caller needs to compare them.
    pub(super) fn is_same_key(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Public(one), Self::Public(two)) => one.as_ref() == two.as_ref(),
            (Self::Public(_) | Self::Secret(_), _) => false,
        }
    }
}
