//! The cache of verified tokens: the key is the whole token, and an entry never outlives the token's validity (JWT-23).

use serde_json::json;
use toolcrib::TokenError;

use crate::signer::Signer;
use crate::world::{START, World, authenticated_alice, signed, valid_token_of};

#[tokio::test]
async fn a_token_similar_to_a_cached_one_is_verified_separately() {
    let world = World::new().await;
    let token = world.valid_token();
    assert_eq!(world.ask(&token).await, authenticated_alice());
    let (input, signature) = token.rsplit_once('.').unwrap();
    let other = world.valid_token();
    let (_, other_signature) = other.rsplit_once('.').unwrap();
    let forged = valid_token_of(&Signer::p256(), "k");
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
    // A second valid signature over the same text is accepted too.
    assert_eq!(world.ask(&format!("{input}.{other_signature}")).await, authenticated_alice());
    assert_eq!(world.ask(&bob).await, Ok("bob".to_owned()));
    assert_eq!(world.ask(&token).await, authenticated_alice());
}

#[tokio::test]
async fn an_expired_token_is_removed_from_the_cache() {
    let world = World::new().await;
    let token = signed(&world.signer, json!({"kid": "k"}), json!({"exp": START + 100}));
    assert_eq!(world.ask(&token).await, authenticated_alice());
    world.advance_clock(159);
    assert_eq!(world.ask(&token).await, authenticated_alice());
    world.advance_clock(1);
    assert_eq!(world.ask(&token).await, Err(TokenError::Expired));
}

#[tokio::test]
async fn an_agent_carries_the_claims_of_its_token() {
    let world = World::new().await;
    let claims = json!({"realm_access": {"roles": ["admin"]}});
    let token = signed(&world.signer, json!({"kid": "k"}), claims);
    for _ in 0..2 {
        let agent = world.authenticator.verify_token(&token).await.unwrap();
        assert_eq!(agent.claims.get("realm_access"), Some(&json!({"roles": ["admin"]})));
    }
}

#[tokio::test]
async fn refreshed_but_unchanged_keys_keep_the_cache() {
    let world = World::new().await;
    let token = world.valid_token();
    let first = world.authenticator.verify_token(&token).await.unwrap();
    world.authenticator.refresh_keys().await;
    let second = world.authenticator.verify_token(&token).await.unwrap();
    assert!(std::sync::Arc::ptr_eq(&first.claims, &second.claims));
    world.serve_keys(&[world.signer.jwk("k"), Signer::p256().jwk("n")]);
    world.advance_clock(1);
    world.authenticator.refresh_keys().await;
    let third = world.authenticator.verify_token(&token).await.unwrap();
    assert!(!std::sync::Arc::ptr_eq(&first.claims, &third.claims));
}

#[tokio::test]
async fn a_cached_token_is_verified_again_after_five_minutes() {
    let world = World::new().await;
    let token = world.valid_token();
    let first = world.authenticator.verify_token(&token).await.unwrap();
    world.advance_clock(299);
    let second = world.authenticator.verify_token(&token).await.unwrap();
    assert!(std::sync::Arc::ptr_eq(&first.claims, &second.claims));
    world.advance_clock(1);
    let third = world.authenticator.verify_token(&token).await.unwrap();
    assert!(!std::sync::Arc::ptr_eq(&first.claims, &third.claims));
}
