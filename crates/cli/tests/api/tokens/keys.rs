//! Keys of issuers: where they are found, how they are rotated, and failures to fetch them (JWT-08, JWT-22, JWT-24).
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::super::issuer::{World, config, now, server_trusting, signed_token, subject};
use crate::signer::{Signer, jwks};
use crate::support::ok;
use crate::upstream::{Upstream, answer};

/// Issuer on the web whose reply can be replaced.
struct Provider {
    upstream: Upstream,
    reply: Arc<Mutex<Vec<u8>>>,
}

impl Provider {
    fn replying(first: Vec<u8>) -> Self {
        let reply = Arc::new(Mutex::new(first));
        let now = Arc::clone(&reply);
        Self { upstream: Upstream::replying(move |_| now.lock().unwrap().clone()), reply }
    }

    fn with_keys(keys: &[Value]) -> Self {
        Self::replying(ok("application/json", &jwks(keys)))
    }

    fn set_reply(&self, reply: Vec<u8>) {
        *self.reply.lock().unwrap() = reply;
    }

    fn set_keys(&self, keys: &[Value]) {
        self.set_reply(ok("application/json", &jwks(keys)));
    }

    /// Configuration of the issuer.
    fn config(&self) -> Value {
        let url = self.upstream.url("/jwks");
        config(json!({"keys": {"jwks_url": url}, "allow": ["127.0.0.1"]}))
    }

    fn fetches(&self) -> usize {
        self.upstream.requests().len()
    }
}

#[test]
fn keys_are_fetched_from_a_key_set() {
    let signer = Signer::p256();
    let provider = Provider::with_keys(&[signer.jwk("k")]);
    let world = World { server: server_trusting(&[provider.config()]), signer };
    assert_eq!(provider.fetches(), 0);
    for _ in 0..3 {
        assert_eq!(world.assert_accepted(&world.token(json!({}))), "alice");
    }
    world.assert_rejected(&signed_token(&Signer::p256(), json!({}), json!({})));
    world.assert_rejected(&signed_token(&Signer::p256(), json!({"kid": "other"}), json!({})));
    assert_eq!(provider.fetches(), 1);
    let issuers = world.server.get("/api/issuers").ok();
    assert_eq!(
        (&issuers["data"][0]["keys"], &issuers["data"][0]["degraded"]),
        (&json!(1), &json!(false))
    );
}

#[test]
fn keys_are_found_through_the_metadata_of_the_issuer() {
    for document_at in
        ["/realm/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/realm"]
    {
        let signer = Signer::p256();
        let keys = jwks(&[signer.jwk("k")]);
        let upstream = Upstream::replying(move |request| {
            let mut words = request.split_whitespace();
            let path = words.nth(1).unwrap();
            let host = words.skip_while(|word| !word.eq_ignore_ascii_case("host:")).nth(1).unwrap();
            let issuer = format!("http://{host}/realm");
            match path {
                "/keys" => ok("application/json", &keys),
                path if path == document_at => {
                    let document =
                        json!({"issuer": issuer, "jwks_uri": format!("http://{host}/keys")});
                    ok("application/json", &document.to_string())
                }
                _ => answer("404 Not Found", "", b""),
            }
        });
        let issuer = upstream.url("/realm");
        let server = server_trusting(&[config(json!({"issuer": issuer, "allow": ["127.0.0.1"]}))]);
        let token = signed_token(&signer, json!({}), json!({"iss": issuer}));
        assert_eq!(subject(&server, &token), "alice", "{document_at}");
        assert_eq!(server.get("/api/issuers").ok()["data"][0]["issuer"], issuer);
    }
}

#[test]
fn metadata_of_another_issuer_is_rejected() {
    let signer = Signer::p256();
    let document = json!({"issuer": "https://id.example", "jwks_uri": "https://id.example/jwks"});
    let provider = Provider::replying(ok("application/json", &document.to_string()));
    let issuer = provider.upstream.url("");
    let server = server_trusting(&[config(json!({"issuer": issuer, "allow": ["127.0.0.1"]}))]);
    let token = signed_token(&signer, json!({}), json!({"iss": issuer}));
    let refused = server.get_as(&token, "/api/whoami");
    assert!(refused.problem().starts_with("503 keys_unavailable"), "{refused:?}");
    let error = server.get("/api/issuers").ok()["data"][0]["last_error"].to_string();
    assert!(error.contains("of another issuer"), "{error}");
}

#[test]
fn private_addresses_are_unreachable_unless_the_issuer_allows_them() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let signer = Signer::p256();
    let world =
        World { server: server_trusting(&[config(json!({"keys": {"jwks_url": url}}))]), signer };
    let answer = world.server.get_as(&world.token(json!({})), "/api/whoami");
    assert!(answer.problem().starts_with("503 keys_unavailable"), "{answer:?}");
    assert!(listener.accept().is_err());
}

