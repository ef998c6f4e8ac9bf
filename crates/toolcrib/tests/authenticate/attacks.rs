//! Attacks on token verification: floods of unknown key ids, attacker-supplied keys, and oversized key sets.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use toolcrib::{KeyTiming, TokenError};

use crate::server::{Upstream, answer};
use crate::signer::{Signer, encode, jwks};
use crate::world::{
    ISSUER, World, authenticated_alice, authenticator_for, clock, issuer, ok, signed, subject,
    valid_token_of,
};

#[tokio::test]
async fn a_key_url_in_a_token_header_is_never_fetched() {
    let world = World::new().await;
    let attacker = Signer::p256();
    let keys = jwks(&[attacker.jwk("k")]);
    let theirs = Upstream::replying(move |_| ok(&keys));
    assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice());
    world.advance_clock(30);
    for member in ["jku", "x5u"] {
        let places = [
            theirs.url("/jwks"),
            "http://169.254.169.254/latest".to_owned(),
            "file:///etc/passwd".to_owned(),
        ];
        for place in places {
            for kid in ["k", "unknown"] {
                let header = json!({"kid": kid, member: place});
                let refused = world.ask(&signed(&attacker, header, json!({}))).await;
                let expected =
                    if kid == "k" { TokenError::Signature } else { TokenError::UnknownKey };
                assert_eq!(refused, Err(expected));
            }
        }
    }
    assert_eq!(theirs.requests().len(), 0);
}

#[tokio::test]
async fn a_flood_of_unknown_key_ids_causes_one_fetch() {
    let world = World::new().await;
    assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice());
    world.advance_clock(30);
    let payload = encode(json!({"iss": ISSUER}).to_string().as_bytes());
    let signature = encode(&[7; 64]);
    for count in 0..10_000 {
        let header = json!({"alg": "ES256", "typ": "at+jwt", "kid": format!("made-up-{count}")});
        let token = format!("{}.{payload}.{signature}", encode(header.to_string().as_bytes()));
        assert_eq!(world.ask(&token).await, Err(TokenError::UnknownKey));
        if count % 500 == 0 {
            assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice());
        }
    }
    assert_eq!(world.fetches(), 2);
}

#[tokio::test]
async fn unusual_key_ids_are_treated_as_unknown_keys() {
    let world = World::new().await;
    let long = "k".repeat(10_000);
    for kid in ["../../dev/null", "' OR 1=1--", &long, "k\0", "k\r\nX: y", "🔑", ""] {
        let refused = world.ask(&valid_token_of(&world.signer, kid)).await;
        assert_eq!(refused, Err(TokenError::UnknownKey), "{kid}");
    }
    assert_eq!(world.fetches(), 1);
}

/// A server that sends the head of an answer, and then one byte every 20 ms.
fn slow_key_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            thread::spawn(move || {
                drop(connection.read(&mut [0; 1024]));
                drop(connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"));
                while connection.write_all(b" ").is_ok() {
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
    });
    format!("http://127.0.0.1:{port}/jwks")
}

fn gzip_compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn an_oversized_or_invalid_key_set_changes_nothing() {
    let world = World::new().await;
    assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice());
    let elsewhere = Upstream::replying(|_| ok(&jwks(&[])));
    let padded = format!(r#"{{"keys":[],"x":"{}"}}"#, "x".repeat(2 << 20));
    let bomb = gzip_compress(format!(r#"{{"keys":[],"x":"{}"}}"#, "x".repeat(64 << 20)).as_bytes());
    assert!(bomb.len() < 1 << 20);
    let many = vec![world.signer.jwk("n"); 65];
    let location = format!("Location: {}\r\n", elsewhere.url("/jwks"));
    for (reply, complaint) in [
        (ok(&padded), "too large"),
        (answer("200 OK", "Content-Encoding: gzip\r\n", &bomb), "too large"),
        (ok(&jwks(&many)), "at most 64 keys"),
        (answer("302 Found", &location, b""), "moved"),
        (ok(r#"{"keys":[],"keys":[]}"#), "not a JWK set"),
    ] {
        world.serve(reply);
        world.advance_clock(30);
        let state = world.authenticator.refresh_keys().await.remove(0);
        assert!(state.last_error.as_ref().unwrap().contains(complaint), "{state:?}");
        assert_eq!((state.keys, state.degraded), (1, true), "{complaint}");
        assert_eq!(world.ask(&world.valid_token()).await, authenticated_alice(), "{complaint}");
    }
    assert_eq!(elsewhere.requests().len(), 0);
}

#[tokio::test]
async fn a_slow_key_set_is_abandoned_at_the_deadline() {
    let timing = KeyTiming { deadline: Duration::from_millis(200), ..KeyTiming::default() };
    let config = issuer(json!({"keys": {"jwks_url": slow_key_server()}}));
    let authenticator = authenticator_for(&[config], &clock(), timing).await.unwrap();
    let start = Instant::now();
    let refused = authenticator.verify_token(&valid_token_of(&Signer::p256(), "k")).await;
    assert_eq!(subject(refused), Err(TokenError::KeysUnavailable));
    assert!(start.elapsed() < Duration::from_secs(5));
    let state = authenticator.issuer_states().remove(0);
    assert!(state.degraded && state.last_error.unwrap().contains("200ms"));
}

#[tokio::test]
async fn an_invalid_token_is_rejected_without_a_fetch() {
    let world = World::new().await;
    for text in ["", "Bearer", "a.b.c", "null", "anonymous", "..", "\0", "e30.e30.e30"] {
        assert!(world.ask(text).await.is_err(), "{text}");
    }
    let long = "a".repeat(1 << 20);
    assert_eq!(world.ask(&long).await, Err(TokenError::TooLong { limit: 16 << 10 }));
    let other = signed(&world.signer, json!({"kid": "k"}), json!({"iss": "https://other.example"}));
    assert_eq!(world.ask(&other).await, Err(TokenError::UnknownIssuer));
    assert_eq!(world.fetches(), 0);
}
