//! The sealing key, and the format of sealed bytes: the format version (one byte), the time (microseconds since 1970,
//! eight bytes), the nonce, and the AES-256-GCM ciphertext of the value, with the name and the time as associated data.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf;
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};

use super::SecretError;
use crate::state_cipher::StateCipher;

/// Format without a time; no longer written.
const FORMAT_WITHOUT_TIME: u8 = 1;
const FORMAT_WITH_TIME: u8 = 2;
/// The length of a time in bytes.
const TIME_LEN: usize = 8;
/// The least length of a key in characters.
pub(super) const KEY_FROM: usize = 32;

/// Encrypts and decrypts sealed secrets.
#[derive(Clone)]
pub struct SealingKey(Arc<[u8; 32]>);

impl SealingKey {
    /// Derives a key from a long random text: `openssl rand -base64 32`.
    pub fn new(text: &SecretString) -> Result<Self, SecretError> {
        let text = text.expose_secret().trim();
        if text.chars().count() < KEY_FROM {
            return Err(SecretError::WeakKey);
        }
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"toolcrib sealing key 1");
        let mut key = [0; 32];
        let source = salt.extract(text.as_bytes());
        let expanded =
            source.expand(&[b"aes-256-gcm"], hkdf::HKDF_SHA256).and_then(|okm| okm.fill(&mut key));
        expanded.expect("32 bytes can be made from SHA-256");
        Ok(Self(Arc::new(key)))
    }

    /// A seal for state that clients keep for us: the same on every node with this key.
    pub fn derive_client_seal(&self) -> StateCipher {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"toolcrib client texts 1");
        let mut key = [0; 32];
        let source = salt.extract(&self.0[..]);
        let expanded =
            source.expand(&[b"aes-256-gcm"], hkdf::HKDF_SHA256).and_then(|okm| okm.fill(&mut key));
        expanded.expect("32 bytes can be made from SHA-256");
        StateCipher::new(&key)
    }

    fn cipher(&self) -> RandomizedNonceKey {
        RandomizedNonceKey::new(&AES_256_GCM, &self.0[..]).expect("the key has 32 bytes")
    }

    pub(super) fn seal_value(&self, name: &str, value: &SecretString, at: Timestamp) -> Vec<u8> {
        let time = at.as_microsecond().to_be_bytes();
        let (nonce, body) = self.encrypt_value(value, &[&time, name.as_bytes()].concat());
        [&[FORMAT_WITH_TIME][..], &time, nonce.as_ref(), &body].concat()
    }

    fn encrypt_value(&self, value: &SecretString, bound: &[u8]) -> (Nonce, Vec<u8>) {
        let mut body = value.expose_secret().as_bytes().to_vec();
        let nonce = self.cipher().seal_in_place_append_tag(Aad::from(bound), &mut body);
        (nonce.expect("a secret is short enough to be sealed"), body)
    }

    pub(super) fn unseal_value(&self, name: &str, sealed: &[u8]) -> Option<SecretString> {
        let (time, rest) = match sealed.split_first()? {
            (&FORMAT_WITHOUT_TIME, rest) => (&[][..], rest),
            (&FORMAT_WITH_TIME, rest) => rest.split_at_checked(TIME_LEN)?,
            _ => return None,
        };
        let (nonce, body) = rest.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let (mut body, bound) = (body.to_vec(), [time, name.as_bytes()].concat());
        let text = self.cipher().open_in_place(nonce, Aad::from(&bound), &mut body).ok()?;
        str::from_utf8(text).ok().map(SecretString::from)
    }
}

/// The time of sealing, if the bytes contain it. It is not authenticated: only decryption proves that it is true.
pub(super) fn sealed_at(sealed: &[u8]) -> Option<Timestamp> {
    let time = sealed.strip_prefix(&[FORMAT_WITH_TIME])?.first_chunk::<TIME_LEN>()?;
    Timestamp::from_microsecond(i64::from_be_bytes(*time)).ok()
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_sealed_without_a_time_can_still_be_opened() {
        let key = SealingKey::new(&"0123456789abcdef0123456789abcdef".into()).unwrap();
        let (nonce, body) = key.encrypt_value(&"hunter2".into(), b"billing");
        let mut sealed = [&[FORMAT_WITHOUT_TIME][..], nonce.as_ref(), &body].concat();
        assert_eq!(key.unseal_value("billing", &sealed).unwrap().expose_secret(), "hunter2");
        assert_eq!(sealed_at(&sealed), None);
        sealed[0] = FORMAT_WITH_TIME;
        assert!(key.unseal_value("billing", &sealed).is_none());
    }

    #[test]
    fn the_time_is_authenticated() {
        let key = SealingKey::new(&"0123456789abcdef0123456789abcdef".into()).unwrap();
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let mut sealed = key.seal_value("billing", &"hunter2".into(), at);
        assert_eq!(sealed_at(&sealed), Some(at));
        assert_eq!(key.unseal_value("billing", &sealed).unwrap().expose_secret(), "hunter2");
        sealed[8] ^= 1;
        assert!(key.unseal_value("billing", &sealed).is_none());
    }
}
