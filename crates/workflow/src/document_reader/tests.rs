//! The reader rejects unsupported and wrong parts of a document by name, with their JSON pointers.

use serde_json::{Value, json};

use crate::Workflow;

fn document(mut members: Value) -> Value {
    if members.get("document").is_none() {
        members["document"] =
            json!({"dsl": "1.0.0", "namespace": "test", "name": "one", "version": "1.0.0"});
    }
    members
}

fn problems(members: Value) -> Vec<String> {
    let invalid = Workflow::from_document(&document(members)).unwrap_err();
    invalid.problems.iter().map(ToString::to_string).collect()
}

fn problems_of(task: Value) -> Vec<String> {
    problems(json!({"do": [{"a": task}]}))
}

#[test]
fn the_reader_keeps_the_document_metadata() {
    let workflow = Workflow::from_document(&json!({
        "document": {
            "dsl": "1.0.1", "namespace": "test", "name": "order", "version": "1.0.0",
            "title": "Order", "summary": "Orders a pizza", "tags": {"team": "kitchen"},
            "metadata": {"anything": [1]},
        },
        "evaluate": {"language": "jq", "mode": "strict"},
        "input": {"schema": {"format": "json", "document": {"type": "object"}}},
        "output": {"schema": {"document": {"type": "object", "properties": {}}}},
        "use": {"timeouts": {"short": {"after": "PT1S"}}, "retries": {}, "errors": {}},
        "timeout": "short",
        "do": [{"a": {"call": "echo", "metadata": {"x": 1}}}],
    }));
    let workflow = workflow.unwrap();
    assert_eq!((&*workflow.name, workflow.title.as_deref()), ("order", Some("Order")));
    assert_eq!(workflow.summary.as_deref(), Some("Orders a pizza"));
    assert_eq!(workflow.tags, ["team=kitchen".into()]);
    assert_eq!(workflow.input_schema, Some(json!({"type": "object"})));
    assert_eq!(workflow.timeout, Some(std::time::Duration::from_secs(1)));
    assert_eq!(workflow.tool_names().into_iter().collect::<Vec<_>>(), ["echo"]);
}

#[test]
fn unsupported_parts_of_the_dsl_are_rejected_by_name() {
    let elsewhere = "credentials are those of the tools' sources";
    for (members, expected) in [
        (json!({"schedule": {"every": "PT1S"}}), "/schedule: `schedule` of the DSL is not supported: a tool is run when it is called".to_owned()),
        (json!({"use": {"secrets": []}}), format!("/use/secrets: `secrets` of the DSL is not supported: {elsewhere}")),
        (json!({"use": {"authentications": {}}}), format!("/use/authentications: `authentications` of the DSL is not supported: {elsewhere}")),
        (json!({"use": {"functions": {}}}), "/use/functions: `functions` of the DSL is not supported: functions are the tools that were granted".to_owned()),
        (json!({"use": {"catalogs": {}}}), "/use/catalogs: `catalogs` of the DSL is not supported: functions are the tools that were granted".to_owned()),
        (json!({"use": {"extensions": []}}), "/use/extensions: `extensions` of the DSL is not supported: write the tasks where they are to be run".to_owned()),
        (json!({"evaluate": {"language": "js"}}), "/evaluate/language: `js` is not supported, only `jq`".to_owned()),
        (json!({"evaluate": {"mode": "loose"}}), "/evaluate/mode: `loose` is not supported, only `strict`".to_owned()),
        (json!({"input": {"schema": {"resource": {}}}}), "/input/schema/resource: `resource` of the DSL is not supported: write the schema as `document`, nothing is fetched".to_owned()),
    ] {
        let mut members = members;
        members["do"] = json!([{"a": {"wait": "PT1S"}}]);
        let problems = problems(members);
        assert!(problems.contains(&expected), "{problems:?}");
    }
}

