//! Secrets over the API: write-only, and used from the next call on.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Answer, Ask, Server};
use crate::support::{KEY, ok};
use crate::upstream::Upstream;

fn server_with_sealing_key() -> Server {
    Server::start_with_environment(&[("TOOLCRIB_SEALING_KEY", KEY)])
}

pub(super) fn set_secret(server: &Server, value: &str) {
    let answer = server.put("/api/secrets/pets%2Ftoken", &json!({"value": value}));
    assert_eq!((answer.status, &*answer.body), (204, ""), "{answer:?}");
}

/// API whose credential is the secret, and the key of an agent that may call it.
pub(super) fn add_pets(server: &Server, upstream: &Upstream) -> String {
    let text = json!({"openapi": "3.1.0", "info": {"title": "t", "version": "1"},
        "paths": {"/pets": {"get": {"operationId": "look", "responses": {"200": {"description": "ok"}}}}}});
    let source = json!({"name": "pets", "url": upstream.url(""), "allow": ["127.0.0.1"],
        "auth": {"kind": "bearer", "token": "sealed:pets/token"},
        "settings": {"kind": "openapi", "specification": {"text": text.to_string()}}});
    server.post("/api/sources", &source).ok();
    server.wait_for("/api/sources/pets", |source| !source["inventory"].is_null());
    server.post("/api/groups", &json!({"name": "all", "selectors": [{"source": "pets"}]})).ok();
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
    let policy = json!({"name": "staff", "matchers": matchers, "groups": ["all"]});
    server.post("/api/policies", &policy).ok();
    let key = json!({"name": "bot", "claims": {"role": "staff"}});
    server.post("/api/keys", &key).ok()["key"].as_str().unwrap().to_owned()
}

pub(super) fn call(server: &Server, agent: &str) -> Answer {
    let ask = Ask::new("POST", "/api/agents/tools/call").json(&json!({"name": "look"}));
    server.send(&ask.bearer(agent))
}

#[test]
fn a_replaced_secret_is_used_by_the_next_call() {
    let (server, upstream) =
        (server_with_sealing_key(), Upstream::replying(|_| ok("application/json", "{}")));
    set_secret(&server, "first");
    let agent = add_pets(&server, &upstream);
    for value in ["first", "second", "third"] {
        set_secret(&server, value);
        let answer = call(&server, &agent);
        assert_eq!(answer.status, 200, "{answer:?}");
        let last = upstream.requests().pop().unwrap();
        assert!(last.contains(&format!("authorization: Bearer {value}\r\n")), "{last}");
    }
    assert_eq!(server.delete("/api/secrets/pets%2Ftoken").status, 204);
    let answer = call(&server, &agent);
    assert!(answer.body.contains("the credential of the source cannot be used"), "{answer:?}");
    assert_eq!(upstream.requests().len(), 3);
    set_secret(&server, "fourth");
    call(&server, &agent);
    assert!(upstream.requests().pop().unwrap().contains("Bearer fourth\r\n"));
}

#[test]
fn calls_use_the_last_known_secret_while_the_store_fails() {
    let upstream = Upstream::replying(|_| ok("application/json", "{}"));
    let mut server = server_with_sealing_key();
    let log = server.log();
    set_secret(&server, "first");
    let agent = add_pets(&server, &upstream);
    assert_eq!(call(&server, &agent).status, 200);
    let path = server.folder.path("toolcrib.db");
    let rename = |from: &str, to: &str| {
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).unwrap();
    };
    rename("sealed", "away");
    assert_eq!(server.get("/api/secrets").status, 503);
    // Longer than a value is used without checking the store.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(2_500) {
        let answer = call(&server, &agent);
        assert!(answer.status == 200 && !answer.body.contains("cannot be used"), "{answer:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(upstream.requests().pop().unwrap().contains("Bearer first\r\n"));
    rename("away", "sealed");
    set_secret(&server, "second");
    call(&server, &agent);
    assert!(upstream.requests().pop().unwrap().contains("Bearer second\r\n"));
    server.stop();
    let log = log.join().unwrap();
    assert_eq!(log.matches("sealed secrets cannot be read").count(), 1, "{log}");
}

