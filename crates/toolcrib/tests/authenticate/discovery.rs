//! Discovery of issuer metadata: an issuer publishes where its keys are, and only for itself.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolcrib::{Authenticator, KeyTiming, TokenError};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use crate::server::{Upstream, answer};
use crate::signer::{Signer, jwks};
use crate::world::{
    authenticated_alice, authenticator_for, authenticator_with_client, clock, issuer, ok, signed,
    subject,
};

const OPENID: &str = "/.well-known/openid-configuration";
const OAUTH: &str = "/.well-known/oauth-authorization-server";

/// An issuer with one key, below `/realm`. It serves its metadata, built from its origin, at one path.
struct Provider {
    server: Upstream,
    signer: Signer,
}

impl Provider {
    fn new(place: &'static str, document: impl Fn(&str) -> Value + Send + Sync + 'static) -> Self {
        let signer = Signer::p256();
        let keys = jwks(&[signer.jwk("k")]);
        let origin = Arc::new(Mutex::new(String::new()));
        let known = Arc::clone(&origin);
        let server = Upstream::replying(move |request| {
            let path = request.split(' ').nth(1).unwrap_or_default();
            match path {
                "/jwks" => ok(&keys),
                path if path == place => ok(&document(&known.lock().unwrap()).to_string()),
                _ => answer("404 Not Found", "", b""),
            }
        });
        *origin.lock().unwrap() = server.url("");
        Self { server, signer }
    }

    fn name(&self) -> String {
        self.server.url("/realm")
    }

    fn config(&self) -> Value {
        issuer(json!({"issuer": self.name()}))
    }

    async fn trusted(&self) -> Authenticator {
        authenticator_for(&[self.config()], &clock(), KeyTiming::default()).await.unwrap()
    }

    async fn ask(&self, authenticator: &Authenticator) -> Result<String, TokenError> {
        let token = signed(&self.signer, json!({"kid": "k"}), json!({"iss": self.name()}));
        subject(authenticator.verify_token(&token).await)
    }

    fn paths(&self) -> Vec<String> {
        let requests = self.server.requests();
        requests.iter().map(|request| request.split(' ').nth(1).unwrap().to_owned()).collect()
    }
}

fn valid_metadata(origin: &str) -> Value {
    json!({"issuer": format!("{origin}/realm"), "jwks_uri": format!("{origin}/jwks"), "more": 1})
}

#[tokio::test]
async fn the_key_address_is_read_from_the_openid_metadata() {
    let provider = Provider::new("/realm/.well-known/openid-configuration", valid_metadata);
    let authenticator = provider.trusted().await;
    assert_eq!(provider.ask(&authenticator).await, authenticated_alice());
    assert_eq!(provider.paths(), [&format!("/realm{OPENID}"), "/jwks"]);
}

#[tokio::test]
async fn the_oauth_metadata_is_used_if_there_is_no_openid_metadata() {
    let provider = Provider::new("/.well-known/oauth-authorization-server/realm", valid_metadata);
    let authenticator = provider.trusted().await;
    assert_eq!(provider.ask(&authenticator).await, authenticated_alice());
    assert_eq!(
        provider.paths(),
        [format!("/realm{OPENID}"), format!("{OAUTH}/realm"), "/jwks".to_owned()]
    );
}

#[tokio::test]
async fn metadata_of_another_issuer_is_not_trusted() {
    type Document = fn(&str) -> Value;
    let documents: [(Document, &str); 7] = [
        (
            |origin| json!({"issuer": origin, "jwks_uri": format!("{origin}/jwks")}),
            "another issuer",
        ),
        (
            |origin| json!({"issuer": format!("{origin}/realm/"), "jwks_uri": format!("{origin}/jwks")}),
            "another issuer",
        ),
        (|origin| json!({"jwks_uri": format!("{origin}/jwks")}), "not JSON with"),
        (|origin| json!({"issuer": format!("{origin}/realm")}), "not JSON with"),
        (
            |origin| json!({"issuer": format!("{origin}/realm"), "jwks_uri": "http://other.example/jwks"}),
            "`https`",
        ),
        (
            |origin| json!({"issuer": format!("{origin}/realm"), "jwks_uri": "file:///etc/jwks"}),
            "`https`",
        ),
        (|_| json!([]), "not JSON with"),
    ];
    for (document, complaint) in documents {
        let provider = Provider::new("/realm/.well-known/openid-configuration", document);
        let authenticator = provider.trusted().await;
        assert_eq!(provider.ask(&authenticator).await, Err(TokenError::KeysUnavailable));
        let error = authenticator.issuer_states().remove(0).last_error.unwrap();
        assert!(error.contains(complaint), "{error}");
        let paths = provider.paths();
        assert_eq!(paths[0], format!("/realm{OPENID}"));
        assert!(paths.iter().all(|path| path.contains("/.well-known/")), "no keys: {paths:?}");
    }
}

#[tokio::test]
async fn an_issuer_on_a_private_address_needs_explicit_permission() {
    let provider = Provider::new("/realm/.well-known/openid-configuration", valid_metadata);
    let guarded = HttpClient::new(EgressPolicy::default());
    let mut config = provider.config();
    let shut =
        authenticator_with_client(&guarded, &[config.clone()], &clock(), KeyTiming::default())
            .await;
    let shut = shut.unwrap();
    assert_eq!(provider.ask(&shut).await, Err(TokenError::KeysUnavailable));
    assert_eq!(provider.paths(), Vec::<String>::new());
    config["allow"] = json!(["127.0.0.1"]);
    let open = authenticator_with_client(&guarded, &[config], &clock(), KeyTiming::default())
        .await
        .unwrap();
    assert_eq!(provider.ask(&open).await, authenticated_alice());
}
