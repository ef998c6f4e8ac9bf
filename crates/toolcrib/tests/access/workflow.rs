//! Workflows as tools: declared by a source, executed with the grants of the caller.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use model::{CallStatus, ErrorCode, Outcome};
use serde_json::{Map, Value, json};
use toolcrib::{
    CallBuilder, CallFilter, CallLogOptions, CallRecorder, CallUpdate, ChangeContext, Command,
    FinalCallStatus, MemoryCallLog, RefreshResult, ToolcribOptions,
};

use crate::server::{Upstream, answer};
use crate::world::{World, agent, from_json};

const PIZZERIA: &str = include_str!("../../../../examples/pizzeria.yaml");
const EXAMPLE: &str = include_str!("../../../../examples/order.workflow.yaml");

fn document(name: &str, tasks: Value) -> Value {
    json!({
        "document": {
            "dsl": "1.0.0", "namespace": "test", "name": name, "version": "1.0.0",
            "title": "One", "summary": "Does several things",
        },
        "do": tasks,
    })
}

impl World {
    /// Registers and refreshes the source `flows` with these workflows.
    async fn register_workflows(&self, documents: &[Value]) -> RefreshResult {
        let documents: Vec<String> = documents.iter().map(Value::to_string).collect();
        let settings = json!({"kind": "workflow", "documents": documents});
        let profile = from_json(json!({"name": "Flows", "settings": settings}));
        let register = SourceCommand::Register(profile);
        self.execute(Command::Source("flows".parse().unwrap(), register)).await;
        self.refresh_workflows().await
    }

    async fn refresh_workflows(&self) -> RefreshResult {
        let refresher = self.crib.refresher();
        refresher
            .refresh(&"flows".parse().unwrap(), false, &ChangeContext::default())
            .await
            .unwrap()
    }

    /// A world in which `role: x` has every tool but those of the source `secrets`.
    async fn with_grants(upstream: &Upstream) -> Self {
        let sources: [(&str, &[&str]); 2] = [("pets", &["one", "two"]), ("secrets", &["hidden"])];
        let world = Self::with_tools_at(&upstream.url(""), &sources).await;
        world.group("pets", json!({"selectors": [{"source": "pets"}]})).await;
        world.group("flows", json!({"selectors": [{"source": "flows"}]})).await;
        world.policy("most", json!({"role": "x"}), &["pets", "flows"]).await;
        world
    }

    async fn call(&self, name: &str, arguments: Value) -> Outcome {
        let arguments = arguments.as_object().unwrap().clone();
        self.view(json!({"role": "x"})).call(name, arguments).await.unwrap()
    }
}

/// An upstream that answers with the requested path.
fn echo() -> Upstream {
    Upstream::replying(|request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        let body = json!({"path": path}).to_string();
        answer("200 OK", "content-type: application/json\r\n", body.as_bytes())
    })
}

#[tokio::test]
async fn every_document_of_a_source_is_a_tool() {
    let world = World::with_grants(&echo()).await;
    let mut order = document("order", json!([{"a": {"call": "pets__one"}}]));
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    order["input"] = json!({"schema": {"document": schema}});
    order["output"] = json!({"schema": {"document": {"properties": {"path": {}}}}});
    let result =
        world.register_workflows(&[order, document("other", json!([{"a": {"wait": {}}}]))]).await;
    assert!(result.success, "{result:?}");
    let tool = world.view(json!({"role": "x"})).find("order").unwrap();
    assert_eq!(
        (tool.id().unwrap().as_str(), &*tool.description()),
        ("flows:order", "Does several things")
    );
    assert_eq!(tool.input_schema(), schema);
    assert!(world.view(json!({"role": "x"})).find("flows__other").is_ok());
    assert!(world.view(json!({"role": "y"})).find("order").is_err());

    let outcome = world.call("order", json!({"n": 1})).await;
    assert_eq!(outcome.result, Some(json!({"path": "/one"})));
    let wrong = world.call("order", json!({"n": "x"})).await.error.unwrap();
    assert_eq!(wrong.code, ErrorCode::ValidationError);
}