#[test]
fn unsupported_tasks_are_rejected_by_name() {
    for (task, expected) in [
        (
            json!({"emit": {"event": {}}}),
            "/do/0/a/emit: `emit` of the DSL is not supported: there are no events here",
        ),
        (
            json!({"listen": {"to": {}}}),
            "/do/0/a/listen: `listen` of the DSL is not supported: there are no events here",
        ),
        (
            json!({"run": {"shell": {"command": "id"}}}),
            "/do/0/a/run: `run` of the DSL is not supported: nothing is started here; to run a workflow, `call` its tool",
        ),
        (
            json!({"call": "http", "with": {}}),
            "/do/0/a/call: `http` of the DSL is not supported: register what it calls as a source, and call its tool",
        ),
        (
            json!({"call": "grpc"}),
            "/do/0/a/call: `grpc` of the DSL is not supported: register what it calls as a source, and call its tool",
        ),
        (
            json!({"call": "log:1.0.0@default"}),
            "/do/0/a/call: catalogs of the DSL are not supported: call a tool",
        ),
        (json!({"call": "${ .tool }"}), "/do/0/a/call: the name of a tool is no expression"),
        (
            json!({"wait": "PT1S", "input": {"schema": {}}}),
            "/do/0/a/input/schema: `schema` of the DSL is not supported: only the document's own `input` and `output` have schemas",
        ),
        (
            json!({"try": [{"b": {"wait": "PT1S"}}], "catch": {"retry": {"jitter": {}}}}),
            "/do/0/a/catch/retry/jitter: `jitter` of the DSL is not supported: write a `delay` and a `backoff`",
        ),
        (
            json!({"try": [{"b": {"wait": "PT1S"}}], "catch": {"retry": {"limit": {"attempt": {"duration": "PT1S"}}}}}),
            "/do/0/a/catch/retry/limit/attempt/duration: `duration` of the DSL is not supported: give the task a `timeout`, or the limit a `duration`",
        ),
    ] {
        assert_eq!(problems_of(task), [expected]);
    }
}

