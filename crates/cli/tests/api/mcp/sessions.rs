//! Legacy sessions: bound to their client, ended by it, and valid on every node with the same sealing key.

use serde_json::{Value, json};

use super::Era::{Legacy, Modern};
use super::{Client, error_of_answer, initialize_params, key, request, tampered};
use crate::api::calls::Shop;
use crate::api::issuer::{config_with_inline_key, server_trusting_on, signed_token};
use crate::api::server::{Ask, Server};
use crate::signer::Signer;
use crate::support::{Folder, KEY};

const PING: &str = "ping";

/// Statuses of three requests with this credential and session.
fn statuses_with_session(server: &Server, credential: &str, session: &str) -> [u16; 3] {
    let mut client = Client::new(server, credential);
    client.session = Some(session.to_owned());
    let get = client.request_without_body("GET").header("Accept", "text/event-stream");
    [
        client.send(Legacy, PING, json!({})).status,
        client.send(Legacy, "tools/list", json!({})).status,
        server.send(&get).status,
    ]
}

#[test]
fn the_client_and_the_server_negotiate_a_version() {
    let server = Server::start();
    let client = Client::new(&server, &server.key);
    let agreed = |wanted: Value| {
        let mut params = initialize_params();
        params["protocolVersion"] = wanted;
        client.result(Legacy, "initialize", params)["protocolVersion"].as_str().unwrap().to_owned()
    };
    for known in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        assert_eq!(agreed(json!(known)), known);
    }
    for unknown in ["2099-01-01", "2026-07-28", "", "latest"] {
        assert_eq!(agreed(json!(unknown)), "2025-11-25");
    }
    for params in [json!({}), json!({"protocolVersion": 1}), json!({"protocolVersion": null})] {
        let answer = client.send(Legacy, "initialize", params);
        assert_eq!(
            error_of_answer(&answer),
            (200, -32602, "`protocolVersion` must be a text".into())
        );
        assert!(answer.header("mcp-session-id").is_empty());
    }
    // The modern generation has no sessions.
    assert!(client.send(Modern, "server/discover", json!({})).header("mcp-session-id").is_empty());
}

#[test]
fn a_session_is_valid_only_for_its_caller() {
    let shop = Shop::open();
    let server = &shop.server;
    let other = key(server, "other", &json!({"role": "staff"}));
    let client = Client::new(server, &shop.key).initialized();
    let again = Client::new(server, &shop.key).initialized();
    let session = client.session();
    assert_ne!(session, again.session());
    assert!(session.bytes().all(|byte| byte.is_ascii_graphic()));
    assert_eq!(statuses_with_session(server, &shop.key, session), [200; 3]);
    assert_eq!(statuses_with_session(server, &other, session), [404; 3]);
    assert_eq!(statuses_with_session(server, &server.key, session), [404; 3]);
    assert_eq!(statuses_with_session(server, "tcrib_nobody_secret", session), [401; 3]);
    // From this machine, a request without a credential is an anonymous caller, which is a different one.
    let nobody = Ask::new("POST", "/mcp").header("Mcp-Session-Id", session);
    let answer = server.send(&nobody.json(&request(Legacy, json!(1), PING, json!({}))));
    assert!(answer.problem().starts_with("404 not_found: there is no such session"), "{answer:?}");
    // A session id is no credential: it authenticates no caller.
    let changed = tampered(session);
    let joined = format!("{session}{session}");
    for forged in ["", "1", "null", &changed, &joined, &"A".repeat(200), "\u{fc}"] {
        assert_eq!(statuses_with_session(server, &shop.key, forged), [404; 3], "{forged}");
    }
    // A session that was begun anonymously is not valid with a key.
    let introduction = request(Legacy, json!(1), "initialize", initialize_params());
    let begun = server.send(&Ask::new("POST", "/mcp").json(&introduction));
    assert_eq!(statuses_with_session(server, &shop.key, begun.header("mcp-session-id")), [404; 3]);
    server.post_empty("/api/keys/bot/revoke").ok();
    assert_eq!(statuses_with_session(server, &shop.key, session), [401; 3]);
}

