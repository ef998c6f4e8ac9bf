//! Amendments of prompts and resources of an MCP server apply to every kind of request for them.

use std::sync::Arc;

use catalog::tool::{ToolCommand, ToolOverrideChange};
use model::{Agent, CallFailure, ErrorCode, ToolId};
use serde_json::{Map, Value, json};
use toolcrib::{
    AgentView, CallContext, ChangeContext, Command, CompletionRequest, CompletionTarget,
    OfferResult, RequestCredentials, ResourceSubscriptions, SubscribeError,
};

use crate::wire::ReceivedRequest;
use crate::world::{World, read, token_of};

/// An MCP server of the modern protocol with a prompt, a resource and a resource template.
fn server_with_offers(asked: &ReceivedRequest) -> (u16, Value) {
    let Ok(message) = serde_json::from_str::<Value>(&asked.body) else { return (405, json!({})) };
    let result = match message["method"].as_str().unwrap() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"],
            "capabilities": {"prompts": {}, "completions": {}, "resources": {"subscribe": true}}}),
        "prompts/list" => json!({"prompts": [{"name": "greet"}]}),
        "resources/list" => json!({"resources": [{"uri": "pets://all", "name": "all"}]}),
        "resources/templates/list" => {
            json!({"resourceTemplates": [{"uriTemplate": "pets://of/{who}", "name": "of"}]})
        }
        "prompts/get" => {
            let content = |content: Value| json!({"role": "user", "content": content});
            let resource = json!({"uri": "pets://all", "text": "\u{1b}[2J"});
            json!({"description": "\u{7}", "messages": [
                content(json!({"type": "text", "text": "Hi\u{1b}[2J\n"})),
                content(json!({"type": "resource", "resource": resource})),
                content(json!({"type": "image", "data": "\u{7}", "mimeType": "image/png"})),
            ]})
        }
        "resources/read" => json!({"contents": []}),
        "completion/complete" => json!({"completion": {"values": ["ada"]}}),
        _ => return (202, json!({})),
    };
    (200, json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

async fn world() -> World {
    let world = World::with(server_with_offers).await;
    world.authority.with_state(|known| known.audiences.push("vet".to_owned()));
    let selectors = json!([{"kind": "prompt", "source": "*"}, {"kind": "resource", "source": "*"}]);
    let profile = json!({"name": "offers", "selector_mode": "any"});
    world
        .grant("offers", json!({"id": "offers", "profile": profile, "selectors": selectors}))
        .await;
    let source = json!({"auth": world.client_credentials_auth(), "settings": {"kind": "mcp"}});
    assert!(world.register(&source).await.success);
    world
}

/// Amends the prompt, the resource and the template alike.
async fn amend(world: &World, amendment: &ToolOverrideChange) {
    let snapshot = world.crib.catalog().snapshot();
    let all: Vec<ToolId> = snapshot.tools().map(|entry| entry.tool.id.clone()).collect();
    assert_eq!(all.len(), 3);
    for id in all {
        let command = Command::Tool(id, ToolCommand::Amend(amendment.clone()));
        world
            .crib
            .catalog()
            .execute(command, ChangeContext::by_actor("admin"), None)
            .await
            .unwrap();
    }
}

fn view(world: &World, scopes: &str) -> AgentView {
    let ada = Agent::new("ada", Arc::new(read(json!({"sub": "ada", "scp": scopes}))));
    world
        .crib
        .view(&ada)
        .with_request_credentials(&RequestCredentials::with_token(&token_of("ada")))
}

async fn request_completions(view: &AgentView, of: CompletionTarget) -> OfferResult {
    let (argument, value) = ("who".into(), "a".into());
    let unfinished = CompletionRequest { target: of, argument, value, known_arguments: Map::new() };
    view.complete(&unfinished, &CallContext::silent()).await
}

/// Requests the prompt, the resource, the template, and completions of both; returns the failures.
async fn request_everything(view: &AgentView) -> Vec<Option<CallFailure>> {
    let silent = CallContext::silent();
    let got = [
        view.render_prompt("greet", Map::new(), &silent).await,
        view.read_resource_uri("pets://all", &silent).await,
        view.read_resource_uri("pets://of/ada", &silent).await,
        request_completions(view, CompletionTarget::Prompt("greet".into())).await,
        request_completions(view, CompletionTarget::Template("pets://of/{who}".into())).await,
    ];
    let failure = |got| match got {
        OfferResult::Result(_) => None,
        OfferResult::Failed(failure) => Some(failure),
        other => panic!("{other:?}"),
    };
    got.into_iter().map(failure).collect()
}

async fn refusal_to_follow(view: &AgentView) -> Option<String> {
    match view.subscribe_to_resource("pets://all", &ResourceSubscriptions::default()).await {
        Err(SubscribeError::Failed(why)) => Some(why),
        _ => None,
    }
}

#[tokio::test]
async fn a_prompt_is_escaped_for_terminals_and_names_its_source() {
    let world = world().await;
    let got = view(&world, "").render_prompt("greet", Map::new(), &CallContext::silent()).await;
    let OfferResult::Result(result) = got else { panic!("{got:?}") };
    let texts: Vec<_> = ["text", "resource/text", "data"]
        .into_iter()
        .enumerate()
        .map(|(at, path)| result["messages"][at]["content"].pointer(&format!("/{path}")))
        .collect();
    let tame = [json!("Hi\\u{1b}[2J\n"), json!("\\u{1b}[2J"), json!("\u{7}")];
    assert_eq!(texts, tame.iter().map(Some).collect::<Vec<_>>());
    assert_eq!(result["description"], "\\u{7}");
    let whose = json!({"toolcrib/source": "pets", "toolcrib/untrusted": true});
    assert_eq!(result["_meta"], whose);
}

#[tokio::test]
async fn required_scopes_of_prompts_and_resources_are_enforced() {
    let world = world().await;
    let required_scopes = Some(read(json!(["vet"])));
    amend(&world, &ToolOverrideChange { required_scopes, ..ToolOverrideChange::default() }).await;
    let before = world.upstream.received_requests().len();
    for failure in request_everything(&view(&world, "other")).await {
        assert_eq!(failure.unwrap().code, ErrorCode::InsufficientScope);
    }
    let refused = refusal_to_follow(&view(&world, "other")).await.unwrap();
    assert!(refused.contains("`vet`"), "{refused}");
    assert_eq!(world.upstream.received_requests().len(), before);
    let allowed = view(&world, "vet");
    assert!(request_everything(&allowed).await.iter().all(Option::is_none));
    assert_eq!(refusal_to_follow(&allowed).await, None);
}

#[tokio::test]
async fn the_audience_of_a_prompt_or_resource_overrides_that_of_its_source() {
    let world = world().await;
    let shown = async |expected: &str| {
        let before = world.upstream.received_requests().len();
        assert!(request_everything(&view(&world, "")).await.iter().all(Option::is_none));
        let asked = world.upstream.received_requests();
        let tokens = asked.iter().skip(before).filter_map(|asked| asked.header("authorization"));
        let tokens: Vec<_> = tokens.collect();
        assert!(
            !tokens.is_empty() && tokens.iter().all(|token| token.starts_with(expected)),
            "{tokens:?}"
        );
    };
    shown("Bearer for.api.").await;
    let audience = Some(Some("vet".parse().unwrap()));
    amend(&world, &ToolOverrideChange { audience, ..ToolOverrideChange::default() }).await;
    shown("Bearer for.vet.").await;
}

#[tokio::test]
async fn rate_limits_of_prompts_and_resources_are_enforced() {
    let world = world().await;
    let limit = Some(Some(read(json!({"per_minute": 1, "burst": 1}))));
    amend(&world, &ToolOverrideChange { limit, ..ToolOverrideChange::default() }).await;
    let view = view(&world, "");
    let failures = request_everything(&view).await;
    let codes: Vec<_> = failures.iter().map(|it| it.as_ref().map(|failure| failure.code)).collect();
    let too_many = Some(ErrorCode::RateLimited);
    assert_eq!(codes, [None, None, None, too_many, too_many], "proposals are for the same prompt");
    let refused = refusal_to_follow(&view).await.unwrap();
    assert!(refused.contains("calls of this tool"), "{refused}");
}