#[test]
fn unknown_and_invalid_fields_are_rejected_with_their_path() {
    for (task, expected) in [
        (json!({"call": "x", "wiht": {}}), "/do/0/a/wiht: there is no `wiht` here"),
        (
            json!({"metadata": {}}),
            "/do/0/a: the task does nothing: it needs one of call, for, try, fork, switch, set, wait, raise, do",
        ),
        (
            json!({"wait": "soon"}),
            "/do/0/a/wait: this must be a duration, like `{seconds: 3}` or `PT3S`",
        ),
        (
            json!({"wait": {"seconds": -1}}),
            "/do/0/a/wait/seconds: this must be a number without a sign",
        ),
        (json!({"wait": {"weeks": 1}}), "/do/0/a/wait/weeks: there is no `weeks` here"),
        (
            json!({"wait": "PT1S", "then": "b"}),
            "/do/0/a/then: there is no task `b` in the same list",
        ),
        (json!({"wait": "PT1S", "if": 1}), "/do/0/a/if: this must be a text"),
        (
            json!({"wait": "PT1S", "if": ".a |"}),
            "/do/0/a/if: this is not jq: expected term at the end",
        ),
        (
            json!({"wait": "PT1S", "timeout": "short"}),
            "/do/0/a/timeout: there is no `short` under `/use/timeouts`",
        ),
        (
            json!({"set": {"x": "Hello ${ .name }!"}}),
            "/do/0/a/set/x: an expression is the whole of a text: write `${ \"… \\(.name) …\" }`",
        ),
        (
            json!({"set": {"x": ["${ $secrets.a }"]}}),
            "/do/0/a/set/x/0: there is no variable `$secrets` here",
        ),
        (
            json!({"set": {"a/b": "${ $output }"}}),
            "/do/0/a/set/a~1b: there is no variable `$output` here",
        ),
        (json!({"set": 1}), "/do/0/a/set: this is neither an expression nor an object"),
        (
            json!({"call": "x", "with": [1]}),
            "/do/0/a/with: arguments are an object, or an expression that gives one",
        ),
        (json!({"call": 1}), "/do/0/a/call: this must be a text"),
        (json!({"switch": [{"x": {"when": "true"}}]}), "/do/0/a/switch/0/x: `then` is missing"),
        (
            json!({"switch": [{"x": {"then": "end"}}, {"y": {"then": "end"}}]}),
            "/do/0/a/switch/1/y: only one case may be without `when`",
        ),
        (
            json!({"for": {"each": "x"}, "do": [{"b": {"wait": "PT1S"}}]}),
            "/do/0/a/for: `in` is missing",
        ),
        (
            json!({"for": {"in": ".", "each": "input"}, "do": [{"b": {"wait": "PT1S"}}]}),
            "/do/0/a/for/each: `input` cannot be a variable",
        ),
        (json!({"for": {"in": "."}}), "/do/0/a: `do` is missing"),
        (json!({"try": [{"b": {"wait": "PT1S"}}]}), "/do/0/a: `catch` is missing"),
        (
            json!({"try": [{"b": {"wait": "PT1S"}}], "catch": {"retry": {"limit": {"attempt": {"count": 101}}}}}),
            "/do/0/a/catch/retry/limit/attempt/count: this must be a number up to 100",
        ),
        (json!({"raise": {"error": {"type": "x"}}}), "/do/0/a/raise/error: `status` is missing"),
        (
            json!({"raise": {"error": "gone"}}),
            "/do/0/a/raise/error: there is no `gone` under `/use/errors`",
        ),
        (json!({"do": []}), "/do/0/a/do: this must be a list with at least one entry, `- name: …`"),
        (
            json!({"do": [{"b": {"wait": "PT1S"}}, {"b": {"wait": "PT1S"}}]}),
            "/do/0/a/do/1: `b` stands here twice",
        ),
        (
            json!({"do": [{"b": {"wait": "PT1S"}, "c": {}}]}),
            "/do/0/a/do/0: this must be an object with one member, the name",
        ),
        (json!("wait"), "/do/0/a: this must be an object"),
    ] {
        assert!(
            problems_of(task.clone()).contains(&expected.to_owned()),
            "{:?}",
            problems_of(task)
        );
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let said = problems(json!({
        "document": {"dsl": "0.8", "namespace": "test", "name": "one", "version": "1.0.0", "x": 1},
        "do": [{"a": {"call": "http"}}, {"b": {"emit": {}}}],
    }));
    assert_eq!(said.len(), 4, "{said:?}");
    assert_eq!(said[1], "/document/dsl: version `0.8` of the DSL is not supported, only 1.0");
    let many: Vec<Value> = (0..50).map(|at| json!({format!("t{at}"): {"nope": 1}})).collect();
    assert_eq!(problems(json!({"do": many})).len(), 20);
    assert_eq!(problems(json!({})), ["/: `do` is missing"]);
    let nothing = Workflow::from_document(&json!([])).unwrap_err();
    assert_eq!(nothing.to_string(), "/: this must be an object");
}

#[test]
fn documents_have_size_limits() {
    let many: Vec<Value> = (0..501).map(|at| json!({format!("t{at}"): {"wait": "PT1S"}})).collect();
    let said = problems(json!({"do": many}));
    assert_eq!(said, ["/do/500/t500: the document has more than 500 tasks"]);
    let deep = (0..17).fold(json!({"wait": "PT1S"}), |inside, _| json!({"do": [{"b": inside}]}));
    let said = problems(json!({"do": [{"a": deep}]}));
    assert!(said[0].ends_with("more than 16 tasks stand inside each other"), "{said:?}");
    let long = "x".repeat(300 << 10);
    let said = problems(json!({"do": [{"a": {"set": {"x": long}}}]}));
    assert_eq!(said, ["/: the document has more than 262144 bytes"]);
    let branches = |inside: Value, number: usize| -> Value {
        let branches: Vec<Value> =
            (0..number).map(|at| json!({format!("b{at}"): inside})).collect();
        json!({"fork": {"branches": branches}})
    };
    let wide = branches(branches(json!({"wait": "PT1S"}), 9), 8);
    let said = problems(json!({"do": [{"a": wide}]}));
    assert!(said[0].ends_with("more than 64 branches would be at work at once"), "{said:?}");
    let fits = branches(branches(json!({"wait": "PT1S"}), 8), 8);
    assert!(Workflow::from_document(&document(json!({"do": [{"a": fits}]}))).is_ok());
}
