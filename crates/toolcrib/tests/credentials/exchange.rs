//! Requested tokens: by token exchange for each agent, and by client credentials for toolcrib itself.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catalog::tool::{ToolCommand, ToolOverrideChange};
use model::{ErrorCode, UpstreamAuth};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use toolcrib::{ChangeContext, Command, RequestCredentials};
use upstream::http::header::HeaderMap;

use crate::authority::ID_TOKEN;
use crate::mcp::header_echo_server;
use crate::wire::{ReceivedRequest, Reply};
use crate::world::{World, agent, code, echo, read, token_of};

const CALLS: usize = 10_000;
const AT_ONCE: usize = 200;

/// A world whose upstream answers calls with this status; the test can change the status.
async fn world_answering_with(status: u16) -> (World, Arc<AtomicU16>) {
    let says = Arc::new(AtomicU16::new(status));
    let said = Arc::clone(&says);
    let world = World::with(move |asked| match asked.path.starts_with("/pets") {
        true => refuse_with_challenge(said.load(Ordering::Relaxed), "Bearer"),
        false => echo(asked).into(),
    });
    (world.await, says)
}

/// A reply with this status and a `WWW-Authenticate` challenge.
fn refuse_with_challenge(status: u16, challenge: &str) -> Reply {
    Reply::from((status, json!({}))).with("WWW-Authenticate", challenge)
}

