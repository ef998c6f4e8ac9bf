//! Keys are fetched once, cached and rotated; agents of an unreachable issuer are not locked out at once.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinSet;
use toolcrib::{KeyTiming, TokenError};

use crate::server::answer;
use crate::signer::{Signer, jwks};
use crate::world::{World, authenticated_alice, ok, valid_token_of};

const HOUR: i64 = 3600;

#[tokio::test]
async fn keys_are_fetched_on_first_use() {
    let world = World::new().await;
    assert_eq!((world.fetches(), world.state().keys), (0, 0));
    for _ in 0..5 {
        assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice());
    }
    let state = world.state();
    assert_eq!((world.fetches(), state.keys, state.degraded), (1, 1, false));
    assert!(state.fetched_at.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_concurrent_first_requests_cause_one_fetch() {
    let world = Arc::new(World::new().await);
    let mut requests = JoinSet::new();
    for _ in 0..100 {
        let world = Arc::clone(&world);
        requests.spawn(async move { world.ask(&world.valid_token()).await });
    }
    for result in requests.join_all().await {
        assert_eq!(result, authenticated_alice());
    }
    assert_eq!(world.fetches(), 1);
}

#[tokio::test]
async fn a_new_key_is_found_by_one_fetch() {
    let world = World::new().await;
    assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice());
    let newer = Signer::p256();
    world.serve_keys(&[world.signer.jwk("k"), newer.jwk("n")]);
    assert_eq!(world.ask(&valid_token_of(&newer, "n")).await, Err(TokenError::UnknownKey));
    assert_eq!(world.fetches(), 1, "30 seconds have not passed");
    world.advance_clock(30);
    assert_eq!(world.ask(&valid_token_of(&newer, "n")).await, authenticated_alice());
    assert_eq!(world.ask(&valid_token_of(&newer, "n")).await, authenticated_alice());
    assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice());
    assert_eq!((world.fetches(), world.state().keys), (2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_requests_with_a_new_key_wait_for_one_fetch() {
    let world = Arc::new(World::new().await);
    assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice());
    let newer = Arc::new(Signer::p256());
    world.serve_keys(&[newer.jwk("n")]);
    world.advance_clock(30);
    let mut requests = JoinSet::new();
    for _ in 0..50 {
        let (world, newer) = (Arc::clone(&world), Arc::clone(&newer));
        requests.spawn(async move { world.ask(&valid_token_of(&newer, "n")).await });
    }
    for result in requests.join_all().await {
        assert_eq!(result, authenticated_alice());
    }
    assert_eq!(world.fetches(), 2);
}

#[tokio::test]
async fn ageing_keys_are_refreshed_while_they_stay_in_use() {
    let world = World::new().await;
    assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice());
    let first = world.state().fetched_at;
    world.advance_clock(599);
    assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice());
    assert_eq!(world.fetches(), 1);
    world.advance_clock(1);
    assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice());
    world.wait_for_state(|state| state.fetched_at != first).await;
    assert_eq!(world.fetches(), 2);
}

#[tokio::test]
async fn the_keys_of_an_unreachable_issuer_stay_valid_for_a_day() {
    let replies = [
        answer("500 Internal Server Error", "", b""),
        ok("<html>We will be back soon</html>"),
        answer("204 No Content", "", b""),
        Vec::new(),
    ];
    for reply in replies {
        let shown = String::from_utf8_lossy(&reply).into_owned();
        let world = World::new().await;
        let old = world.valid_token();
        assert_eq!(world.ask(&old).await, authenticated_alice());
        world.serve(reply);
        world.advance_clock(HOUR);
        assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice(), "{shown}");
        world.wait_for_state(|state| state.degraded).await;
        assert_eq!(world.fetches(), 2);
        assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice(), "{shown}");
        let unknown = valid_token_of(&Signer::p256(), "n");
        assert_eq!(world.ask(&unknown).await, Err(TokenError::UnknownKey), "{shown}");
        assert_eq!(world.fetches(), 2, "a failure counts as a fetch");
        assert_eq!(world.state().keys, 1);
        world.advance_clock(23 * HOUR - 1);
        assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice(), "{shown}");
        world.wait_for_state(|_| world.fetches() == 3).await;
        world.advance_clock(1);
        for token in [old, world.valid_token(), unknown] {
            assert_eq!(world.ask(&token).await, Err(TokenError::KeysUnavailable), "{shown}");
        }
        world.serve_keys(&[world.signer.jwk("k")]);
        world.advance_clock(30);
        assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice(), "{shown}");
        assert!(!world.state().degraded);
    }
}

