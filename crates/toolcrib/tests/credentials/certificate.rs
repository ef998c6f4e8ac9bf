//! An unusable client certificate is reported to admins with a hint, and no request is sent without it.

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
async fn an_unusable_certificate_names_the_expected_format_and_nothing_is_sent() {
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
            assert!(world.upstream.received_requests().is_empty());
        }
        // The source embeds its specification, so its tools exist although the certificate is unusable.
        let world = world(chain, key).await;
        world.register(&json!({})).await;
        world.register(&json!({"client_certificate": certificate(false)})).await;
        assert_eq!(code(&world.call("ada", "look").await), Some(ErrorCode::InternalError));
        assert_eq!(world.count_calls(), 0);
    }
}

#[tokio::test]
async fn a_valid_certificate_works_with_every_auth_kind_and_a_replaced_one_is_used() {
    let Certificate { pem, key, .. } = Certificate::new();
    let world = world(&pem, &key).await;
    for auth in
        [world.client_credentials_auth(), world.exchange_auth(&json!({})), json!({"kind": "none"})]
    {
        world.register(&json!({"auth": auth, "client_certificate": certificate(true)})).await;
        assert_eq!(code(&world.call("ada", "look").await), None);
    }
    world.environment.lock().unwrap().insert("CHAIN".to_owned(), CANARY.to_owned());
    assert_eq!(code(&world.call("ada", "look").await), Some(ErrorCode::InternalError));
}

#[tokio::test]
async fn a_token_obtained_with_a_replaced_certificate_is_not_used() {
    let Certificate { pem, key, .. } = Certificate::new();
    let world = world(&pem, &key).await;
    for (for_tokens, given) in [(true, 2), (false, 1)] {
        let source = json!({"auth": world.client_credentials_auth(), "client_certificate": certificate(for_tokens)});
        let before = world.authority.issued_tokens();
        world.register(&source).await;
        assert_eq!(code(&world.call("ada", "look").await), None);
        let Certificate { pem, key, .. } = Certificate::new();
        for (name, value) in [("CHAIN", pem), ("KEY", key)] {
            world.environment.lock().unwrap().insert(name.to_owned(), value);
        }
        assert_eq!(code(&world.call("ada", "look").await), None);
        assert_eq!(world.authority.issued_tokens() - before, given);
    }
}

#[tokio::test]
async fn the_token_endpoint_gets_the_certificate_only_if_configured() {
    let world = world(CANARY, &Certificate::new().key).await;
    for for_tokens in [false, true] {
        world.advance_clock(1_000);
        let before = world.authority.issued_tokens();
        let source = json!({"auth": world.client_credentials_auth(), "client_certificate": certificate(for_tokens),
            "settings": {"kind": "mcp"}});
        assert!(world.register(&source).await.error.is_some());
        assert_eq!(world.authority.issued_tokens() - before, u32::from(!for_tokens));
    }
}

#[tokio::test]
async fn a_certificate_for_tokens_replaces_the_client_secret() {
    let Certificate { pem, key, .. } = Certificate::new();
    let world = world(&pem, &key).await;
    let auth = merged(world.client_credentials_auth(), &json!({"client_secret": null}));
    let source = |for_tokens| json!({"auth": auth, "client_certificate": certificate(for_tokens)});
    // The source embeds its specification, so its tools exist before any token does.
    world.register(&json!({})).await;
    world.register(&source(false)).await;
    assert_eq!(code(&world.call("ada", "look").await), Some(ErrorCode::InternalError));
    assert!(
        world.authority.server.received_requests().is_empty(),
        "nobody is asked without a proof"
    );
    world.register(&source(true)).await;
    // The test server does not support certificates and rejects the client.
    assert_eq!(code(&world.call("ada", "look").await), Some(ErrorCode::ClientCredentialsFailed));
    let asked = world.authority.server.received_requests().pop().unwrap();
    assert_eq!(asked.header("authorization"), None);
    assert!(asked.body.contains("client_id=tool+crib"), "{}", asked.body);
    assert!(!asked.body.contains("client_secret"), "{}", asked.body);
}

#[tokio::test]
async fn a_certificate_for_tokens_uses_the_mtls_endpoint_alias_of_the_metadata() {
    let Certificate { pem, key, .. } = Certificate::new();
    let issuer =
        |world: &World| json!({"token_url": null, "issuer": world.authority.server.url("")});
    for (for_tokens, path) in [(false, "/token"), (true, "/mtls/token")] {
        let world = world(&pem, &key).await;
        let alias = world.authority.server.url("/mtls/token");
        world.authority.with_state(|known| known.alias = Some(alias));
        let auth = merged(world.client_credentials_auth(), &issuer(&world));
        world.register(&json!({"auth": auth, "client_certificate": certificate(for_tokens)})).await;
        assert_eq!(code(&world.call("ada", "look").await), None);
        assert_eq!(world.authority.server.received_requests().pop().unwrap().path, path);
    }
    // The alias is subject to the same rules as any token endpoint, and the other endpoint is not used instead.
    let world = world(&pem, &key).await;
    world.authority.with_state(|known| known.alias = Some("http://id.example/token".to_owned()));
    let auth = merged(world.client_credentials_auth(), &issuer(&world));
    world.register(&json!({})).await;
    for (for_tokens, failed) in [(true, Some(ErrorCode::ClientCredentialsFailed)), (false, None)] {
        world.register(&json!({"auth": auth, "client_certificate": certificate(for_tokens)})).await;
        assert_eq!(code(&world.call("ada", "look").await), failed);
        assert_eq!(world.authority.issued_tokens(), u32::from(!for_tokens));
    }
}
