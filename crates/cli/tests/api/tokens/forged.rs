//! Tokens that their issuer did not sign (JWT-01 to JWT-05, JWT-23).

use std::net::TcpListener;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::issuer::{
    World, complete_claims, complete_header, config, config_with_inline_key, server_trusting,
    signed_token,
};
use crate::signer::{RSA, Signer, encode, jwks};
use crate::support::{answering, ok};

/// Token with these parts and this signature text.
fn text(header: &Value, claims: &Value, signature: &str) -> String {
    let part = |value: &Value| encode(value.to_string().as_bytes());
    format!("{}.{}.{signature}", part(header), part(claims))
}

#[test]
fn a_token_without_a_signature_is_rejected() {
    let world = World::new();
    let good = world.token(json!({}));
    assert_eq!(world.assert_accepted(&good), "alice");
    let (input, signature) = good.rsplit_once('.').unwrap();
    for algorithm in ["none", "None", "nOnE", "NONE", " none", "none\0", "", "null"] {
        let header = complete_header(json!({"alg": algorithm}));
        for signature in ["", signature] {
            world.assert_rejected(&text(&header, &complete_claims(json!({})), signature));
        }
        let whole = text(&header, &complete_claims(json!({})), "");
        world.assert_rejected(whole.trim_end_matches('.'));
    }
    for algorithm in [json!(null), json!(["none"]), json!(0), json!({"alg": "ES256"})] {
        let header = complete_header(json!({"alg": algorithm}));
        world.assert_rejected(&text(&header, &complete_claims(json!({})), ""));
    }
    world.assert_rejected(&format!("{input}."));
    world.assert_rejected(input);
    world.assert_rejected(&format!("{input}.{}", encode(&[0; 64])));
}

#[test]
fn a_public_key_cannot_be_used_as_an_hmac_secret() {
    let (rsa, ec) = (&*RSA, Signer::p256());
    let keys = json!({"keys": {"jwks": {"keys": [rsa.jwk("rsa"), ec.jwk("ec")]}}});
    let world = World { server: server_trusting(&[config(keys)]), signer: Signer::p256() };
    for (signer, algorithm, kid) in [(rsa, "RS256", "rsa"), (&ec, "ES256", "ec")] {
        let good = signed_token(signer, json!({"alg": algorithm, "kid": kid}), json!({}));
        assert_eq!(world.assert_accepted(&good), "alice");
        let pem = signer.pem();
        let mut secrets = vec![
            pem.trim_end().as_bytes().to_vec(),
            pem.replace('\n', "").into_bytes(),
            pem.into_bytes(),
            signer.der(),
            STANDARD.encode(signer.der()).into_bytes(),
            signer.jwk(kid).to_string().into_bytes(),
            jwks(&[signer.jwk(kid)]).into_bytes(),
            Vec::new(),
        ];
        if kid == "rsa" {
            secrets.extend([signer.modulus(), encode(&signer.modulus()).into_bytes()]);
        }
        for secret in secrets.into_iter().map(Signer::Secret) {
            for algorithm in ["HS256", "HS384", "HS512"] {
                for kid in [json!(kid), json!(null)] {
                    let header = json!({"alg": algorithm, "kid": kid});
                    world.assert_rejected(&signed_token(&secret, header, json!({})));
                }
            }
        }
    }
}

#[test]
fn a_key_is_valid_only_for_its_algorithm() {
    let keys = json!({"keys": {"jwks": {"keys": [RSA.jwk("k")]}}, "algorithms": ["PS256"]});
    let world = World { server: server_trusting(&[config(keys)]), signer: Signer::p256() };
    assert_eq!(
        world.assert_accepted(&signed_token(&RSA, json!({"alg": "PS256"}), json!({}))),
        "alice"
    );
    for algorithm in ["RS256", "RS384", "PS384", "PS512"] {
        world.assert_rejected(&signed_token(&RSA, json!({"alg": algorithm}), json!({})));
    }
    world.assert_rejected(&signed_token(&world.signer, json!({}), json!({})));
    world.assert_rejected(&signed_token(&Signer::p384(), json!({"alg": "ES384"}), json!({})));
}

#[test]
fn a_key_embedded_in_a_token_is_ignored() {
    let world = World::new();
    let attacker = Signer::p256();
    let certificate = STANDARD.encode(attacker.der());
    for kid in [json!("k"), json!("theirs"), json!(null)] {
        for brought in [
            json!({"jwk": attacker.jwk("k")}),
            json!({"jwk": attacker.jwk("theirs")}),
            json!({"x5c": [certificate]}),
            json!({"x5c": [certificate], "x5t": "AAAA", "x5t#S256": "AAAA"}),
            json!({"jwk": attacker.jwk("k"), "x5c": [certificate], "jwks": {"keys": [attacker.jwk("k")]}}),
        ] {
            let mut header = brought;
            header["kid"] = kid.clone();
            world.assert_rejected(&signed_token(&attacker, header, json!({})));
        }
    }
    // An ignored header does not make an otherwise valid token invalid.
    let good = signed_token(&world.signer, json!({"jwk": attacker.jwk("k")}), json!({}));
    assert_eq!(world.assert_accepted(&good), "alice");
}

