//! Tokens for MCP servers from a strict authorization server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mcp_client::{ConnectionSettings, McpConnection, McpError, McpTarget};
use oauth::{
    ConsentCallback, InMemoryOAuthStore, McpAuthorization, OAuthError, OAuthFlow, OAuthLimits,
    OAuthSettings, RegisteredClient,
};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use upstream::egress::EgressPolicy;
use upstream::http::header::{HeaderMap, LOCATION};
use upstream::http::{ExchangeLimits, HttpClient, UpstreamRequest, Url};

use crate::authority;
use crate::authority::{Authority, SECRET, SharedAuthority};
use crate::server::Server;
use crate::support::*;

const REDIRECT: &str = "http://localhost:9/back";

pub(crate) struct World {
    pub(crate) authority: SharedAuthority,
    issuers: [Server; 2],
    pub(crate) server: Server,
    /// Index of the issuer that the server names.
    turn: Arc<AtomicU32>,
    client: HttpClient,
    oauth: OAuthSettings,
}

impl World {
    pub(crate) async fn new() -> Self {
        let authority = Authority::shared();
        let issuers = [authority::start(&authority).await, authority::start(&authority).await];
        let turn = Arc::<AtomicU32>::default();
        let urls = issuers.iter().map(|issuer| issuer.url("")).collect();
        let server = authority::start_resource_server(&authority, urls, turn.clone()).await;
        let client = client();
        let oauth = oauth(consent(client.clone()));
        Self { authority, issuers, server, turn, client, oauth }
    }

    fn authorization(&self, change: impl FnOnce(&mut OAuthSettings)) -> McpAuthorization {
        let mut oauth = self.oauth.clone();
        change(&mut oauth);
        McpAuthorization::new(self.client.clone(), url(&self.server), oauth)
    }

    async fn open(&self, authorization: &McpAuthorization) -> Result<McpConnection, McpError> {
        open_at(&self.client, url(&self.server), authorization).await
    }

    /// Opens a connection for the default principal.
    pub(crate) async fn open_connection(&self) -> McpConnection {
        self.open(&self.authorization(|_| {})).await.unwrap()
    }

    pub(crate) fn count_consents(&self) -> usize {
        self.authority.lock().unwrap().asked.len()
    }

    /// Checks that the client violated no rule of the protocol.
    fn assert_no_violations(&self) {
        assert_eq!(self.authority.lock().unwrap().amiss, Vec::<String>::new());
    }
}

pub(crate) fn url(server: &Server) -> Url {
    server.url("/mcp").parse().unwrap()
}

pub(crate) fn client() -> HttpClient {
    HttpClient::new(EgressPolicy { allow_private: true, allowed: vec![] })
}

pub(crate) fn oauth(consent: ConsentCallback) -> OAuthSettings {
    OAuthSettings {
        principal: "zoë".to_owned(),
        client_name: "a test".to_owned(),
        flow: OAuthFlow::AuthorizationCode { redirect: REDIRECT.parse().unwrap(), consent },
        registered_client: None,
        client_metadata_url: None,
        store: Arc::new(InMemoryOAuthStore::default()),
        now: || 1_000_000,
        trusts_plain_http: false,
        limits: OAuthLimits { request_deadline: Duration::from_secs(2), ..OAuthLimits::default() },
    }
}

/// Follows the authorization URL like a browser, and returns the query of the redirect.
pub(crate) fn consent(client: HttpClient) -> ConsentCallback {
    Arc::new(move |url| {
        let client = client.clone();
        Box::pin(async move {
            let answer =
                client.send(UpstreamRequest::get(url), ExchangeLimits::default()).await.ok()?;
            let back: Url = answer.headers.get(LOCATION)?.to_str().ok()?.parse().ok()?;
            back.query().map(str::to_owned)
        })
    })
}

pub(crate) async fn open_at(
    client: &HttpClient,
    url: Url,
    authorization: &McpAuthorization,
) -> Result<McpConnection, McpError> {
    let settings = ConnectionSettings { authorization: Some(authorization.clone()), ..settings() };
    let target = McpTarget::Http { client: client.clone(), url, headers: HeaderMap::new() };
    McpConnection::open(&target, &settings).await
}

