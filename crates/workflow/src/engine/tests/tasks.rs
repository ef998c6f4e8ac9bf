//! Each task of the DSL.

use std::time::Duration;

use model::ErrorCode;
use serde_json::{Value, json};

use super::world::{World, done, workflow};

#[tokio::test]
async fn call_passes_arguments_and_returns_the_result() {
    let world = World::new();
    let tasks = json!([{"one": {"call": "echo", "with": {"n": "${ .n + 1 }", "deep": [{"a": "${ .n }"}], "x": "text"}}}]);
    let result = world.run(&workflow(tasks), json!({"n": 1})).await;
    let expected = json!({"n": 2, "deep": [{"a": 1}], "x": "text"});
    assert_eq!(result, Ok(expected.clone()));
    assert_eq!(world.called(), [("echo".to_owned(), expected)]);
    assert_eq!(*world.steps.lock().unwrap(), ["1 one"]);
}

#[tokio::test]
async fn arguments_may_be_an_expression_that_returns_an_object() {
    let tasks = json!([{"one": {"call": "echo", "with": "${ {a: .n} }"}}]);
    assert_eq!(done(tasks, json!({"n": 1})).await, Ok(json!({"a": 1})));
    let tasks = json!([{"one": {"call": "echo", "with": "${ .n }"}}]);
    let fault = done(tasks, json!({"n": 1})).await.unwrap_err();
    assert_eq!(fault.detail.as_deref(), Some("the arguments of a tool are an object"));
}

#[tokio::test]
async fn a_tool_that_is_not_granted_is_not_found() {
    let tasks = json!([{"one": {"call": "secret"}}]);
    let fault = done(tasks, json!({})).await.unwrap_err();
    assert_eq!((fault.status, fault.instance.as_str()), (404, "/do/0/one"));
    let failure = fault.into_failure();
    assert_eq!(failure.code, ErrorCode::NotGranted);
    assert_eq!(failure.message, "Tool not found: secret (at /do/0/one)");
}

#[tokio::test]
async fn do_runs_one_task_after_the_other() {
    let tasks = json!([
        {"all": {"do": [
            {"a": {"set": {"n": "${ .n + 1 }"}}},
            {"b": {"set": {"n": "${ .n * 10 }"}}},
        ]}},
        {"c": {"set": {"n": "${ .n + 1 }"}}},
    ]);
    assert_eq!(done(tasks, json!({"n": 1})).await, Ok(json!({"n": 21})));
}

#[tokio::test]
async fn set_replaces_the_value() {
    let tasks = json!([{"a": {"set": {"b": "${ .a }", "c": null}}}]);
    assert_eq!(done(tasks, json!({"a": 1})).await, Ok(json!({"b": 1, "c": null})));
    let tasks = json!([{"a": {"set": "${ . + {b: 2} }"}}]);
    assert_eq!(done(tasks, json!({"a": 1})).await, Ok(json!({"a": 1, "b": 2})));
}

#[tokio::test]
async fn switch_follows_the_first_case_that_holds() {
    let tasks = json!([
        {"which": {"switch": [
            {"other": {"then": "other"}},
            {"small": {"when": ".n < 10", "then": "small"}},
            {"big": {"when": "${ .n < 100 }", "then": "big"}},
        ]}},
        {"small": {"set": {"is": "small"}, "then": "end"}},
        {"big": {"set": {"is": "big"}, "then": "exit"}},
        {"other": {"set": {"is": "other"}}},
    ]);
    for (n, is) in [(1, "small"), (50, "big"), (500, "other")] {
        assert_eq!(done(tasks.clone(), json!({"n": n})).await, Ok(json!({"is": is})));
    }
    let none = json!([
        {"which": {"switch": [{"a": {"when": "false", "then": "end"}}]}},
        {"next": {"set": {"is": "next"}}},
    ]);
    assert_eq!(done(none, json!({})).await, Ok(json!({"is": "next"})));
}

