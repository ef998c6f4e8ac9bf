//! Encrypts state that a client stores for us and sends back: cursors, sessions, the state of a suspended call.
//!
//! The encryption is authenticated. Each text is bound to its purpose and its holder: a modified text, or one that
//! another client presents, does not decrypt.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const NONCE_BYTES: usize = 12;

/// An unguessable random id, as 32 hexadecimal digits.
pub fn random_id() -> String {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Encrypts and decrypts state that clients store.
#[derive(Clone)]
pub struct StateCipher(Arc<RandomizedNonceKey>);

impl StateCipher {
    /// A cipher with a random key: only this process can decrypt its texts.
    pub fn with_random_key() -> Self {
        let mut key = [0; 32];
        aws_lc_rs::rand::fill(&mut key).expect("the system has random numbers");
        Self::new(&key)
    }

    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let key = RandomizedNonceKey::new(&AES_256_GCM, key).expect("the key has 32 bytes");
        Self(Arc::new(key))
    }

    /// Encrypts content for one purpose and one holder.
    pub fn encrypt(&self, purpose: &str, holder: &str, content: &[u8]) -> String {
        let mut body = content.to_vec();
        let bound = associated_data(purpose, holder);
        let nonce = self.0.seal_in_place_append_tag(Aad::from(&bound), &mut body);
        let nonce = nonce.expect("the content is shorter than the cipher's limit");
        body.splice(..0, nonce.as_ref().iter().copied());
        URL_SAFE_NO_PAD.encode(body)
    }

    /// Decrypts a text for this purpose and this holder; `None` if it is not valid for them.
    pub fn decrypt(&self, purpose: &str, holder: &str, text: &str) -> Option<Vec<u8>> {
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, body) = sealed.split_at_checked(NONCE_BYTES)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut body = body.to_vec();
        let content =
            self.0.open_in_place(nonce, Aad::from(associated_data(purpose, holder)), &mut body);
        content.ok().map(|content| content.to_vec())
    }
}

fn associated_data(purpose: &str, holder: &str) -> Vec<u8> {
    format!("{purpose}\0{holder}").into_bytes()
}

impl fmt::Debug for StateCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateCipher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_encrypted_text_decrypts_and_only_for_its_holder() {
        let seal = StateCipher::with_random_key();
        let text = seal.encrypt("cursor", "ada", b"42");
        assert_eq!(seal.decrypt("cursor", "ada", &text).as_deref(), Some(&b"42"[..]));
        assert_ne!(seal.encrypt("cursor", "ada", b"42"), text);
        for (purpose, holder) in [("cursor", "eve"), ("session", "ada"), ("cursor\0a", "da")] {
            assert_eq!(seal.decrypt(purpose, holder, &text), None);
        }
        assert_eq!(StateCipher::with_random_key().decrypt("cursor", "ada", &text), None);
        let changed = |at: usize| -> String {
            let flip = |(place, c): (usize, char)| match place == at {
                true if c == 'A' => 'B',
                true => 'A',
                false => c,
            };
            text.chars().enumerate().map(flip).collect()
        };
        for at in 0..text.len() {
            assert_eq!(seal.decrypt("cursor", "ada", &changed(at)), None, "{at}");
        }
        for other in ["", "A", "=", "a b", &format!("{text}-TAMPERED"), &"A".repeat(100_000)] {
            assert_eq!(seal.decrypt("cursor", "ada", other), None);
        }
    }
}
