//! A certificate that is none is told to admins, in words that help, and nothing is sent without it.

use model::ErrorCode;
use serde_json::{Value, json};

use crate::made::Certificate;
use crate::world::{World, code, merged};

const CANARY: &str = "canary-no-certificate-90d1";

async fn world(chain: &str, key: &str) -> World {
    let world = World::new().await;
    for (name, value) in [("CHAIN", chain), ("KEY", key)] {
        world.environment.lock().unwrap().insert(name.to_owned(), value.to_owned());
    }
    world
}

fn certificate(for_tokens: bool) -> Value {
    json!({"chain": "env:CHAIN", "key": "env:KEY", "for_tokens": for_tokens})
}

#[tokio::test]
async fn one_that_cannot_be_used_says_what_to_give_and_nothing_is_sent() {
    let Certificate { pem, key, .. } = Certificate::new();
    for (chain, key, wanted) in [
        (CANARY, &*key, "-----BEGIN CERTIFICATE-----"),
        (&*pem, CANARY, "-----BEGIN PRIVATE KEY-----"),
    ] {
        for kind in ["http_manifest", "mcp"] {
            let world = world(chain, key).await;
            let source =
                json!({"settings": {"kind": kind}, "client_certificate": certificate(false)});
            let error = world.register(&source).await.error.unwrap();
            assert!(error.message.contains("client certificate"), "{error:?}");
            assert!(error.message.contains(wanted) && !error.message.contains(CANARY), "{error:?}");
            assert!(world.upstream.asked().is_empty());
        }
        // Its specification is in the source, so there are tools all the same.
        let world = world(chain, key).await;
        world.register(&json!({})).await;
        world.register(&json!({"client_certificate": certificate(false)})).await;
        assert_eq!(code(&world.call("ada", "look").await), Some(ErrorCode::InternalError));
        assert_eq!(world.calls(), 0);
    }
}

#[tokio::test]
async fn a_good_one_stands_in_nobodys_way_and_one_that_is_replaced_is_used() {
    let Certificate { pem, key, .. } = Certificate::new();
    let world = world(&pem, &key).await;
    for auth in [world.own_token(), world.exchange(&json!({})), json!({"kind": "none"})] {
        world.register(&json!({"auth": auth, "client_certificate": certificate(true)})).await;
        assert_eq!(code(&world.call("ada", "look").await), None);
    }
    world.environment.lock().unwrap().insert("CHAIN".to_owned(), CANARY.to_owned());
    assert_eq!(code(&world.call("ada", "look").await), Some(ErrorCode::InternalError));
}

#[tokio::test]
async fn a_token_that_was_got_with_another_certificate_is_not_used() {
    let Certificate { pem, key, .. } = Certificate::new();
    let world = world(&pem, &key).await;
    for (for_tokens, given) in [(true, 2), (false, 1)] {
        let source =
            json!({"auth": world.own_token(), "client_certificate": certificate(for_tokens)});
        let before = world.authority.given();
        world.register(&source).await;
        assert_eq!(code(&world.call("ada", "look").await), None);
        let Certificate { pem, key, .. } = Certificate::new();
        for (name, value) in [("CHAIN", pem), ("KEY", key)] {
            world.environment.lock().unwrap().insert(name.to_owned(), value);
        }
        assert_eq!(code(&world.call("ada", "look").await), None);
        assert_eq!(world.authority.given() - before, given);
    }
}

#[tokio::test]
async fn the_place_for_tokens_is_shown_it_only_if_that_is_said() {
    let world = world(CANARY, &Certificate::new().key).await;
    for for_tokens in [false, true] {
        world.pass(1_000);
        let before = world.authority.given();
        let source = json!({"auth": world.own_token(), "client_certificate": certificate(for_tokens),
            "settings": {"kind": "mcp"}});
        assert!(world.register(&source).await.error.is_some());
        assert_eq!(world.authority.given() - before, u32::from(!for_tokens));
    }
}

#[tokio::test]
async fn one_that_is_shown_for_tokens_takes_the_place_of_a_secret() {
    let Certificate { pem, key, .. } = Certificate::new();
    let world = world(&pem, &key).await;
    let auth = merged(world.own_token(), &json!({"client_secret": null}));
    let source = |for_tokens| json!({"auth": auth, "client_certificate": certificate(for_tokens)});
    // Its specification is in the source, so there are tools before there is a token.
    world.register(&json!({})).await;
    world.register(&source(false)).await;
    assert_eq!(code(&world.call("ada", "look").await), Some(ErrorCode::InternalError));
    assert!(world.authority.server.asked().is_empty(), "nobody is asked without a proof");
    world.register(&source(true)).await;
    // This one knows nothing of certificates, and refuses us.
    assert_eq!(code(&world.call("ada", "look").await), Some(ErrorCode::ClientCredentialsFailed));
    let asked = world.authority.server.asked().pop().unwrap();
    assert_eq!(asked.header("authorization"), None);
    assert!(asked.body.contains("client_id=tool+crib"), "{}", asked.body);
    assert!(!asked.body.contains("client_secret"), "{}", asked.body);
}

#[tokio::test]
async fn one_that_is_shown_for_tokens_goes_where_the_metadata_sends_it() {
    let Certificate { pem, key, .. } = Certificate::new();
    let issuer =
        |world: &World| json!({"token_url": null, "issuer": world.authority.server.url("")});
    for (for_tokens, path) in [(false, "/token"), (true, "/mtls/token")] {
        let world = world(&pem, &key).await;
        let alias = world.authority.server.url("/mtls/token");
        world.authority.know(|known| known.alias = Some(alias));
        let auth = merged(world.own_token(), &issuer(&world));
        world.register(&json!({"auth": auth, "client_certificate": certificate(for_tokens)})).await;
        assert_eq!(code(&world.call("ada", "look").await), None);
        assert_eq!(world.authority.server.asked().pop().unwrap().path, path);
    }
    // It is no way around what holds of every place for tokens, and nobody is asked at the other one instead.
    let world = world(&pem, &key).await;
    world.authority.know(|known| known.alias = Some("http://id.example/token".to_owned()));
    let auth = merged(world.own_token(), &issuer(&world));
    world.register(&json!({})).await;
    for (for_tokens, failed) in [(true, Some(ErrorCode::ClientCredentialsFailed)), (false, None)] {
        world.register(&json!({"auth": auth, "client_certificate": certificate(for_tokens)})).await;
        assert_eq!(code(&world.call("ada", "look").await), failed);
        assert_eq!(world.authority.given(), u32::from(!for_tokens));
    }
}