#[tokio::test]
async fn for_passes_the_output_of_each_iteration_to_the_next() {
    let tasks = json!([{"all": {
        "for": {"each": "pet", "in": ".pets", "at": "place"},
        "do": [{"add": {"set": {"pets": "${ .pets }", "names": "${ (.names // []) + [\"\\($place) \\($pet.name)\"] }"}}}],
        "output": {"as": ".names"},
    }}]);
    let pets = json!({"pets": [{"name": "Rex"}, {"name": "Tom"}]});
    assert_eq!(done(tasks, pets).await, Ok(json!(["0 Rex", "1 Tom"])));
}

#[tokio::test]
async fn for_can_name_its_variables_and_stops_when_its_condition_fails() {
    let tasks = json!([{"all": {
        "for": {"in": "[range(10)]"},
        "while": "$index < 3 and .sum < 100",
        "do": [{"add": {"set": {"sum": "${ .sum + $item }"}}}],
    }}]);
    assert_eq!(done(tasks, json!({"sum": 0})).await, Ok(json!({"sum": 3})));
    let none = json!([{"all": {"for": {"in": "[]"}, "do": [{"a": {"set": {"x": 1}}}]}}]);
    assert_eq!(done(none, json!({"same": 1})).await, Ok(json!({"same": 1})));
    let wrong = json!([{"all": {"for": {"in": ".n"}, "do": [{"a": {"set": {"x": 1}}}]}}]);
    let fault = done(wrong, json!({"n": 1})).await.unwrap_err();
    assert_eq!(fault.detail.as_deref(), Some("`for` needs a list to go through"));
}

#[tokio::test]
async fn loop_variables_exist_only_inside_the_loop() {
    let document = json!([
        {"all": {"for": {"in": "[1]"}, "do": [{"a": {"set": {"x": "${ $item }"}}}]}},
        {"b": {"set": {"x": "${ $item }"}}},
    ]);
    let document = json!({
        "document": {"dsl": "1.0.0", "namespace": "test", "name": "one", "version": "1.0.0"},
        "do": document,
    });
    let error = crate::Workflow::from_document(&document).unwrap_err().to_string();
    assert_eq!(error, "/do/1/b/set/x: there is no variable `$item` here");
}

#[tokio::test]
async fn fork_returns_outputs_in_the_order_of_its_branches() {
    let tasks = json!([{"both": {"fork": {"branches": [
        {"a": {"call": "echo", "with": {"a": "${ .n }"}}},
        {"b": {"do": [{"c": {"call": "echo", "with": {"b": "${ .n }"}}}]}},
    ]}}}]);
    assert_eq!(done(tasks, json!({"n": 1})).await, Ok(json!([{"a": 1}, {"b": 1}])));
}

#[tokio::test]
async fn branches_run_concurrently() {
    // A branch that never ends does not delay the failure of the other.
    let tasks = json!([{"both": {"fork": {"branches": [
        {"a": {"call": "never"}},
        {"b": {"call": "broken"}},
    ]}}}]);
    assert_eq!(done(tasks, json!({})).await.unwrap_err().status, 503);
}

#[tokio::test]
async fn the_first_successful_branch_of_a_competing_fork_wins() {
    let tasks = json!([{"both": {"fork": {"compete": true, "branches": [
        {"a": {"call": "never"}},
        {"b": {"call": "broken"}},
        {"c": {"call": "echo", "with": {"won": true}}},
    ]}}}]);
    assert_eq!(done(tasks, json!({})).await, Ok(json!({"won": true})));
    let none = json!([{"both": {"fork": {"compete": true, "branches": [
        {"a": {"call": "broken"}}, {"b": {"call": "broken"}},
    ]}}}]);
    assert_eq!(done(none, json!({})).await.unwrap_err().status, 503);
}

#[tokio::test]
async fn wait_sleeps_and_keeps_the_value() {
    let world = World::new();
    let tasks =
        json!([{"a": {"wait": {"seconds": 3, "milliseconds": 500}}}, {"b": {"wait": "PT2S"}}]);
    assert_eq!(world.run(&workflow(tasks), json!({"n": 1})).await, Ok(json!({"n": 1})));
    let waited = world.waited.lock().unwrap().clone();
    assert_eq!(waited, [Duration::from_millis(3_500), Duration::from_secs(2)]);
}