fn last_authorization(world: &World) -> String {
    world.last_request().header("authorization").unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_calls_of_two_users_carry_the_right_token_each() {
    let world = Arc::new(World::new().await);
    let exchange = world.exchange_auth(&json!({}));
    world.register(&json!({"auth": exchange, "forward_headers": ["x-who"]})).await;
    check_calls_of_two_users(&world, CALLS, |asked| asked.path == "/pets").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_mcp_calls_of_two_users_carry_the_right_token_each() {
    let world = Arc::new(World::with(header_echo_server).await);
    let auth = world.exchange_auth(&json!({}));
    let source = json!({"auth": auth, "forward_headers": ["x-who"], "settings": {"kind": "mcp"}});
    assert!(world.register(&source).await.success);
    check_calls_of_two_users(&world, 1_000, |asked| asked.body.contains("tools/call")).await;
}

/// Sends many concurrent calls of two users and checks that the upstream got the token of the right user.
async fn check_calls_of_two_users(
    world: &Arc<World>,
    times: usize,
    is_call: impl Fn(&ReceivedRequest) -> bool,
) {
    let before = world.authority.issued_tokens();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut calls = JoinSet::new();
    for number in 0..times {
        let (world, places) = (Arc::clone(world), Arc::clone(&places));
        calls.spawn(async move {
            let _place = places.acquire_owned().await.unwrap();
            let who = if number % 2 == 0 { "ada" } else { "bob" };
            // A header names the caller too, so that the test can compare it with the token.
            let headers = HeaderMap::from_iter([("x-who".parse().unwrap(), who.parse().unwrap())]);
            let came =
                RequestCredentials::with_token(&token_of(who)).with_headers(Arc::new(headers));
            let outcome = world.call_with(&agent(who), &came, "look").await;
            assert_eq!(outcome.error, None);
            // Let all tokens expire every thousand calls.
            if number % 1_000 == 500 {
                world.advance_clock(300);
            }
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
    let asked = world.upstream.received_requests();
    let carried: Vec<_> = asked.iter().filter(|asked| is_call(asked)).collect();
    assert_eq!(carried.len(), times);
    for one in carried {
        let who = one.header("x-who").unwrap();
        let expected = format!("Bearer for.api.of.{who}.");
        assert!(one.header_values("authorization").len() == 1, "{one:?}");
        assert!(one.header("authorization").unwrap().starts_with(&expected), "{one:?}");
    }
    let given = world.authority.issued_tokens() - before;
    assert!((2..=2 + times as u32 / 500).contains(&given), "{given}");
    assert!(world.authority.with_state(|known| known.amiss.is_empty()));
}

#[tokio::test]
async fn an_exchanged_token_is_cached_until_it_is_about_to_expire() {
    let world = World::new().await;
    world.register(&json!({"auth": world.exchange_auth(&json!({"scopes": ["r", "w"]}))})).await;
    world.call("ada", "look").await;
    assert_eq!(last_authorization(&world), "Bearer for.api.of.ada.r+w.1");
    world.advance_clock(239);
    world.call("ada", "add").await;
    assert_eq!(last_authorization(&world), "Bearer for.api.of.ada.r+w.1");
    world.advance_clock(1);
    world.call("ada", "look").await;
    assert_eq!(last_authorization(&world), "Bearer for.api.of.ada.r+w.2");
    // A different token of the same agent may grant different rights, so it gets its own exchange.
    world
        .authority
        .with_state(|known| known.subjects.insert("weaker".to_owned(), "ada".to_owned()));
    world.call_with(&agent("ada"), &RequestCredentials::with_token("weaker"), "look").await;
    assert_eq!(last_authorization(&world), "Bearer for.api.of.ada.r+w.3");
    // A different agent with the same token gets its own exchange too, because claims may be mapped.
    world.call_with(&agent("eve"), &RequestCredentials::with_token("weaker"), "look").await;
    assert_eq!(last_authorization(&world), "Bearer for.api.of.ada.r+w.4");
    // A replaced client secret discards the tokens obtained with the old one.
    world.authority.with_state(|known| known.secret = "new".to_owned());
    world.environment.lock().unwrap().insert("SECRET".to_owned(), "new".to_owned());
    world.call("ada", "look").await;
    assert_eq!(last_authorization(&world), "Bearer for.api.of.ada.r+w.5");
    assert!(world.authority.with_state(|known| known.amiss.is_empty()));
}

#[tokio::test]
async fn a_call_without_an_agent_token_fails_and_nothing_is_sent() {
    let world = World::new().await;
    world.register(&json!({"auth": world.exchange_auth(&json!({}))})).await;
    let outcome = world.call_with(&agent("ada"), &RequestCredentials::default(), "look").await;
    let failure = outcome.error.unwrap();
    assert_eq!((failure.code, failure.retryable), (ErrorCode::TokenExchangeFailed, false));
    assert!(failure.message.contains("showed no token"), "{}", failure.message);
    assert_eq!((world.count_calls(), world.authority.issued_tokens()), (0, 0));
}

#[tokio::test]
async fn a_rejected_exchange_is_not_retried_and_does_not_count_against_the_source() {
    let world = World::new().await;
    world.register(&json!({"auth": world.exchange_auth(&json!({}))})).await;
    let stranger = RequestCredentials::with_token("canary-of-a-stranger");
    for _ in 0..10 {
        let outcome = world.call_with(&agent("ada"), &stranger, "look").await;
        let failure = outcome.error.unwrap();
        assert_eq!((failure.code, failure.retryable), (ErrorCode::TokenExchangeFailed, false));
        // The test server puts the whole request into `error_description`; it must not reach the agent.
        let expected = "the agent's token cannot be exchanged for one of the source: \
                        the authorization server says `invalid_request`";
        assert_eq!(failure.message, expected);
        world.advance_clock(2);
    }
    let gate = world.crib.gate_state(&"pets".parse().unwrap()).unwrap();
    assert_eq!((gate.breaker, gate.running_calls, world.count_calls()), ("closed", 0, 0));
    assert_eq!(code(&world.call("ada", "look").await), None);
    // An agent with a cached token is not affected.
    world.authority.with_state(|known| known.refuses = Some((403, json!({})).into()));
    assert_eq!(code(&world.call("bob", "look").await), Some(ErrorCode::TokenExchangeFailed));
    assert_eq!(code(&world.call("ada", "look").await), None);
}

#[tokio::test]
async fn temporary_errors_of_the_authorization_server_are_retryable() {
    let world = World::new().await;
    world.register(&json!({"auth": world.exchange_auth(&json!({}))})).await;
    let refusal = |code: &str| json!({"error": code});
    for (reply, is_passing) in [
        (Reply::html_page(503), true),
        (Reply::html_page(502), true),
        ((429, json!({})).into(), true),
        ((408, json!({})).into(), true),
        ((503, refusal("temporarily_unavailable")).into(), true),
        ((429, refusal("access_denied")).into(), true),
        ((400, refusal("temporarily_unavailable")).into(), true),
        ((400, refusal("access_denied")).into(), false),
        (Reply::html_page(403), false),
    ] {
        world.advance_clock(2);
        world.authority.with_state(|known| known.refuses = Some(reply.clone()));
        let failure = world.call("ada", "look").await.error.unwrap();
        assert_eq!(failure.code, ErrorCode::TokenExchangeFailed, "{reply:?}");
        assert_eq!(failure.retryable, is_passing, "{reply:?}: {}", failure.message);
    }
    world.advance_clock(2);
    let later = Reply::html_page(503).with("Retry-After", "7");
    world.authority.with_state(|known| known.refuses = Some(later));
    let failure = world.call("ada", "look").await.error.unwrap();
    assert_eq!(failure.retry_after, Some(7));
    let expected = "the agent's token cannot be exchanged for one of the source: \
                    the authorization server answers with 503";
    assert_eq!(failure.message, expected);
    assert_eq!(world.count_calls(), 0);
}

#[tokio::test]
async fn a_slow_authorization_server_is_not_an_upstream_timeout() {
    for (auth, expected) in [
        (World::exchange_auth as fn(&World, &Value) -> Value, ErrorCode::TokenExchangeFailed),
        (|world, _| world.client_credentials_auth(), ErrorCode::ClientCredentialsFailed),
    ] {
        let world = World::new().await;
        world.register(&json!({"auth": auth(&world, &json!({}))})).await;
        world.advance_clock(300);
        let slow = Reply::html_page(503).after(Duration::from_secs(60));
        world.authority.with_state(|known| known.refuses = Some(slow));
        let came = RequestCredentials::with_token(&token_of("ada"));
        let view = world.crib.view(&agent("ada")).with_request_credentials(&came);
        let view = view.with_client_timeout(Some(Duration::from_millis(200)));
        let failure = view.call("look", Map::new()).await.unwrap().error.unwrap();
        assert_eq!((failure.code, failure.retryable), (expected, true), "{}", failure.message);
        assert_eq!(world.count_calls(), 0);
    }
}

#[tokio::test]
async fn connections_to_the_authorization_server_are_reused_despite_a_source_allowlist() {
    let world = World::new().await;
    world.authority.with_state(|known| known.expires_in = Some(30));
    world.register(&json!({"auth": world.client_credentials_auth(), "allow": ["127.0.0.1"]})).await;
    for _ in 0..3 {
        assert_eq!(code(&world.call("ada", "look").await), None);
    }
    let (given, connections) =
        (world.authority.issued_tokens(), world.authority.server.connections());
    assert!(given == 4 && connections < 4, "{given} tokens, {connections} connections");
}

/// A specification with one long-running, cancellable operation.
fn job_specification() -> Value {
    let polling = json!({"status_url": "/jobs/7", "status_path": "state", "completed": ["done"],
        "interval_ms": 500, "max_interval_ms": 500, "cancel": {"url": "/jobs/7"}});
    let operation = json!({"operationId": "bake", "x-toolcrib-polling": polling,
        "responses": {"202": {"description": "begun"}}});
    json!({"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"},
        "paths": {"/pets": {"post": operation}}})
}

#[tokio::test]
async fn one_failed_token_renewal_does_not_end_a_job() {
    let world = World::with(|asked: &ReceivedRequest| match &*asked.method {
        "POST" => (202, json!({"state": "queued"})),
        _ => (200, json!({"state": "done"})),
    });
    let world = Arc::new(world.await);
    let settings =
        json!({"kind": "openapi", "specification": {"text": job_specification().to_string()}});
    // Tokens expire so soon that every request needs a new one.
    world.authority.with_state(|known| known.expires_in = Some(30));
    assert!(
        world
            .register(&json!({"auth": world.client_credentials_auth(), "settings": settings}))
            .await
            .success
    );
    let caller = Arc::clone(&world);
    let job = tokio::spawn(async move { caller.call("ada", "bake").await });
    wait_until(|| world.count_calls() == 1).await;
    world.authority.with_state(|known| known.refuses = Some(Reply::html_page(502)));
    wait_until(|| world.authority.with_state(|known| !known.amiss.is_empty())).await;
    world.authority.with_state(|known| known.refuses = None);
    world.advance_clock(2);
    let outcome = job.await.unwrap();
    assert_eq!(outcome.error, None);
    assert!(world.upstream.received_requests().iter().all(|asked| asked.method != "DELETE"));
}

/// Polls until the condition holds.
async fn wait_until(has_happened: impl Fn() -> bool) {
    let begun = Instant::now();
    while !has_happened() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it has not happened");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_token_response_that_violates_the_rfc_is_not_used() {
    for odd in [
        json!({"token_type": "N_A"}),
        json!({"token_type": "DPoP"}),
        json!({"issued_token_type": "urn:ietf:params:oauth:token-type:id_token"}),
        json!({"issued_token_type": null}),
        json!({"access_token": "with\nline"}),
        json!({"access_token": ""}),
        json!({"access_token": token_of("ada")}),
    ] {
        let world = World::new().await;
        world.register(&json!({"auth": world.exchange_auth(&json!({}))})).await;
        world.authority.with_state(|known| known.answer = odd.clone());
        let outcome = world.call("ada", "look").await;
        assert_eq!(code(&outcome), Some(ErrorCode::TokenExchangeFailed), "{odd}");
        assert_eq!(world.count_calls(), 0, "{odd}");
    }
}

#[tokio::test]
async fn a_token_of_the_requested_type_is_sent() {
    let world = World::new().await;
    let kind = "urn:ietf:params:oauth:token-type:id_token";
    let auth = world.exchange_auth(&json!({"requested_token_type": kind}));
    world.register(&json!({"auth": auth})).await;
    assert_eq!(code(&world.call("ada", "look").await), None);
    assert!(
        last_authorization(&world).starts_with("Bearer for.api.of.ada."),
        "{}",
        last_authorization(&world)
    );
}

#[tokio::test]
async fn the_exchange_uses_the_configured_resource_and_subject_token_type() {
    let world = World::new().await;
    let api = "https://api.test/orders";
    world.authority.with_state(|known| {
        (known.takes, known.resources) = (ID_TOKEN, vec![api.to_owned()]);
    });
    let more = json!({"audience": null, "resource": api, "subject_token_type": ID_TOKEN});
    world.register(&json!({"auth": world.exchange_auth(&more)})).await;
    assert_eq!(code(&world.call("ada", "look").await), None);
    assert_eq!(last_authorization(&world), format!("Bearer for.{api}.of.ada..1"));
    for nobody in [json!({"audience": null}), json!({"resource": "orders"})] {
        let auth: UpstreamAuth = read(world.exchange_auth(&nobody));
        assert_eq!(auth.find_problems().len(), 1, "{nobody}");
    }
}

#[tokio::test]
async fn a_token_with_a_missing_or_unusual_type_is_sent_as_bearer_token() {
    for word in [json!(null), json!("bearer"), json!("BearerToken"), json!("access_token")] {
        let world = World::new().await;
        world.authority.with_state(|known| known.answer = json!({"token_type": word}));
        world.register(&json!({"auth": world.exchange_auth(&json!({}))})).await;
        assert_eq!(code(&world.call("ada", "look").await), None, "{word}");
    }
}

#[tokio::test]
async fn the_cause_of_a_missing_token_is_shown_to_admins_but_not_to_agents() {
    type Change = fn(&World) -> Value;
    let elsewhere: Change = |world| {
        let issuer = format!("{}/", world.authority.server.url(""));
        json!({"token_url": null, "issuer": issuer})
    };
    let nowhere: Change = |world| {
        world.authority.with_state(|known| known.refuses = Some(Reply::html_page(404)));
        json!({})
    };
    let refused: Change = |world| {
        let secret = world.authority.with_state(|known| known.secret.clone());
        let why = format!("the client {secret} has no such audience\n");
        let why = json!({"error": "invalid_target", "error_description": why});
        world.authority.with_state(|known| known.refuses = Some((200, why).into()));
        json!({})
    };
    for (change, told) in [
        (elsewhere, "comes from another issuer, `http://127.0.0.1:"),
        (nowhere, "answered 404: is the place for tokens there?"),
        (|_| json!({"client_secret": "env:NOT_THERE"}), "NOT_THERE"),
        (refused, "`invalid_target`, and says: the client *** has no such audience"),
    ] {
        let world = World::new().await;
        let source = |auth| json!({"auth": auth, "settings": {"kind": "http_manifest"}});
        assert!(world.register(&source(world.client_credentials_auth())).await.success);
        world.advance_clock(300);
        let mut auth = world.client_credentials_auth();
        auth.as_object_mut().unwrap().extend(change(&world).as_object().cloned().unwrap());
        let failed = world.register(&source(auth)).await.error.unwrap();
        assert!(failed.message.contains(told), "{failed:?}");
        world.advance_clock(2);
        let failure = world.call("ada", "look").await.error.unwrap();
        assert!(!failure.message.contains(told), "{}", failure.message);
        assert!(failure.full_message().contains(told), "{}", failure.full_message());
    }
}

#[tokio::test]
async fn a_rejected_cached_token_is_replaced_once_but_a_new_one_is_not() {
    let (world, says) = world_answering_with(200).await;
    world.register(&json!({"auth": world.exchange_auth(&json!({}))})).await;
    world.call("ada", "add").await;
    says.store(401, Ordering::Relaxed);
    world.advance_clock(30);
    let outcome = world.call("ada", "add").await;
    assert_eq!((outcome.upstream_status, world.count_calls()), (Some(401), 3));
    assert_eq!(last_authorization(&world), "Bearer for.api.of.ada..2");
    // The replacement is a new token: its rejection leads to neither another replacement nor another attempt.
    let outcome = world.call("ada", "add").await;
    assert_eq!((outcome.upstream_status, world.count_calls()), (Some(401), 4));
    says.store(200, Ordering::Relaxed);
    assert_eq!(code(&world.call("ada", "add").await), None);
    assert_eq!(last_authorization(&world), "Bearer for.api.of.ada..2");
    for status in [403, 500, 503] {
        says.store(status, Ordering::Relaxed);
        let before = world.count_calls();
        assert_eq!(world.call("ada", "add").await.upstream_status, Some(status));
        assert_eq!(world.count_calls(), before + 1, "{status}");
    }
}

#[tokio::test]
async fn a_modifying_call_is_resent_only_if_its_token_was_rejected() {
    for (challenge, is_sent_again) in [
        (Some("Bearer"), true),
        (Some(r#"Bearer error="invalid_token""#), true),
        (Some(r#"Bearer error="insufficient_scope""#), false),
        (Some("Basic realm=\"another\""), false),
        (None, false),
    ] {
        let refuses = Arc::new(Mutex::new(false));
        let refused = Arc::clone(&refuses);
        let world = World::with(move |asked| match (*refused.lock().unwrap(), challenge) {
            (true, Some(challenge)) => refuse_with_challenge(401, challenge),
            (true, None) => (401, json!({})).into(),
            (false, _) => echo(asked).into(),
        });
        let world = world.await;
        world.register(&json!({"auth": world.exchange_auth(&json!({}))})).await;
        for (tool, expected) in [("add", 1 + usize::from(is_sent_again)), ("look", 2)] {
            *refuses.lock().unwrap() = false;
            assert_eq!(code(&world.call("ada", tool).await), None);
            world.advance_clock(30);
            *refuses.lock().unwrap() = true;
            let (before, given) = (world.count_calls(), world.authority.issued_tokens());
            assert_eq!(world.call("ada", tool).await.upstream_status, Some(401));
            assert_eq!(world.count_calls(), before + expected, "{tool} {challenge:?}");
            *refuses.lock().unwrap() = false;
            assert_eq!(code(&world.call("ada", tool).await), None);
            assert_eq!(
                world.authority.issued_tokens(),
                given + 1,
                "with another token in any case"
            );
        }
    }
}

#[tokio::test]
async fn rejected_calls_of_one_agent_do_not_replace_the_token_of_others() {
    let world = World::with(|asked| match &*asked.method {
        "POST" => refuse_with_challenge(401, "Bearer"),
        _ => echo(asked).into(),
    })
    .await;
    world.register(&json!({"auth": world.client_credentials_auth()})).await;
    assert_eq!(code(&world.call("bob", "look").await), None);
    world.advance_clock(30);
    for _ in 0..20 {
        assert_eq!(world.call("ada", "add").await.upstream_status, Some(401));
        assert_eq!(code(&world.call("bob", "look").await), None);
    }
    assert_eq!(world.authority.issued_tokens(), 2, "the first, and one that might have been taken");
    assert_eq!(world.count_calls(), 1 + 20 + 20 + 1);
}

async fn set_audience(world: &World, tool: &str, audience: Value) {
    let amendment =
        ToolOverrideChange { audience: Some(read(audience)), ..ToolOverrideChange::default() };
    let command = Command::Tool(tool.parse().unwrap(), ToolCommand::Amend(amendment));
    world.crib.catalog().execute(command, ChangeContext::by_actor("admin"), None).await.unwrap();
}

#[tokio::test]
async fn the_audience_of_a_tool_overrides_that_of_its_source() {
    for (settings, other) in [(None, "add"), (Some(json!({"kind": "mcp"})), "fail")] {
        let world = match settings {
            None => World::new().await,
            Some(_) => World::with(header_echo_server).await,
        };
        world.authority.with_state(|known| known.audiences.push("vet".to_owned()));
        let of = |auth: Value| {
            let mut source = json!({"auth": auth});
            source
                .as_object_mut()
                .unwrap()
                .extend(settings.clone().map(|it| ("settings".to_owned(), it)));
            source
        };
        let shown = async |tool: &str| {
            world.call("ada", tool).await;
            let shown = world.last_request().header("authorization").unwrap().to_owned();
            shown.trim_start_matches("Bearer for.").split("..").next().unwrap().to_owned()
        };
        assert!(world.register(&of(world.exchange_auth(&json!({})))).await.success);
        set_audience(&world, "pets:look", json!("vet")).await;
        let before = world.authority.issued_tokens();
        for _ in 0..2 {
            assert_eq!(shown("look").await, "vet.of.ada");
            assert_eq!(shown(other).await, "api.of.ada");
        }
        assert_eq!(world.authority.issued_tokens(), before + 2, "both are kept");
        set_audience(&world, "pets:look", json!(null)).await;
        assert_eq!(shown("look").await, "api.of.ada");
        set_audience(&world, "pets:look", json!("vet")).await;
        assert!(world.register(&of(world.client_credentials_auth())).await.success);
        assert_eq!(shown("look").await, "vet.of.tool-crib");
        assert_eq!(shown(other).await, "api.of.tool-crib");
    }
}

#[tokio::test]
async fn the_client_credentials_token_is_shared_by_all_agents_and_document_requests() {
    let world = World::new().await;
    world
        .register(&json!({"auth": world.client_credentials_auth(), "settings": {"kind": "http_manifest"}}))
        .await;
    assert_eq!(last_authorization(&world), "Bearer for.api.of.tool-crib..1");
    for who in ["ada", "bob"] {
        assert_eq!(code(&world.call(who, "look").await), None);
        assert_eq!(last_authorization(&world), "Bearer for.api.of.tool-crib..1");
    }
    assert_eq!(world.authority.issued_tokens(), 1);
    world.authority.with_state(|known| known.audiences.clear());
    world.advance_clock(300);
    let failure = world.call("ada", "look").await.error.unwrap();
    assert_eq!(failure.code, ErrorCode::ClientCredentialsFailed);
    let expected =
        "there is no token for the source: the authorization server says `invalid_target`";
    assert_eq!(failure.message, expected);
    let auth = world.client_credentials_auth();
    let again = world.register(&json!({"auth": auth, "settings": {"kind": "http_manifest"}})).await;
    assert_eq!(again.error.unwrap().code.as_ref(), "client_credentials_failed");
}

#[tokio::test]
async fn a_token_rejected_for_a_document_is_replaced_once() {
    let takes = Arc::new(Mutex::new(""));
    let taken = Arc::clone(&takes);
    let world = World::with(move |asked| {
        let shown = asked.header("authorization").unwrap_or_default();
        if shown.ends_with(*taken.lock().unwrap()) { echo(asked) } else { (401, json!({})) }
    })
    .await;
    let source =
        json!({"auth": world.client_credentials_auth(), "settings": {"kind": "http_manifest"}});
    assert!(world.register(&source).await.success);
    *takes.lock().unwrap() = "..2";
    world.advance_clock(30);
    assert!(world.register(&source).await.success);
    assert_eq!(
        (last_authorization(&world).as_str(), world.authority.issued_tokens()),
        ("Bearer for.api.of.tool-crib..2", 2)
    );
    *takes.lock().unwrap() = "never";
    world.advance_clock(30);
    let failed = world.register(&source).await.error.unwrap();
    assert!(failed.message.contains("status 401"), "{failed:?}");
    assert_eq!(world.authority.issued_tokens(), 3, "once more, and no more");
}

#[tokio::test]
async fn the_issuer_metadata_gives_the_token_endpoint_and_auth_method() {
    for takes_post in [false, true] {
        let world = World::new().await;
        world.authority.with_state(|known| known.takes_post = takes_post);
        let issuer = world.authority.server.url("");
        let exchange = world.exchange_auth(&json!({"token_url": null, "issuer": issuer}));
        world.register(&json!({"auth": exchange})).await;
        for who in ["ada", "bob", "ada"] {
            assert_eq!(code(&world.call(who, "look").await), None);
        }
        let asked = world.authority.server.received_requests();
        let looked = asked.iter().filter(|asked| asked.method == "GET").count();
        assert_eq!((looked, world.authority.issued_tokens()), (2, 2), "both places, once");
        // The issuer in the metadata must equal the configured issuer exactly.
        let exchange =
            world.exchange_auth(&json!({"token_url": null, "issuer": format!("{issuer}/")}));
        world.register(&json!({"auth": exchange})).await;
        let outcome = world.call("ada", "look").await;
        assert_eq!(code(&outcome), Some(ErrorCode::TokenExchangeFailed));
    }
    let world = World::new().await;
    world.authority.with_state(|known| known.takes_post = true);
    let exchange = world.exchange_auth(&json!({"client_proof": "client_secret_post"}));
    world.register(&json!({"auth": exchange})).await;
    assert_eq!(code(&world.call("ada", "look").await), None);
}

#[tokio::test]
async fn metadata_is_found_despite_a_bad_reply_at_the_other_address() {
    for beside in [
        Reply::html_page(503),
        Reply::html_page(403),
        (200, json!({"issuer": "https://other.test", "token_endpoint": "https://other.test/t"}))
            .into(),
        (200, json!({"nothing": "of it"})).into(),
    ] {
        let world = World::new().await;
        let issuer = world.authority.server.url("");
        world.authority.with_state(|known| known.beside = Some(beside));
        let exchange = world.exchange_auth(&json!({"token_url": null, "issuer": issuer}));
        world.register(&json!({"auth": exchange})).await;
        assert_eq!(code(&world.call("ada", "look").await), None);
    }
}

#[tokio::test]
async fn a_rejected_agent_does_not_cause_the_metadata_to_be_fetched_again() {
    let world = World::new().await;
    let issuer = world.authority.server.url("");
    let exchange = world.exchange_auth(&json!({"token_url": null, "issuer": issuer}));
    world.register(&json!({"auth": exchange})).await;
    assert_eq!(code(&world.call("ada", "look").await), None);
    let looked = || {
        let asked = world.authority.server.received_requests();
        asked.iter().filter(|asked| asked.method == "GET").count()
    };
    let before = looked();
    let stranger = RequestCredentials::with_token("canary-of-a-stranger");
    for _ in 0..5 {
        let outcome = world.call_with(&agent("ada"), &stranger, "look").await;
        assert_eq!(code(&outcome), Some(ErrorCode::TokenExchangeFailed));
        world.advance_clock(2);
    }
    assert_eq!(looked(), before);
    // A 429 shows that the token endpoint still exists, so its metadata is not fetched again.
    world.authority.with_state(|known| known.refuses = Some((429, json!({})).into()));
    assert!(world.call("bob", "look").await.error.is_some());
    world.advance_clock(2);
    assert_eq!(looked(), before);
    // After a 503 the token endpoint may have moved, so its metadata is fetched again.
    world.authority.with_state(|known| known.refuses = Some((503, json!({})).into()));
    assert!(world.call("bob", "look").await.error.is_some());
    world.authority.with_state(|known| known.refuses = None);
    world.advance_clock(2);
    assert_eq!(code(&world.call("bob", "look").await), None);
    assert!(before < looked());
}

#[tokio::test]
async fn a_forbidden_token_endpoint_is_not_contacted() {
    let world = World::new().await;
    for url in ["http://id.example/token", "http://169.254.169.254/token"] {
        world.register(&json!({"auth": world.exchange_auth(&json!({"token_url": url}))})).await;
        let outcome = world.call("ada", "look").await;
        assert_eq!(code(&outcome), Some(ErrorCode::TokenExchangeFailed), "{url}");
    }
    let nowhere: Value = json!({"token_url": null});
    world.register(&json!({"auth": world.exchange_auth(&nowhere)})).await;
    let outcome = world.call("ada", "look").await;
    assert_eq!(code(&outcome), Some(ErrorCode::TokenExchangeFailed));
    assert_eq!(world.count_calls(), 0);
}
