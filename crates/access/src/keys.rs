//! The keys of an issuer. A key knows by itself what it is good for; a token's `alg` only chooses among that.
//!
//! Each key is parsed once for each algorithm it suits: parsing an RSA key anew would add a fifth to every check. An RSA
//! key suits six algorithms, a curve one, a secret as many as it is long enough for. So there is no way to use a public
//! key as a secret (RFC 8725, section 3.1): no such pair is ever made.

mod check;
mod jwk;
mod pem;
mod roca;

use std::fmt;

use crate::{Algorithm, TokenError};
pub(crate) use check::Check;
use check::Checks;

/// The most keys in a set: more would make finding one slow, and nobody has them.
const LIMIT: usize = 64;

/// The most keys that are tried for one token: each costs as much as a good token.
const TRIED: usize = 4;

/// The keys of an issuer. It prints how many, not which.
pub struct KeySet {
    keys: Vec<Key>,
    skipped: usize,
}

struct Key {
    kid: Option<Box<str>>,
    checks: Checks,
}

/// Why there is no key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeys {
    /// Something else.
    #[error("this is not a JWK set: it is a JSON object with a list `keys`, and no member twice")]
    NotAKeySet,
    /// More than anybody needs.
    #[error("a key set has at most {LIMIT} keys")]
    TooMany,
    /// No PEM, or with something else in it.
    #[error(
        "public keys stand between `-----BEGIN PUBLIC KEY-----` and `-----END PUBLIC KEY-----`, and nothing else does"
    )]
    NotPem,
    /// A key of a kind we do not know, or too weak.
    #[error(
        "a public key is for RSA with 2048 to 8192 bits, P-256, P-384, P-521 or Ed25519, and this one is not"
    )]
    Unusable,
    /// A secret that can be guessed.
    #[error("a secret for tokens has at least 32 bytes: make one with `openssl rand -base64 48`")]
    ShortSecret,
}

impl KeySet {
    /// From a JWK set (RFC 7517). Keys that are for something else, or of a kind we do not know, are skipped, and so
    /// are secrets: who can read a set could sign with them.
    pub fn from_jwks(bytes: &[u8]) -> Result<Self, InvalidKeys> {
        jwk::read_set(bytes)
    }

    /// From one or several public keys in PEM (RFC 7468).
    pub fn from_pem(text: &str) -> Result<Self, InvalidKeys> {
        pem::read_set(text)
    }

    /// From a shared secret. It is for as many of `HS256`, `HS384` and `HS512` as it has bytes for (RFC 7518, 3.2).
    pub fn from_secret(secret: &[u8]) -> Result<Self, InvalidKeys> {
        let checks = check::secret(secret);
        if checks.is_empty() {
            return Err(InvalidKeys::ShortSecret);
        }
        Ok(Self { keys: vec![Key { kid: None, checks }], skipped: 0 })
    }

    /// How many keys can be used.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no token can be checked.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many keys cannot be used.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Whether a key is good for the algorithm.
    pub fn suits(&self, algorithm: Algorithm) -> bool {
        self.keys.iter().any(|key| key.check(algorithm).is_some())
    }

    /// Whether both have the same public keys under the same names, in whatever order.
    pub fn is_same(&self, other: &Self) -> bool {
        let among = |key: &Key, set: &Self| set.keys.iter().any(|other| key.is_same(other));
        self.len() == other.len()
            && self.keys.iter().all(|key| among(key, other))
            && other.keys.iter().all(|key| among(key, self))
    }

    /// What checks a token that names this algorithm and this key.
    ///
    /// With a name, only keys of that name are considered; without one, all are. Exactly one of them must suit. In a
    /// set without names, as from PEM, the token's name for its key says nothing, and any of a few that suit will do.
    pub(crate) fn find(
        &self,
        algorithm: Algorithm,
        kid: Option<&str>,
    ) -> Result<impl Iterator<Item = &Check>, TokenError> {
        let named = self.keys.iter().any(|key| key.kid.is_some());
        let kid = kid.filter(|_| named);
        let is_meant = move |key: &&Key| kid.is_none_or(|kid| key.kid.as_deref() == Some(kid));
        let meant = self.keys.iter().filter(is_meant);
        let suitable = meant.clone().filter_map(move |key| key.check(algorithm));
        match suitable.clone().count() {
            1 => Ok(suitable),
            0 if meant.count() == 0 => Err(TokenError::UnknownKey),
            0 => Err(TokenError::WrongKey),
            several if !named && several <= TRIED => Ok(suitable),
            _ => Err(TokenError::AmbiguousKey),
        }
    }
}

impl Key {
    fn check(&self, algorithm: Algorithm) -> Option<&Check> {
        self.checks.iter().find(|(suited, _)| *suited == algorithm).map(|(_, check)| check)
    }

    fn is_same(&self, other: &Self) -> bool {
        let pairs = self.checks.iter().zip(&other.checks);
        self.kid == other.kid
            && self.checks.len() == other.checks.len()
            && pairs.into_iter().all(|(one, two)| one.0 == two.0 && one.1.is_same(&two.1))
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySet({} keys, {} skipped)", self.keys.len(), self.skipped)
    }
}

#[cfg(test)]
mod tests;