#[test]
fn a_session_is_bound_to_client_and_user() {
    let signer = Signer::p256();
    let server =
        server_trusting_on(Folder::empty(), &[config_with_inline_key(&signer, json!({}))], "");
    let token = |claims: Value| signed_token(&signer, json!({}), claims);
    let one = token(json!({"client_id": "editor"}));
    let client = Client::new(&server, &one).initialized();
    let session = client.session();
    // A newer token of the same client may use the session.
    assert_eq!(
        statuses_with_session(&server, &token(json!({"client_id": "editor", "jti": "2"})), session),
        [200; 3]
    );
    for claims in [
        json!({"client_id": "other"}),
        json!({}),
        json!({"azp": "other"}),
        json!({"client_id": "editor", "sub": "bob"}),
        json!({"client_id": "editor\u{0}", "sub": "alice"}),
        json!({"client_id": null, "sub": "alice\u{0}editor"}),
    ] {
        assert_eq!(
            statuses_with_session(&server, &token(claims.clone()), session),
            [404; 3],
            "{claims}"
        );
    }
}

#[test]
fn a_client_can_end_its_session() {
    let shop = Shop::open();
    let (server, other) = (&shop.server, key(&shop.server, "other", &json!({})));
    let client = Client::new(server, &shop.key).initialized();
    let session = client.session();
    let delete = |credential: &str| {
        let mut client = Client::new(server, credential);
        client.session = Some(session.to_owned());
        server.send(&client.request_without_body("DELETE")).status
    };
    assert_eq!(delete(&other), 404);
    assert_eq!(statuses_with_session(server, &shop.key, session), [200; 3]);
    assert_eq!(delete(&shop.key), 204);
    assert_eq!(statuses_with_session(server, &shop.key, session), [404; 3]);
    assert_eq!(delete(&shop.key), 404);
    // Other sessions of the same client continue, and the client can begin new ones.
    let again = Client::new(server, &shop.key).initialized();
    assert_eq!(statuses_with_session(server, &shop.key, again.session()), [200; 3]);
    let none = server.send(&Client::new(server, &shop.key).request_without_body("DELETE"));
    assert_eq!((none.status, none.header("allow")), (405, "POST"));
}

#[test]
fn sessions_and_cursors_are_valid_on_every_node_with_the_same_sealing_key() {
    let signer = Signer::p256();
    let node = |sealing_key: &str| {
        let folder = Folder::empty();
        folder.write("sealing.key", sealing_key);
        server_trusting_on(
            folder,
            &[config_with_inline_key(&signer, json!({}))],
            "--sealing-key-file sealing.key",
        )
    };
    let token = signed_token(&signer, json!({}), json!({}));
    let (one, two, foreign) = (node(KEY), node(KEY), node(&KEY.replace("long", "wide")));
    let client = Client::new(&one, &token).initialized();
    let session = client.session();
    assert_eq!(statuses_with_session(&two, &token, session), [200; 3]);
    assert_eq!(statuses_with_session(&foreign, &token, session), [404; 3]);
    let bob = signed_token(&signer, json!({}), json!({"sub": "bob"}));
    assert_eq!(statuses_with_session(&two, &bob, session), [404; 3]);
    // Without a sealing key, sessions are valid on one node only and do not survive a restart.
    let alone =
        server_trusting_on(Folder::empty(), &[config_with_inline_key(&signer, json!({}))], "");
    let client = Client::new(&alone, &token).initialized();
    let session = client.session().to_owned();
    assert_eq!(statuses_with_session(&alone, &token, &session), [200; 3]);
    assert_eq!(statuses_with_session(&one, &token, &session), [404; 3]);
}
