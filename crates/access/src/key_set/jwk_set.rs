//! Parses a JWK set (RFC 7517). Private key parameters are ignored.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::signature_check::{AlgorithmChecks, KeyFamily};
use super::{InvalidKeySet, IssuerKey, KeySet, LIMIT, signature_check};
use crate::JwsAlgorithm;

pub(super) fn parse_jwk_set(bytes: &[u8]) -> Result<KeySet, InvalidKeySet> {
    let set = json::strict_json::parse_object(bytes).map_err(|_| InvalidKeySet::NotAKeySet)?;
    let Some(Value::Array(listed)) = set.get("keys") else { return Err(InvalidKeySet::NotAKeySet) };
    if LIMIT < listed.len() {
        return Err(InvalidKeySet::TooMany);
    }
    let keys: Vec<IssuerKey> =
        listed.iter().filter_map(Value::as_object).filter_map(parse_jwk).collect();
    let skipped = listed.len() - keys.len();
    Ok(KeySet { keys, skipped })
}

/// Parses a key for verifying signatures; `None` if its use or type is not supported.
fn parse_jwk(jwk: &Map<String, Value>) -> Option<IssuerKey> {
    if jwk.get("use").is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    if jwk.get("key_ops").is_some_and(|operations| !lists_operation(operations, "verify")) {
        return None;
    }
    let kid = match jwk.get("kid") {
        None => None,
        Some(Value::String(kid)) => Some(kid.as_str().into()),
        Some(_) => return None,
    };
    let mut checks = jwk_checks(jwk)?;
    if let Some(only) = jwk.get("alg") {
        let only = JwsAlgorithm::from_name(only.as_str()?)?;
        checks.retain(|(algorithm, _)| *algorithm == only);
    }
    (!checks.is_empty()).then_some(IssuerKey { kid, checks })
}

fn lists_operation(operations: &Value, operation: &str) -> bool {
    operations.as_array().is_some_and(|listed| listed.iter().any(|listed| listed == operation))
}

fn jwk_checks(jwk: &Map<String, Value>) -> Option<AlgorithmChecks> {
    let text = |name: &str| jwk.get(name)?.as_str();
    let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
    match (text("kty")?, text("crv")) {
        ("RSA", _) => signature_check::rsa_checks(&bytes("n")?, &bytes("e")?),
        ("EC", Some("P-256")) => point_checks(KeyFamily::P256, 32, &bytes("x")?, &bytes("y")?),
        ("EC", Some("P-384")) => point_checks(KeyFamily::P384, 48, &bytes("x")?, &bytes("y")?),
        ("EC", Some("P-521")) => point_checks(KeyFamily::P521, 66, &bytes("x")?, &bytes("y")?),
        ("OKP", Some("Ed25519")) => {
            let x = bytes("x")?;
            if x.len() == 32 { KeyFamily::Ed25519.parse_checks(&x) } else { None }
        }
        // Also skips `oct`: a published secret is not secret.
        _ => None,
    }
}

/// Makes checks from a curve point. Coordinates must have full length (RFC 7518, section 6.2.1.2).
fn point_checks(family: KeyFamily, length: usize, x: &[u8], y: &[u8]) -> Option<AlgorithmChecks> {
    if x.len() != length || y.len() != length {
        return None;
    }
    family.parse_checks(&[&[4], x, y].concat())
}
