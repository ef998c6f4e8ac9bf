//! Fixed credentials: which requests carry them, and which do not.

use std::sync::Arc;

use base64::Engine as _;
use catalog::source::SourceCommand;
use model::ErrorCode;
use serde_json::{Value, json};
use toolcrib::{ChangeContext, Command, RequestCredentials};
use upstream::http::header::HeaderMap;

use crate::mcp::header_echo_server;
use crate::wire::{ReceivedRequest, Server};
use crate::world::{World, agent, code, echo, merged, specification};

const KEY: &str = "k e/y&";

/// Checks that a request carries the expected credential.
type CredentialCheck = fn(&ReceivedRequest) -> bool;

fn kinds() -> [(Value, CredentialCheck); 5] {
    let key = |location: &str, name: &str| json!({"kind": "api_key", "location": location, "name": name, "value": "env:KEY"});
    [
        (key("header", "X-Key"), |asked| asked.header_values("x-key") == [KEY]),
        (key("query", "a key"), |asked| {
            asked.path.ends_with("?a%20key=k%20e%2Fy%26")
                || asked.path.ends_with("?a+key=k+e%2Fy%26")
        }),
        (key("cookie", "sid"), |asked| {
            asked.header_values("cookie") == ["sid=k%20e/y&"]
                || asked.header_values("cookie") == ["sid=k%20e%2Fy%26"]
        }),
        (json!({"kind": "basic", "username": "me", "password": "env:KEY"}), |asked| {
            asked.header_values("authorization") == ["Basic bWU6ayBlL3km"]
        }),
        (json!({"kind": "bearer", "token": "env:TOKEN"}), |asked| {
            asked.header_values("authorization") == ["Bearer fixed"]
        }),
    ]
}

fn set_secrets(world: &World) {
    let mut environment = world.environment.lock().unwrap();
    environment.insert("KEY".to_owned(), KEY.to_owned());
    environment.insert("TOKEN".to_owned(), "fixed".to_owned());
}

#[tokio::test]
async fn each_credential_kind_is_sent_with_calls_and_document_requests() {
    let world = World::new().await;
    set_secrets(&world);
    for (auth, is_shown) in kinds() {
        world.register(&json!({"auth": auth})).await;
        assert_eq!(code(&world.call("ada", "look").await), None);
        assert!(is_shown(&world.last_request()), "{auth}: {:?}", world.last_request());
    }
    for (auth, is_shown) in kinds() {
        let world = World::new().await;
        set_secrets(&world);
        let refreshed =
            world.register(&json!({"auth": auth, "settings": {"kind": "http_manifest"}})).await;
        assert!(refreshed.success, "{refreshed:?}");
        assert!(is_shown(&world.last_request()), "{auth}: {:?}", world.last_request());
        assert_eq!(code(&world.call("ada", "look").await), None);
        assert!(is_shown(&world.last_request()), "{auth}: {:?}", world.last_request());
    }
}

#[tokio::test]
async fn a_replaced_secret_is_used_at_once() {
    let world = World::new().await;
    set_secrets(&world);
    world.register(&json!({"auth": {"kind": "bearer", "token": "env:TOKEN"}})).await;
    world.call("ada", "look").await;
    world.environment.lock().unwrap().insert("TOKEN".to_owned(), "another".to_owned());
    world.call("ada", "look").await;
    assert_eq!(world.last_request().header_values("authorization"), ["Bearer another"]);
    world.environment.lock().unwrap().remove("TOKEN");
    let outcome = world.call("ada", "look").await;
    assert_eq!(code(&outcome), Some(ErrorCode::InternalError));
    assert_eq!(world.count_calls(), 2, "nothing is sent without it");
}

#[tokio::test]
async fn a_credential_is_sent_only_to_the_origin_of_its_source() {
    let world = World::new().await;
    set_secrets(&world);
    let elsewhere = Server::replying(echo).await;
    // The specification is at the source's url, and names another server.
    let document = specification(Some(&elsewhere.url("")));
    let place = Server::replying(move |_| (200, serde_json::from_str(&document).unwrap())).await;
    let auth = json!({"kind": "bearer", "token": "env:TOKEN"});
    let found = world
        .register(&json!({"auth": auth, "url": place.url("/"), "settings": {"kind": "openapi"}}))
        .await;
    assert!(found.success, "{found:?}");
    assert_eq!(place.received_requests()[0].header_values("authorization"), ["Bearer fixed"]);
    let outcome = world.call("ada", "look").await;
    assert_eq!(code(&outcome), Some(ErrorCode::InternalError));
    assert!(elsewhere.received_requests().is_empty());
    // The same if the document is served from a different origin and the calls are not.
    let settings = json!({"kind": "openapi", "specification": {"url": place.url("/x.json")}});
    assert!(world.register(&json!({"auth": auth, "settings": settings})).await.success);
    assert_eq!(place.received_requests()[1].header("authorization"), None);
    assert_eq!(code(&world.call("ada", "look").await), None);
    assert_eq!(world.last_request().header_values("authorization"), ["Bearer fixed"]);
}

