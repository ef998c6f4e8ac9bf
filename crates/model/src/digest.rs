//! A full SHA-256 digest: the address of a document, the fingerprint of a manifest. It is never truncated, because 64
//! bits can be forged.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// 32 bytes of SHA-256, written as 64 hexadecimal characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("title" = "64 hexadecimal characters", "pattern" = "^[0-9A-Fa-f]{64}$"))]
pub struct Digest([u8; 32]);

/// The error for a string or byte sequence that is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 hexadecimal characters")]
pub struct InvalidDigest;

impl Digest {
    /// The digest of these bytes.
    pub fn of_bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(bytes.as_ref()).into())
    }

    /// The digest of a value with sorted object keys: the order of keys makes no difference.
    pub fn of_canonical(value: &Value) -> Self {
        Self::of_bytes(Self::canonical_json(value))
    }

    /// The canonical text that [`Self::of_canonical`] hashes.
    pub(crate) fn canonical_json(value: &Value) -> String {
        let mut text = Vec::with_capacity(512);
        write_sorted(value, &mut text);
        String::from_utf8(text).expect("JSON is text")
    }

    /// The raw bytes, as stored in the database.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads the raw bytes from the database.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidDigest> {
        bytes.try_into().map(Self).map_err(|_| InvalidDigest)
    }
}

/// An incremental digest.
#[derive(Debug)]
pub(crate) struct DigestBuilder(Sha256);

impl DigestBuilder {
    pub(crate) fn new() -> Self {
        Self(Sha256::new())
    }

    pub(crate) fn update(&mut self, piece: &str) {
        self.0.update(piece);
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// Writes a value as JSON with sorted keys.
fn write_sorted(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<(&String, &Value)> = object.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            text.push(b'{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if 0 < index {
                    text.push(b',');
                }
                write_scalar(key, text);
                text.push(b':');
                write_sorted(value, text);
            }
            text.push(b'}');
        }
        Value::Array(items) => {
            text.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if 0 < index {
                    text.push(b',');
                }
                write_sorted(item, text);
            }
            text.push(b']');
        }
        scalar => write_scalar(scalar, text),
    }
}

fn write_scalar(value: &impl Serialize, text: &mut Vec<u8>) {
    serde_json::to_writer(text, value).expect("a scalar is written to memory");
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let nibble = |c: u8| char::from(c).to_digit(16).ok_or(InvalidDigest);
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let mut bytes = [0; 32];
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return Err(InvalidDigest);
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte =
                u8::try_from(nibble(*high)? * 16 + nibble(*low)?).expect("two nibbles are a byte");
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}
impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (byte, pair) in self.0.iter().zip(text.as_chunks_mut::<2>().0) {
            *pair = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
        }
        f.write_str(str::from_utf8(&text).expect("hexadecimal is ASCII"))
    }
}
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_printed_and_read_back() {
        let digest = Digest::of_bytes("abc");
        assert_eq!(
            digest.to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!("ba78".parse::<Digest>(), Err(InvalidDigest));
        assert_eq!("z".repeat(64).parse::<Digest>(), Err(InvalidDigest));
    }

    #[test]
    fn the_order_of_keys_does_not_change_a_canonical_digest() {
        let value = |text: &str| serde_json::from_str(text).unwrap();
        let one = Digest::of_canonical(&value(r#"{"a":1,"b":{"x":1,"y":2}}"#));
        let two = Digest::of_canonical(&value(r#"{"b":{"y":2,"x":1},"a":1}"#));
        assert_eq!(one, two);
        assert_ne!(one, Digest::of_canonical(&value(r#"{"b":{"y":1,"x":2},"a":1}"#)));
    }
}
