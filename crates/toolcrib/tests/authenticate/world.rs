//! An authenticator that trusts one issuer, whose published keys the test can change.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use model::Agent;
use serde_json::{Value, json};
use toolcrib::{
    Authenticator, IssuerError, IssuerState, JournalLocation, KeyTiming, ManualClock, SecretStore,
    SystemClock, TokenError,
};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use crate::server::{Upstream, answer};
use crate::signer::{Signer, jwks};

pub(crate) const ISSUER: &str = "https://id.example";
pub(crate) const AUDIENCE: &str = "https://gw.example.com/mcp";
/// Start time of the tests, in seconds since the epoch.
pub(crate) const START: i64 = 1_800_000_000;

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) server: Upstream,
    reply: Arc<Mutex<Vec<u8>>>,
    pub(crate) signer: Signer,
}

impl World {
    /// A world whose issuer has one key, `k`.
    pub(crate) async fn new() -> Self {
        Self::with(KeyTiming::default()).await
    }

    pub(crate) async fn with(timing: KeyTiming) -> Self {
        let signer = Signer::p256();
        let reply = Arc::new(Mutex::new(ok(&jwks(&[signer.jwk("k")]))));
        let now = Arc::clone(&reply);
        let server = Upstream::replying(move |_| now.lock().unwrap().clone());
        let clock = clock();
        let issuer = issuer(json!({"keys": {"jwks_url": server.url("/jwks")}}));
        let authenticator = authenticator_for(&[issuer], &clock, timing).await.unwrap().into();
        Self { clock, authenticator, server, reply, signer }
    }

    /// Sets the answer of the key endpoint.
    pub(crate) fn serve(&self, reply: Vec<u8>) {
        *self.reply.lock().unwrap() = reply;
    }

    pub(crate) fn serve_keys(&self, keys: &[Value]) {
        self.serve(ok(&jwks(keys)));
    }

    /// A valid token that differs from all others.
    pub(crate) fn valid_token(&self) -> String {
        valid_token_of(&self.signer, "k")
    }

    pub(crate) async fn ask(&self, token: &str) -> Result<String, TokenError> {
        subject(self.authenticator.verify_token(token).await)
    }

    pub(crate) fn advance_clock(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    pub(crate) fn fetches(&self) -> usize {
        self.server.requests().len()
    }

    pub(crate) fn state(&self) -> IssuerState {
        self.authenticator.issuer_states().remove(0)
    }

    /// Waits until the state of the issuer shows the effect of a background fetch.
    pub(crate) async fn wait_for_state(&self, there: impl Fn(&IssuerState) -> bool) {
        let start = Instant::now();
        while !there(&self.state()) {
            assert!(start.elapsed() < Duration::from_secs(20), "{:?}", self.state());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::starting_at(Timestamp::from_second(START).unwrap()))
}

/// The configuration of an issuer: defaults, changed by the test.
pub(crate) fn issuer(changed: Value) -> Value {
    let mut config = json!({"issuer": ISSUER, "audience": AUDIENCE});
    for (name, value) in changed.as_object().unwrap() {
        config[name] = value.clone();
    }
    config
}

pub(crate) async fn authenticator_for(
    issuers: &[Value],
    clock: &Arc<ManualClock>,
    timing: KeyTiming,
) -> Result<Authenticator, IssuerError> {
    let egress = EgressPolicy { allow_private: true, allowed: Vec::new() };
    authenticator_with_client(&HttpClient::new(egress), issuers, clock, timing).await
}

pub(crate) async fn authenticator_with_client(
    client: &HttpClient,
    issuers: &[Value],
    clock: &Arc<ManualClock>,
    timing: KeyTiming,
) -> Result<Authenticator, IssuerError> {
    let issuers = serde_json::from_value(Value::from(issuers.to_vec())).unwrap();
    let journal = JournalLocation::Memory.open(SystemClock).await.unwrap();
    let secrets = SecretStore::new(journal, None, SystemClock, |name| {
        (name == "LONG").then(|| "x".repeat(48)).or((name == "SHORT").then(|| "x".repeat(31)))
    });
    Authenticator::new(issuers, client, &secrets, clock.clone(), timing).await
}

/// A valid token of this signer that differs from all others.
pub(crate) fn valid_token_of(signer: &Signer, kid: &str) -> String {
    signed(signer, json!({"kid": kid}), json!({}))
}

/// A token that is valid except for these header fields and claims.
pub(crate) fn signed(signer: &Signer, header: Value, claims: Value) -> String {
    let mut whole_header = json!({"alg": "ES256", "typ": "at+jwt"});
    let mut whole = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": START + 1_000_000,
    });
    for (target, changed) in [(&mut whole_header, header), (&mut whole, claims)] {
        for (name, value) in changed.as_object().unwrap() {
            target[name] = value.clone();
        }
    }
    signer.token(&whole_header, &whole)
}

pub(crate) fn subject(agent: Result<Agent, TokenError>) -> Result<String, TokenError> {
    agent.map(|agent| agent.subject.to_string())
}

pub(crate) fn authenticated_alice() -> Result<String, TokenError> {
    Ok("alice".to_owned())
}

pub(crate) fn ok(body: &str) -> Vec<u8> {
    answer("200 OK", "Content-Type: application/json\r\n", body.as_bytes())
}