#[test]
fn secrets_are_listed_with_the_time_they_were_set_and_their_sources() {
    let (server, upstream) =
        (server_with_sealing_key(), Upstream::replying(|_| ok("application/json", "{}")));
    set_secret(&server, "canary-value");
    server.put("/api/secrets/unused", &json!({"value": "canary-value"}));
    add_pets(&server, &upstream);
    let answer = server.get("/api/secrets");
    assert!(!answer.body.contains("canary-value"), "{answer:?}");
    let mut list = answer.ok();
    for secret in list["data"].as_array_mut().unwrap() {
        let at = secret["set_at"].take();
        assert!(at.as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{at}");
    }
    let pets = json!({"name": "pets/token", "set_at": null, "sources": ["pets"]});
    let unused = json!({"name": "unused", "set_at": null, "sources": []});
    assert_eq!(list, json!({"data": [pets, unused], "next_cursor": null}));
    let found = server.get("/api/secrets?q=TOKEN&limit=1").ok();
    assert_eq!(found["data"].as_array().unwrap().len(), 1);
}

#[test]
fn invalid_secrets_are_rejected() {
    let server = server_with_sealing_key();
    let put = |name: &str, body: Value| server.put(&format!("/api/secrets/{name}"), &body);
    let value = json!({"value": "v"});
    insta::assert_snapshot!(put("x", json!({})).errors(), @"value: is missing");
    insta::assert_snapshot!(put("x", json!({"value": ""})).errors(), @"value: is empty");
    insta::assert_snapshot!(put("x", json!({"value": 7})).errors(), @"value: is to be a string, not a number");
    insta::assert_snapshot!(put("x", json!({"value": "v", "vaule": "v"})).errors(), @"vaule: is not known here; did you mean `value`?");
    insta::assert_snapshot!(put("x", json!({"value": "v".repeat(65_537)})).errors(), @"value: a secret has at most 65536 bytes and is not empty");
    insta::assert_snapshot!(put("sealed:x", value.clone()).errors(), @"name: give the name alone: `x`");
    insta::assert_snapshot!(put("a%0Ab", value.clone()).errors(), @"name: a secret's name has 1 to 1024 bytes and no control characters");
    insta::assert_snapshot!(put(&"x".repeat(1_025), value).errors(), @"name: a secret's name has 1 to 1024 bytes and no control characters");
    insta::assert_snapshot!(server.delete("/api/secrets/x").problem(), @"404 not_found: there is no secret `x`");
    insta::assert_snapshot!(server.get("/api/secrets/x").problem(), @"405 method_not_allowed: the `Allow` header says what can be done here");
    assert_eq!(put("x", json!({"value": "v".repeat(65_536)})).status, 204);
}

#[test]
fn a_server_without_the_sealing_key_explains_how_to_set_it() {
    let put = |server: &Server, name: &str| {
        server.put(&format!("/api/secrets/{name}"), &json!({"value": "v"}))
    };
    let server = Server::start();
    insta::assert_snapshot!(put(&server, "x").problem(), @"409 no_sealing_key: the server has no key to seal with: start it with TOOLCRIB_SEALING_KEY or --sealing-key-file (`openssl rand -base64 32 > FILE` makes one)");
    assert_eq!(server.get("/api/secrets").ok()["data"], json!([]));
    let other = [("TOOLCRIB_SEALING_KEY", "another key of thirty-two letters")];
    let folder = crate::support::Folder::empty();
    folder.run_with("secret set x", "v", &[("TOOLCRIB_SEALING_KEY", KEY)]).output();
    let server = Server::on_folder_with_environment(folder, "", &other);
    insta::assert_snapshot!(put(&server, "y").problem(), @"409 other_sealing_key: the secret `x` was sealed with another key than the server has: start it with that key, or remove the secret");
    assert_eq!(put(&server, "x").status, 204, "the only one may be replaced");
}