#[tokio::test]
async fn raise_ends_the_workflow_with_an_error() {
    let tasks = json!([{"a": {"raise": {"error": {
        "type": "https://example.com/errors/stock", "status": 409,
        "title": "${ \"no \\(.what) left\" }", "detail": "come back later",
    }}}}]);
    let fault = done(tasks, json!({"what": "pizza"})).await.unwrap_err();
    assert_eq!((fault.kind.as_str(), fault.status), ("https://example.com/errors/stock", 409));
    let failure = fault.into_failure();
    assert_eq!(failure.code, ErrorCode::BuiltinError);
    assert_eq!(failure.message, "no pizza left: come back later (at /do/0/a)");
}

fn attempt(steps: Value, catch: Value) -> Value {
    json!([{"try": {"try": steps, "catch": catch}}])
}

#[tokio::test]
async fn try_catches_an_error_and_runs_the_catch_steps() {
    let steps = json!([{"a": {"call": "broken"}}]);
    let handled = json!({"as": "why", "do": [{"b": {"set": {"status": "${ $why.status }", "at": "${ $why.instance }", "n": "${ .n }"}}}]});
    let expected = json!({"status": 503, "at": "/do/0/try/try/0/a", "n": 1});
    assert_eq!(done(attempt(steps.clone(), handled), json!({"n": 1})).await, Ok(expected));
    let passed = json!({});
    assert_eq!(done(attempt(steps, passed), json!({"n": 1})).await, Ok(json!({"n": 1})));
}

#[tokio::test]
async fn try_catches_only_matching_errors() {
    let steps = json!([{"a": {"call": "broken"}}]);
    let handled = json!([{"b": {"set": {"caught": true}}}]);
    let kind = "https://serverlessworkflow.io/spec/1.0.0/errors/communication";
    for (catch, is_caught) in [
        (json!({"errors": {"with": {"status": 503}}}), true),
        (json!({"errors": {"with": {"status": 503, "type": kind}}}), true),
        (json!({"errors": {"with": {"status": 500}}}), false),
        (json!({"errors": {"with": {"instance": "/do/0/try/try/0/a"}}}), true),
        (json!({"when": "$error.status >= 500"}), true),
        (json!({"when": "$error.status < 500"}), false),
        (json!({"exceptWhen": "$error.title == \"it is down\""}), false),
        (json!({"exceptWhen": "$error.title == \"else\""}), true),
    ] {
        let mut catch = catch;
        catch["do"] = handled.clone();
        let result = done(attempt(steps.clone(), catch.clone()), json!({})).await;
        assert_eq!(result.is_ok(), is_caught, "{catch}");
    }
}

#[tokio::test]
async fn try_retries_with_growing_delays() {
    let seconds = |seconds: &[u64]| -> Vec<Duration> {
        seconds.iter().map(|it| Duration::from_secs(*it)).collect()
    };
    for (backoff, expected) in [
        (json!({}), seconds(&[2, 2, 2])),
        (json!({"constant": {}}), seconds(&[2, 2, 2])),
        (json!({"linear": {}}), seconds(&[2, 4, 6])),
        (json!({"exponential": {}}), seconds(&[2, 4, 8])),
    ] {
        let world = World::new();
        *world.failures.lock().unwrap() = 3;
        let retry = json!({"delay": {"seconds": 2}, "backoff": backoff, "limit": {"attempt": {"count": 3}}});
        let tasks = attempt(json!([{"a": {"call": "flaky"}}]), json!({"retry": retry}));
        assert_eq!(world.run(&workflow(tasks), json!({})).await, Ok(json!("at last")));
        assert_eq!(*world.waited.lock().unwrap(), expected);
        assert_eq!(world.called().len(), 4);
    }
}