#[tokio::test]
async fn documents_may_be_yaml() {
    let world = World::with_grants(&echo()).await;
    let text = "
document: {dsl: 1.0.0, namespace: test, name: both, version: 1.0.0}
do:
  - both:
      fork:
        branches:
          - first: {call: pets__one}
          - second: {call: 'pets:two'}
      output:
        as: 'map(.path) | join(\" \")'
";
    let settings = json!({"kind": "workflow", "documents": [text]});
    let profile = from_json(json!({"name": "Flows", "settings": settings}));
    let register = SourceCommand::Register(profile);
    world.execute(Command::Source("flows".parse().unwrap(), register)).await;
    assert!(world.refresh_workflows().await.success);
    assert_eq!(world.call("both", json!({})).await.result, Some(json!("/one /two")));
}

#[tokio::test]
async fn an_invalid_document_fails_the_refresh_and_reports_the_location() {
    let world = World::with_grants(&echo()).await;
    let good = document("good", json!([{"a": {"wait": {}}}]));
    let result =
        world.register_workflows(&[good, document("bad", json!([{"a": {"call": "http"}}]))]).await;
    let error = result.error.unwrap();
    assert_eq!(&*error.code, "spec_parse_failed");
    let message = error.message;
    assert!(message.starts_with("documents[1]: /do/0/a/call: `http` of the DSL"), "{message}");
    assert!(world.view(json!({"role": "x"})).find("good").is_err());

    let world = World::with_grants(&echo()).await;
    let twice = document("same", json!([{"a": {"wait": {}}}]));
    let result = world.register_workflows(&[twice.clone(), twice]).await;
    assert!(result.error.unwrap().message.contains("stands for two tools"));
}

#[tokio::test]
async fn a_step_can_call_only_tools_granted_to_its_caller() {
    let upstream = echo();
    let world = World::with_grants(&upstream).await;
    let tasks = json!([{"a": {"call": "pets__one"}}, {"b": {"call": "secrets__hidden"}}]);
    world
        .register_workflows(&[
            document("both", tasks),
            document("none", json!([{"a": {"call": "secrets:nothing"}}])),
        ])
        .await;
    let outcome = world.call("both", json!({})).await;
    assert_eq!(outcome.status, CallStatus::Failed);
    let hidden = outcome.error.unwrap();
    assert_eq!(hidden.code, ErrorCode::NotGranted);
    assert_eq!(hidden.message, "Tool not found: secrets__hidden (at /do/1/b)");
    assert_eq!(upstream.requests().len(), 1);
    // A tool that is not granted looks like a tool that does not exist.
    let missing = world.call("none", json!({})).await.error.unwrap();
    assert_eq!(missing.code, hidden.code);
    assert_eq!(missing.message, "Tool not found: secrets:nothing (at /do/0/a)");

    world.group("secrets", json!({"selectors": [{"source": "secrets"}]})).await;
    world.policy("secrets", json!({"role": "x"}), &["secrets"]).await;
    assert_eq!(world.call("both", json!({})).await.result, Some(json!({"path": "/hidden"})));
}

#[tokio::test]
async fn a_tool_revoked_during_the_workflow_is_not_called() {
    let (go_on, may_go_on) = channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let upstream = Upstream::replying(move |_| {
        may_go_on.lock().unwrap().recv_timeout(Duration::from_secs(60)).unwrap();
        answer("200 OK", "content-type: application/json\r\n", b"{}")
    });
    let world = Arc::new(World::with_grants(&upstream).await);
    let tasks = json!([{"a": {"call": "pets__one"}}, {"b": {"call": "pets__two"}}]);
    world.register_workflows(&[document("both", tasks)]).await;
    let calling = tokio::spawn({
        let world = Arc::clone(&world);
        async move { world.call("both", json!({})).await }
    });
    let began = Instant::now();
    while upstream.requests().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(30), "the first step is not called");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world.execute(Command::Policy("most".parse().unwrap(), PolicyCommand::Delete)).await;
    go_on.send(()).unwrap();
    let failure = calling.await.unwrap().error.unwrap();
    assert_eq!(failure.message, "Tool not found: pets__two (at /do/1/b)");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_workflow_and_every_step_are_logged_under_the_caller() {
    let world = World::with_grants(&echo()).await;
    let tasks = json!([{"a": {"call": "pets__one"}}, {"b": {"call": "secrets__hidden"}}]);
    world.register_workflows(&[document("both", tasks)]).await;
    let recorder =
        CallRecorder::start(Arc::new(MemoryCallLog::default()), CallLogOptions::default());
    let options =
        ToolcribOptions { recorder: Some(Arc::clone(&recorder)), ..ToolcribOptions::default() };
    let view = world.with_options(options).view(&agent(json!({"role": "x"})));
    view.call("both", Map::new()).await.unwrap();
    recorder.flush().await;
    let filter = CallFilter { limit: 100, oldest_first: true, ..CallFilter::default() };
    let rows = recorder.records().read_rows(filter).await.unwrap();
    let rows: Vec<_> = rows.iter().map(|row| row.parse_call().unwrap().call).collect();
    let told: Vec<_> =
        rows.iter().map(|row| (row.tool_id.as_deref(), row.status, &*row.subject)).collect();
    assert_eq!(
        told,
        [
            (Some("pets:one"), FinalCallStatus::Completed, "somebody"),
            (None, FinalCallStatus::Failed, "somebody"),
            (Some("flows:both"), FinalCallStatus::Failed, "somebody"),
        ]
    );
}

