//! A test issuer, and a server that accepts its tokens. The server uses the real clock.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use serde_json::{Value, json};
use toolcrib::{Clock as _, SystemClock};

use super::server::{Answer, Server};
// The signer belongs to another crate and signs with `aws_lc_rs`.
use aws_lc_rs as _;

use crate::signer::Signer;
use crate::support::Folder;

pub(crate) const ISSUER: &str = "https://id.example";
pub(crate) const AUDIENCE: &str = "https://gw.example.com/mcp";

/// Server that trusts one issuer, whose only key, `k`, is in the configuration.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) signer: Signer,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::on(Folder::empty(), "")
    }

    /// Starts the server on a journal without an admin.
    pub(crate) fn on(folder: Folder, options: &str) -> Self {
        let signer = Signer::p256();
        let server =
            server_trusting_on(folder, &[config_with_inline_key(&signer, json!({}))], options);
        Self { server, signer }
    }

    /// Valid token with these additional claims.
    pub(crate) fn token(&self, claims: Value) -> String {
        signed_token(&self.signer, json!({}), claims)
    }

    /// Sends a token that the server must reject. The response follows RFC 6750 and repeats no part of the token.
    pub(crate) fn assert_rejected(&self, token: &str) -> Answer {
        let answer = self.server.get_as(token, "/api/whoami");
        assert!(answer.problem().starts_with("401 unauthorized: "), "{token}: {answer:?}");
        assert_eq!(answer.challenge(), r#"Bearer error="invalid_token""#);
        for part in token.split('.').filter(|part| 8 < part.len()) {
            assert!(!answer.body.contains(part), "{token}: {answer:?}");
        }
        answer
    }

    /// Sends a token that the server must accept, and returns its subject.
    pub(crate) fn assert_accepted(&self, token: &str) -> String {
        subject(&self.server, token)
    }
}

/// Sends a token that the server must accept, and returns its subject.
pub(crate) fn subject(server: &Server, token: &str) -> String {
    let me = server.get_as(token, "/api/whoami").ok();
    assert_eq!(me["means"], "token");
    me["subject"].as_str().unwrap().to_owned()
}

/// Server on an empty journal that trusts these issuers.
pub(crate) fn server_trusting(issuers: &[Value]) -> Server {
    server_trusting_on(Folder::empty(), issuers, "")
}

pub(crate) fn server_trusting_on(folder: Folder, issuers: &[Value], options: &str) -> Server {
    folder.write("config.json", json!({"issuers": issuers}).to_string());
    Server::on_folder(folder, &format!("--config config.json {options}"))
}

/// Configuration of an issuer: the defaults, changed as the test requires.
pub(crate) fn config(changed: Value) -> Value {
    with_changes(json!({"issuer": ISSUER, "audience": AUDIENCE}), &changed)
}

/// Configuration of an issuer whose key `k` is given inline.
pub(crate) fn config_with_inline_key(signer: &Signer, changed: Value) -> Value {
    with_changes(config(json!({"keys": {"jwks": {"keys": [signer.jwk("k")]}}})), &changed)
}

/// Valid token except for these header fields and claims. A claim that is null is omitted.
pub(crate) fn signed_token(signer: &Signer, header: Value, claims: Value) -> String {
    signer.token(&complete_header(header), &complete_claims(claims))
}

pub(crate) fn complete_header(changed: Value) -> Value {
    with_changes(json!({"alg": "ES256", "typ": "at+jwt", "kid": "k"}), &changed)
}

pub(crate) fn complete_claims(changed: Value) -> Value {
    let usual = json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": now() + 600});
    with_changes(usual, &changed)
}

/// Unix time in seconds.
pub(crate) fn now() -> i64 {
    SystemClock.now().as_second()
}

fn with_changes(mut whole: Value, changed: &Value) -> Value {
    for (name, value) in changed.as_object().unwrap() {
        match value {
            Value::Null => drop(whole.as_object_mut().unwrap().remove(name)),
            value => whole[name] = value.clone(),
        }
    }
    whole
}
