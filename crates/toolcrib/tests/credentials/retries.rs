//! Calls are retried where that is safe and may help, and retries add little load to a failing source.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use model::{ErrorCode, Outcome};
use serde_json::{Map, Value, json};

use crate::wire::{ReceivedRequest, Reply};
use crate::world::{World, agent, code};

const MOMENT: &str = "Wed, 21 Oct 2015 07:28:00 GMT";

/// A specification with one operation per HTTP method, and `pay` that accepts an idempotency key.
fn specification() -> String {
    let operation =
        |id: &str| json!({"operationId": id, "responses": {"200": {"description": "done"}}});
    let mut keyed = operation("pay");
    let schema = json!({"type": "string"});
    keyed["parameters"] = json!([{"in": "header", "name": "Idempotency-Key", "schema": schema}]);
    let pets = json!({"get": operation("look"), "put": operation("set"),
        "delete": operation("remove"), "post": operation("add"), "patch": operation("change")});
    json!({"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"},
        "paths": {"/pets": pets, "/pets/pay": {"post": keyed}}})
    .to_string()
}

/// A world that gives this reply to the first calls, and then succeeds.
async fn world_failing_first(
    times: usize,
    reply: impl Fn() -> Reply + Send + Sync + 'static,
) -> World {
    let asked = AtomicUsize::new(0);
    let world = World::with(move |_: &ReceivedRequest| {
        match asked.fetch_add(1, Ordering::Relaxed) < times {
            true => reply(),
            false => (200, json!({"is": "done"})).into(),
        }
    })
    .await;
    register(&world, json!({})).await;
    world
}

pub(crate) async fn register(world: &World, limits: Value) {
    let settings = json!({"kind": "openapi", "specification": {"text": specification()}});
    assert!(world.register(&json!({"settings": settings, "limits": limits})).await.success);
}

pub(crate) async fn call(world: &World, tool: &str, arguments: Value) -> Outcome {
    let Value::Object(arguments) = arguments else { panic!("no arguments") };
    world.crib.view(&agent("ada")).call(tool, arguments).await.unwrap()
}

/// Calls a tool whose first two attempts get this reply; returns the number of attempts and whether the call succeeded.
async fn count_attempts(tool: &str, arguments: Value, reply: fn() -> Reply) -> (usize, bool) {
    let world = world_failing_first(2, reply).await;
    let outcome = call(&world, tool, arguments).await;
    (world.count_calls(), outcome.error.is_none())
}

fn status(status: u16) -> Reply {
    (status, json!({})).into()
}

#[tokio::test]
async fn only_safe_calls_are_retried() {
    let (once, thrice) = ((1, false), (3, true));
    for (reply, written) in [
        (Reply::hangs_up as fn() -> Reply, once),
        (|| status(502), once),
        (|| status(504), once),
        (|| status(503), once),
        (|| status(503).with("Retry-After", "0"), thrice),
        (|| status(429).with("Retry-After", "0"), thrice),
        (|| status(503).with("Date", MOMENT).with("Retry-After", MOMENT), thrice),
    ] {
        let ended = reply();
        assert_eq!(count_attempts("look", json!({}), reply).await, thrice, "{ended:?}");
        for tool in ["set", "remove"] {
            assert_eq!(count_attempts(tool, json!({}), reply).await, written, "{tool} {ended:?}");
        }
        for tool in ["add", "change", "pay"] {
            assert_eq!(count_attempts(tool, json!({}), reply).await, once, "{tool} {ended:?}");
        }
        let keyed = json!({"Idempotency-Key": "k-1"});
        assert_eq!(count_attempts("pay", keyed, reply).await, thrice, "{ended:?}");
    }
    for other in [(|| status(500)) as fn() -> Reply, || status(404), || status(429), || status(408)]
    {
        let ended = other();
        assert_eq!(count_attempts("look", json!({}), other).await, once, "{ended:?}");
    }
}

#[tokio::test]
async fn every_attempt_has_the_same_idempotency_key() {
    let world = world_failing_first(2, Reply::hangs_up).await;
    assert_eq!(call(&world, "pay", json!({"Idempotency-Key": "k-1"})).await.error, None);
    let keys: Vec<_> = world
        .upstream
        .received_requests()
        .iter()
        .map(|it| it.header_values("idempotency-key").join(","))
        .collect();
    assert_eq!(keys, ["k-1", "k-1", "k-1"]);
}

#[tokio::test]
async fn the_number_of_retries_is_configurable_and_failures_report_it() {
    let world = world_failing_first(usize::MAX, || status(503)).await;
    let outcome = call(&world, "look", json!({})).await;
    assert_eq!(world.count_calls(), 3);
    let failure = outcome.error.unwrap();
    assert!(failure.message.ends_with(" (tried 3 times)"), "{}", failure.message);
    register(&world, json!({"retries": 0})).await;
    let outcome = call(&world, "look", json!({})).await;
    assert_eq!(world.count_calls(), 4);
    assert!(!outcome.error.unwrap().message.contains("tried"));
}

