//! Required scopes: those of the tool, else of the source, else of the specification if agents act in their own name.

use std::sync::Arc;

use catalog::policy::PolicyCommand;
use catalog::tool::{ToolCommand, ToolOverrideChange};
use model::{Agent, ErrorCode};
use serde_json::{Map, Value, json};
use toolcrib::{ChangeContext, Command, RequestCredentials};

use crate::world::{World, code, read, specification, token_of};

fn with_scopes(scopes: &str) -> Agent {
    Agent::new("ada", Arc::new(read(json!({"sub": "ada", "scp": scopes}))))
}

async fn refusal(world: &World, scopes: &str) -> Option<String> {
    let came = RequestCredentials::with_token(&token_of("ada"));
    let outcome = world.call_with(&with_scopes(scopes), &came, "look").await;
    match code(&outcome) {
        None => None,
        Some(ErrorCode::InsufficientScope) => Some(outcome.error.unwrap().message),
        Some(other) => panic!("{other:?}"),
    }
}

fn missing_scopes_message(scopes: &str) -> Option<String> {
    Some(format!("this takes a token with these scopes: {scopes}"))
}

async fn amend(world: &World, scopes: Value) {
    let required_scopes = Some(read(scopes));
    let amendment = ToolOverrideChange { required_scopes, ..ToolOverrideChange::default() };
    let command = Command::Tool("pets:look".parse().unwrap(), ToolCommand::Amend(amendment));
    world.crib.catalog().execute(command, ChangeContext::by_actor("admin"), None).await.unwrap();
}

#[tokio::test]
async fn tool_scopes_override_source_scopes_and_those_the_specification() {
    let world = World::new().await;
    world
        .register(&json!({"auth": world.exchange_auth(&json!({})), "required_scopes": null}))
        .await;
    assert_eq!(refusal(&world, "other").await, missing_scopes_message("`pets:read`"));
    assert_eq!(refusal(&world, "other pets:read").await, None);
    let asked = world.exchange_auth(&json!({}));
    world.register(&json!({"auth": asked, "required_scopes": ["a", "b"]})).await;
    assert_eq!(refusal(&world, "pets:read b").await, missing_scopes_message("`a`, `b`"));
    assert_eq!(refusal(&world, "b a").await, None);
    amend(&world, json!(["c"])).await;
    assert_eq!(refusal(&world, "a b").await, missing_scopes_message("`c`"));
    assert_eq!(refusal(&world, "c").await, None);
    amend(&world, json!([])).await;
    assert_eq!(refusal(&world, "").await, None);
    amend(&world, json!(null)).await;
    assert_eq!(refusal(&world, "").await, missing_scopes_message("`a`, `b`"));
}

#[tokio::test]
async fn scopes_of_the_specification_do_not_apply_to_agents_if_toolcrib_has_the_token() {
    let world = World::new().await;
    for auth in [json!({"kind": "none"}), world.client_credentials_auth()] {
        world.register(&json!({"auth": auth, "required_scopes": null})).await;
        assert_eq!(refusal(&world, "").await, None);
        world.register(&json!({"auth": auth, "required_scopes": ["a"]})).await;
        assert_eq!(refusal(&world, "").await, missing_scopes_message("`a`"));
        // An admin can require the scopes of the specification explicitly.
        let text = specification(None);
        let settings =
            json!({"kind": "openapi", "specification": {"text": text}, "require_scopes": true});
        let source = json!({"auth": auth, "required_scopes": null, "settings": settings});
        world.register(&source).await;
        assert_eq!(refusal(&world, "other").await, missing_scopes_message("`pets:read`"));
        assert_eq!(refusal(&world, "pets:read").await, None);
    }
}

#[tokio::test]
async fn scopes_are_checked_after_arguments_and_before_any_request() {
    let world = World::new().await;
    let exchange = world.exchange_auth(&json!({}));
    world
        .register(&json!({"auth": exchange, "required_scopes": ["a"],
        "limits": {"per_agent": {"per_minute": 1, "burst": 1}}}))
        .await;
    let came = RequestCredentials::with_token(&token_of("ada"));
    let view = world.crib.view(&with_scopes("")).with_request_credentials(&came);
    let wrong = Map::from_iter([("unknown".to_owned(), json!(1))]);
    let outcome = view.call("look", wrong).await.unwrap();
    assert_eq!(code(&outcome), Some(ErrorCode::ValidationError));
    for _ in 0..3 {
        assert_eq!(refusal(&world, "").await, missing_scopes_message("`a`"));
    }
    assert_eq!((world.authority.issued_tokens(), world.count_calls()), (0, 0));
    assert_eq!(refusal(&world, "a").await, None, "what was refused was not counted");
}

#[tokio::test]
async fn an_issuer_can_imply_scopes_and_policies_ignore_implied_ones() {
    let world = World::new().await;
    world.register(&json!({"required_scopes": ["read"]})).await;
    let of = |issuer: &str, scopes: &str| {
        let claims = json!({"iss": issuer, "sub": "ada", "scope": scopes});
        Agent::new("ada", Arc::new(read(claims)))
    };
    let came = RequestCredentials::default();
    for scopes in ["read", "write", "admin", "other admin"] {
        let outcome = world.call_with(&of("https://id.example", scopes), &came, "look").await;
        assert_eq!(code(&outcome), None, "{scopes}");
    }
    for (issuer, scopes) in [("https://id.example", "other"), ("https://else.example", "admin")] {
        let outcome = world.call_with(&of(issuer, scopes), &came, "look").await;
        assert_eq!(code(&outcome), Some(ErrorCode::InsufficientScope), "{issuer} {scopes}");
    }
    let matcher = json!({"claim": "scope", "operator": "equals", "value": "read"});
    let policy = json!({"name": "all", "matchers": [matcher], "groups": ["all"]});
    let change = Command::Policy("all".parse().unwrap(), PolicyCommand::Update(read(policy)));
    world.crib.catalog().execute(change, ChangeContext::by_actor("admin"), None).await.unwrap();
    let tools =
        |scopes: &str| world.crib.view(&of("https://id.example", scopes)).find("look").is_ok();
    assert!(tools("read") && !tools("admin"));
}
