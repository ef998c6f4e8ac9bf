//! Parses public keys in PEM (RFC 7468). The DER content determines the type of each key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::signature_check::KeyFamily;
use super::{InvalidKeySet, IssuerKey, KeySet, LIMIT};

const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";

pub(super) fn parse_pem_keys(text: &str) -> Result<KeySet, InvalidKeySet> {
    let mut keys = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let inside = rest.strip_prefix(BEGIN).ok_or(InvalidKeySet::NotPem)?;
        let (body, after) = inside.split_once(END).ok_or(InvalidKeySet::NotPem)?;
        keys.push(parse_pem_body(body)?);
        rest = after.trim_start();
    }
    match keys.len() {
        0 => Err(InvalidKeySet::NotPem),
        1..=LIMIT => Ok(KeySet { keys, skipped: 0 }),
        _ => Err(InvalidKeySet::TooMany),
    }
}

fn parse_pem_body(body: &str) -> Result<IssuerKey, InvalidKeySet> {
    let body: String = body.split_ascii_whitespace().collect();
    let bytes = STANDARD.decode(body).map_err(|_| InvalidKeySet::NotPem)?;
    let checks = KeyFamily::ALL.into_iter().find_map(|family| family.parse_checks(&bytes));
    Ok(IssuerKey { kid: None, checks: checks.ok_or(InvalidKeySet::Unusable)? })
}
