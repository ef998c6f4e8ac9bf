//! Access tokens: which ones are accepted, and that all others are rejected (JWT-01 to JWT-26, security catalogue).

mod claims;
mod forged;
mod keys;
mod shown;
mod start;

use serde_json::json;

use super::issuer::{
    AUDIENCE, ISSUER, World, config_with_inline_key, now, server_trusting, signed_token, subject,
};
use super::server::Ask;
use crate::signer::{RSA, Signer};

#[test]
fn a_valid_token_authenticates_with_its_claims() {
    let world = World::new();
    let exp = now() + 600;
    let token = world.token(json!({"exp": exp, "realm_access": {"roles": ["staff"]}}));
    for _ in 0..2 {
        let me = world.server.get_as(&token, "/api/whoami").ok();
        let claims = json!({
            "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": exp, "realm_access": {"roles": ["staff"]},
        });
        assert_eq!(
            me,
            json!({"subject": "alice", "means": "token", "is_admin": false, "claims": claims})
        );
    }
}

#[test]
fn every_common_algorithm_is_accepted() {
    let signers = [
        ("RS256", &*RSA),
        ("PS256", &*RSA),
        ("ES256", &Signer::p256()),
        ("ES384", &Signer::p384()),
        ("EdDSA", &Signer::ed25519()),
    ];
    let named =
        |name: &str, signer: &Signer| config_with_inline_key(signer, json!({"issuer": name}));
    let issuers: Vec<_> = signers.iter().map(|(name, signer)| named(name, signer)).collect();
    let server = server_trusting(&issuers);
    for (name, signer) in signers {
        let token = signed_token(signer, json!({"alg": name}), json!({"iss": name}));
        assert_eq!(subject(&server, &token), "alice", "{name}");
    }
}

#[test]
fn an_issuer_is_trusted_only_for_its_own_tokens() {
    let (one, two) = (Signer::p256(), Signer::p256());
    let other = "https://other.example";
    let issuers = [
        config_with_inline_key(&one, json!({})),
        config_with_inline_key(&two, json!({"issuer": other, "audience": ["a", "b"]})),
    ];
    let world = World { server: server_trusting(&issuers), signer: one };
    assert_eq!(world.assert_accepted(&world.token(json!({}))), "alice");
    let of_other =
        |audience: &str| signed_token(&two, json!({}), json!({"iss": other, "aud": audience}));
    assert_eq!(world.assert_accepted(&of_other("b")), "alice");
    world.assert_rejected(&of_other(AUDIENCE));
    world.assert_rejected(&world.token(json!({"iss": other, "aud": "a"})));
    world.assert_rejected(&signed_token(&two, json!({}), json!({})));
    for name in ["https://id.example/", "HTTPS://ID.EXAMPLE", "https://id.example.evil", ""] {
        world.assert_rejected(&world.token(json!({"iss": name})));
    }
    for missing in [json!(null), json!(7), json!([ISSUER])] {
        world.assert_rejected(&world.token(json!({"iss": missing})));
    }
}

#[test]
fn a_credential_is_required_if_there_are_issuers() {
    let world = World::new();
    for path in ["/api/whoami", "/api/agents/tools", "/api/groups"] {
        let answer = world.server.send(&Ask::new("GET", path));
        assert_eq!((answer.status, answer.challenge()), (401, "Bearer"), "{path}");
    }
    assert_eq!(world.server.get("/api/whoami").ok()["means"], "key");
}

#[test]
fn a_subject_that_looks_like_an_api_key_gives_no_access() {
    let world = World::new();
    let token = world.token(json!({"sub": "key:first-admin", "admin": true, "is_admin": true}));
    assert_eq!(world.assert_accepted(&token), "key:first-admin");
    let answer = world.server.get_as(&token, "/api/groups");
    assert!(answer.problem().starts_with("403 forbidden"), "{answer:?}");
}

#[test]
fn the_log_contains_no_part_of_a_token() {
    let mut world = World::on(crate::support::Folder::empty(), "-vvv");
    let claims = json!({"sub": "a-subject-like-no-other", "exp": 1, "nonce": "a-nonce-like-none"});
    let tokens = [
        world.token(json!({"sub": "a-subject-like-no-other"})),
        world.token(claims.clone()),
        signed_token(
            &world.signer,
            json!({"kid": "a-kid-like-no-other\r\nforged line"}),
            json!({}),
        ),
        signed_token(&Signer::p256(), json!({"jku": "https://evil.example"}), claims),
    ];
    for token in &tokens {
        world.server.get_as(token, "/api/whoami");
        world.server.get_as(token, "/api/agents/tools");
    }
    let (_, log) = world.server.stop();
    assert!(log.contains("/api/agents/tools"), "{log}");
    let parts = tokens.iter().flat_map(|token| token.split('.'));
    let said = ["like-no", "forged line", "evil.example"];
    for part in parts.chain(said) {
        assert!(!log.contains(part), "{part}: {log}");
    }
}
