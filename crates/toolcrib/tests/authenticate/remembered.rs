//! A token that was verified is remembered as a whole, and no longer than it would be verified again (JWT-23).

use serde_json::json;
use toolcrib::TokenError;

use crate::signer::Signer;
use crate::world::{START, World, alice, good, signed};

#[tokio::test]
async fn a_token_that_looks_like_one_that_is_remembered_is_another() {
    let world = World::new().await;
    let token = world.fresh();
    assert_eq!(world.ask(&token).await, alice());
    let (input, signature) = token.rsplit_once('.').unwrap();
    let other = world.fresh();
    let (_, other_signature) = other.rsplit_once('.').unwrap();
    let forged = good(&Signer::p256(), "k");
    let same_end =
        format!("{}{}", forged.split_at(forged.len() - 16).0, token.split_at(token.len() - 16).1);
    let bob = signed(&world.signer, json!({"kid": "k"}), json!({"sub": "bob"}));
    let (bobs_input, _) = bob.rsplit_once('.').unwrap();
    for (like, error) in [
        (format!("{input}.{}", crate::signer::encode(&[1; 64])), TokenError::Signature),
        (forged, TokenError::Signature),
        (same_end, TokenError::Signature),
        (format!("{bobs_input}.{signature}"), TokenError::Signature),
    ] {
        assert_eq!(world.ask(&like).await, Err(error));
        assert_eq!(world.ask(&like).await, Err(error), "a refusal stays one");
    }
    // Another signature of the same key over the same text is as good as the first.
    assert_eq!(world.ask(&format!("{input}.{other_signature}")).await, alice());
    assert_eq!(world.ask(&bob).await, Ok("bob".to_owned()));
    assert_eq!(world.ask(&token).await, alice());
}

#[tokio::test]
async fn a_token_that_expires_is_forgotten() {
    let world = World::new().await;
    let token = signed(&world.signer, json!({"kid": "k"}), json!({"exp": START + 100}));
    assert_eq!(world.ask(&token).await, alice());
    world.pass(159);
    assert_eq!(world.ask(&token).await, alice());
    world.pass(1);
    assert_eq!(world.ask(&token).await, Err(TokenError::Expired));
}

#[tokio::test]
async fn the_claims_of_a_token_come_with_its_agent() {
    let world = World::new().await;
    let claims = json!({"realm_access": {"roles": ["admin"]}});
    let token = signed(&world.signer, json!({"kid": "k"}), claims);
    for _ in 0..2 {
        let agent = world.authenticator.token(&token).await.unwrap();
        assert_eq!(agent.claims.get("realm_access"), Some(&json!({"roles": ["admin"]})));
    }
}

#[tokio::test]
async fn keys_that_are_the_same_again_forget_nothing() {
    let world = World::new().await;
    let token = world.fresh();
    let first = world.authenticator.token(&token).await.unwrap();
    world.authenticator.refresh_keys().await;
    let second = world.authenticator.token(&token).await.unwrap();
    assert!(std::sync::Arc::ptr_eq(&first.claims, &second.claims));
    world.serve_keys(&[world.signer.jwk("k"), Signer::p256().jwk("n")]);
    world.pass(1);
    world.authenticator.refresh_keys().await;
    let third = world.authenticator.token(&token).await.unwrap();
    assert!(!std::sync::Arc::ptr_eq(&first.claims, &third.claims));
}

#[tokio::test]
async fn after_five_minutes_a_token_is_verified_again() {
    let world = World::new().await;
    let token = world.fresh();
    let first = world.authenticator.token(&token).await.unwrap();
    world.pass(299);
    let second = world.authenticator.token(&token).await.unwrap();
    assert!(std::sync::Arc::ptr_eq(&first.claims, &second.claims));
    world.pass(1);
    let third = world.authenticator.token(&token).await.unwrap();
    assert!(!std::sync::Arc::ptr_eq(&first.claims, &third.claims));
}
