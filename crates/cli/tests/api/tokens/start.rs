//! Configurations of issuers that a server starts with, and those it rejects (JWT-02, JWT-26).
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json};

use super::super::issuer::{
    World, config, config_with_inline_key, server_trusting_on, signed_token, subject,
};
use super::super::server::Ask;
use crate::signer::Signer;
use crate::support::Folder;

/// Error message of the program for a configuration that it rejects.
fn refusal(text: &str) -> String {
    let folder = Folder::empty();
    let short = folder.path("short").display().to_string();
    folder.write("config.json", text.replace("file:short", &format!("file:{short}")));
    folder.write("short", "x".repeat(31));
    let mut child = folder.start("serve --listen 127.0.0.1:0 --config config.json", &[]);
    let mut greeting = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
    if !greeting.is_empty() {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), greeting.as_str()), (Some(1), ""), "{text}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_public_server_with_an_issuer_starts_and_requires_tokens() {
    let world = World::on(Folder::empty(), "--listen 0.0.0.0:0");
    assert_eq!(world.assert_accepted(&world.token(json!({}))), "alice");
    assert_eq!(world.server.send(&Ask::new("GET", "/api/whoami")).status, 401);
}

#[test]
fn anonymous_callers_have_only_their_grants() {
    let world = World::on(Folder::with_catalog(), "--allow-anonymous");
    let server = &world.server;
    let nobody = |path: &str| server.send(&Ask::new("GET", path));
    let me = nobody("/api/whoami").ok();
    assert_eq!(
        me,
        json!({"subject": "anonymous", "means": "nothing", "is_admin": false, "claims": {"anonymous": true}})
    );
    assert_eq!(nobody("/api/agents/tools").ok(), json!({"data": []}));
    assert_eq!(nobody("/api/groups").status, 401);
    // A rejected token does not become an anonymous call.
    world.assert_rejected(&world.token(json!({"exp": 1})));
    let matchers = json!([{"claim": "anonymous", "operator": "equals", "value": true}]);
    let policy = json!({"name": "everybody", "groups": ["pets-read"], "matchers": matchers});
    server.post("/api/policies", &policy).ok();
    assert_eq!(nobody("/api/agents/tools").ok()["data"].as_array().unwrap().len(), 2);
    let admins = json!({"name": "careless", "admin": true, "matchers": matchers});
    server.post("/api/policies", &admins).ok();
    assert_eq!(nobody("/api/groups").status, 401, "nobody is an admin without a credential");
}

#[test]
fn an_hmac_secret_needs_32_bytes() {
    let folder = Folder::empty();
    folder.write("secret", "x".repeat(32));
    let file = format!("file:{}", folder.path("secret").display());
    let server = server_trusting_on(folder, &[config(json!({"keys": {"secret": file}}))], "");
    let signer = Signer::Secret("x".repeat(32).into_bytes());
    let token = |header: Value| signed_token(&signer, header, json!({}));
    assert_eq!(subject(&server, &token(json!({"alg": "HS256"}))), "alice");
    for header in [json!({"alg": "HS512"}), json!({"alg": "none"})] {
        assert_eq!(server.get_as(&token(header), "/api/whoami").status, 401);
    }
}

#[test]
fn invalid_issuers_are_rejected_at_startup() {
    let signer = Signer::p256();
    let short = json!({"keys": {"secret": "file:short"}});
    for (issuer, complaint) in [
        (config(json!({"issuer": "accounts.example"})), "is not a url"),
        (config(json!({"audience": ""})), "needs an audience"),
        (config(json!({"audience": null})), "audience"),
        (config(json!({"algorithms": ["none"]})), "none"),
        (config(json!({"algorithms": ["HS256"]})), "need a secret"),
        (config_with_inline_key(&signer, json!({"algorithms": ["HS256"]})), "need a secret"),
        (config_with_inline_key(&signer, json!({"algorithms": ["HS256", "ES256"]})), "mixes"),
        (config_with_inline_key(&signer, json!({"algorithms": ["RS256"]})), "no key"),
        (config_with_inline_key(&signer, json!({"clock_skew": 301})), "clock skew"),
        (config_with_inline_key(&signer, json!({"audiences": ["a"]})), "audiences"),
        (config(short), "secret"),
        (config(json!({"keys": {"secret": "x".repeat(32)}})), "keys"),
        (config(json!({"keys": {"jwks": {"keys": []}}})), "no key"),
        (config(json!({"keys": {"pem": "-----BEGIN PUBLIC KEY-----"}})), "cannot be used"),
    ] {
        let said = refusal(&json!({"issuers": [issuer]}).to_string());
        assert!(said.starts_with("error: ") && said.contains(complaint), "{issuer}: {said}");
    }
    let twice = json!({"issuers": [config_with_inline_key(&signer, json!({})), config_with_inline_key(&signer, json!({}))]});
    assert!(refusal(&twice.to_string()).contains("is there twice"));
    for text in ["", "[]", "[[]]", "{", "issuers: {}", "isuers: []"] {
        let said = refusal(text);
        assert!(said.starts_with("error: ") && said.contains("config.json"), "{text}: {said}");
    }
}
