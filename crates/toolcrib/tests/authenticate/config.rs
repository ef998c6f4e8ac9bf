//! The configuration of issuers, and configurations that are refused at startup.

use serde_json::{Value, json};
use toolcrib::{Authenticator, IssuerConfig, IssuerError, KeyTiming, TokenError};

use crate::signer::{Signer, jwks};
use crate::world::{
    authenticated_alice, authenticator_for, clock, issuer, signed, subject, valid_token_of,
};

async fn authenticator_with(changed: Value) -> Result<Authenticator, IssuerError> {
    authenticator_for(&[issuer(changed)], &clock(), KeyTiming::default()).await
}

async fn ask(authenticator: &Authenticator, token: &str) -> Result<String, TokenError> {
    subject(authenticator.verify_token(token).await)
}

#[tokio::test]
async fn keys_can_be_inline_or_in_a_file() {
    let signer = Signer::p256();
    let folder = tempfile::tempdir().unwrap();
    let (set, pem) = (folder.path().join("jwks.json"), folder.path().join("keys.pem"));
    std::fs::write(&set, jwks(&[signer.jwk("k")])).unwrap();
    std::fs::write(&pem, signer.pem()).unwrap();
    for keys in [
        json!({"jwks": {"keys": [signer.jwk("k")]}}),
        json!({"jwks_file": set}),
        json!({"pem": signer.pem()}),
        json!({"pem_file": pem}),
    ] {
        let authenticator = authenticator_with(json!({"keys": keys})).await.unwrap();
        assert_eq!(authenticator.issuer_states()[0].keys, 1, "{keys}");
        assert_eq!(
            ask(&authenticator, &valid_token_of(&signer, "k")).await,
            authenticated_alice(),
            "{keys}"
        );
        let stranger = ask(&authenticator, &valid_token_of(&Signer::p256(), "k")).await;
        assert_eq!(stranger, Err(TokenError::Signature), "{keys}");
    }
}

#[tokio::test]
async fn a_key_file_is_reloaded() {
    let (signer, newer) = (Signer::p256(), Signer::p256());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    std::fs::write(&file, jwks(&[signer.jwk("k")])).unwrap();
    let authenticator = authenticator_with(json!({"keys": {"jwks_file": file}})).await.unwrap();
    assert_eq!(ask(&authenticator, &valid_token_of(&signer, "k")).await, authenticated_alice());
    std::fs::write(&file, jwks(&[newer.jwk("n")])).unwrap();
    authenticator.refresh_keys().await;
    assert_eq!(ask(&authenticator, &valid_token_of(&newer, "n")).await, authenticated_alice());
}

#[tokio::test]
async fn a_secret_is_given_by_reference() {
    let authenticator = authenticator_with(json!({"keys": {"secret": "env:LONG"}})).await.unwrap();
    let signer = Signer::Secret("x".repeat(48).into_bytes());
    let token = signed(&signer, json!({"alg": "HS256"}), json!({}));
    assert_eq!(ask(&authenticator, &token).await, authenticated_alice());
    let other = signed(&signer, json!({"alg": "HS384"}), json!({}));
    assert_eq!(ask(&authenticator, &other).await, Err(TokenError::Algorithm));
}

