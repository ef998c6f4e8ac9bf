//! Which keys are accepted, which algorithms they support, and which key a token selects.

use serde_json::{Value, json};

use super::*;
use crate::signer::{RSA, Signer, encode, jwks};
use crate::verify_signature;

const ALL: [&str; 13] = [
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
    "HS256", "HS384", "HS512",
];

fn set(keys: &[Value]) -> KeySet {
    KeySet::from_jwks(jwks(keys).as_bytes()).unwrap()
}

/// How many keys are accepted after changing these parameters of one; `null` removes a parameter.
fn taken(jwk: &Value, changed: Value) -> usize {
    let mut jwk = jwk.as_object().unwrap().clone();
    for (name, value) in changed.as_object().unwrap() {
        jwk.insert(name.clone(), value.clone());
    }
    jwk.retain(|_, value| !value.is_null());
    let set = set(&[Value::Object(jwk)]);
    assert_eq!(set.len() + set.skipped_keys(), 1);
    set.len()
}

fn suited(set: &KeySet) -> Vec<&'static str> {
    let suits = |name: &&str| set.supports_algorithm(JwsAlgorithm::from_name(name).unwrap());
    ALL.into_iter().filter(suits).collect()
}

/// Whether a signature with this algorithm verifies, with the key looked up by its id.
fn holds(signer: &Signer, algorithm: &str, keys: &KeySet) -> Result<(), TokenError> {
    let text = signer.text(&json!({"alg": algorithm, "kid": "k"}).to_string(), b"hello");
    let allowed = ALL.map(|name| JwsAlgorithm::from_name(name).unwrap());
    verify_signature(&text, keys, &allowed).map(|payload| assert_eq!(payload, b"hello"))
}

#[test]
fn every_kind_of_key_verifies_its_own_algorithms_and_no_other() {
    let signers: [(&Signer, &[&str]); 5] = [
        (&RSA, &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]),
        (&Signer::p256(), &["ES256"]),
        (&Signer::p384(), &["ES384"]),
        (&Signer::p521(), &["ES512"]),
        (&Signer::ed25519(), &["EdDSA"]),
    ];
    for (signer, algorithms) in signers {
        for keys in [set(&[signer.jwk("k")]), KeySet::from_pem(&signer.pem()).unwrap()] {
            assert_eq!(suited(&keys), algorithms);
            for algorithm in ALL {
                let wanted = match algorithms.contains(&algorithm) {
                    true => Ok(()),
                    false => Err(TokenError::WrongKey),
                };
                assert_eq!(holds(signer, algorithm, &keys), wanted, "{algorithm}");
            }
        }
    }
}

#[test]
fn a_secret_supports_hashes_no_longer_than_itself() {
    for (length, algorithms) in [
        (32, &["HS256"][..]),
        (47, &["HS256"]),
        (48, &["HS256", "HS384"]),
        (64, &["HS256", "HS384", "HS512"]),
    ] {
        let secret = vec![7; length];
        let keys = KeySet::from_secret(&secret).unwrap();
        assert_eq!(suited(&keys), algorithms);
        for algorithm in algorithms {
            assert_eq!(holds(&Signer::Secret(secret.clone()), algorithm, &keys), Ok(()));
        }
    }
    assert_eq!(KeySet::from_secret(&[7; 31]).unwrap_err(), InvalidKeySet::ShortSecret);
}

#[test]
fn a_secret_in_a_set_is_skipped() {
    assert_eq!(taken(&Signer::Secret(vec![7; 64]).jwk("k"), json!({"alg": "HS256"})), 0);
}

#[test]
fn the_parameters_use_key_ops_and_kid_are_respected() {
    let jwk = Signer::p256().jwk("k");
    for fine in [
        json!({}),
        json!({"use": "sig"}),
        json!({"key_ops": ["sign", "verify"]}),
        json!({"alg": "ES256"}),
        json!({"kid": null}),
        json!({"d": "AAAA", "x5c": ["!"], "anything": {"else": 1}}),
    ] {
        assert_eq!(taken(&jwk, fine.clone()), 1, "{fine}");
    }
    for wrong in [
        json!({"use": "enc"}),
        json!({"use": 1}),
        json!({"key_ops": ["encrypt"]}),
        json!({"key_ops": []}),
        json!({"key_ops": "verify"}),
        json!({"alg": "ES384"}),
        json!({"alg": "RS256"}),
        json!({"alg": "HS256"}),
        json!({"alg": "none"}),
        json!({"alg": "es256"}),
        json!({"alg": 1}),
        json!({"kid": 1}),
        json!({"kty": "ec"}),
        json!({"kty": null}),
        json!({"crv": "P-384"}),
        json!({"crv": "secp256k1"}),
        json!({"crv": null}),
    ] {
        assert_eq!(taken(&jwk, wrong.clone()), 0, "{wrong}");
    }
}

