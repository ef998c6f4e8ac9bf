//! Attacks on JWS: malformed texts, algorithm confusion, embedded keys (JWT-01 to JWT-05, JWT-19).

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::signer::{RSA, Signer, encode, jwks};

const ALL: [JwsAlgorithm; 13] = [
    JwsAlgorithm::RS256,
    JwsAlgorithm::RS384,
    JwsAlgorithm::RS512,
    JwsAlgorithm::PS256,
    JwsAlgorithm::PS384,
    JwsAlgorithm::PS512,
    JwsAlgorithm::ES256,
    JwsAlgorithm::ES384,
    JwsAlgorithm::ES512,
    JwsAlgorithm::EdDSA,
    JwsAlgorithm::HS256,
    JwsAlgorithm::HS384,
    JwsAlgorithm::HS512,
];

fn keys(signer: &Signer) -> KeySet {
    KeySet::from_jwks(jwks(&[signer.jwk("k")]).as_bytes()).unwrap()
}

fn verified(text: &str, keys: &KeySet) -> Result<Vec<u8>, TokenError> {
    verify_signature(text, keys, &ALL)
}

/// Header, payload and signature of a JWS.
fn parts(text: &str) -> [&str; 3] {
    text.split('.').collect::<Vec<_>>().try_into().unwrap()
}

