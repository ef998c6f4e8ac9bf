//! A run that does not end by itself is stopped, whatever its tasks do.

use std::time::Duration;

use serde_json::{Value, json};

use super::world::{World, done, read, workflow};
use crate::WorkflowFault;

fn title(result: Result<Value, WorkflowFault>) -> String {
    let fault = result.unwrap_err();
    assert!(fault.is_final, "{fault:?}");
    fault.title
}

/// Tasks inside a `try` that catches every error.
fn caught(tasks: Value) -> Value {
    json!([{"try": {"try": tasks, "catch": {"retry": {}, "do": [{"x": {"set": {"caught": true}}}]}}}])
}

#[tokio::test]
async fn a_workflow_has_a_step_limit() {
    let tasks = json!([{"a": {"set": {"n": 1}}}, {"b": {"set": {"n": 2}, "then": "a"}}]);
    assert_eq!(
        title(done(caught(tasks), json!({})).await),
        "the workflow has made more steps than it may"
    );
}

#[tokio::test]
async fn loops_have_an_iteration_limit() {
    let tasks = json!([{"a": {
        "for": {"in": "[range(5001)]"},
        "do": [{"b": {"if": "false", "set": {"n": 1}}}],
    }}]);
    let result = done(caught(tasks), json!({})).await;
    assert_eq!(title(result), "the workflow has gone round more often than it may");
}

#[tokio::test]
async fn a_workflow_has_a_data_limit() {
    let tasks = json!([{"a": {"call": "large"}}, {"b": {"wait": {}, "then": "a"}}]);
    let world = World::new();
    let result = world.run(&workflow(caught(tasks)), json!({})).await;
    assert_eq!(title(result), "the workflow has made more data than it may");
    assert!(world.called().len() as u64 <= crate::MAX_RUN_DATA >> 20, "{}", world.called().len());
}

#[tokio::test]
async fn expressions_have_a_work_limit() {
    let tasks = json!([{"a": {"set": {"n": "${ [range(100000)] | length }"}, "then": "a"}}]);
    let result = done(caught(tasks), json!({})).await;
    assert_eq!(title(result), "the workflow has made expressions do more work than it may");
    let once = json!([{"a": {"set": {"n": "${ [range(1e15)] | length }"}}}]);
    let fault = done(once, json!({})).await.unwrap_err();
    assert_eq!(fault.detail.as_deref(), Some("it takes too much work"));
}

#[tokio::test]
async fn a_workflow_has_a_time_limit() {
    let tasks = json!([{"a": {"call": "slow"}}]);
    let result = done(caught(tasks.clone()), json!({})).await;
    assert_eq!(title(result), "the workflow took longer than it may");
    let document = json!({"dsl": "1.0.0", "namespace": "test", "name": "one", "version": "1.0.0"});
    let own =
        read(json!({"document": document, "timeout": {"after": "PT3M"}, "do": caught(tasks)}));
    let world = World::new();
    assert_eq!(title(world.run(&own, json!({})).await), "the task took longer than its timeout");
    assert_eq!(*world.within.lock().unwrap(), [Duration::from_secs(180)]);
}

#[tokio::test]
async fn a_dropped_run_calls_no_more_tools() {
    let world = World::new();
    let tasks = workflow(json!([{"a": {"call": "never"}}, {"b": {"call": "echo"}}]));
    let run = world.run(&tasks, json!({}));
    let mut run = std::pin::pin!(run);
    while world.called().is_empty() {
        let waiting =
            futures_util::future::select(run.as_mut(), Box::pin(tokio::task::yield_now()));
        drop(waiting.await);
    }
    assert_eq!(world.called().len(), 1);
}
