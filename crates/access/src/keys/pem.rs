//! Parses public keys in PEM (RFC 7468). The DER content determines the type of each key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::check::Family;
use super::{InvalidKeys, Key, KeySet, LIMIT};

const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";

pub(super) fn read_set(text: &str) -> Result<KeySet, InvalidKeys> {
    let mut keys = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let inside = rest.strip_prefix(BEGIN).ok_or(InvalidKeys::NotPem)?;
        let (body, after) = inside.split_once(END).ok_or(InvalidKeys::NotPem)?;
        keys.push(read(body)?);
        rest = after.trim_start();
    }
    match keys.len() {
        0 => Err(InvalidKeys::NotPem),
        1..=LIMIT => Ok(KeySet { keys, skipped: 0 }),
        _ => Err(InvalidKeys::TooMany),
    }
}

fn read(body: &str) -> Result<Key, InvalidKeys> {
    let body: String = body.split_ascii_whitespace().collect();
    let bytes = STANDARD.decode(body).map_err(|_| InvalidKeys::NotPem)?;
    let checks = Family::ALL.into_iter().find_map(|family| family.checks(&bytes));
    Ok(Key { kid: None, checks: checks.ok_or(InvalidKeys::Unusable)? })
}
