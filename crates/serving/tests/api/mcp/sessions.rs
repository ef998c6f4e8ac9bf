//! Sessions of the older era: bound to who began them, ended by them, and known to every node with the same sealing key.

use serde_json::{Value, json};

use super::Era::{Legacy, Modern};
use super::{Client, introduction, key, refused, request, tampered};
use crate::api::calls::Shop;
use crate::api::issuer::{inline, signed, trusting_on};
use crate::api::server::{Ask, Server};
use crate::signer::Signer;
use crate::support::{Folder, KEY};

const PING: &str = "ping";

/// The status for whoever shows this with a session.
fn shown(server: &Server, credential: &str, session: &str) -> [u16; 3] {
    let mut client = Client::new(server, credential);
    client.session = Some(session.to_owned());
    let get = client.bare("GET").header("Accept", "text/event-stream");
    [
        client.send(Legacy, PING, json!({})).status,
        client.send(Legacy, "tools/list", json!({})).status,
        server.send(&get).status,
    ]
}

#[test]
fn a_client_and_the_server_agree_on_a_version() {
    let server = Server::start();
    let client = Client::new(&server, &server.key);
    let agreed = |wanted: Value| {
        let mut params = introduction();
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
        assert_eq!(refused(&answer), (200, -32602, "`protocolVersion` must be a text".into()));
        assert!(answer.header("mcp-session-id").is_empty());
    }
    // There is none in the newer era.
    assert!(client.send(Modern, "server/discover", json!({})).header("mcp-session-id").is_empty());
}

#[test]
fn a_session_is_for_whom_it_was_begun() {
    let shop = Shop::open();
    let server = &shop.server;
    let other = key(server, "other", &json!({"role": "staff"}));
    let client = Client::new(server, &shop.key).introduced();
    let again = Client::new(server, &shop.key).introduced();
    let session = client.session();
    assert_ne!(session, again.session());
    assert!(session.bytes().all(|byte| byte.is_ascii_graphic()));
    assert_eq!(shown(server, &shop.key, session), [200; 3]);
    assert_eq!(shown(server, &other, session), [404; 3]);
    assert_eq!(shown(server, &server.key, session), [404; 3]);
    assert_eq!(shown(server, "tcrib_nobody_secret", session), [401; 3]);
    // On this machine whoever shows nothing is somebody, but somebody else.
    let nobody = Ask::new("POST", "/mcp").header("Mcp-Session-Id", session);
    let answer = server.send(&nobody.json(&request(Legacy, json!(1), PING, json!({}))));
    assert!(answer.problem().starts_with("404 not_found: there is no such session"), "{answer:?}");
    // A session says nothing about who one is, and is no credential.
    let changed = tampered(session);
    let joined = format!("{session}{session}");
    for forged in ["", "1", "null", &changed, &joined, &"A".repeat(200), "\u{fc}"] {
        assert_eq!(shown(server, &shop.key, forged), [404; 3], "{forged}");
    }
    // One who began as nobody and then shows a key is another.
    let introduction = request(Legacy, json!(1), "initialize", introduction());
    let begun = server.send(&Ask::new("POST", "/mcp").json(&introduction));
    assert_eq!(shown(server, &shop.key, begun.header("mcp-session-id")), [404; 3]);
    server.act("/api/keys/bot/revoke").ok();
    assert_eq!(shown(server, &shop.key, session), [401; 3]);
}

#[test]
fn the_client_counts_as_well_as_the_user() {
    let signer = Signer::p256();
    let server = trusting_on(Folder::empty(), &[inline(&signer, json!({}))], "");
    let token = |claims: Value| signed(&signer, json!({}), claims);
    let one = token(json!({"client_id": "editor"}));
    let client = Client::new(&server, &one).introduced();
    let session = client.session();
    // A newer token of the same client is the same.
    assert_eq!(
        shown(&server, &token(json!({"client_id": "editor", "jti": "2"})), session),
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
        assert_eq!(shown(&server, &token(claims.clone()), session), [404; 3], "{claims}");
    }
}

#[test]
fn a_session_ends_when_its_client_says_so() {
    let shop = Shop::open();
    let (server, other) = (&shop.server, key(&shop.server, "other", &json!({})));
    let client = Client::new(server, &shop.key).introduced();
    let session = client.session();
    let delete = |credential: &str| {
        let mut client = Client::new(server, credential);
        client.session = Some(session.to_owned());
        server.send(&client.bare("DELETE")).status
    };
    assert_eq!(delete(&other), 404);
    assert_eq!(shown(server, &shop.key, session), [200; 3]);
    assert_eq!(delete(&shop.key), 204);
    assert_eq!(shown(server, &shop.key, session), [404; 3]);
    assert_eq!(delete(&shop.key), 404);
    // Another one of the same client goes on, and there may be a new one.
    let again = Client::new(server, &shop.key).introduced();
    assert_eq!(shown(server, &shop.key, again.session()), [200; 3]);
    let none = server.send(&Client::new(server, &shop.key).bare("DELETE"));
    assert_eq!((none.status, none.header("allow")), (405, "POST"));
}

#[test]
fn a_session_and_a_cursor_are_known_to_every_node_with_the_same_sealing_key() {
    let signer = Signer::p256();
    let node = |sealing_key: &str| {
        let folder = Folder::empty();
        folder.write("sealing.key", sealing_key);
        trusting_on(folder, &[inline(&signer, json!({}))], "--sealing-key-file sealing.key")
    };
    let token = signed(&signer, json!({}), json!({}));
    let (one, two, foreign) = (node(KEY), node(KEY), node(&KEY.replace("long", "wide")));
    let client = Client::new(&one, &token).introduced();
    let session = client.session();
    assert_eq!(shown(&two, &token, session), [200; 3]);
    assert_eq!(shown(&foreign, &token, session), [404; 3]);
    let bob = signed(&signer, json!({}), json!({"sub": "bob"}));
    assert_eq!(shown(&two, &bob, session), [404; 3]);
    // Without a sealing key nobody else knows it, and a server that starts again has forgotten it.
    let alone = trusting_on(Folder::empty(), &[inline(&signer, json!({}))], "");
    let client = Client::new(&alone, &token).introduced();
    let session = client.session().to_owned();
    assert_eq!(shown(&alone, &token, &session), [200; 3]);
    assert_eq!(shown(&one, &token, &session), [404; 3]);
}
