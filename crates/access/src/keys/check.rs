//! What checks a signature: a key, parsed for one algorithm.

use aws_lc_rs::hmac;
use aws_lc_rs::rsa::PublicEncryptingKey;
use aws_lc_rs::signature::{self, ParsedPublicKey, RsaPublicKeyComponents, VerificationAlgorithm};

use super::roca;
use crate::Algorithm;

/// One key, parsed for each algorithm it suits.
pub(super) type Checks = Vec<(Algorithm, Check)>;

pub(crate) enum Check {
    Public(ParsedPublicKey),
    Secret(Box<hmac::Key>),
}

/// What a public key is. Its algorithms follow from that.
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
// Fixed: JWS writes both numbers in full (RFC 7518, section 3.4), where others use DER.
const OF_P256: &[Pair] = &[(Algorithm::ES256, &signature::ECDSA_P256_SHA256_FIXED)];
const OF_P384: &[Pair] = &[(Algorithm::ES384, &signature::ECDSA_P384_SHA384_FIXED)];
const OF_P521: &[Pair] = &[(Algorithm::ES512, &signature::ECDSA_P521_SHA512_FIXED)];
const OF_ED25519: &[Pair] = &[(Algorithm::EdDSA, &signature::ED25519)];

/// Each with the bytes its secret has at least, the size of its hash.
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

    /// Parses a key: as in a certificate (RFC 5280) or, on a curve, as a point.
    pub(super) fn checks(self, bytes: &[u8]) -> Option<Checks> {
        if self == Self::Rsa {
            // It also checks the size, which otherwise shows at the first signature.
            PublicEncryptingKey::from_der(bytes).ok()?;
        }
        let parse = |(algorithm, how): &Pair| {
            let key = ParsedPublicKey::new(*how, bytes).ok()?;
            Some((*algorithm, Check::Public(key)))
        };
        self.pairs().iter().map(parse).collect()
    }
}

/// An RSA key from its numbers.
pub(super) fn rsa(n: &[u8], e: &[u8]) -> Option<Checks> {
    // Common ones are 3 and 65537. Long ones make checking slow, even ones make it meaningless.
    let odd = e.last().is_some_and(|last| last % 2 == 1);
    if !odd || e == [1] || 4 < e.len() || roca::is_weak(n) {
        return None;
    }
    let components = RsaPublicKeyComponents { n, e };
    let key = components.to_parsed_public_key(&signature::RSA_PKCS1_2048_8192_SHA256).ok()?;
    Family::Rsa.checks(key.as_ref())
}

/// None if the secret is too short for any.
pub(super) fn secret(secret: &[u8]) -> Checks {
    let long_enough = OF_SECRETS.into_iter().filter(|(_, _, length)| *length <= secret.len());
    let check =
        |(algorithm, how, _)| (algorithm, Check::Secret(Box::new(hmac::Key::new(how, secret))));
    long_enough.map(check).collect()
}

impl Check {
    /// Whether the signature is of this key and over this input.
    pub(crate) fn fits(&self, input: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Public(key) => key.verify_sig(input, signature).is_ok(),
            Self::Secret(key) => hmac::verify(key, input, signature).is_ok(),
        }
    }

    /// Secrets are not compared: nobody needs it.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Public(one), Self::Public(two)) => one.as_ref() == two.as_ref(),
            (Self::Public(_) | Self::Secret(_), _) => false,
        }
    }
}
