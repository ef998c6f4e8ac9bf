//! MCP servers that name their authorization server, and agents for which an identity provider issues assertions.

use std::sync::{Arc, Mutex};

use model::ErrorCode;
use serde_json::{Map, Value, json};
use toolcrib::{CallContext, OfferResult, RequestCredentials};

use crate::authority::{Authority, CLIENT};
use crate::wire::{ReceivedRequest, Reply};
use crate::world::{World, agent, code, merged, token_of};

/// Configuration of the MCP server.
#[derive(Clone, Default)]
struct ServerBehaviour {
    issuer: String,
    /// The suffix of accepted tokens.
    takes: String,
    /// Path of the resource metadata, if it is not the well-known one.
    metadata: Option<&'static str>,
}

/// An MCP server that accepts only tokens for itself.
fn protected_server_reply(says: &Mutex<ServerBehaviour>, asked: &ReceivedRequest) -> Reply {
    let says = says.lock().unwrap().clone();
    let base = format!("http://{}", asked.header("host").unwrap());
    let place = says.metadata.unwrap_or("/.well-known/oauth-protected-resource/mcp");
    if (asked.method.as_str(), asked.path.as_str()) == ("GET", place) {
        let metadata = json!({"resource": format!("{base}/mcp"), "scopes_supported": ["pets"],
            "authorization_servers": [says.issuer]});
        return (200, metadata).into();
    }
    if asked.path != "/mcp" {
        return (404, json!({})).into();
    }
    let shown = asked.header("authorization").unwrap_or_default();
    let is_for_us = shown.starts_with(&format!("Bearer for.{base}/mcp.of."));
    if !is_for_us || !shown.contains(&says.takes) {
        let challenge = match says.metadata {
            Some(place) => format!("Bearer resource_metadata=\"{base}{place}\", scope=\"more\""),
            None => "Bearer".to_owned(),
        };
        return Reply::from((401, json!({}))).with("WWW-Authenticate", &challenge);
    }
    let Ok(message) = serde_json::from_str::<Value>(&asked.body) else {
        return (405, json!({})).into();
    };
    let result = match message["method"].as_str().unwrap() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}}}),
        "tools/list" => json!({"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}),
        "prompts/list" => json!({"prompts": [{"name": "greet"}]}),
        "resources/list" => json!({"resources": [{"name": "pet", "uri": "pet://7"}]}),
        "resources/templates/list" => json!({"resourceTemplates": []}),
        "tools/call" => json!({"content": [{"type": "text", "text": shown}]}),
        "prompts/get" => json!({"messages": []}),
        "resources/read" => json!({"contents": []}),
        _ => return (202, json!({})).into(),
    };
    (200, json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into()
}

struct ProtectedServer {
    world: World,
    /// Issues the tokens that the server accepts. The authorization server of `world` issues the ID-JAG assertions.
    authority: Authority,
    says: Arc<Mutex<ServerBehaviour>>,
}

/// Auth settings for a token of toolcrib itself, with overrides.
fn own_token_auth(more: &Value) -> Value {
    let auth = json!({"kind": "mcp_oauth", "client_id": CLIENT, "client_secret": "env:OTHER"});
    merged(auth, more)
}

impl ProtectedServer {
    async fn new() -> Self {
        let authority = Authority::start().await;
        let issuer = authority.server.url("");
        let says = Arc::new(Mutex::new(ServerBehaviour {
            issuer: issuer.clone(),
            ..ServerBehaviour::default()
        }));
        let said = Arc::clone(&says);
        let world = World::with(move |asked| protected_server_reply(&said, asked)).await;
        authority.with_state(|known| {
            known.secret = "the other secret".to_owned();
            known.resources = vec![world.upstream.url("/mcp")];
        });
        world.authority.with_state(|known| known.vouches_at = vec![issuer]);
        let secret = ("OTHER".to_owned(), "the other secret".to_owned());
        world.environment.lock().unwrap().extend([secret]);
        for kind in ["prompt", "resource"] {
            let all = json!({"id": kind, "profile": {"name": kind},
                "selectors": [{"kind": kind, "source": "*"}]});
            world.grant(kind, all).await;
        }
        Self { world, authority, says }
    }

    fn enterprise_auth(&self) -> Value {
        let provider = json!({"issuer": self.world.authority.server.url(""), "client_id": CLIENT,
            "client_secret": "env:SECRET"});
        own_token_auth(&json!({"kind": "mcp_enterprise", "identity_provider": provider}))
    }

    async fn register(&self, auth: Value) -> toolcrib::RefreshResult {
        let url = self.world.upstream.url("/mcp");
        let settings = json!({"kind": "mcp"});
        self.world.register(&json!({"url": url, "auth": auth, "settings": settings})).await
    }

    /// The last token that the server received, without its audience.
    fn last_token(&self) -> String {
        let shown =
            self.world.last_request().header("authorization").unwrap_or_default().to_owned();
        let (_, whose) = shown.split_once("/mcp.of.").unwrap();
        whose.to_owned()
    }

    /// Checks that only the identity provider received tokens of agents.
    fn assert_tokens_stayed(&self) {
        for asked in
            [self.world.upstream.received_requests(), self.authority.server.received_requests()]
                .concat()
        {
            assert!(!asked.text().contains("canary-token-of"), "{asked:?}");
        }
    }
}

#[tokio::test]
async fn the_named_authorization_server_issues_the_token_for_all_requests() {
    let guarded = ProtectedServer::new().await;
    let found = guarded.register(own_token_auth(&json!({}))).await;
    assert!(found.success, "{found:?}");
    assert_eq!(guarded.last_token(), "tool-crib.pets.1");
    let world = &guarded.world;
    assert_eq!(world.call("ada", "look").await.error, None);
    assert_eq!(guarded.last_token(), "tool-crib.pets.1");
    let came = RequestCredentials::with_token(&token_of("ada"));
    let (view, call) =
        (world.crib.view(&agent("ada")).with_request_credentials(&came), CallContext::silent());
    for got in [
        view.render_prompt("greet", Map::new(), &call).await,
        view.read_resource_uri("pet://7", &call).await,
    ] {
        assert!(matches!(got, OfferResult::Result(_)), "{got:?}");
        assert_eq!(guarded.last_token(), "tool-crib.pets.1");
    }
    assert_eq!(guarded.authority.issued_tokens(), 1);
    world.advance_clock(241);
    assert_eq!(world.call("ada", "look").await.error, None);
    assert_eq!(guarded.last_token(), "tool-crib.pets.2");
    guarded.says.lock().unwrap().takes = ".3".to_owned();
    world.advance_clock(30);
    assert_eq!(world.call("ada", "look").await.error, None, "one that is refused is replaced");
    assert_eq!(guarded.last_token(), "tool-crib.pets.3");
    assert_eq!(guarded.authority.with_state(|known| known.amiss.clone()), [""; 0]);
    assert_eq!(world.authority.server.received_requests().len(), 0, "nobody else is asked");
    guarded.assert_tokens_stayed();
}

#[tokio::test]
async fn metadata_is_read_from_the_address_in_the_challenge_and_scopes_are_configurable() {
    let guarded = ProtectedServer::new().await;
    guarded.says.lock().unwrap().metadata = Some("/about/tokens");
    assert!(guarded.register(own_token_auth(&json!({}))).await.success);
    assert_eq!(guarded.last_token(), "tool-crib.more.1", "what it wants, and not all there is");
    let auth = own_token_auth(&json!({"scopes": ["pets", "other"]}));
    assert!(guarded.register(auth).await.success);
    assert_eq!(guarded.last_token(), "tool-crib.pets+other.2");
}

#[tokio::test]
async fn an_identity_provider_issues_an_assertion_for_each_agent() {
    let guarded = ProtectedServer::new().await;
    let found = guarded.register(guarded.enterprise_auth()).await;
    assert!(found.success, "in our own name: {found:?}");
    assert_eq!(guarded.last_token(), "tool-crib.pets.1");
    let world = &guarded.world;
    assert_eq!(world.authority.issued_tokens(), 0);
    for _ in 0..2 {
        for (who, number) in [("ada", 2), ("bob", 3)] {
            assert_eq!(world.call(who, "look").await.error, None);
            assert_eq!(guarded.last_token(), format!("{who}.pets.{number}"));
        }
    }
    assert_eq!((world.authority.issued_tokens(), guarded.authority.issued_tokens()), (2, 3));
    let nobody = world.call_with(&agent("ada"), &RequestCredentials::default(), "look").await;
    assert_eq!(code(&nobody), Some(ErrorCode::TokenExchangeFailed));
    for authority in [&world.authority, &guarded.authority] {
        assert_eq!(authority.with_state(|known| known.amiss.clone()), [""; 0]);
    }
    guarded.assert_tokens_stayed();
    let secrets = [("SECRET", &guarded.authority), ("OTHER", &world.authority)];
    for (name, stranger) in secrets {
        let secret = world.environment.lock().unwrap()[name].clone();
        let asked = stranger.server.received_requests();
        assert!(asked.iter().all(|asked| !asked.text().contains(&secret)), "{name}");
    }
}

#[tokio::test]
async fn an_invalid_assertion_is_not_sent_on() {
    let access = "urn:ietf:params:oauth:token-type:access_token";
    for odd in [
        json!({"token_type": "Bearer"}),
        json!({"issued_token_type": access}),
        json!({"issued_token_type": null}),
        json!({"access_token": token_of("ada")}),
    ] {
        let guarded = ProtectedServer::new().await;
        assert!(guarded.register(guarded.enterprise_auth()).await.success);
        guarded.world.authority.with_state(|known| known.answer = odd.clone());
        let asked = guarded.authority.server.received_requests().len();
        let outcome = guarded.world.call("ada", "look").await;
        assert_eq!(code(&outcome), Some(ErrorCode::TokenExchangeFailed), "{odd}");
        assert_eq!(
            guarded.authority.server.received_requests().len(),
            asked,
            "{odd}: it is shown to nobody"
        );
        guarded.assert_tokens_stayed();
    }
}

#[tokio::test]
async fn a_newly_named_authorization_server_does_not_get_the_client_secret() {
    let guarded = ProtectedServer::new().await;
    let elsewhere = Authority::start().await;
    let named = json!({"issuer": guarded.authority.server.url("")});
    for more in [json!({}), named] {
        guarded.says.lock().unwrap().issuer = guarded.authority.server.url("");
        assert!(guarded.register(own_token_auth(&more)).await.success);
        {
            let mut says = guarded.says.lock().unwrap();
            (says.issuer, says.takes) = (elsewhere.server.url(""), "no longer".to_owned());
        }
        guarded.world.advance_clock(30);
        let outcome = guarded.world.call("ada", "look").await;
        assert_eq!(code(&outcome), Some(ErrorCode::ClientCredentialsFailed), "{outcome:?}");
        assert_eq!(elsewhere.server.received_requests().len(), 0);
        guarded.says.lock().unwrap().takes.clear();
    }
}

#[tokio::test]
async fn a_prompt_without_a_token_reports_the_cause() {
    let guarded = ProtectedServer::new().await;
    assert!(guarded.register(own_token_auth(&json!({}))).await.success);
    guarded.world.advance_clock(300);
    guarded.authority.with_state(|known| known.refuses = Some((503, json!({})).into()));
    let view = guarded.world.crib.view(&agent("ada"));
    let got = view.render_prompt("greet", Map::new(), &CallContext::silent()).await;
    let OfferResult::Failed(failure) = got else { panic!("{got:?}") };
    let expected = (ErrorCode::ClientCredentialsFailed, true);
    assert_eq!((failure.code, failure.retryable), expected, "{}", failure.message);
}

#[tokio::test]
async fn mcp_oauth_is_refused_for_sources_that_are_not_mcp_servers() {
    let guarded = ProtectedServer::new().await;
    let auth = own_token_auth(&json!({}));
    let found = guarded.world.register(&json!({"auth": auth})).await;
    let message = found.error.unwrap().message;
    assert!(message.contains("the credential of the source cannot be used"), "{message}");
    assert!(guarded.world.upstream.received_requests().is_empty());
}