fn headers(pairs: &[(&'static str, &str)]) -> Arc<HeaderMap> {
    let pairs = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    Arc::new(pairs.collect())
}

#[tokio::test]
async fn forwarded_headers_are_sent_only_to_the_origin_of_the_source() {
    let world = World::new().await;
    let elsewhere = Server::replying(echo).await;
    let document = specification(Some(&elsewhere.url("")));
    let place = Server::replying(move |_| (200, serde_json::from_str(&document).unwrap())).await;
    let source = json!({"forward_headers": ["x-api-key"], "url": place.url("/"),
        "settings": {"kind": "openapi"}});
    assert!(world.register(&source).await.success);
    let came = RequestCredentials::default().with_headers(headers(&[("x-api-key", "the agent's")]));
    assert_eq!(code(&world.call_with(&agent("ada"), &came, "look").await), None);
    assert_eq!(elsewhere.received_requests().len(), 1);
    assert_eq!(elsewhere.received_requests()[0].header("x-api-key"), None);
    // A server address that an admin entered gets the headers too.
    let text = specification(Some(&elsewhere.url("")));
    let settings = json!({"kind": "openapi", "specification": {"text": text}});
    let source = json!({"forward_headers": ["x-api-key"], "url": null, "settings": settings});
    assert!(world.register(&source).await.success);
    assert_eq!(code(&world.call_with(&agent("ada"), &came, "look").await), None);
    assert_eq!(elsewhere.received_requests()[1].header("x-api-key"), Some("the agent's"));
}

#[tokio::test]
async fn the_toolcrib_credential_of_an_agent_is_not_forwarded_in_another_header() {
    let world = World::new().await;
    let names = ["x-auth-token", "x-encoded", "x-tenant"];
    world.register(&json!({"forward_headers": names})).await;
    let own = "tcrib_bot_canary-of-the-agent";
    let encoded = base64::engine::general_purpose::STANDARD.encode(own);
    let bearer = format!("Bearer {own}");
    let other = [("x-auth-token", &*bearer), ("x-encoded", &*encoded), ("x-tenant", "seven")];
    let with_key = [&[("authorization", &*bearer)], &other[..]].concat();
    for came in [
        RequestCredentials::default().with_headers(headers(&with_key)),
        RequestCredentials::with_token(own).with_headers(headers(&other)),
    ] {
        assert_eq!(code(&world.call_with(&agent("ada"), &came, "look").await), None);
        let last = world.last_request();
        assert_eq!(last.header("x-tenant"), Some("seven"));
        assert_eq!((last.header("x-auth-token"), last.header("x-encoded")), (None, None));
    }
}

#[tokio::test]
async fn only_configured_headers_are_forwarded_and_never_credential_headers() {
    for settings in [json!({}), json!({"settings": {"kind": "mcp"}})] {
        let is_mcp = !settings["settings"].is_null();
        let world = if is_mcp { World::with(header_echo_server).await } else { World::new().await };
        set_secrets(&world);
        let names = ["x-tenant", "x-key", "Authorization", "Cookie", "mcp-session-id", "accept"];
        let auth =
            json!({"kind": "api_key", "location": "header", "name": "X-Key", "value": "env:TOKEN"});
        let source = merged(json!({"forward_headers": names, "auth": auth}), &settings);
        assert!(world.register(&source).await.success);
        let headers = headers(&[
            ("x-tenant", "seven"),
            ("x-key", "the agent's"),
            ("x-other", "o"),
            ("authorization", "Bearer mine"),
            ("cookie", "a=b"),
            ("mcp-session-id", "s"),
            ("traceparent", "t"),
        ]);
        let came = RequestCredentials::default().with_headers(headers);
        assert_eq!(code(&world.call_with(&agent("ada"), &came, "look").await), None);
        let last = world.last_request();
        let shown = (last.header_values("x-tenant"), last.header_values("x-key"));
        assert_eq!(shown, (vec!["seven"], vec!["fixed"]), "{settings}");
        for name in ["x-other", "authorization", "cookie", "mcp-session-id", "traceparent"] {
            assert_eq!(last.header(name), None, "{settings}: {name}");
        }
    }
}

#[tokio::test]
async fn a_rejected_credential_is_redacted_and_does_not_count_against_the_source() {
    let world = World::with(|asked| match asked.path.starts_with("/pets") {
        true => (401, json!({"you sent": asked.text()})),
        false => echo(asked),
    })
    .await;
    set_secrets(&world);
    for (auth, _) in kinds() {
        world.register(&json!({"auth": auth})).await;
        let outcome = world.call("ada", "look").await;
        let message = outcome.error.unwrap().message;
        assert!(message.contains("401") && !message.contains(KEY), "{message}");
        assert!(!message.contains("fixed") && !message.contains("bWU6ayBlL3km"), "{message}");
        assert!(!message.contains("e%2Fy") && !message.contains("e/y"), "{message}");
    }
    for _ in 0..10 {
        world.call("ada", "look").await;
    }
    let gate = world.crib.gate_state(&"pets".parse().unwrap()).unwrap();
    assert_eq!(gate.breaker, "closed");
    let remove = Command::Source("pets".parse().unwrap(), SourceCommand::Remove);
    world.crib.catalog().execute(remove, ChangeContext::by_actor("admin"), None).await.unwrap();
}