#[test]
fn the_alg_of_a_key_excludes_other_algorithms() {
    let mut jwk = RSA.jwk("k");
    jwk["alg"] = "PS256".into();
    let keys = set(&[jwk]);
    assert_eq!(suited(&keys), ["PS256"]);
    assert_eq!(holds(&RSA, "PS256", &keys), Ok(()));
    assert_eq!(holds(&RSA, "RS256", &keys), Err(TokenError::WrongKey));
}

#[test]
fn a_point_must_be_on_its_curve_with_full_coordinates() {
    let signer = Signer::p256();
    let jwk = signer.jwk("k");
    let Signer::Ec(_, key) = &signer else { panic!("it was made on a curve") };
    let point = aws_lc_rs::signature::KeyPair::public_key(key).as_ref();
    let padded = encode(&[&[0], &point[1..33]].concat());
    for wrong in [
        json!({"x": encode(&[1; 32])}),
        json!({"x": encode(&[0; 32]), "y": encode(&[0; 32])}),
        json!({"x": padded}),
        json!({"y": encode(&point[34..])}),
        json!({"x": encode(&point[1..32]), "y": encode(&point[32..])}),
        json!({"y": null}),
        json!({"x": format!("{}=", jwk["x"].as_str().unwrap())}),
        json!({"crv": "P-256", "x": jwk["y"], "y": jwk["x"]}),
    ] {
        assert_eq!(taken(&jwk, wrong.clone()), 0, "{wrong}");
    }
    let edwards = Signer::ed25519().jwk("k");
    assert_eq!(taken(&edwards, json!({"x": encode(&[1; 31])})), 0);
    assert_eq!(taken(&edwards, json!({"x": encode(&[1; 33])})), 0);
    assert_eq!(taken(&edwards, json!({"crv": "Ed448"})), 0);
    assert_eq!(taken(&edwards, json!({"crv": "X25519"})), 0);
}

#[test]
fn weak_or_unusual_rsa_keys_are_skipped() {
    let jwk = RSA.jwk("k");
    assert_eq!(taken(&jwk, json!({"e": encode(&[3])})), 1);
    for exponent in [&[][..], &[0], &[1], &[2], &[1, 0, 0], &[0, 1, 0, 1], &[1, 0, 0, 0, 1]] {
        assert_eq!(taken(&jwk, json!({"e": encode(exponent)})), 0, "{exponent:?}");
    }
    let modulus = RSA.modulus();
    for n in [&modulus[..128], &modulus[..255], &[&[0], &*modulus].concat(), &[0xff; 1025], &[]] {
        assert_eq!(taken(&jwk, json!({"n": encode(n)})), 0, "{} bytes", n.len());
    }
}

#[test]
fn a_set_is_an_object_with_a_list_and_no_duplicate_field() {
    let wrong = [
        "",
        "[]",
        "{}",
        r#"{"keys":{}}"#,
        r#"{"keys":null}"#,
        r#"{"keys":[],"keys":[]}"#,
        r#"{"keys":[{"kty":"EC","kty":"RSA"}]}"#,
        "<html></html>",
        r#"{"keys":[]} x"#,
    ];
    for text in wrong {
        let error = KeySet::from_jwks(text.as_bytes()).unwrap_err();
        assert_eq!(error, InvalidKeySet::NotAKeySet, "{text}");
    }
    assert!(set(&[]).is_empty());
    assert_eq!(set(&[json!(1), json!("key")]).skipped_keys(), 2);
}

#[test]
fn a_set_has_64_keys_at_most() {
    let jwk = Signer::ed25519().jwk("k");
    assert_eq!(set(&vec![jwk.clone(); 64]).len(), 64);
    let many = KeySet::from_jwks(jwks(&vec![jwk; 65]).as_bytes());
    assert_eq!(many.unwrap_err(), InvalidKeySet::TooMany);
}

#[test]
fn pem_contains_public_keys_and_nothing_else() {
    let (one, two) = (Signer::p256(), Signer::ed25519());
    let both = format!("\r\n{}\n\n{}", one.pem().replace('\n', "\r\n"), two.pem());
    let keys = KeySet::from_pem(&both).unwrap();
    assert_eq!(suited(&keys), ["ES256", "EdDSA"]);
    assert_eq!(holds(&two, "EdDSA", &keys), Ok(()));
    let not_pem = [
        String::new(),
        "hello".to_owned(),
        one.pem().replace("PUBLIC", "PRIVATE"),
        one.pem().replace("PUBLIC KEY", "CERTIFICATE"),
        one.pem().replace("-----END", ""),
        one.pem().replace("\nM", "\n!"),
        format!("{}x", one.pem()),
    ];
    for text in not_pem {
        assert_eq!(KeySet::from_pem(&text).unwrap_err(), InvalidKeySet::NotPem, "{text}");
    }
    let unusable = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----";
    assert_eq!(KeySet::from_pem(unusable).unwrap_err(), InvalidKeySet::Unusable);
    assert_eq!(KeySet::from_pem(&one.pem().repeat(65)).unwrap_err(), InvalidKeySet::TooMany);
}