async fn scopes(connection: &McpConnection, tool: &str) -> Value {
    call(connection, tool, json!({})).await.unwrap()["scopes"].clone()
}

#[tokio::test]
async fn a_token_is_requested_on_demand_and_sent_from_then_on() {
    let world = World::new().await;
    let connection = world.open_connection().await;
    assert_eq!(scopes(&connection, "read").await, json!("read offline_access"));
    assert_eq!(world.count_consents(), 1);
    let asked = world.authority.lock().unwrap().asked[0].clone();
    assert_eq!(asked["resource"], world.server.url("/mcp"));
    assert_eq!(asked["client_id"], "client-1");
    assert_eq!(
        world.server.request_summaries(),
        ["POST server/discover", "GET", "POST server/discover", "POST tools/call"]
    );
    world.assert_no_violations();
}

#[tokio::test]
async fn a_missing_scope_is_requested_and_existing_scopes_are_kept() {
    let world = World::new().await;
    let connection = world.open_connection().await;
    assert_eq!(scopes(&connection, "write").await, json!("read offline_access write"));
    assert_eq!(scopes(&connection, "read").await, json!("read offline_access write"));
    assert_eq!(world.count_consents(), 2);
    assert_eq!(world.authority.lock().unwrap().registered, 1);
    world.assert_no_violations();
}

#[tokio::test]
async fn concurrent_calls_share_one_token_request() {
    let world = World::new().await;
    let connection = world.open_connection().await;
    world.authority.lock().unwrap().revoke_all();
    let calls = (0..20).map(|_| call(&connection, "read", json!({})));
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(world.count_consents(), 2);
    world.assert_no_violations();
}

#[tokio::test]
async fn an_expired_token_is_refreshed_and_each_refresh_token_is_used_once() {
    let world = World::new().await;
    (world.authority.lock().unwrap().holds, world.authority.lock().unwrap().offline) =
        (Some(0), true);
    let connection = world.open_connection().await;
    for _ in 0..3 {
        scopes(&connection, "read").await;
    }
    let authority = world.authority.lock().unwrap();
    assert_eq!(authority.asked.len(), 1);
    assert!(authority.refreshed >= 3, "{}", authority.refreshed);
    drop(authority);
    world.assert_no_violations();
}

#[tokio::test]
async fn a_rejected_token_is_refreshed_and_consent_is_requested_if_that_fails() {
    let world = World::new().await;
    world.authority.lock().unwrap().offline = true;
    let connection = world.open_connection().await;
    world.authority.lock().unwrap().revoke_tokens();
    scopes(&connection, "read").await;
    assert_eq!((world.count_consents(), world.authority.lock().unwrap().refreshed), (1, 1));
    world.authority.lock().unwrap().revoke_all();
    scopes(&connection, "read").await;
    assert_eq!((world.count_consents(), world.authority.lock().unwrap().refreshed), (2, 1));
    world.assert_no_violations();
}

#[tokio::test]
async fn tokens_are_stored_per_principal_and_registrations_per_issuer() {
    let world = World::new().await;
    world.open_connection().await;
    world.open_connection().await;
    assert_eq!(world.count_consents(), 1);
    let other = world.authorization(|oauth| oauth.principal = "noë".to_owned());
    world.open(&other).await.unwrap();
    assert_eq!(world.count_consents(), 2);
    assert_eq!(world.authority.lock().unwrap().registered, 1);
    world.assert_no_violations();
}

#[tokio::test]
async fn a_failed_scope_upgrade_keeps_the_current_token() {
    let world = World::new().await;
    world.authority.lock().unwrap().offline = true;
    let (browser, times) = (consent(world.client.clone()), AtomicU32::new(0));
    let once: ConsentCallback = Arc::new(move |url| match times.fetch_add(1, Ordering::Relaxed) {
        0 => browser(url),
        _ => Box::pin(std::future::ready(None)),
    });
    let redirect: Url = REDIRECT.parse().unwrap();
    let authorization = world.authorization(|oauth| {
        oauth.flow = OAuthFlow::AuthorizationCode { redirect, consent: once }
    });
    let connection = world.open(&authorization).await.unwrap();
    let error = call(&connection, "write", json!({})).await.unwrap_err();
    assert!(matches!(oauth_cause(&error), OAuthError::NoConsent), "{error:?}");
    world.authority.lock().unwrap().revoke_tokens();
    assert_eq!(scopes(&connection, "read").await, json!("read offline_access"));
    assert_eq!((world.count_consents(), world.authority.lock().unwrap().refreshed), (1, 1));
    world.assert_no_violations();
}

