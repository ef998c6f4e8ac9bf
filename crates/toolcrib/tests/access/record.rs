//! Every call of an agent is recorded, whatever came of it, once.

use std::sync::Arc;

use model::{ErrorCode, Primitive, TraceContext};
use serde_json::{Map, Value, json};
use toolcrib::{
    CallContext, CallDoor, CallEnd, CallFilter, CallRecord, MemoryRecords, Options, RecordOptions,
    Recorder, ShownBy, Via,
};

use crate::server::{Upstream, answer};
use crate::world::{World, agent};

async fn world(upstream: &Upstream, options: RecordOptions) -> (World, Arc<Recorder>) {
    let world = World::with_tools_at(&upstream.url(""), &[("pets", &["get_pet"])]).await;
    world.group("all", json!({"visibility": "searchable", "selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let recorder = Recorder::start(Arc::new(MemoryRecords::default()), options);
    (world, recorder)
}

async fn rows(recorder: &Recorder) -> Vec<CallRecord> {
    recorder.flush().await;
    let filter = CallFilter { limit: 100, oldest_first: true, ..CallFilter::default() };
    let rows = recorder.records().read(filter).await.unwrap();
    rows.iter().map(|row| row.call().unwrap().call).collect()
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[tokio::test]
async fn a_call_is_recorded_with_who_what_and_how_it_ended() {
    let json = "content-type: application/json\r\n";
    let upstream = Upstream::replying(move |_| answer("200 OK", json, br#"{"name":"Rex"}"#));
    let (world, recorder) = world(&upstream, RecordOptions::default()).await;
    let options = Options { recorder: Some(recorder.clone()), ..Options::default() };
    let crib = world.with_options(options);
    let via = Via {
        door: CallDoor::Mcp,
        means: ShownBy::Token,
        correlation_id: Some("r7".into()),
        trace: TraceContext::read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
    };
    let claims = json!({"role": "x", "iss": "https://id.example", "azp": "desktop"});
    let view = crib.view(&agent(claims)).via(via);
    view.call("get_pet", Map::new()).await.unwrap();
    let wanted = object(json!({"name": "get_pet", "arguments": {}}));
    view.call("execute_tool", wanted).await.unwrap();
    view.call("tool_search", object(json!({"query": "pet"}))).await.unwrap();
    view.call("tool_search", object(json!({"query": 5}))).await.unwrap();
    view.call("execute_tool", object(json!({"name": "nothing"}))).await.unwrap();
    view.call("drop_all", Map::new()).await.unwrap_err();
    view.read("file:///etc/passwd", &CallContext::silent()).await;
    let rows = rows(&recorder).await;
    let first = &rows[0];
    assert_eq!(
        (&*first.subject, first.issuer.as_deref()),
        ("somebody", Some("https://id.example"))
    );
    assert_eq!((first.client.as_deref(), first.door), (Some("desktop"), CallDoor::Mcp));
    assert_eq!(first.tool_id.as_deref(), Some("pets:get_pet"));
    assert_eq!((first.source_id.as_deref(), first.kind), (Some("pets"), Primitive::Tool));
    assert_eq!((first.status, first.upstream_status), (CallEnd::Completed, Some(200)));
    assert_eq!((first.argument_bytes, first.result_bytes), (2, 14));
    assert_eq!(first.correlation_id.as_deref(), Some("r7"));
    assert!(0 < first.duration_us && first.arguments.is_none() && first.trace_id.is_some());
    let shown: Vec<_> =
        rows.iter().map(|row| (row.tool_id.as_deref(), row.status, row.code)).collect();
    let (done, failed) = (CallEnd::Completed, CallEnd::Failed);
    let (invalid, missing) = (Some(ErrorCode::ValidationError), Some(ErrorCode::NotGranted));
    assert_eq!(
        shown,
        [
            (Some("pets:get_pet"), done, None),
            (Some("pets:get_pet"), done, None),
            (Some("toolcrib:tool_search"), done, None),
            (Some("toolcrib:tool_search"), failed, invalid),
            (Some("toolcrib:execute_tool"), failed, missing),
            (None, failed, missing),
            (None, failed, missing),
        ]
    );
    assert_eq!(rows[5].error.as_deref(), Some("Tool not found: drop_all"));
    assert_eq!(rows[6].kind, Primitive::Resource);
    let all = format!("{rows:?}");
    assert!(!all.contains("passwd") && !all.contains("Rex"), "{all}");
}

#[tokio::test]
async fn arguments_are_recorded_only_if_asked_for_and_without_secrets() {
    let upstream = Upstream::replying(|_| answer("200 OK", "", b"ok"));
    let options = RecordOptions { arguments: true, ..RecordOptions::default() };
    let (world, recorder) = world(&upstream, options).await;
    let options = Options { recorder: Some(recorder.clone()), ..Options::default() };
    let view = world.with_options(options).view(&agent(json!({"role": "x"})));
    let arguments = object(json!({"id": 7, "password": "hunter2"}));
    view.call("get_pet", arguments).await.unwrap();
    let rows = rows(&recorder).await;
    assert_eq!(rows[0].arguments.as_deref(), Some(r#"{"id":7,"password":"[redacted]"}"#));
}

#[tokio::test]
async fn a_call_whose_caller_went_away_is_recorded_as_cancelled() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let world = World::with_tools_at(&url, &[("pets", &["get_pet"])]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let recorder = Recorder::start(Arc::new(MemoryRecords::default()), RecordOptions::default());
    let options = Options { recorder: Some(recorder.clone()), ..Options::default() };
    let view = world.with_options(options).view(&agent(json!({"role": "x"})));
    tokio::select! {
        _ = view.call("get_pet", Map::new()) => panic!("nobody answers"),
        _ = silent.accept() => {}
    }
    let rows = rows(&recorder).await;
    assert_eq!((rows.len(), rows[0].status), (1, CallEnd::Cancelled));
}

#[tokio::test]
async fn the_most_used_tools_are_listed_beside_search_as_far_as_there_is_room() {
    let json = "content-type: application/json\r\n";
    let upstream = Upstream::replying(move |_| answer("200 OK", json, b"{}"));
    let tools = ["a", "b", "c", "d"];
    let world = World::with_tools_at(&upstream.url(""), &[("pets", &tools)]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.group("some", json!({"tools": ["pets:a", "pets:b"]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    world.policy("some", json!({"role": "y"}), &["some"]).await;
    let recorder = Recorder::start(Arc::new(MemoryRecords::default()), RecordOptions::default());
    let options = Options { recorder: Some(recorder), ..Options::default() };
    let crib = world.with_options(options);
    let view = |role: &str| crib.view(&agent(json!({"role": role})));
    let list = |role: &str, room: u64| -> Vec<String> {
        let view = view(role);
        let beside = view.most_used(room, |_| 1);
        let view = view.by_search_beside(beside);
        view.list().iter().map(|tool| tool.name().to_owned()).collect()
    };
    assert_eq!(list("x", 9), ["tool_search", "execute_tool"]);
    for tool in ["d", "d", "d", "b", "b", "c"] {
        view("x").call(tool, Map::new()).await.unwrap();
    }
    let before = view("x").usage_number();
    crib.count_usage().await;
    assert_ne!(view("x").usage_number(), before);
    assert_eq!(list("x", 9), ["tool_search", "execute_tool", "b", "c", "d"]);
    assert_eq!(list("x", 2), ["tool_search", "execute_tool", "b", "d"]);
    // Only what the agent has.
    assert_eq!(list("y", 9), ["tool_search", "execute_tool", "b"]);
    // The same order, the same lists; and a stamp says which tools are beside.
    let (number, few) = (view("x").usage_number(), view("x").most_used(1, |_| 1));
    crib.count_usage().await;
    assert_eq!(view("x").usage_number(), number);
    let one = view("x").by_search_beside(Arc::clone(&few));
    assert_ne!(one.stamp(), view("x").by_search().stamp());
    assert!(one.is_as(&view("x").by_search_beside(few)));
    assert_eq!(one.since(&view("x").by_search()).len(), 1);
}
