//! An issuer of our own, and a server that takes its tokens. The server's clock is the real one.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use serde_json::{Value, json};
use toolcrib::{Clock as _, SystemClock};

use super::server::{Answer, Server};
// The signer lies in another crate and signs with it.
use crate::signer::Signer;
use crate::support::Folder;
use aws_lc_rs as _;

pub(crate) const ISSUER: &str = "https://id.example";
pub(crate) const AUDIENCE: &str = "https://gw.example.com/mcp";

/// A server that trusts one issuer, whose only key, `k`, is in the configuration.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) signer: Signer,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::on(Folder::empty(), "")
    }

    /// On a journal without an admin.
    pub(crate) fn on(folder: Folder, options: &str) -> Self {
        let signer = Signer::p256();
        let server = trusting_on(folder, &[inline(&signer, json!({}))], options);
        Self { server, signer }
    }

    /// A good token with these claims too.
    pub(crate) fn token(&self, claims: Value) -> String {
        signed(&self.signer, json!({}), claims)
    }

    /// Shows a token that is to be refused. The answer says so as RFC 6750 wants it, and repeats nothing of the token.
    pub(crate) fn refuses(&self, token: &str) -> Answer {
        let answer = self.server.get_as(token, "/api/whoami");
        assert!(answer.problem().starts_with("401 unauthorized: "), "{token}: {answer:?}");
        assert_eq!(answer.challenge(), r#"Bearer error="invalid_token""#);
        for part in token.split('.').filter(|part| 8 < part.len()) {
            assert!(!answer.body.contains(part), "{token}: {answer:?}");
        }
        answer
    }

    /// The subject of a token that is to be taken.
    pub(crate) fn takes(&self, token: &str) -> String {
        subject(&self.server, token)
    }
}

/// The subject of a token that is to be taken.
pub(crate) fn subject(server: &Server, token: &str) -> String {
    let me = server.get_as(token, "/api/whoami").ok();
    assert_eq!(me["means"], "token");
    me["subject"].as_str().unwrap().to_owned()
}

/// A server on an empty journal that trusts these issuers.
pub(crate) fn trusting(issuers: &[Value]) -> Server {
    trusting_on(Folder::empty(), issuers, "")
}

pub(crate) fn trusting_on(folder: Folder, issuers: &[Value], options: &str) -> Server {
    folder.write("config.json", json!({"issuers": issuers}).to_string());
    Server::on(folder, &format!("--config config.json {options}"))
}

/// An issuer's configuration: what is usual here, and what the test says.
pub(crate) fn config(changed: Value) -> Value {
    with(json!({"issuer": ISSUER, "audience": AUDIENCE}), &changed)
}

/// An issuer whose key, `k`, is in the configuration.
pub(crate) fn inline(signer: &Signer, changed: Value) -> Value {
    with(config(json!({"keys": {"jwks": {"keys": [signer.jwk("k")]}}})), &changed)
}

/// A good token but for these members of its header and these claims. A claim that is null is left out.
pub(crate) fn signed(signer: &Signer, header: Value, claims: Value) -> String {
    signer.token(&whole_header(header), &whole_claims(claims))
}

pub(crate) fn whole_header(changed: Value) -> Value {
    with(json!({"alg": "ES256", "typ": "at+jwt", "kid": "k"}), &changed)
}

pub(crate) fn whole_claims(changed: Value) -> Value {
    let usual = json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": now() + 600});
    with(usual, &changed)
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    SystemClock.now().as_second()
}

fn with(mut whole: Value, changed: &Value) -> Value {
    for (name, value) in changed.as_object().unwrap() {
        match value {
            Value::Null => drop(whole.as_object_mut().unwrap().remove(name)),
            value => whole[name] = value.clone(),
        }
    }
    whole
}