#[test]
fn a_removed_key_is_rejected_right_after_a_refresh_by_an_admin() {
    let (old, new) = (Signer::p256(), Signer::p256());
    let provider = Provider::with_keys(&[old.jwk("k"), new.jwk("n")]);
    let world = World { server: server_trusting(&[provider.config()]), signer: old };
    let token = world.token(json!({}));
    assert_eq!(world.assert_accepted(&token), "alice");
    provider.set_keys(&[new.jwk("n")]);
    assert_eq!(world.assert_accepted(&token), "alice");
    let refreshed = world.server.post_empty("/api/issuers/refresh-keys").ok();
    assert_eq!((&refreshed["data"][0]["keys"], provider.fetches()), (&json!(1), 2));
    world.assert_rejected(&token);
    world.assert_rejected(&world.token(json!({"jti": "another"})));
    assert_eq!(world.assert_accepted(&signed_token(&new, json!({"kid": "n"}), json!({}))), "alice");
}

#[test]
fn a_new_key_with_the_same_id_replaces_the_old_one() {
    let (old, new) = (Signer::p256(), Signer::p256());
    let provider = Provider::with_keys(&[old.jwk("k")]);
    let world = World { server: server_trusting(&[provider.config()]), signer: old };
    let token = world.token(json!({}));
    assert_eq!(world.assert_accepted(&token), "alice");
    provider.set_keys(&[new.jwk("k")]);
    world.server.post_empty("/api/issuers/refresh-keys").ok();
    world.assert_rejected(&token);
    assert_eq!(world.assert_accepted(&signed_token(&new, json!({}), json!({}))), "alice");
}

#[test]
fn an_unreachable_issuer_authenticates_no_token() {
    for reply in [
        answer("500 Internal Server Error", "", b""),
        ok("text/html", "<html>We will be back soon</html>"),
        ok("application/json", r#"{"keys":[],"keys":[]}"#),
        Vec::new(),
    ] {
        let signer = Signer::p256();
        let provider = Provider::replying(reply);
        let world = World { server: server_trusting(&[provider.config()]), signer };
        let token = world.token(json!({}));
        for path in ["/api/whoami", "/api/agents/tools", "/api/groups"] {
            let answer = world.server.get_as(&token, path);
            assert!(answer.problem().starts_with("503 keys_unavailable"), "{answer:?}");
            assert_eq!(answer.header("retry-after"), "1");
        }
        assert_eq!(provider.fetches(), 1);
        let issuer = world.server.get("/api/issuers").ok()["data"][0].clone();
        assert_eq!((&issuer["degraded"], &issuer["keys"]), (&json!(true), &json!(0)));
        assert!(issuer["last_error"].is_string(), "{issuer}");
        // An admin can refresh the keys before the next automatic attempt.
        provider.set_keys(&[world.signer.jwk("k")]);
        world.server.post_empty("/api/issuers/refresh-keys").ok();
        assert_eq!(world.assert_accepted(&token), "alice");
    }
}

#[test]
fn fetched_keys_stay_valid_while_the_issuer_is_down() {
    let signer = Signer::p256();
    let provider = Provider::with_keys(&[signer.jwk("k")]);
    let world = World { server: server_trusting(&[provider.config()]), signer };
    assert_eq!(world.assert_accepted(&world.token(json!({}))), "alice");
    provider.set_reply(answer("500 Internal Server Error", "", b""));
    let refreshed = world.server.post_empty("/api/issuers/refresh-keys").ok();
    let issuer = &refreshed["data"][0];
    assert_eq!((&issuer["degraded"], &issuer["keys"]), (&json!(true), &json!(1)));
    assert_eq!(world.assert_accepted(&world.token(json!({"iat": now()}))), "alice");
    world.assert_rejected(&signed_token(&world.signer, json!({"kid": "unknown"}), json!({})));
}

#[test]
fn unknown_key_ids_do_not_trigger_repeated_fetches() {
    let signer = Signer::p256();
    let provider = Provider::with_keys(&[signer.jwk("k")]);
    let world = World { server: server_trusting(&[provider.config()]), signer };
    assert_eq!(world.assert_accepted(&world.token(json!({}))), "alice");
    let attacker = Signer::p256();
    for count in 0..200 {
        world.assert_rejected(&signed_token(
            &attacker,
            json!({"kid": format!("made-up-{count}")}),
            json!({}),
        ));
    }
    assert_eq!(world.assert_accepted(&world.token(json!({"jti": "another"}))), "alice");
    assert_eq!(provider.fetches(), 1);
}