#[tokio::test]
async fn the_caller_gets_progress_of_every_step() {
    let world = World::with_grants(&echo()).await;
    let tasks = json!([{"first": {"call": "pets__one"}}, {"second": {"set": {"n": 1}}}]);
    world.register_workflows(&[document("both", tasks)]).await;
    let view = world.view(json!({"role": "x"}));
    let (context, mut heard) = CallBuilder::default().with_progress().start_with_updates();
    let tool = view.find("both").unwrap();
    let outcome = view.call_for_outcome(&tool, Map::new(), &context).await;
    assert_eq!(outcome.result, Some(json!({"n": 1})));
    let mut steps = Vec::new();
    while let Ok(CallUpdate::Progress(progress)) = heard.try_recv() {
        steps.push((progress.progress, progress.message.unwrap()));
    }
    assert_eq!(steps, [(1.0, "first".into()), (2.0, "second".into())]);
}

#[tokio::test]
async fn an_abandoned_call_stops_its_steps() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let world = World::with_tools_at(&url, &[("pets", &["one", "two"])]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let tasks = json!([{"a": {"call": "pets__one"}}, {"b": {"call": "pets__two"}}]);
    world.register_workflows(&[document("both", tasks)]).await;
    let recorder =
        CallRecorder::start(Arc::new(MemoryCallLog::default()), CallLogOptions::default());
    let options =
        ToolcribOptions { recorder: Some(Arc::clone(&recorder)), ..ToolcribOptions::default() };
    let view = world.with_options(options).view(&agent(json!({"role": "x"})));
    tokio::select! {
        _ = view.call("both", Map::new()) => panic!("nobody answers"),
        _ = silent.accept() => {}
    }
    recorder.flush().await;
    let filter = CallFilter { limit: 100, ..CallFilter::default() };
    let rows = recorder.records().read_rows(filter).await.unwrap();
    let ends: Vec<_> = rows.iter().map(|row| row.parse_call().unwrap().call.status).collect();
    assert_eq!(ends, [FinalCallStatus::Cancelled, FinalCallStatus::Cancelled]);
}

