//! Client authentication with a signed assertion (`private_key_jwt`, RFC 7523) and ES256.

use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::user_consent::random_secret;

/// The lifetime of an assertion, in seconds.
const ASSERTION_LIFETIME: u64 = 60;

/// A private key on the curve P-256. It has no `Debug`, so that it cannot be printed.
#[derive(Clone)]
pub struct ClientSigningKey(Arc<EcdsaKeyPair>);

impl ClientSigningKey {
    /// Reads `-----BEGIN PRIVATE KEY-----` (PKCS #8). `None` if it is not a key, or of another kind.
    pub fn from_pem(pem: &str) -> Option<Self> {
        let (_, body) = pem.split_once("-----BEGIN PRIVATE KEY-----")?;
        let (body, _) = body.split_once("-----END PRIVATE KEY-----")?;
        let body: String = body.split_whitespace().collect();
        let der = STANDARD.decode(body).ok()?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der).ok()?;
        Some(Self(Arc::new(key)))
    }

    /// A short-lived assertion of the client's identity for one issuer.
    pub(super) fn sign_assertion(&self, client: &str, issuer: &str, now: u64) -> Option<String> {
        let claims = json!({
            "iss": client, "sub": client, "aud": issuer,
            "iat": now, "exp": now.saturating_add(ASSERTION_LIFETIME), "jti": random_secret(),
        });
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(json!({"alg": "ES256", "typ": "JWT"})), part(claims));
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, UnparsedPublicKey};

    use super::*;

    #[test]
    fn an_assertion_is_signed_and_names_client_and_issuer() {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let der = key.to_pkcs8v1().unwrap();
        let pem = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            STANDARD.encode(&der)
        );
        let assertion =
            ClientSigningKey::from_pem(&pem).unwrap().sign_assertion("me", "https://as", 100);
        let assertion = assertion.unwrap();
        let (signed, signature) = assertion.rsplit_once('.').unwrap();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.public_key().as_ref());
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        public.verify(signed.as_bytes(), &signature).unwrap();
        let claims = URL_SAFE_NO_PAD.decode(signed.split_once('.').unwrap().1).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!((&claims["iss"], &claims["sub"]), (&json!("me"), &json!("me")));
        assert_eq!((&claims["aud"], &claims["exp"]), (&json!("https://as"), &json!(160)));
    }

    #[test]
    fn an_invalid_key_is_rejected() {
        for pem in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"] {
            assert!(ClientSigningKey::from_pem(pem).is_none(), "{pem}");
        }
    }
}