#[tokio::test]
async fn unusable_keys_are_refused_at_startup() {
    let pem = Signer::p256().pem();
    for (changed, complaint) in [
        (json!({"issuer": "not a url"}), "is not a url"),
        (json!({"issuer": ""}), "has a name"),
        (json!({"audience": ""}), "needs an audience"),
        (json!({"audience": []}), "needs an audience"),
        (json!({"algorithms": []}), "needs an algorithm"),
        (json!({"algorithms": ["HS256"]}), "need a secret"),
        (json!({"algorithms": ["HS256", "RS256"]}), "mixes"),
        (json!({"keys": {"secret": "env:LONG"}, "algorithms": ["RS256"]}), "need a secret"),
        (json!({"keys": {"secret": "env:LONG"}, "algorithms": ["HS512"]}), "too short"),
        (json!({"keys": {"secret": "env:SHORT"}}), "cannot be used"),
        (json!({"keys": {"secret": "env:MISSING"}}), "cannot be had"),
        (json!({"keys": {"pem": "hello"}}), "cannot be used"),
        (json!({"keys": {"pem": pem}, "algorithms": ["RS256"]}), "no key"),
        (json!({"keys": {"jwks": {"keys": []}}}), "no key"),
        (json!({"keys": {"jwks_file": "/not/there"}}), "cannot be read"),
        (json!({"clock_skew": 301}), "clock skew"),
        (json!({"scope_includes": {"admin": ["read write"]}}), "which is no scope"),
        (json!({"scope_includes": {"": ["read"]}}), "which is no scope"),
        (json!({"issuer": "http://id.example"}), "over `http`"),
        (json!({"keys": {"jwks_url": "http://id.example/keys"}}), "over `http`"),
        (
            json!({"issuer": "http://id.example", "allow": ["10.0.0.0/8", "id.example:81"]}),
            "over `http`",
        ),
    ] {
        let error = authenticator_with(changed.clone()).await.err().unwrap().to_string();
        assert!(error.contains(complaint), "{changed}: {error}");
    }
}

#[tokio::test]
async fn two_issuers_with_the_same_name_are_refused() {
    let keys = json!({"keys": {"pem": Signer::p256().pem()}});
    let twice = [issuer(keys.clone()), issuer(keys)];
    let refused = authenticator_for(&twice, &clock(), KeyTiming::default()).await;
    assert!(matches!(refused.err().unwrap(), IssuerError::DuplicateIssuer { .. }));
}

#[tokio::test]
async fn a_token_is_verified_only_with_the_keys_of_its_issuer() {
    let (one, two) = (Signer::p256(), Signer::p256());
    let of = |name: &str, signer: &Signer| {
        issuer(json!({"issuer": name, "keys": {"jwks": {"keys": [signer.jwk("k")]}}}))
    };
    let both = [of("one", &one), of("two", &two)];
    let authenticator = authenticator_for(&both, &clock(), KeyTiming::default()).await.unwrap();
    let token =
        |signer: &Signer, name: &str| signed(signer, json!({"kid": "k"}), json!({"iss": name}));
    assert_eq!(ask(&authenticator, &token(&one, "one")).await, authenticated_alice());
    assert_eq!(ask(&authenticator, &token(&two, "two")).await, authenticated_alice());
    assert_eq!(ask(&authenticator, &token(&one, "two")).await, Err(TokenError::Signature));
    assert_eq!(ask(&authenticator, &token(&one, "three")).await, Err(TokenError::UnknownIssuer));
}

#[test]
fn misspelt_fields_are_refused() {
    for wrong in [
        json!({"audiences": "a"}),
        json!({"keys": "discover"}),
        json!({"keys": {"jwks_uri": "https://id.example/jwks"}}),
        json!({"keys": {"jwks_url": "https://id.example/jwks", "pem": "x"}}),
        json!({"keys": {"secret": "my-secret"}}),
        json!({"algorithms": ["none"]}),
        json!({"algorithms": ["rs256"]}),
        json!({"token_type": "id_token"}),
        json!({"clock_skew": -1}),
        json!({"allow": ["http://10.0.0.1/"]}),
    ] {
        assert!(serde_json::from_value::<IssuerConfig>(issuer(wrong.clone())).is_err(), "{wrong}");
    }
    for fine in [
        json!({"audience": ["a", "b"], "keys": "discovery"}),
        json!({"token_type": "any", "clock_skew": 0, "algorithms": ["ES256"], "allow": ["10.0.0.0/8"]}),
    ] {
        assert!(serde_json::from_value::<IssuerConfig>(issuer(fine.clone())).is_ok(), "{fine}");
    }
}
