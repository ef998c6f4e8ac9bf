//! A self-signed certificate for one test.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Certificate for `localhost` and its key, both in PEM.
pub(crate) struct Certificate {
    pub(crate) der: Vec<u8>,
    pub(crate) pem: String,
    pub(crate) key: String,
}

const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

const SEQUENCE: u8 = 0x30;
const OBJECT_ID: u8 = 6;
const BITS: u8 = 3;

impl Certificate {
    /// Certificate that is valid from 2025 to 2049.
    pub(crate) fn new() -> Self {
        Self::for_host("localhost", ["250101000000Z", "490101000000Z"])
    }

    /// Certificate for this name and period; the times are `UTCTime` as in RFC 5280.
    pub(crate) fn for_host(host: &str, [from, until]: [&str; 2]) -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let algorithm = der(SEQUENCE, &[&der(OBJECT_ID, &[ECDSA_WITH_SHA256])]);
        let common_name = [der(OBJECT_ID, &[COMMON_NAME]), der(0x0c, &[host.as_bytes()])].concat();
        let name = der(SEQUENCE, &[&der(0x31, &[&der(SEQUENCE, &[&common_name])])]);
        let times = [from, until].map(|time| der(0x17, &[time.as_bytes()])).concat();
        let kind = [der(OBJECT_ID, &[EC_PUBLIC_KEY]), der(OBJECT_ID, &[P256])].concat();
        let public = der(BITS, &[&[0], key.public_key().as_ref()]);
        let names = der(4, &[&der(SEQUENCE, &[&der(0x82, &[host.as_bytes()])])]);
        let extension = der(SEQUENCE, &[&der(OBJECT_ID, &[SUBJECT_ALT_NAME]), &names]);
        let content = der(
            SEQUENCE,
            &[
                &der(0xa0, &[&der(2, &[&[2]])]),
                &der(2, &[&[1]]),
                &algorithm,
                &name,
                &der(SEQUENCE, &[&times]),
                &name,
                &der(SEQUENCE, &[&der(SEQUENCE, &[&kind]), &public]),
                &der(0xa3, &[&der(SEQUENCE, &[&extension])]),
            ],
        );
        let signature = key.sign(&SystemRandom::new(), &content).unwrap();
        let signature = der(BITS, &[&[0], signature.as_ref()]);
        let whole = der(SEQUENCE, &[&content, &algorithm, &signature]);
        let private = key.to_pkcs8v1().unwrap();
        Self {
            pem: pem("CERTIFICATE", &whole),
            key: pem("PRIVATE KEY", private.as_ref()),
            der: whole,
        }
    }
}

/// DER encoding of an ASN.1 value: tag, length and content.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let length = match length {
        [0, short @ 0..=127] => vec![short],
        [0, long] => vec![0x81, long],
        [high, low] => vec![0x82, high, low],
    };
    [&[tag], &length[..], &content].concat()
}

fn pem(kind: &str, der: &[u8]) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der))
}
