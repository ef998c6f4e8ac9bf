//! A test issuer that makes keys and signs tokens. Tests of several crates use it.
#![allow(
    dead_code,
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each crate uses another part of it, and in a test a panic is an answer"
)]

use std::sync::LazyLock;

use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaEncoding, RsaKeyPair};
use aws_lc_rs::{hmac, signature};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

pub(crate) enum Signer {
    Rsa(RsaKeyPair),
    /// The name of the curve, and the key.
    Ec(&'static str, EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Secret(Vec<u8>),
}

/// Generated once per process, because generating an RSA key is slow.
pub(crate) static RSA: LazyLock<Signer> =
    LazyLock::new(|| Signer::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()));

impl Signer {
    pub(crate) fn p256() -> Self {
        let key = EcdsaKeyPair::generate(&signature::ECDSA_P256_SHA256_FIXED_SIGNING);
        Self::Ec("P-256", key.unwrap())
    }

    pub(crate) fn p384() -> Self {
        let key = EcdsaKeyPair::generate(&signature::ECDSA_P384_SHA384_FIXED_SIGNING);
        Self::Ec("P-384", key.unwrap())
    }

    pub(crate) fn p521() -> Self {
        let key = EcdsaKeyPair::generate(&signature::ECDSA_P521_SHA512_FIXED_SIGNING);
        Self::Ec("P-521", key.unwrap())
    }

    pub(crate) fn ed25519() -> Self {
        Self::Ed25519(Ed25519KeyPair::generate().unwrap())
    }

    /// Signs with the algorithm, if the key supports it.
    pub(crate) fn sign(&self, algorithm: &str, input: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let encoding: &dyn RsaEncoding = match algorithm {
                    "RS256" => &signature::RSA_PKCS1_SHA256,
                    "RS384" => &signature::RSA_PKCS1_SHA384,
                    "RS512" => &signature::RSA_PKCS1_SHA512,
                    "PS256" => &signature::RSA_PSS_SHA256,
                    "PS384" => &signature::RSA_PSS_SHA384,
                    _ => &signature::RSA_PSS_SHA512,
                };
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(encoding, &random, input, &mut signature).unwrap();
                signature
            }
            Self::Ec(_, key) => key.sign(&random, input).unwrap().as_ref().to_vec(),
            Self::Ed25519(key) => key.sign(input).as_ref().to_vec(),
            Self::Secret(secret) => {
                let how = match algorithm {
                    "HS384" => hmac::HMAC_SHA384,
                    "HS512" => hmac::HMAC_SHA512,
                    _ => hmac::HMAC_SHA256,
                };
                hmac::sign(&hmac::Key::new(how, secret), input).as_ref().to_vec()
            }
        }
    }

    /// A token with this header, whose `alg` selects the algorithm, and these claims.
    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        self.text(&header.to_string(), claims.to_string().as_bytes())
    }

    /// A token with any header text and payload.
    pub(crate) fn text(&self, header: &str, payload: &[u8]) -> String {
        let read: Value = serde_json::from_str(header).unwrap_or_default();
        let input = format!("{}.{}", encode(header.as_bytes()), encode(payload));
        let signature = self.sign(read["alg"].as_str().unwrap_or_default(), input.as_bytes());
        format!("{input}.{}", encode(&signature))
    }

    pub(crate) fn jwk(&self, kid: &str) -> Value {
        match self {
            Self::Rsa(_) => {
                json!({"kty": "RSA", "kid": kid, "n": encode(&self.modulus()), "e": "AQAB"})
            }
            Self::Ec(curve, key) => {
                let point = key.public_key().as_ref();
                let (x, y) = point[1..].split_at(point.len() / 2);
                json!({"kty": "EC", "crv": curve, "kid": kid, "x": encode(x), "y": encode(y)})
            }
            Self::Ed25519(key) => {
                let x = encode(key.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x})
            }
            Self::Secret(secret) => json!({"kty": "oct", "kid": kid, "k": encode(secret)}),
        }
    }

    /// The modulus of a 2048-bit RSA key; it follows the nine bytes of the DER prefix.
    pub(crate) fn modulus(&self) -> Vec<u8> {
        let Self::Rsa(key) = self else { panic!("only an RSA key has a modulus") };
        key.public_key().as_ref()[9..][..256].to_vec()
    }

    /// The public key as `SubjectPublicKeyInfo` (DER).
    pub(crate) fn der(&self) -> Vec<u8> {
        let der: PublicKeyX509Der<'_> = match self {
            Self::Rsa(key) => key.public_key().as_der().unwrap(),
            Self::Ec(_, key) => key.public_key().as_der().unwrap(),
            Self::Ed25519(key) => key.public_key().as_der().unwrap(),
            Self::Secret(_) => panic!("a secret has no public key"),
        };
        der.as_ref().to_vec()
    }

    pub(crate) fn pem(&self) -> String {
        let body = STANDARD.encode(self.der());
        let lines: Vec<&str> =
            body.as_bytes().chunks(64).map(|line| str::from_utf8(line).unwrap()).collect();
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"))
    }
}

pub(crate) fn jwks(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