#[tokio::test]
async fn a_token_refreshed_by_another_node_is_not_refreshed_again() {
    let world = World::new().await;
    world.authority.lock().unwrap().offline = true;
    let (one, other) = (world.open_connection().await, world.open_connection().await);
    world.authority.lock().unwrap().revoke_tokens();
    scopes(&one, "read").await;
    scopes(&other, "read").await;
    assert_eq!((world.count_consents(), world.authority.lock().unwrap().refreshed), (1, 1));
    world.assert_no_violations();
}

#[tokio::test]
async fn a_token_that_expired_while_disconnected_is_refreshed_without_the_user() {
    let world = World::new().await;
    (world.authority.lock().unwrap().holds, world.authority.lock().unwrap().offline) =
        (Some(0), true);
    world.open_connection().await;
    let before = world.authority.lock().unwrap().refreshed;
    world.authority.lock().unwrap().revoke_tokens();
    world.open_connection().await;
    assert!(before < world.authority.lock().unwrap().refreshed);
    assert_eq!(world.count_consents(), 1);
    world.assert_no_violations();
}

#[tokio::test]
async fn a_new_issuer_gets_no_token_of_the_previous_one() {
    let world = World::new().await;
    world.authority.lock().unwrap().offline = true;
    let connection = world.open_connection().await;
    world.turn.store(1, Ordering::Relaxed);
    world.authority.lock().unwrap().revoke_tokens();
    scopes(&connection, "read").await;
    let authority = world.authority.lock().unwrap();
    assert_eq!((authority.registered, authority.refreshed), (2, 0));
    assert_eq!(authority.asked[1]["client_id"], "client-2");
    drop(authority);
    let shown = world.issuers[1].received_requests();
    assert!(shown.iter().all(|asked| !asked.text.contains("refresh-")), "{shown:?}");
    world.assert_no_violations();
}

#[tokio::test]
async fn a_preregistered_client_is_preferred_and_bound_to_its_issuer() {
    let world = World::new().await;
    let registered = |issuer: Option<String>| RegisteredClient {
        issuer,
        id: "by-hand".to_owned(),
        secret: Some(SECRET.to_owned()),
        key: None,
    };
    let issuer = world.issuers[0].url("");
    let here =
        world.authorization(|oauth| oauth.registered_client = Some(registered(Some(issuer))));
    let connection = world.open(&here).await.unwrap();
    assert_eq!(world.authority.lock().unwrap().asked[0]["client_id"], "by-hand");
    assert_eq!(world.authority.lock().unwrap().registered, 0);

    // The server changes its issuer. A client registered with or used at the first issuer must not be used at the
    // second.
    world.turn.store(1, Ordering::Relaxed);
    world.authority.lock().unwrap().revoke_all();
    let error = call(&connection, "read", json!({})).await.unwrap_err();
    assert!(matches!(oauth_cause(&error), OAuthError::RegisteredElsewhere { .. }), "{error:?}");
    let anywhere = world.authorization(|oauth| oauth.registered_client = Some(registered(None)));
    let error = world.open(&anywhere).await.err().unwrap();
    assert!(matches!(oauth_cause(&error), OAuthError::RegisteredElsewhere { .. }), "{error:?}");
    assert_eq!(world.count_consents(), 1);
    world.assert_no_violations();
}

#[tokio::test]
async fn a_client_id_metadata_document_is_preferred_to_registration() {
    let world = World::new().await;
    let metadata = json!({"client_id_metadata_document_supported": true, "token_endpoint_auth_methods_supported": ["none"]});
    world.authority.lock().unwrap().metadata = metadata;
    let document = "https://crib.example/client.json";
    let known =
        world.authorization(|oauth| oauth.client_metadata_url = Some(document.parse().unwrap()));
    world.open(&known).await.unwrap();
    let authority = world.authority.lock().unwrap();
    assert_eq!(authority.asked[0]["client_id"], document);
    assert_eq!(
        (authority.registered, authority.amiss.as_slice()),
        (0, &["the client".to_owned()][..])
    );
}

