//! Data flow: transformations of inputs and outputs, and the variables of expressions.

use serde_json::{Value, json};

use super::world::{World, done, read};

fn document(mut members: Value) -> Value {
    members["document"] =
        json!({"dsl": "1.0.0", "namespace": "test", "name": "one", "version": "1.0.0"});
    members
}

#[tokio::test]
async fn the_workflow_transforms_its_input_and_output() {
    let workflow = read(document(json!({
        "input": {"from": ".order"},
        "do": [{"a": {"set": {"got": "${ . }", "raw": "${ $workflow.input }"}}}],
        "output": {"as": "{result: .got, raw, context: $context}"},
    })));
    let result = World::new().run(&workflow, json!({"order": {"id": 7}, "more": 1})).await;
    let expected =
        json!({"result": {"id": 7}, "raw": {"order": {"id": 7}, "more": 1}, "context": {"id": 7}});
    assert_eq!(result, Ok(expected));
}

#[tokio::test]
async fn a_task_transforms_its_input_and_output() {
    let tasks = json!([
        {"a": {
            "input": {"from": {"x": "${ .n }", "kept": "as it is"}},
            "call": "echo", "with": {"seen": "${ . }", "same": "${ $input }"},
            "output": {"as": "{answer: ., before: $input.x, raw: $task.output.seen.x, was: $task.input}"},
        }},
    ]);
    let input = json!({"x": 1, "kept": "as it is"});
    let expected = json!({
        "answer": {"seen": input, "same": input}, "before": 1, "raw": 1, "was": {"n": 1},
    });
    assert_eq!(done(tasks, json!({"n": 1})).await, Ok(expected));
}

#[tokio::test]
async fn the_export_of_a_task_is_the_context_of_later_tasks() {
    let tasks = json!([
        {"a": {"set": {"n": 1}, "export": {"as": "{first: .n, out: $output.n, input: $input.m}"}}},
        {"b": {"set": {"n": 2}, "export": {"as": "$context + {second: .n}"}}},
        {"c": {"do": [{"d": {"set": {"n": 3}, "export": {"as": "$context + {third: .n}"}}}]}},
        {"e": {"set": "${ $context }"}},
    ]);
    let expected = json!({"first": 1, "out": 1, "input": 5, "second": 2, "third": 3});
    assert_eq!(done(tasks, json!({"m": 5})).await, Ok(expected));
}

#[tokio::test]
async fn the_export_of_a_branch_stays_in_the_branch() {
    let tasks = json!([
        {"a": {"fork": {"branches": [
            {"b": {"do": [
                {"c": {"set": {"n": 1}, "export": {"as": "{inside: true}"}}},
                {"d": {"set": "${ $context }"}},
            ]}},
            {"e": {"set": "${ $context }"}},
        ]}}},
        {"f": {"set": {"branches": "${ . }", "context": "${ $context }"}}},
    ]);
    let expected = json!({"branches": [{"inside": true}, {"m": 1}], "context": {"m": 1}});
    assert_eq!(done(tasks, json!({"m": 1})).await, Ok(expected));
}

#[tokio::test]
async fn expressions_can_read_task_workflow_and_runtime() {
    let tasks = json!([{"outer": {"do": [{"inner": {"set": {
        "name": "${ $task.name }",
        "at": "${ $task.reference }",
        "definition": "${ $task.definition | keys }",
        "started": "${ $task.startedAt.epoch.seconds }",
        "iso": "${ $workflow.startedAt.iso8601 }",
        "milliseconds": "${ $workflow.startedAt.epoch.milliseconds }",
        "run": "${ $workflow.id }",
        "workflow": "${ $workflow.definition.document.name }",
        "runtime": "${ $runtime.name }",
    }}}]}}]);
    let expected = json!({
        "name": "inner",
        "at": "/do/0/outer/do/0/inner",
        "definition": ["set"],
        "started": 1_700_000_000,
        "iso": "2023-11-14T22:13:20Z",
        "milliseconds": 1_700_000_000_000_i64,
        "run": "run-1",
        "workflow": "one",
        "runtime": "toolcrib",
    });
    assert_eq!(done(tasks, json!({})).await, Ok(expected));
}

#[tokio::test]
async fn a_failing_expression_is_an_error_that_can_be_caught() {
    let tasks = json!([{"a": {"set": {"n": "${ .n + \"x\" }"}}}]);
    let fault = done(tasks.clone(), json!({"n": 1})).await.unwrap_err();
    assert_eq!(fault.kind, "https://serverlessworkflow.io/spec/1.0.0/errors/expression");
    assert_eq!((fault.status, fault.instance.as_str()), (400, "/do/0/a"));
    assert_eq!(fault.detail.as_deref(), Some("cannot calculate 1 + \"x\""));
    let caught = json!([{"t": {"try": tasks, "catch": {"do": [{"b": {"set": {"ok": true}}}]}}}]);
    assert_eq!(done(caught, json!({"n": 1})).await, Ok(json!({"ok": true})));
}