#[test]
fn any_payload_is_returned_unchanged() {
    let signer = Signer::p256();
    for payload in [&b"{}"[..], b"", b"\xff\0", b"hello"] {
        let text = signer.text(r#"{"alg":"ES256"}"#, payload);
        assert_eq!(verified(&text, &keys(&signer)).unwrap(), payload);
    }
}

#[test]
fn alg_none_is_rejected_in_any_spelling() {
    let keys = keys(&Signer::p256());
    for name in ["none", "None", "nOnE", "NONE", "", "es256", "ES256 ", "ES256K", "Es256", "HS1"] {
        let header = encode(json!({"alg": name}).to_string().as_bytes());
        let payload = encode(b"{}");
        let signed = format!("{header}.{payload}.{}", encode(&[1; 64]));
        assert_eq!(verified(&signed, &keys), Err(TokenError::Algorithm), "{name}");
        for unsigned in [format!("{header}.{payload}."), format!("{header}.{payload}")] {
            let error = verified(&unsigned, &keys).unwrap_err();
            assert!(matches!(error, TokenError::Malformed { .. }), "{name}: {error}");
        }
    }
}

#[test]
fn a_public_key_is_never_used_as_a_secret() {
    for signer in [&*RSA, &Signer::p256()] {
        let set = keys(signer);
        let mut known = vec![
            signer.pem().into_bytes(),
            signer.pem().trim_end().as_bytes().to_vec(),
            signer.der(),
            signer.jwk("k").to_string().into_bytes(),
            jwks(&[signer.jwk("k")]).into_bytes(),
        ];
        if let Signer::Rsa(_) = signer {
            known.push(signer.modulus());
        }
        for bytes in known {
            for algorithm in ["HS256", "HS384", "HS512"] {
                let attacker = Signer::Secret(bytes.clone());
                for header in [json!({"alg": algorithm}), json!({"alg": algorithm, "kid": "k"})] {
                    let text = attacker.token(&header, &json!({}));
                    assert_eq!(verified(&text, &set), Err(TokenError::WrongKey));
                    let allowed = verify_signature(&text, &set, &JwsAlgorithm::DEFAULT);
                    assert_eq!(allowed, Err(TokenError::Algorithm));
                }
            }
        }
    }
}

#[test]
fn keys_in_or_referenced_by_the_header_are_ignored() {
    let (ours, theirs) = (Signer::p256(), Signer::p256());
    let certificate = base64::engine::general_purpose::STANDARD.encode(theirs.der());
    for more in [
        json!({"jwk": theirs.jwk("k")}),
        json!({"jwk": theirs.jwk("k"), "kid": "k"}),
        json!({"x5c": [certificate]}),
        json!({"jku": "https://evil.example/jwks.json", "kid": "k"}),
        json!({"x5u": "file:///etc/passwd"}),
    ] {
        let mut header = more.clone();
        header["alg"] = "ES256".into();
        let forged = theirs.token(&header, &json!({}));
        assert_eq!(verified(&forged, &keys(&ours)), Err(TokenError::Signature), "{more}");
        let ignored = ours.token(&header, &json!({}));
        assert!(verified(&ignored, &keys(&ours)).is_ok(), "{more}");
    }
}

#[test]
fn only_allowed_algorithms_are_accepted() {
    let text = RSA.token(&json!({"alg": "RS256"}), &json!({}));
    let allowed = [JwsAlgorithm::PS256, JwsAlgorithm::RS512];
    assert_eq!(verify_signature(&text, &keys(&RSA), &allowed), Err(TokenError::Algorithm));
    // The padding is that of the algorithm; the signer does not choose it.
    let [_, payload, signature] = parts(&text);
    let renamed = format!("{}.{payload}.{signature}", encode(br#"{"alg":"PS256"}"#));
    assert_eq!(verified(&renamed, &keys(&RSA)), Err(TokenError::Signature));
}

#[test]
fn headers_that_change_the_meaning_are_rejected() {
    let signer = Signer::p256();
    for (member, value) in [
        ("crit", json!(["exp"])),
        ("crit", json!([])),
        ("b64", json!(false)),
        ("b64", json!(true)),
        ("zip", json!("DEF")),
        ("enc", json!("A256GCM")),
    ] {
        let mut header = json!({"alg": "ES256"});
        header[member] = value;
        let text = signer.token(&header, &json!({}));
        assert_eq!(verified(&text, &keys(&signer)), Err(TokenError::Unsupported { member }));
    }
}

#[test]
fn a_header_is_an_object_of_strings_without_duplicates() {
    let signer = Signer::p256();
    for header in [
        r#"{"alg":"ES256","alg":"ES256"}"#,
        r#"{"alg":"none","alg":"ES256"}"#,
        r#"{"alg":"ES256","x":{"a":1,"a":2}}"#,
        r#"{"alg":["ES256"]}"#,
        r#"{"alg":"ES256","kid":1}"#,
        r#"{"alg":"ES256","kid":null}"#,
        r#"{"alg":"ES256","typ":["JWT"]}"#,
        r#"["ES256"]"#,
        r#""ES256""#,
        r#"{"alg":"ES256"} x"#,
        "",
    ] {
        let error = verified(&signer.text(header, b"{}"), &keys(&signer)).unwrap_err();
        assert!(matches!(error, TokenError::Malformed { .. }), "{header}: {error}");
    }
    let error = verified(&signer.text("{}", b"{}"), &keys(&signer));
    assert_eq!(error, Err(TokenError::Algorithm));
    let deep = format!(r#"{{"alg":"ES256","x":{}{}}}"#, "[".repeat(5000), "]".repeat(5000));
    assert!(verified(&signer.text(&deep, b"{}"), &keys(&signer)).is_err());
}

#[test]
fn there_is_only_one_valid_encoding() {
    let signer = Signer::p256();
    let text = signer.text(r#"{"alg":"ES256"}"#, b"{}!");
    let [header, payload, signature] = parts(&text);
    assert!(verified(&text, &keys(&signer)).is_ok());
    // 64 bytes leave four bits of the last character unused.
    let last = signature.chars().last().unwrap();
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let next = alphabet.chars().nth(alphabet.find(last).unwrap() + 1).unwrap();
    let spare_bits = format!("{}{next}", signature.strip_suffix(last).unwrap());
    for malformed in [
        format!("{header}.{payload}.{spare_bits}"),
        format!("{header}.{payload}.{signature}="),
        format!("{header}.{payload}.{signature}=="),
        format!("{header}=.{payload}.{signature}"),
        format!("{header}.{payload}.{signature}\n"),
        format!(" {header}.{payload}.{signature}"),
        format!("{header}.{payload} .{signature}"),
        format!("{header}. {payload}.{signature}"),
        format!("{header}.{payload}.{signature}."),
        format!(".{header}.{payload}.{signature}"),
        format!("{header}..{signature}.{payload}"),
        format!("{header}.{payload}.{signature}.{payload}.{signature}"),
        format!(".{payload}.{signature}"),
        format!("{header}.{payload}."),
        format!("{header}.{payload}"),
        header.to_owned(),
        format!("{header}.{payload}.{}", signature.replace(['-', '_'], "+") + "/"),
        "..".to_owned(),
        ".".to_owned(),
        String::new(),
        "é.é.é".to_owned(),
    ] {
        let error = verified(&malformed, &keys(&signer)).unwrap_err();
        assert!(matches!(error, TokenError::Malformed { .. }), "{malformed}: {error}");
    }
    let no_payload = format!("{header}..{signature}");
    assert_eq!(verified(&no_payload, &keys(&signer)), Err(TokenError::Signature));
}

#[test]
fn a_token_has_16_kib_at_most() {
    let signer = Signer::ed25519();
    let text = signer.text(r#"{"alg":"EdDSA"}"#, &[b'x'; 12 << 10]);
    assert_eq!(verified(&text, &keys(&signer)), Err(TokenError::TooLong { limit: 16 << 10 }));
    let text = signer.text(r#"{"alg":"EdDSA"}"#, &[b'x'; 12_000]);
    assert!(verified(&text, &keys(&signer)).is_ok());
}

#[test]
fn a_malformed_signature_is_rejected() {
    let signer = Signer::p256();
    let text = signer.text(r#"{"alg":"ES256"}"#, b"{}");
    let [header, payload, signature] = parts(&text);
    let input = format!("{header}.{payload}");
    let whole = decode_part(signature).unwrap();
    let der = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
    let der_set = {
        let point = aws_lc_rs::signature::KeyPair::public_key(&der).as_ref().to_vec();
        let jwk = json!({"kty": "EC", "crv": "P-256", "x": encode(&point[1..33]), "y": encode(&point[33..])});
        KeySet::from_jwks(jwks(&[jwk]).as_bytes()).unwrap()
    };
    let der_signature = der.sign(&aws_lc_rs::rand::SystemRandom::new(), input.as_bytes()).unwrap();
    let as_der = format!("{input}.{}", encode(der_signature.as_ref()));
    assert_eq!(verified(&as_der, &der_set), Err(TokenError::Signature));
    let order = [
        0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc,
        0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
    ];
    for wrong in [
        whole[..63].to_vec(),
        whole[..32].to_vec(),
        [&whole[..], &[0]].concat(),
        [&[0], &whole[..]].concat(),
        vec![0; 64],
        [&[0; 32], &whole[32..]].concat(),
        [&whole[..32], &[0; 32]].concat(),
        [&order, &whole[32..]].concat(),
        [&whole[..32], &order].concat(),
        vec![0xff; 64],
        vec![1],
    ] {
        let text = format!("{input}.{}", encode(&wrong));
        assert_eq!(verified(&text, &keys(&signer)), Err(TokenError::Signature), "{wrong:?}");
    }
}

#[test]
fn an_rsa_signature_must_have_the_length_of_the_key() {
    let text = RSA.text(r#"{"alg":"RS256"}"#, b"{}");
    let [header, payload, signature] = parts(&text);
    let whole = decode_part(signature).unwrap();
    for wrong in
        [&whole[..255], &[&whole[..], &[0]].concat(), &[&[0], &whole[..]].concat(), &[0; 256]]
    {
        let text = format!("{header}.{payload}.{}", encode(wrong));
        assert_eq!(verified(&text, &keys(&RSA)), Err(TokenError::Signature));
    }
}

#[test]
fn a_key_of_a_different_curve_is_rejected() {
    let signer = Signer::p384();
    let text = signer.text(r#"{"alg":"ES256"}"#, b"{}");
    assert_eq!(verified(&text, &keys(&signer)), Err(TokenError::WrongKey));
    assert_eq!(verified(&text, &keys(&Signer::p256())), Err(TokenError::Signature));
}

#[test]
fn no_error_message_repeats_the_token() {
    let signer = Signer::p256();
    let header = json!({"alg": "ES256", "kid": "canary", "typ": "canary"});
    let text = signer.token(&header, &json!({"sub": "canary"}));
    let [_, payload, signature] = parts(&text);
    for text in [text.clone(), format!("canary.{payload}.{signature}"), format!("{text}canary")] {
        let error = verified(&text, &keys(&signer)).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_token_with_one_changed_byte_is_rejected(byte in 0_u8..128) {
        for (signer, algorithm) in [(Signer::p256(), "ES256"), (Signer::ed25519(), "EdDSA")] {
            let header = json!({"alg": algorithm, "kid": "k"});
            let text = signer.token(&header, &json!({"sub": "a", "aud": ["b"]}));
            let set = keys(&signer);
            for place in 0..text.len() {
                let mut changed = text.clone().into_bytes();
                if changed[place] != byte {
                    changed[place] = byte;
                    let changed = String::from_utf8(changed).unwrap();
                    prop_assert!(verified(&changed, &set).is_err(), "{} at {}", byte, place);
                }
            }
        }
    }

    #[test]
    fn parsing_never_panics(text in ".{0,200}", parts in "[A-Za-z0-9_=-]{0,40}(\\.[A-Za-z0-9_-]{0,40}){0,5}") {
        let set = keys(&Signer::p256());
        prop_assert!(verified(&text, &set).is_err());
        prop_assert!(verified(&parts, &set).is_err());
    }
}