#[tokio::test]
async fn retry_after_is_honoured_within_the_deadline() {
    let world = world_failing_first(1, || status(429).with("Retry-After", "1")).await;
    let start = Instant::now();
    assert_eq!(call(&world, "look", json!({})).await.error, None);
    assert!(Duration::from_secs(1) <= start.elapsed());
    for wished in ["60", "18446744073709551615"] {
        let world = world_failing_first(1, move || status(503).with("Retry-After", wished)).await;
        let start = Instant::now();
        let failure = call(&world, "look", json!({})).await.error.unwrap();
        assert_eq!((world.count_calls(), failure.retry_after), (1, wished.parse().ok()));
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn retries_do_not_multiply_the_load_of_an_outage() {
    let world = world_failing_first(usize::MAX, || status(502)).await;
    let source = "pets".parse().unwrap();
    for who in 0..100 {
        let view = world.crib.view(&agent(&format!("agent-{who}")));
        drop(view.call("look", Map::new()).await.unwrap());
        // Reset the breaker, which would otherwise open before the retry budget shows.
        world.crib.reset_gate(&source);
    }
    let calls = world.count_calls();
    assert!((115..=123).contains(&calls), "{calls}");
    let retries = world.crib.gate_state(&source).unwrap().retries;
    assert_eq!(usize::try_from(retries).unwrap(), calls - 100);
}

#[tokio::test]
async fn every_attempt_passes_breaker_and_rate_limit() {
    // Ten successes add two retries to the initial budget of three.
    let asked = AtomicUsize::new(0);
    let world =
        World::with(move |_: &ReceivedRequest| match asked.fetch_add(1, Ordering::Relaxed) < 10 {
            true => status(200),
            false => status(503),
        })
        .await;
    register(&world, json!({"retries": 5})).await;
    for _ in 0..10 {
        assert_eq!(call(&world, "look", json!({})).await.error, None);
    }
    let outcome = call(&world, "look", json!({})).await;
    assert_eq!(code(&outcome), Some(ErrorCode::UpstreamError), "which says more");
    assert_eq!(world.count_calls(), 10 + 5, "after five failures it is left alone");
    assert_eq!(code(&call(&world, "look", json!({})).await), Some(ErrorCode::CircuitOpen));

    let world = world_failing_first(usize::MAX, || status(503)).await;
    register(&world, json!({"per_agent": {"per_minute": 1, "burst": 2}})).await;
    let outcome = call(&world, "look", json!({})).await;
    assert_eq!((world.count_calls(), code(&outcome)), (2, Some(ErrorCode::UpstreamError)));
}

#[tokio::test]
async fn all_attempts_share_one_deadline_and_an_agent_may_set_a_shorter_one() {
    let world =
        world_failing_first(usize::MAX, || Reply::hangs_up().after(Duration::from_millis(700)))
            .await;
    register(&world, json!({"timeout": 1, "retries": 5})).await;
    let start = Instant::now();
    let outcome = call(&world, "look", json!({})).await;
    assert!(start.elapsed() < Duration::from_millis(1_600), "{:?}", start.elapsed());
    assert!(outcome.error.is_some() && world.count_calls() <= 2);

    let world =
        world_failing_first(usize::MAX, || status(200).after(Duration::from_secs(20))).await;
    let view = world.crib.view(&agent("ada")).with_client_timeout(Some(Duration::from_millis(200)));
    for _ in 0..6 {
        let outcome = view.call("look", Map::new()).await.unwrap();
        assert_eq!(code(&outcome), Some(ErrorCode::UpstreamTimeout));
    }
    let gate = world.crib.gate_state(&"pets".parse().unwrap()).unwrap();
    assert_eq!(gate.breaker, "closed", "an agent in a hurry has found out nothing");
}

#[tokio::test]
async fn a_timeout_after_a_long_wait_for_a_permit_does_not_count_against_the_source() {
    let asked = AtomicUsize::new(0);
    let world =
        World::with(move |_: &ReceivedRequest| match asked.fetch_add(1, Ordering::Relaxed) < 5 {
            true => status(404).after(Duration::from_millis(2_100)),
            false => status(200).after(Duration::from_secs(20)),
        })
        .await;
    let limits = json!({"timeout": 3, "all": {"concurrent": 5}, "per_agent": {"concurrent": 10}});
    register(&world, limits).await;
    let calls = (0..10).map(|_| call(&world, "look", json!({})));
    let ended = futures_util::future::join_all(calls).await;
    let late = |outcome: &&Outcome| code(outcome) == Some(ErrorCode::UpstreamTimeout);
    assert_eq!((ended.iter().filter(late).count(), world.count_calls()), (5, 10), "{ended:?}");
    let gate = world.crib.gate_state(&"pets".parse().unwrap()).unwrap();
    assert_eq!((gate.breaker, gate.blocked_agents), ("closed", 0), "it only has much to do");
}

#[tokio::test]
async fn an_unresponsive_source_opens_the_circuit_despite_long_waits_for_permits() {
    let world = World::with(|_: &ReceivedRequest| status(200).after(Duration::from_secs(20))).await;
    let limits = json!({"timeout": 3, "all": {"concurrent": 2}, "per_agent": {"concurrent": 10}});
    register(&world, limits).await;
    let two = || futures_util::future::join_all((0..2).map(|_| call(&world, "look", json!({}))));
    // The later calls spend most of their time waiting for a concurrency permit.
    let later = async || {
        tokio::time::sleep(Duration::from_millis(900)).await;
        two().await
    };
    for _ in 0..2 {
        tokio::join!(two(), later());
    }
    assert!(5 <= world.count_calls(), "{}", world.count_calls());
    assert_eq!(world.crib.gate_state(&"pets".parse().unwrap()).unwrap().breaker, "open");
}

/// An MCP server of the modern protocol with one annotated tool, whose first calls get this reply.
async fn annotated_server(
    annotations: Value,
    times: usize,
    reply: fn() -> Reply,
) -> (World, Arc<AtomicUsize>) {
    let called = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&called);
    let world = World::with(move |asked: &ReceivedRequest| {
        let Ok(message) = serde_json::from_str::<Value>(&asked.body) else { return status(405) };
        let result = match message["method"].as_str().unwrap() {
            "server/discover" => {
                json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
            }
            "tools/list" => json!({"tools": [{"name": "look", "inputSchema": {"type": "object"},
                "annotations": annotations}]}),
            "tools/call" if count.fetch_add(1, Ordering::Relaxed) < times => return reply(),
            "tools/call" => json!({"content": []}),
            _ => return status(202),
        };
        (200, json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into()
    })
    .await;
    assert!(world.register(&json!({"settings": {"kind": "mcp"}})).await.success);
    (world, called)
}

#[tokio::test]
async fn mcp_tools_are_retried_if_annotated_as_read_only_or_idempotent() {
    for (annotations, expected) in [
        (json!({}), (1, false)),
        (json!({"readOnlyHint": false, "idempotentHint": "true"}), (1, false)),
        (json!({"readOnlyHint": true}), (3, true)),
        (json!({"idempotentHint": true, "destructiveHint": true}), (3, true)),
    ] {
        for reply in [
            Reply::hangs_up as fn() -> Reply,
            || status(503),
            || status(503).with("Retry-After", "0"),
            || status(429).with("Retry-After", "0"),
        ] {
            let (world, called) = annotated_server(annotations.clone(), 2, reply).await;
            let outcome = world.call("ada", "look").await;
            let came = (called.load(Ordering::Relaxed), outcome.error.is_none());
            assert_eq!(came, expected, "{annotations} {:?} {:?}", reply(), outcome.error);
        }
    }
    for reply in [(|| status(400)) as fn() -> Reply, || status(429)] {
        let (world, called) = annotated_server(json!({"readOnlyHint": true}), 2, reply).await;
        assert!(world.call("ada", "look").await.error.is_some());
        assert_eq!(called.load(Ordering::Relaxed), 1, "{:?}", reply());
    }
}

#[tokio::test]
async fn the_retry_after_of_an_overloaded_mcp_server_is_reported() {
    let (harmless, all_else) = (json!({"readOnlyHint": true}), json!({}));
    for (annotations, reply, expected) in [
        (
            &all_else,
            (|| status(503).with("Retry-After", "300")) as fn() -> Reply,
            (true, Some(300)),
        ),
        (&all_else, || status(429).with("Retry-After", "300"), (true, Some(300))),
        (&harmless, || status(429).with("Retry-After", "300"), (true, Some(300))),
        (&all_else, || status(429), (true, None)),
        (&all_else, || status(502), (false, None)),
        (&harmless, || status(502), (true, None)),
        (&harmless, || status(400).with("Retry-After", "300"), (false, None)),
    ] {
        let (world, called) = annotated_server(annotations.clone(), usize::MAX, reply).await;
        let failure = world.call("ada", "look").await.error.unwrap();
        assert_eq!(failure.code, ErrorCode::UpstreamError, "{:?}", reply());
        assert_eq!((failure.retryable, failure.retry_after), expected, "{:?}", reply());
        let is_asked_once = failure.retry_after.is_some();
        assert!(!is_asked_once || called.load(Ordering::Relaxed) == 1, "there is no time for that");
    }
}
