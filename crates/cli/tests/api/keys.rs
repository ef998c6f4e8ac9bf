//! API keys: shown once, stored as a hash, valid until they expire or are revoked.

use serde_json::json;

use super::server::{Ask, Server};

#[test]
fn a_key_is_shown_once_and_valid_until_revoked() {
    let server = Server::start();
    let body = json!({"name": "Nightly build", "claims": {"role": "bot"}});
    let made = server.post("/api/keys", &body);
    assert_eq!((made.status, made.header("location")), (201, "/api/keys/nightly-build"));
    let key = made.ok()["key"].as_str().unwrap().to_owned();
    let whoami = || server.send(&Ask::new("GET", "/api/whoami").bearer(&key));
    let me = json!({"subject": "key:nightly-build", "means": "key", "is_admin": false, "claims": {"role": "bot"}});
    assert_eq!(whoami().ok(), me);
    let changed = json!({"name": "Nightly build", "claims": {"role": "bot"}, "admin": true});
    server.put("/api/keys/nightly-build", &changed).ok();
    assert_eq!(whoami().ok()["is_admin"], true);
    let revoked = server.send(&server.ask("POST", "/api/keys/nightly-build/revoke")).ok();
    assert_eq!(revoked["is_revoked"], true);
    let refused = whoami();
    assert_eq!(
        (refused.status, refused.header("www-authenticate")),
        (401, r#"Bearer error="invalid_token""#)
    );
    let problem = server.put("/api/keys/nightly-build", &changed).problem();
    assert_eq!(problem, "409 key_revoked: key `nightly-build` is revoked: make a new one");
    assert_eq!(server.delete("/api/keys/nightly-build").ok(), json!({"id": "nightly-build"}));
}

#[test]
fn an_expired_key_is_rejected() {
    let server = Server::start();
    let made = server
        .post("/api/keys", &json!({"name": "old", "expires_at": "2001-01-01T00:00:00Z"}))
        .ok();
    let answer = server.send(&Ask::new("GET", "/api/whoami").bearer(made["key"].as_str().unwrap()));
    assert_eq!(answer.status, 401);
}

#[test]
fn an_idempotent_retry_does_not_show_the_key_again() {
    let server = Server::start();
    let ask = || {
        server.send(
            &server
                .ask("POST", "/api/keys")
                .header("Idempotency-Key", "k")
                .json(&json!({"name": "a"})),
        )
    };
    let (first, second) = (ask(), ask());
    assert!(first.ok()["key"].is_string());
    assert_eq!(second.status, 201);
    assert_eq!(second.ok().get("key"), None);
}

#[test]
fn no_other_response_and_no_log_contains_the_key_or_its_hash() {
    let mut server = Server::start_with("-vvv");
    let made = server.post("/api/keys", &json!({"name": "a"})).ok();
    let key = made["key"].as_str().unwrap().to_owned();
    let secret = key.rsplit_once('_').unwrap().1.to_owned();
    let hash = model::Digest::of_bytes(&key).to_string();
    server
        .send(&Ask::new("GET", &format!("/api/whoami?access_token={key}")).bearer(&key))
        .problem();
    let answers = [
        server.get("/api/keys"),
        server.get("/api/keys/a"),
        server.put("/api/keys/a", &json!({"name": "b"})),
        server.send(&server.ask("POST", "/api/keys/a/revoke")),
        server.delete("/api/keys/a"),
        server.send(&Ask::new("GET", "/api/whoami").bearer(&key)),
    ];
    let (_, log) = server.stop();
    let export = server.folder.run("journal export").output();
    for text in answers.iter().map(|answer| answer.body.as_str()).chain([log.as_str(), &export]) {
        assert!(!text.contains(&secret), "{text}");
    }
    for answer in &answers {
        assert!(!answer.body.contains(&hash), "{answer:?}");
    }
}