#[tokio::test]
async fn without_keys_every_token_is_rejected() {
    let world = World::new().await;
    world.serve(answer("503 Service Unavailable", "", b""));
    for _ in 0..20 {
        assert_eq!(world.ask(&world.valid_token()).await, Err(TokenError::KeysUnavailable));
    }
    assert_eq!(world.fetches(), 1);
    let state = world.state();
    assert!(state.degraded && state.last_error.unwrap().contains("status 503"));
    world.serve_keys(&[world.signer.jwk("k")]);
    assert_eq!(world.ask(&world.valid_token()).await, Err(TokenError::KeysUnavailable));
    world.advance_clock(30);
    assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice());
}

#[tokio::test]
async fn a_removed_key_is_rejected_once_the_keys_are_refreshed() {
    let world = World::new().await;
    let token = world.valid_token();
    assert_eq!(world.ask(&token).await, authenticated_alice());
    world.serve_keys(&[Signer::p256().jwk("n")]);
    world.advance_clock(600);
    drop(world.ask(&token).await);
    world
        .wait_for_state(|state| state.fetched_at.unwrap().as_second() == crate::world::START + 600)
        .await;
    assert_eq!(world.ask(&token).await, Err(TokenError::UnknownKey));
    assert_eq!(world.ask(&world.valid_token()).await, Err(TokenError::UnknownKey));
}

#[tokio::test]
async fn a_removed_key_is_rejected_right_after_a_manual_refresh() {
    let world = World::new().await;
    let token = world.valid_token();
    assert_eq!(world.ask(&token).await, authenticated_alice());
    assert_eq!(world.ask(&token).await, authenticated_alice());
    world.serve_keys(&[]);
    let states = world.authenticator.refresh_keys().await;
    assert_eq!((states[0].keys, states[0].degraded), (0, true));
    assert_eq!(world.ask(&token).await, Err(TokenError::UnknownKey));
}

#[tokio::test]
async fn manual_key_refreshes_are_limited_to_one_per_second() {
    let world = World::new().await;
    for _ in 0..10 {
        world.authenticator.refresh_keys().await;
    }
    assert_eq!(world.fetches(), 1);
    world.advance_clock(1);
    world.authenticator.refresh_keys().await;
    assert_eq!(world.fetches(), 2);
}

#[tokio::test]
async fn a_cancelled_request_does_not_cancel_the_fetch() {
    let world = World::with(KeyTiming::default()).await;
    let token = world.valid_token();
    {
        let mut asked = Box::pin(world.ask(&token));
        // Poll once: that starts the fetch and goes no further.
        let once = std::future::poll_fn(|context| {
            drop(asked.as_mut().poll(context));
            std::task::Poll::Ready(())
        });
        once.await;
    }
    world.wait_for_state(|state| state.keys == 1).await;
    assert_eq!(world.ask(&token).await, authenticated_alice());
    assert_eq!(world.fetches(), 1);
}

#[tokio::test]
async fn a_clock_set_back_does_not_stop_fetching() {
    let world = World::new().await;
    assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice());
    world.advance_clock(-HOUR);
    let newer = Signer::p256();
    world.serve_keys(&[newer.jwk("n")]);
    assert_eq!(world.ask(&valid_token_of(&newer, "n")).await, authenticated_alice());
}

#[tokio::test]
async fn the_state_of_an_issuer_can_be_serialized() {
    let world = World::new().await;
    world.serve(ok(&jwks(&[world.signer.jwk("k"), json!({"kty": "new"})])));
    let states = serde_json::to_value(world.authenticator.refresh_keys().await).unwrap();
    assert_eq!(
        states,
        json!([{
            "issuer": "https://id.example", "keys": 1, "skipped": 1,
            "fetched_at": "2027-01-15T08:00:00Z", "last_error": null, "degraded": false,
        }])
    );
}