#[tokio::test]
async fn an_error_remains_after_the_last_retry() {
    let world = World::new();
    let retry = json!({"limit": {"attempt": {"count": 2}}});
    let steps = json!([{"a": {"call": "broken"}}]);
    let again = workflow(attempt(steps.clone(), json!({"retry": retry})));
    assert_eq!(world.run(&again, json!({})).await.unwrap_err().status, 503);
    assert_eq!(world.called().len(), 3);
    let handled = json!({"retry": retry, "do": [{"b": {"set": {"gave": "up"}}}]});
    assert_eq!(done(attempt(steps, handled), json!({})).await, Ok(json!({"gave": "up"})));
}

#[tokio::test]
async fn the_retry_policy_can_rule_out_a_retry() {
    for (retry, calls) in [
        (json!({"when": "$error.status == 404"}), 1),
        (json!({"exceptWhen": "$error.status == 503"}), 1),
        (json!({"limit": {"duration": {"seconds": 5}}, "delay": {"seconds": 2}}), 3),
        (json!({"limit": {"attempt": {"count": 0}}}), 1),
        (json!({"delay": {"days": 1}}), 1),
    ] {
        let world = World::new();
        let tasks = attempt(json!([{"a": {"call": "broken"}}]), json!({"retry": retry}));
        assert!(world.run(&workflow(tasks), json!({})).await.is_err());
        assert_eq!(world.called().len(), calls, "{retry}");
    }
}

#[tokio::test]
async fn a_task_that_exceeds_its_timeout_is_stopped() {
    let world = World::new();
    let tasks = json!([{"a": {"call": "slow", "timeout": {"after": {"minutes": 2}}}}]);
    let fault = world.run(&workflow(tasks), json!({})).await.unwrap_err();
    // The hour that passed exceeds both timeouts.
    assert_eq!((fault.status, fault.into_failure().code), (408, ErrorCode::UpstreamTimeout));
    assert_eq!(*world.within.lock().unwrap(), [Duration::from_secs(120)]);
}

#[tokio::test]
async fn a_timeout_can_be_caught_like_any_error() {
    let mut world = World::new();
    world.time = Duration::from_secs(86_400);
    let steps = json!([{"a": {"call": "slow", "timeout": {"after": "PT2M"}}}]);
    let catch =
        json!({"errors": {"with": {"status": 408}}, "do": [{"b": {"set": {"late": true}}}]});
    let result = world.run(&workflow(attempt(steps, catch)), json!({})).await;
    assert_eq!(result, Ok(json!({"late": true})));
}

#[tokio::test]
async fn if_skips_a_task() {
    let tasks = json!([
        {"a": {"if": ".n > 1", "set": {"n": 100}, "then": "end"}},
        {"b": {"set": {"n": "${ .n + 1 }"}}},
    ]);
    assert_eq!(done(tasks.clone(), json!({"n": 1})).await, Ok(json!({"n": 2})));
    assert_eq!(done(tasks, json!({"n": 2})).await, Ok(json!({"n": 100})));
}

#[tokio::test]
async fn then_continues_at_another_task() {
    let tasks = json!([
        {"a": {"set": {"at": ["a"]}, "then": "c"}},
        {"b": {"set": "${ {at: (.at + [\"b\"])} }", "then": "end"}},
        {"c": {"set": "${ {at: (.at + [\"c\"])} }", "then": "b"}},
    ]);
    assert_eq!(done(tasks, json!({})).await, Ok(json!({"at": ["a", "c", "b"]})));
    let inside = json!([
        {"a": {"do": [{"b": {"set": {"n": 1}, "then": "exit"}}, {"c": {"set": {"n": 2}}}]}},
        {"d": {"set": "${ {n: (.n + 10)} }"}},
    ]);
    assert_eq!(done(inside, json!({})).await, Ok(json!({"n": 11})));
    let over = json!([
        {"a": {"for": {"in": "[1, 2]"}, "do": [{"b": {"set": {"n": "${ $item }"}, "then": "end"}}]}},
        {"d": {"set": "${ {n: (.n + 10)} }"}},
    ]);
    assert_eq!(done(over, json!({})).await, Ok(json!({"n": 1})));
}