#[test]
fn a_key_url_in_a_token_is_never_fetched() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let theirs = format!("http://{}/jwks", listener.local_addr().unwrap());
    let signer = Signer::p256();
    let issuer = answering(ok("application/json", &jwks(&[signer.jwk("k")])));
    let keys = json!({"keys": {"jwks_url": issuer.url("/jwks")}, "allow": ["127.0.0.1"]});
    let world = World { server: server_trusting(&[config(keys)]), signer };
    assert_eq!(world.assert_accepted(&world.token(json!({}))), "alice");
    let attacker = Signer::p256();
    for place in [&theirs, "http://169.254.169.254/latest", "file:///etc/passwd"] {
        for member in ["jku", "x5u"] {
            for kid in [json!("k"), json!("theirs"), json!(null)] {
                let header = json!({"kid": kid, member: place});
                world.assert_rejected(&signed_token(&attacker, header, json!({})));
            }
        }
    }
    // Issuers come from the configuration, not from the token.
    world.assert_rejected(&signed_token(&attacker, json!({}), json!({"iss": theirs})));
    assert!(listener.accept().is_err());
    assert_eq!(issuer.requests().len(), 1);
}

#[test]
fn unusual_key_ids_are_only_compared() {
    let world = World::new();
    let long = "k".repeat(10_000);
    for kid in [
        "../../dev/null",
        "/dev/null",
        "' OR 1=1--",
        "k' UNION SELECT 'k",
        &long,
        "k\0",
        "\0k",
        "k\r\nX-Injected: yes",
        "🔑",
        "K",
        "k ",
        "",
        "https://evil.example/jwks",
        "|/usr/bin/id",
    ] {
        let answer =
            world.assert_rejected(&signed_token(&world.signer, json!({"kid": kid}), json!({})));
        assert_eq!(answer.header("x-injected"), "", "{kid}");
        let empty = Signer::Secret(Vec::new());
        world.assert_rejected(&signed_token(
            &empty,
            json!({"alg": "HS256", "kid": kid}),
            json!({}),
        ));
    }
    for kid in [json!(7), json!(["k"]), json!({"k": "k"})] {
        world.assert_rejected(&signed_token(&world.signer, json!({"kid": kid}), json!({})));
    }
}

#[test]
fn a_header_with_unsupported_parameters_is_rejected() {
    let world = World::new();
    for more in [
        json!({"crit": ["exp"], "exp": 1}),
        json!({"crit": []}),
        json!({"b64": false}),
        json!({"zip": "DEF"}),
        json!({"enc": "A256GCM"}),
    ] {
        world.assert_rejected(&signed_token(&world.signer, more, json!({})));
    }
    let claims = complete_claims(json!({})).to_string();
    for header in [
        r#"{"alg":"none","alg":"ES256","typ":"at+jwt","kid":"k"}"#,
        r#"{"alg":"ES256","typ":"at+jwt","kid":"other","kid":"k"}"#,
        r#"{"alg":"ES256","typ":"at+jwt","kid":"k"}{}"#,
        r#"["ES256"]"#,
        "",
    ] {
        world.assert_rejected(&world.signer.text(header, claims.as_bytes()));
    }
    let twice = claims.replacen('{', r#"{"sub":"mallory","#, 1);
    world.assert_rejected(
        &world.signer.text(&complete_header(json!({})).to_string(), twice.as_bytes()),
    );
}

#[test]
fn a_token_similar_to_an_accepted_one_is_rejected() {
    let world = World::new();
    let token = world.token(json!({}));
    assert_eq!(world.assert_accepted(&token), "alice");
    let (input, signature) = token.rsplit_once('.').unwrap();
    let forged = signed_token(&Signer::p256(), json!({}), json!({"sub": "bob"}));
    let bob = world.token(json!({"sub": "bob"}));
    let (bobs_input, bobs_signature) = bob.rsplit_once('.').unwrap();
    let end = |text: &str, length: usize| text.split_at(text.len() - length).1.to_owned();
    let start = |text: &str, length: usize| text.split_at(text.len() - length).0.to_owned();
    let likes = [
        format!("{input}.{}", encode(&[1; 64])),
        format!("{input}.{bobs_signature}"),
        format!("{bobs_input}.{signature}"),
        format!("{}{}", start(&forged, 16), end(&token, 16)),
        format!("{}{}", start(&token, 20), end(&forged, 20)),
        format!("{token}A"),
        format!("{token}="),
        format!("{token}."),
        format!("{token}.{signature}"),
        start(&token, 1),
        token.to_ascii_uppercase(),
    ];
    for like in &likes {
        world.assert_rejected(like);
        world.assert_rejected(like);
        assert_eq!(world.assert_accepted(&token), "alice");
    }
    assert_eq!(world.assert_accepted(&bob), "bob");
    // Another encoding of the same bits would be another token with the same signature (RFC 4648, section 3.5).
    let last = token.chars().last().unwrap();
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for other in alphabet.chars().filter(|other| *other != last) {
        world.assert_rejected(&format!("{}{other}", start(&token, 1)));
    }
}

#[test]
fn a_key_of_another_issuer_is_not_accepted() {
    let (ours, theirs) = (Signer::p256(), Signer::p256());
    let issuers = [
        config_with_inline_key(&ours, json!({})),
        config_with_inline_key(&theirs, json!({"issuer": "https://other.example"})),
    ];
    let world = World { server: server_trusting(&issuers), signer: ours };
    let good = signed_token(&theirs, json!({}), json!({"iss": "https://other.example"}));
    assert_eq!(world.assert_accepted(&good), "alice");
    world.assert_rejected(&signed_token(&theirs, json!({}), json!({})));
}