fn found(keys: &KeySet, kid: Option<&str>) -> Result<(), TokenError> {
    keys.find(JwsAlgorithm::ES256, kid).map(drop)
}

#[test]
fn a_key_id_selects_only_keys_of_that_id() {
    let keys = set(&[Signer::p256().jwk("a"), Signer::p256().jwk("b"), Signer::p384().jwk("c")]);
    assert_eq!(found(&keys, Some("a")), Ok(()));
    assert_eq!(found(&keys, Some("b")), Ok(()));
    assert_eq!(found(&keys, Some("c")), Err(TokenError::WrongKey));
    for strange in ["", "A", "d", "../../dev/null", "' OR 1=1--", "a\0", "a\r\n", "🔑"] {
        assert_eq!(found(&keys, Some(strange)), Err(TokenError::UnknownKey), "{strange}");
    }
    assert_eq!(found(&keys, Some(&"a".repeat(10_000))), Err(TokenError::UnknownKey));
}

#[test]
fn without_a_key_id_exactly_one_key_must_support_the_algorithm() {
    let (one, two) = (Signer::p256().jwk("a"), Signer::p256().jwk("b"));
    let other = Signer::p384().jwk("c");
    assert_eq!(found(&set(&[one.clone(), other.clone()]), None), Ok(()));
    assert_eq!(found(&set(&[one, two]), None), Err(TokenError::AmbiguousKey));
    assert_eq!(found(&set(&[other]), None), Err(TokenError::WrongKey));
    assert_eq!(found(&set(&[]), None), Err(TokenError::UnknownKey));
}

#[test]
fn keys_with_one_id_are_distinguished_by_type_or_ambiguous() {
    let (one, two) = (Signer::p256().jwk("a"), Signer::p256().jwk("a"));
    assert_eq!(found(&set(&[one.clone(), Signer::p384().jwk("a")]), Some("a")), Ok(()));
    assert_eq!(found(&set(&[one, two]), Some("a")), Err(TokenError::AmbiguousKey));
}

#[test]
fn in_a_set_without_key_ids_the_key_id_is_ignored() {
    let keys = KeySet::from_pem(&Signer::p256().pem()).unwrap();
    assert_eq!(found(&keys, Some("anything")), Ok(()));
    assert_eq!(found(&keys, None), Ok(()));
}

#[test]
fn of_a_few_keys_without_ids_any_may_verify() {
    let signers: Vec<Signer> = (0..4).map(|_| Signer::p256()).collect();
    let pem: String = signers.iter().map(Signer::pem).collect();
    let keys = KeySet::from_pem(&pem).unwrap();
    for signer in &signers {
        assert_eq!(holds(signer, "ES256", &keys), Ok(()));
    }
    assert_eq!(holds(&Signer::p256(), "ES256", &keys), Err(TokenError::Signature));
    let many = KeySet::from_pem(&format!("{pem}{}", Signer::p256().pem())).unwrap();
    assert_eq!(holds(&signers[0], "ES256", &many), Err(TokenError::AmbiguousKey));
}

#[test]
fn two_sets_are_equal_if_their_keys_are() {
    let (a, b, rsa) = (Signer::p256(), Signer::p256(), RSA.jwk("r"));
    let one = set(&[a.jwk("a"), b.jwk("b"), rsa.clone()]);
    assert!(one.has_same_keys(&set(&[rsa.clone(), b.jwk("b"), json!({"kty": "new"}), a.jwk("a")])));
    let mut narrowed = rsa.clone();
    narrowed["alg"] = "RS256".into();
    for other in [
        vec![a.jwk("a"), b.jwk("b")],
        vec![a.jwk("a"), a.jwk("a"), rsa.clone()],
        vec![a.jwk("b"), b.jwk("a"), rsa.clone()],
        vec![a.jwk("a"), Signer::p256().jwk("b"), rsa],
        vec![a.jwk("a"), b.jwk("b"), narrowed],
    ] {
        assert!(!one.has_same_keys(&set(&other)));
    }
}

#[test]
fn debug_output_and_errors_contain_no_key() {
    let keys = KeySet::from_secret(&[b'x'; 32]).unwrap();
    assert_eq!(format!("{keys:?}"), "KeySet(1 keys, 0 skipped)");
}
