//! Parses a JWK set (RFC 7517). Private key parameters are ignored.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::check::{self, Checks, Family};
use super::{InvalidKeys, Key, KeySet, LIMIT};
use crate::Algorithm;

pub(super) fn read_set(bytes: &[u8]) -> Result<KeySet, InvalidKeys> {
    let set = model::strict_json::object(bytes).map_err(|_| InvalidKeys::NotAKeySet)?;
    let Some(Value::Array(listed)) = set.get("keys") else { return Err(InvalidKeys::NotAKeySet) };
    if LIMIT < listed.len() {
        return Err(InvalidKeys::TooMany);
    }
    let keys: Vec<Key> = listed.iter().filter_map(Value::as_object).filter_map(read).collect();
    let skipped = listed.len() - keys.len();
    Ok(KeySet { keys, skipped })
}

/// Parses a key for verifying signatures; `None` if its use or type is not supported.
fn read(jwk: &Map<String, Value>) -> Option<Key> {
    if jwk.get("use").is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    if jwk.get("key_ops").is_some_and(|operations| !contains(operations, "verify")) {
        return None;
    }
    let kid = match jwk.get("kid") {
        None => None,
        Some(Value::String(kid)) => Some(kid.as_str().into()),
        Some(_) => return None,
    };
    let mut checks = checks(jwk)?;
    if let Some(only) = jwk.get("alg") {
        let only = Algorithm::named(only.as_str()?)?;
        checks.retain(|(algorithm, _)| *algorithm == only);
    }
    (!checks.is_empty()).then_some(Key { kid, checks })
}

fn contains(operations: &Value, operation: &str) -> bool {
    operations.as_array().is_some_and(|listed| listed.iter().any(|listed| listed == operation))
}

fn checks(jwk: &Map<String, Value>) -> Option<Checks> {
    let text = |name: &str| jwk.get(name)?.as_str();
    let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
    match (text("kty")?, text("crv")) {
        ("RSA", _) => check::rsa(&bytes("n")?, &bytes("e")?),
        ("EC", Some("P-256")) => point(Family::P256, 32, &bytes("x")?, &bytes("y")?),
        ("EC", Some("P-384")) => point(Family::P384, 48, &bytes("x")?, &bytes("y")?),
        ("EC", Some("P-521")) => point(Family::P521, 66, &bytes("x")?, &bytes("y")?),
        ("OKP", Some("Ed25519")) => {
            let x = bytes("x")?;
            if x.len() == 32 { Family::Ed25519.checks(&x) } else { None }
        }
        // Also skips `oct`: a published secret is not secret.
        _ => None,
    }
}

/// Makes checks from a curve point. Coordinates must have full length (RFC 7518, section 6.2.1.2).
fn point(family: Family, length: usize, x: &[u8], y: &[u8]) -> Option<Checks> {
    if x.len() != length || y.len() != length {
        return None;
    }
    family.checks(&[&[4], x, y].concat())
}