#[tokio::test]
async fn client_credentials_need_no_consent() {
    let world = World::new().await;
    let authorization = world.authorization(|oauth| {
        oauth.flow = OAuthFlow::ClientCredentials;
        let (id, secret) = ("by-hand".to_owned(), Some(SECRET.to_owned()));
        oauth.registered_client = Some(RegisteredClient { issuer: None, id, secret, key: None });
    });
    world.authority.lock().unwrap().holds = Some(0);
    let connection = world.open(&authorization).await.unwrap();
    assert_eq!(scopes(&connection, "read").await, json!("read"));
    assert_eq!(scopes(&connection, "write").await, json!("read write"));
    assert_eq!(world.count_consents(), 0);
    world.assert_no_violations();
}

#[tokio::test]
async fn a_rejected_credential_of_the_caller_does_not_trigger_oauth() {
    let world = World::new().await;
    let connection = world.open_connection().await;
    let mut own = call_within(5.0);
    own.headers.insert("authorization", "Bearer of-the-caller".parse().unwrap());
    let answer = connection.call_method("tools/call", tool("read", json!({})), own).await;
    let status = |answer| matches!(answer, Err(McpError::Unauthorized { status: 401, .. }));
    assert!(status(answer));
    assert_eq!(world.count_consents(), 1);
}

/// A user who consents on demand, and a signal that consent was requested.
fn delayed_consent(
    browser: ConsentCallback,
) -> (ConsentCallback, oneshot::Receiver<()>, watch::Sender<bool>) {
    let (begun, began) = oneshot::channel();
    let (go, gone) = watch::channel(false);
    let begun = std::sync::Mutex::new(Some(begun));
    let consent: ConsentCallback = Arc::new(move |url| {
        let (browser, mut gone) = (browser.clone(), gone.clone());
        if let Some(begun) = begun.lock().unwrap().take() {
            begun.send(()).unwrap_or_default();
        }
        Box::pin(async move {
            gone.wait_for(|gone| *gone).await.ok()?;
            browser(url).await
        })
    });
    (consent, began, go)
}

#[tokio::test]
async fn a_pending_consent_survives_an_abandoned_call() {
    let world = World::new().await;
    let (consent, began, go) = delayed_consent(consent(world.client.clone()));
    let redirect: Url = REDIRECT.parse().unwrap();
    let authorization = world
        .authorization(|oauth| oauth.flow = OAuthFlow::AuthorizationCode { redirect, consent });
    tokio::select! {
        _ = world.open(&authorization) => panic!("nobody has consented"),
        _ = began => {}
    }
    go.send(true).unwrap();
    world.open(&authorization).await.unwrap();
    assert_eq!(world.count_consents(), 1);
    world.assert_no_violations();
}

#[tokio::test]
async fn a_call_waits_for_consent_for_a_limited_time() {
    let world = World::new().await;
    let (consent, _began, go) = delayed_consent(consent(world.client.clone()));
    let redirect: Url = REDIRECT.parse().unwrap();
    let authorization = world.authorization(|oauth| {
        oauth.flow = OAuthFlow::AuthorizationCode { redirect, consent };
        oauth.limits.max_wait = Duration::from_millis(300);
    });
    let error = world.open(&authorization).await.err().unwrap();
    assert!(matches!(oauth_cause(&error), OAuthError::Pending), "{error:?}");
    go.send(true).unwrap();
    let mut opened = world.open(&authorization).await;
    for _ in 0..30 {
        if opened.is_err() {
            opened = world.open(&authorization).await;
        }
    }
    opened.map(drop).unwrap();
    assert_eq!(world.count_consents(), 1);
    world.assert_no_violations();
}

pub(crate) fn oauth_cause(error: &McpError) -> &OAuthError {
    match error {
        McpError::TokenUnavailable { source, .. } => source,
        other => panic!("{other:?}"),
    }
}
