//! The call log: every call of an agent is logged exactly once, whatever its outcome.

use std::sync::Arc;

use call_log::{CallLog, CallLogRow, ChainBounds, UsageKind, UsagePage, UsageTotals};
use catalog::journal::{JournalError, JournalFuture};
use jiff::Timestamp;
use model::{ErrorCode, McpPrimitive, ToolResult, TraceContext};
use serde_json::{Map, Value, json};
use toolcrib::{
    AgentView, CallBuilder, CallContext, CallEndpoint, CallFilter, CallLogOptions, CallOrigin,
    CallRecord, CallRecorder, CallResult, CallerCapabilities, CallerCredentialKind,
    FinalCallStatus, InputRequest, MemoryCallLog, OfferListing, OfferResult, ProvidedTool,
    ProviderError, ProviderFuture, ToolCallFuture, ToolProvider, ToolcribOptions,
};

use crate::server::{Upstream, answer};
use crate::world::{World, agent};

async fn world(upstream: &Upstream, options: CallLogOptions) -> (World, Arc<CallRecorder>) {
    let world = World::with_tools_at(&upstream.url(""), &[("pets", &["get_pet"])]).await;
    world.group("all", json!({"visibility": "searchable", "selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let recorder = CallRecorder::start(Arc::new(MemoryCallLog::default()), options);
    (world, recorder)
}

async fn rows(recorder: &CallRecorder) -> Vec<CallRecord> {
    recorder.flush().await;
    let filter = CallFilter { limit: 100, oldest_first: true, ..CallFilter::default() };
    let rows = recorder.records().read_rows(filter).await.unwrap();
    rows.iter().map(|row| row.parse_call().unwrap().call).collect()
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[tokio::test]
async fn a_call_is_logged_with_caller_tool_and_outcome() {
    let json = "content-type: application/json\r\n";
    let upstream = Upstream::replying(move |_| answer("200 OK", json, br#"{"name":"Rex"}"#));
    let (world, recorder) = world(&upstream, CallLogOptions::default()).await;
    let options =
        ToolcribOptions { recorder: Some(recorder.clone()), ..ToolcribOptions::default() };
    let crib = world.with_options(options);
    let via = CallOrigin {
        door: CallEndpoint::Mcp,
        means: CallerCredentialKind::Token,
        correlation_id: Some("r7".into()),
        trace: TraceContext::from_headers(
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            None,
        ),
    };
    let claims = json!({"role": "x", "iss": "https://id.example", "azp": "desktop"});
    let view = crib.view(&agent(claims)).with_via(via);
    view.call("get_pet", Map::new()).await.unwrap();
    let wanted = object(json!({"name": "get_pet", "arguments": {}}));
    view.call("execute_tool", wanted).await.unwrap();
    view.call("tool_search", object(json!({"query": "pet"}))).await.unwrap();
    view.call("tool_search", object(json!({"query": 5}))).await.unwrap();
    view.call("execute_tool", object(json!({"name": "nothing"}))).await.unwrap();
    view.call("drop_all", Map::new()).await.unwrap_err();
    view.read_resource_uri("file:///etc/passwd", &CallContext::silent()).await;
    let rows = rows(&recorder).await;
    let first = &rows[0];
    assert_eq!(
        (&*first.subject, first.issuer.as_deref()),
        ("somebody", Some("https://id.example"))
    );
    assert_eq!((first.client.as_deref(), first.door), (Some("desktop"), CallEndpoint::Mcp));
    assert_eq!(first.tool_id.as_deref(), Some("pets:get_pet"));
    assert_eq!((first.source_id.as_deref(), first.kind), (Some("pets"), McpPrimitive::Tool));
    assert_eq!((first.status, first.upstream_status), (FinalCallStatus::Completed, Some(200)));
    assert_eq!((first.argument_bytes, first.result_bytes), (2, 14));
    assert_eq!(first.correlation_id.as_deref(), Some("r7"));
    assert!(0 < first.duration_us && first.arguments.is_none() && first.trace_id.is_some());
    let shown: Vec<_> =
        rows.iter().map(|row| (row.tool_id.as_deref(), row.status, row.code)).collect();
    let (done, failed) = (FinalCallStatus::Completed, FinalCallStatus::Failed);
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
    assert_eq!(rows[6].kind, McpPrimitive::Resource);
    let all = format!("{rows:?}");
    assert!(!all.contains("passwd") && !all.contains("Rex"), "{all}");
}

#[tokio::test]
async fn arguments_are_logged_only_if_configured_and_without_secrets() {
    let upstream = Upstream::replying(|_| answer("200 OK", "", b"ok"));
    let options = CallLogOptions { arguments: true, ..CallLogOptions::default() };
    let (world, recorder) = world(&upstream, options).await;
    let options =
        ToolcribOptions { recorder: Some(recorder.clone()), ..ToolcribOptions::default() };
    let view = world.with_options(options).view(&agent(json!({"role": "x"})));
    let arguments = object(json!({"id": 7, "password": "hunter2"}));
    view.call("get_pet", arguments).await.unwrap();
    let rows = rows(&recorder).await;
    assert_eq!(rows[0].arguments.as_deref(), Some(r#"{"id":7,"password":"[redacted]"}"#));
}

#[tokio::test]
async fn an_abandoned_call_is_logged_as_cancelled() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let world = World::with_tools_at(&url, &[("pets", &["get_pet"])]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let recorder =
        CallRecorder::start(Arc::new(MemoryCallLog::default()), CallLogOptions::default());
    let options =
        ToolcribOptions { recorder: Some(recorder.clone()), ..ToolcribOptions::default() };
    let view = world.with_options(options).view(&agent(json!({"role": "x"})));
    tokio::select! {
        _ = view.call("get_pet", Map::new()) => panic!("nobody answers"),
        _ = silent.accept() => {}
    }
    let rows = rows(&recorder).await;
    assert_eq!((rows.len(), rows[0].status), (1, FinalCallStatus::Cancelled));
}

#[tokio::test]
async fn the_most_used_tools_are_listed_beside_search_up_to_a_size_limit() {
    let json = "content-type: application/json\r\n";
    let upstream = Upstream::replying(move |_| answer("200 OK", json, b"{}"));
    let tools = ["a", "b", "c", "d"];
    let world = World::with_tools_at(&upstream.url(""), &[("pets", &tools)]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.group("some", json!({"tools": ["pets:a", "pets:b"]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    world.policy("some", json!({"role": "y"}), &["some"]).await;
    let recorder =
        CallRecorder::start(Arc::new(MemoryCallLog::default()), CallLogOptions::default());
    let options = ToolcribOptions { recorder: Some(recorder), ..ToolcribOptions::default() };
    let crib = world.with_options(options);
    let view = |role: &str| crib.view(&agent(json!({"role": role})));
    let list = |role: &str, room: u64| -> Vec<String> {
        let view = view(role);
        let beside = view.most_used_tools(room, |_| 1);
        let view = view.search_only_with_pinned(beside);
        view.list().iter().map(|tool| tool.name().to_owned()).collect()
    };
    assert_eq!(list("x", 9), ["tool_search", "execute_tool"]);
    for tool in ["d", "d", "d", "b", "b", "c"] {
        view("x").call(tool, Map::new()).await.unwrap();
    }
    let before = view("x").usage_ranking_version();
    crib.count_usage().await;
    assert_ne!(view("x").usage_ranking_version(), before);
    assert_eq!(list("x", 9), ["tool_search", "execute_tool", "b", "c", "d"]);
    assert_eq!(list("x", 2), ["tool_search", "execute_tool", "b", "d"]);
    // Only tools that are granted to the agent.
    assert_eq!(list("y", 9), ["tool_search", "execute_tool", "b"]);
    // An unchanged ranking gives the same lists; the stamp covers the pinned tools.
    let (number, few) = (view("x").usage_ranking_version(), view("x").most_used_tools(1, |_| 1));
    crib.count_usage().await;
    assert_eq!(view("x").usage_ranking_version(), number);
    let one = view("x").search_only_with_pinned(Arc::clone(&few));
    assert_ne!(one.stamp(), view("x").search_only().stamp());
    assert!(one.has_same_list(&view("x").search_only_with_pinned(few)));
    assert_eq!(one.changes_since(&view("x").search_only()).len(), 1);
}

/// A provider that asks its caller first, and has a tool that fails with a JSON-RPC error.
struct AskingProvider;

impl ToolProvider for AskingProvider {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        let tool = |name: &str| Arc::new(ProvidedTool::new(name, "Asks"));
        vec![tool("paint"), tool("break")]
    }

    fn call_tool<'a>(
        &'a self,
        name: &'a str,
        _arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> ToolCallFuture<'a> {
        Box::pin(async move {
            if name == "break" {
                let message = "the disk says \"hunter2\"".to_owned();
                return Err(ProviderError::Protocol { code: -32000, message });
            }
            call.ask("colour", InputRequest::Elicit(Map::new())).await?;
            let (content, meta) = (Vec::new(), Map::new());
            Ok(ToolResult { content, structured_content: None, is_error: false, meta })
        })
    }

    fn list_prompts(&self) -> Vec<Arc<OfferListing>> {
        vec![Arc::new(OfferListing { key: "greet".into(), fields: Map::new() })]
    }

    fn get_prompt<'a>(
        &'a self,
        _name: &'a str,
        _arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> ProviderFuture<'a, Map<String, Value>> {
        Box::pin(async move {
            call.ask("name", InputRequest::Elicit(Map::new())).await?;
            Ok(Map::new())
        })
    }
}

/// The context of a caller that repeats the call with these answers and the memory of the previous round.
fn repeated_call(answers: Value, memory: Option<String>) -> CallContext {
    let able = CallerCapabilities { elicitation: true, ..CallerCapabilities::default() };
    CallBuilder::by_caller(able)
        .with_answers(object(answers))
        .with_resume_state(memory)
        .start_without_updates()
}

async fn view_of_asking_provider(
    records: Arc<dyn CallLog>,
    strict: bool,
) -> (Arc<CallRecorder>, AgentView) {
    let world = World::with_tools(&[]).await;
    let recorder =
        CallRecorder::start(records, CallLogOptions { strict, ..CallLogOptions::default() });
    let options =
        ToolcribOptions { recorder: Some(recorder.clone()), ..ToolcribOptions::default() };
    let view =
        world.with_options(options).view(&agent(json!({}))).with_provider(Arc::new(AskingProvider));
    (recorder, view)
}

#[tokio::test(start_paused = true)]
async fn a_call_that_asks_and_is_repeated_is_one_row() {
    let (recorder, view) = view_of_asking_provider(Arc::new(MemoryCallLog::default()), false).await;
    let tool = view.find("paint").unwrap();
    let first = repeated_call(json!({}), None);
    let called = view.call_found_tool(&tool, Map::new(), &first).await;
    assert!(matches!(called, CallResult::InputRequired(_)), "{called:?}");
    assert_eq!(rows(&recorder).await, []);
    let again = repeated_call(json!({"colour": {"action": "accept"}}), first.take_resume_state());
    let called = view.call_found_tool(&tool, Map::new(), &again).await;
    assert!(matches!(called, CallResult::Completed(_)), "{called:?}");
    let first = repeated_call(json!({}), None);
    assert!(matches!(
        view.render_prompt("greet", Map::new(), &first).await,
        OfferResult::InputRequired(_)
    ));
    let again = repeated_call(json!({"name": {"action": "accept"}}), first.take_resume_state());
    assert!(matches!(
        view.render_prompt("greet", Map::new(), &again).await,
        OfferResult::Result(_)
    ));
    tokio::time::sleep(std::time::Duration::from_secs(20 * 60)).await;
    recorder.close().await;
    let rows = rows(&recorder).await;
    let shown: Vec<_> = rows.iter().map(|row| (row.kind, row.status)).collect();
    let done = FinalCallStatus::Completed;
    assert_eq!(shown, [(McpPrimitive::Tool, done), (McpPrimitive::Prompt, done)]);
}

#[tokio::test(start_paused = true)]
async fn a_call_with_an_unanswered_question_is_logged_as_cancelled() {
    let (recorder, view) = view_of_asking_provider(Arc::new(MemoryCallLog::default()), false).await;
    let tool = view.find("paint").unwrap();
    view.call_found_tool(&tool, Map::new(), &repeated_call(json!({}), None)).await;
    view.render_prompt("greet", Map::new(), &repeated_call(json!({}), None)).await;
    tokio::time::sleep(std::time::Duration::from_secs(11 * 60)).await;
    let unanswered = rows(&recorder).await;
    let why = "the tool asked its caller, who did not come again with an answer";
    assert_eq!(unanswered.len(), 2);
    for row in &unanswered {
        assert_eq!((row.status, row.error.as_deref()), (FinalCallStatus::Cancelled, Some(why)));
    }
    // An unanswered call is also logged if the server stops first.
    view.call_found_tool(&tool, Map::new(), &repeated_call(json!({}), None)).await;
    assert_eq!(rows(&recorder).await.len(), 2);
    recorder.close().await;
    assert_eq!(rows(&recorder).await[2].status, FinalCallStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn the_oldest_of_too_many_pending_questions_is_logged_as_cancelled() {
    let (recorder, view) = view_of_asking_provider(Arc::new(MemoryCallLog::default()), false).await;
    let tool = view.find("paint").unwrap();
    let first = repeated_call(json!({}), None);
    view.call_found_tool(&tool, Map::new(), &first).await;
    for _ in 0..64 {
        view.call_found_tool(&tool, Map::new(), &repeated_call(json!({}), None)).await;
    }
    let again = repeated_call(json!({"colour": {"action": "accept"}}), first.take_resume_state());
    view.call_found_tool(&tool, Map::new(), &again).await;
    let rows = rows(&recorder).await;
    let shown: Vec<_> = rows.iter().map(|row| (row.status, row.error.as_deref())).collect();
    let why = "the tool asked its caller, and so many others did that it is not remembered; an answer is another row";
    assert_eq!(
        shown,
        [(FinalCallStatus::Cancelled, Some(why)), (FinalCallStatus::Completed, None)]
    );
}

/// A call log whose store is full.
struct FullCallLog(MemoryCallLog);

impl CallLog for FullCallLog {
    fn store_calls(&self, _calls: Arc<[CallRecord]>) -> JournalFuture<'_, ()> {
        let error = JournalError::Full { place: "here".to_owned() };
        Box::pin(std::future::ready(Err(error)))
    }

    fn read_rows(&self, filter: CallFilter) -> JournalFuture<'_, Vec<CallLogRow>> {
        self.0.read_rows(filter)
    }

    fn usage_totals(
        &self,
        of: UsageKind,
        names: Vec<String>,
    ) -> JournalFuture<'_, Vec<(String, UsageTotals)>> {
        self.0.usage_totals(of, names)
    }

    fn most_used(&self, page: UsagePage) -> JournalFuture<'_, Vec<(String, UsageTotals)>> {
        self.0.most_used(page)
    }

    fn chain_bounds(&self) -> JournalFuture<'_, ChainBounds> {
        self.0.chain_bounds()
    }

    fn remove_before(&self, time: Timestamp) -> JournalFuture<'_, u64> {
        self.0.remove_before(time)
    }
}

#[tokio::test(start_paused = true)]
async fn in_strict_mode_results_that_cannot_be_logged_are_withheld() {
    let (_recorder, view) =
        view_of_asking_provider(Arc::new(FullCallLog(MemoryCallLog::default())), true).await;
    let tool = view.find("break").unwrap();
    let called = view.call_found_tool(&tool, Map::new(), &CallContext::silent()).await;
    let CallResult::Completed(done) = called else { panic!("it was handed out: {called:?}") };
    let told = done.into_outcome().error.unwrap();
    assert_eq!(told.code, ErrorCode::InternalError);
    assert!(told.message.ends_with("what came of it is held back"), "{}", told.message);
}
