//! The keys of an issuer. The kind of a key determines its algorithms; a token's `alg` only selects among them.
//!
//! Each key is parsed once per algorithm: parsing an RSA key for each token would add a fifth to its verification. An
//! RSA key supports six algorithms, a curve one, and a secret up to three, depending on its length. No key supports
//! both kinds, so a public key can never be used as a secret (RFC 8725, section 3.1).

mod jwk_set;
mod pem_keys;
mod roca;
mod signature_check;

use std::fmt;

use signature_check::AlgorithmChecks;

use crate::{JwsAlgorithm, TokenError};
pub(crate) use signature_check::SignatureCheck;

/// Most keys in a set: more would slow down lookups, and no real set is larger.
const LIMIT: usize = 64;

/// Most keys tried for one token: each costs one signature verification.
const MAX_TRIED_KEYS: usize = 4;

/// The keys of an issuer. Its `Debug` output contains counts, not keys.
pub struct KeySet {
    keys: Vec<IssuerKey>,
    skipped: usize,
}

struct IssuerKey {
    kid: Option<Box<str>>,
    checks: AlgorithmChecks,
}

/// The error for a text that is not a usable key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeySet {
    /// The text is not a JWK set.
    #[error("this is not a JWK set: it is a JSON object with a list `keys`, and no member twice")]
    NotAKeySet,
    /// There are more keys than allowed.
    #[error("a key set has at most {LIMIT} keys")]
    TooMany,
    /// The text is not PEM, or contains other PEM objects.
    #[error(
        "public keys stand between `-----BEGIN PUBLIC KEY-----` and `-----END PUBLIC KEY-----`, and nothing else does"
    )]
    NotPem,
    /// A key has an unsupported type, or is too weak.
    #[error(
        "a public key is for RSA with 2048 to 8192 bits, P-256, P-384, P-521 or Ed25519, and this one is not"
    )]
    Unusable,
    /// A secret is short enough to be guessed.
    #[error("a secret for tokens has at least 32 bytes: make one with `openssl rand -base64 48`")]
    ShortSecret,
}

impl KeySet {
    /// Parses a JWK set (RFC 7517). Keys for other uses or of unsupported types are skipped, and so are secrets:
    /// every reader of the set could sign with them.
    pub fn from_jwks(bytes: &[u8]) -> Result<Self, InvalidKeySet> {
        jwk_set::parse_jwk_set(bytes)
    }

    /// Parses one or several public keys in PEM (RFC 7468).
    pub fn from_pem(text: &str) -> Result<Self, InvalidKeySet> {
        pem_keys::parse_pem_keys(text)
    }

    /// Makes a key of a shared secret, for those of `HS256`, `HS384` and `HS512` that it is long enough for (RFC
    /// 7518, 3.2).
    pub fn from_secret(secret: &[u8]) -> Result<Self, InvalidKeySet> {
        let checks = signature_check::secret_checks(secret);
        if checks.is_empty() {
            return Err(InvalidKeySet::ShortSecret);
        }
        Ok(Self { keys: vec![IssuerKey { kid: None, checks }], skipped: 0 })
    }

    /// Number of usable keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no usable key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Number of keys that were skipped.
    pub fn skipped_keys(&self) -> usize {
        self.skipped
    }

    /// Whether a key supports the algorithm.
    pub fn supports_algorithm(&self, algorithm: JwsAlgorithm) -> bool {
        self.keys.iter().any(|key| key.find_check(algorithm).is_some())
    }

    /// Whether both sets have the same public keys under the same key ids, in any order.
    pub fn has_same_keys(&self, other: &Self) -> bool {
        let among =
            |key: &IssuerKey, set: &Self| set.keys.iter().any(|other| key.is_same_key(other));
        self.len() == other.len()
            && self.keys.iter().all(|key| among(key, other))
            && other.keys.iter().all(|key| among(key, self))
    }

    /// The keys that can verify a token with this algorithm and key id.
    ///
    /// With a key id, only keys of that id are considered; without one, all are. Exactly one of them must support the
    /// algorithm. In a set without key ids, such as from PEM, the token's key id is ignored and a few candidates are
    /// tried.
    pub(crate) fn find(
        &self,
        algorithm: JwsAlgorithm,
        kid: Option<&str>,
    ) -> Result<impl Iterator<Item = &SignatureCheck>, TokenError> {
        let named = self.keys.iter().any(|key| key.kid.is_some());
        let kid = kid.filter(|_| named);
        let is_meant =
            move |key: &&IssuerKey| kid.is_none_or(|kid| key.kid.as_deref() == Some(kid));
        let meant = self.keys.iter().filter(is_meant);
        let suitable = meant.clone().filter_map(move |key| key.find_check(algorithm));
        match suitable.clone().count() {
            1 => Ok(suitable),
            0 if meant.count() == 0 => Err(TokenError::UnknownKey),
            0 => Err(TokenError::WrongKey),
            several if !named && several <= MAX_TRIED_KEYS => Ok(suitable),
            _ => Err(TokenError::AmbiguousKey),
        }
    }
}

impl IssuerKey {
    fn find_check(&self, algorithm: JwsAlgorithm) -> Option<&SignatureCheck> {
        self.checks.iter().find(|(suited, _)| *suited == algorithm).map(|(_, check)| check)
    }

    fn is_same_key(&self, other: &Self) -> bool {
        let pairs = self.checks.iter().zip(&other.checks);
        self.kid == other.kid
            && self.checks.len() == other.checks.len()
            && pairs.into_iter().all(|(one, two)| one.0 == two.0 && one.1.is_same_key(&two.1))
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySet({} keys, {} skipped)", self.keys.len(), self.skipped)
    }
}

#[cfg(test)]
mod tests;