#[tokio::test]
async fn a_caller_with_a_shorter_deadline_is_answered_in_time() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let world = World::with_tools_at(&url, &[("pets", &["one"])]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    world.register_workflows(&[document("slow", json!([{"a": {"call": "pets__one"}}]))]).await;
    let start = Instant::now();
    let view =
        world.view(json!({"role": "x"})).with_client_timeout(Some(Duration::from_millis(300)));
    let outcome = view.call("slow", Map::new()).await.unwrap();
    assert_eq!(outcome.error.unwrap().code, ErrorCode::UpstreamTimeout);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_recursive_workflow_is_stopped() {
    let world = World::with_grants(&echo()).await;
    let again = json!([{"again": {"call": "flows__round"}}]);
    let wide: Vec<Value> =
        (0..30).map(|at| json!({format!("b{at}"): {"call": "flows__wide"}})).collect();
    let wide = json!([
        {"all": {"try": [{"fork": {"fork": {"branches": wide}}}], "catch": {"do": [{"x": {"wait": {}}}]}}},
        {"more": {"wait": {}, "then": "all"}},
    ]);
    world.register_workflows(&[document("round", again), document("wide", wide)]).await;
    let failure = world.call("round", json!({})).await.error.unwrap();
    assert_eq!(failure.code, ErrorCode::BuiltinError);
    assert!(
        failure.message.starts_with("more than 5 workflows stand inside each other"),
        "{}",
        failure.message
    );
    // All nested calls together share one step budget.
    let failure = world.call("wide", json!({})).await.error.unwrap();
    assert!(failure.message.contains("has made more steps than it may"), "{}", failure.message);
}

#[tokio::test]
async fn the_deepest_allowed_workflow_does_not_overflow_the_stack() {
    let world = World::with_grants(&echo()).await;
    let deepest = (0..15).fold(json!({"call": "pets__one"}), |inside, at| match at % 4 {
        0 => json!({"do": [{"a": inside}], "timeout": {"after": "PT1M"}}),
        1 => json!({"for": {"in": "[1]"}, "do": [{"a": inside}]}),
        2 => json!({"fork": {"branches": [{"a": inside}]}}),
        _ => json!({"try": [{"a": inside}], "catch": {"retry": {}}}),
    });
    world.register_workflows(&[document("deep", json!([{"a": deepest}]))]).await;
    let outcome = world.call("deep", json!({})).await;
    assert_eq!(outcome.error, None);
    assert!(outcome.result.unwrap().to_string().contains("/one"));
}

#[tokio::test]
async fn the_example_workflow_orders_within_the_budget() {
    let upstream = Upstream::replying(|request| {
        let body = match request.split(['?', ' ']).nth(1) {
            Some("/menu") => json!([
                {"name": "Marinara", "price": 6}, {"name": "Bufala", "price": 12}, {"name": "Diavola", "price": 9},
            ]),
            Some("/orders") => json!({"id": 7, "status": "received"}),
            _ => Value::Null,
        };
        let body = body.to_string();
        answer("200 OK", "content-type: application/json\r\n", body.as_bytes())
    });
    let world = World::empty().await;
    let specification = PIZZERIA.replace("https://pizzeria.example.com/v1", &upstream.url(""));
    let specification = specification.replace("security:\n  - token: []\n", "");
    let settings = json!({"kind": "openapi", "specification": {"text": specification}});
    let profile = from_json(json!({"name": "Pizzeria", "settings": settings}));
    let pizzeria = "pizzeria".parse().unwrap();
    let register = SourceCommand::Register(profile);
    world.execute(Command::Source("pizzeria".parse().unwrap(), register)).await;
    let refresher = world.crib.refresher();
    assert!(refresher.refresh(&pizzeria, false, &ChangeContext::default()).await.unwrap().success);
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let settings = json!({"kind": "workflow", "documents": [EXAMPLE]});
    let profile = from_json(json!({"name": "Flows", "settings": settings}));
    let register = SourceCommand::Register(profile);
    world.execute(Command::Source("flows".parse().unwrap(), register)).await;
    assert!(world.refresh_workflows().await.success);
    let outcome = world.call("order-dinner", json!({"address": "Via Roma 1", "budget": 15})).await;
    let order = json!({"pizza": "Bufala", "order": {"id": 7, "status": "received"}});
    assert_eq!((outcome.error, outcome.result), (None, Some(order)));
    let asked = upstream.requests();
    let menu = asked.iter().find(|it| it.starts_with("GET /menu?")).unwrap();
    assert!(menu.contains("max_price=15") && menu.contains("vegetarian=false"), "{menu}");
    let order = asked.iter().find(|it| it.starts_with("POST /orders ")).unwrap();
    assert!(order.contains(r#""name":"Bufala""#) && order.contains("Via Roma 1"), "{order}");
}

#[tokio::test]
async fn a_step_gets_a_long_answer_uncut() {
    let long = "x".repeat(400 << 10);
    let body = json!({"text": long}).to_string();
    let upstream = Upstream::replying(move |_| {
        answer("200 OK", "content-type: application/json\r\n", body.as_bytes())
    });
    let world = World::with_grants(&upstream).await;
    let tasks = json!([{"a": {"call": "pets__one", "output": {"as": ".text | length"}}}]);
    world.register_workflows(&[document("long", tasks)]).await;
    assert_eq!(world.call("long", json!({})).await.result, Some(json!(400 << 10)));
}
