//! Tool calls that become tasks of their server: the caller waits as for any other call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::{
    CallNotification, DeadlinePauses, McpAnswer, McpCallOptions, McpConnection, McpError,
    McpLimits, ToolTaskOptions,
};
use serde_json::{Value, json};

use crate::server::{ReceivedRequest, Reply, Server, StreamPart};
use crate::support::*;

const TASKS: &str = "io.modelcontextprotocol/tasks";
const RELATED: &str = "io.modelcontextprotocol/related-task";
const NEEDED: ToolTaskOptions = ToolTaskOptions { is_required: true, max_wait: None };

/// A server of the older protocol with these task capabilities.
async fn older_task_server(
    tasks: Value,
    then: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> (Server, McpConnection) {
    older_task_server_with_permits(McpLimits::default().max_calls, tasks, then).await
}

/// Like `older`, with this number of concurrent calls on the connection.
async fn older_task_server_with_permits(
    max_calls: usize,
    tasks: Value,
    then: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> (Server, McpConnection) {
    let mut settings = settings();
    settings.limits.max_calls = max_calls;
    let server = Server::start(move |asked| match asked.method() {
        "server/discover" => Reply::error(asked, 400, -32000),
        "initialize" => {
            let capabilities = json!({"tools": {}, "tasks": tasks});
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities});
            Reply::result(asked, result)
        }
        method if method.starts_with("notifications/") => Reply::status(202),
        "" if asked.verb == "GET" => Reply::status(405),
        "" => Reply::status(202),
        _ => then(asked),
    })
    .await;
    let connection = McpConnection::open(&server.target(), &settings).await.unwrap();
    (server, connection)
}

async fn modern_task_server(
    then: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> (Server, McpConnection) {
    let server = Server::start(move |asked| match asked.method() {
        "server/discover" => {
            let capabilities = json!({"tools": {}, "extensions": {TASKS: {}}});
            let versions = ["2026-07-28"];
            let result = json!({"supportedVersions": versions, "capabilities": capabilities});
            Reply::result(asked, result)
        }
        _ => then(asked),
    })
    .await;
    let connection = McpConnection::open(&server.target(), &settings()).await.unwrap();
    (server, connection)
}

fn all_task_capabilities() -> Value {
    json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}})
}

fn task(status: &str) -> Value {
    json!({"taskId": "t1", "status": status, "ttl": 60_000, "pollInterval": 100, "pollIntervalMs": 100})
}

/// A task with an additional field.
fn task_with(status: &str, name: &str, value: Value) -> Value {
    let mut task = task(status);
    task[name] = value;
    task
}

fn request_methods(server: &Server) -> Vec<String> {
    let story = server.request_summaries().into_iter();
    story.filter_map(|told| Some(told.strip_prefix("POST ")?.to_owned())).skip(1).collect()
}

#[tokio::test]
async fn a_tool_that_requires_a_task_is_called_as_one_and_awaited() {
    let looks = AtomicUsize::new(0);
    let (server, connection) =
        older_task_server(all_task_capabilities(), move |asked| match asked.method() {
            "tools/call" => Reply::result(asked, json!({"task": task("working")})),
            "tasks/get" => {
                let is_first = looks.fetch_add(1, Ordering::Relaxed) == 0;
                Reply::result(asked, task(if is_first { "working" } else { "completed" }))
            }
            _ => {
                let meta = json!({RELATED: {"taskId": "t1"}, "vendor": 1});
                Reply::result(asked, json!({"content": [], "_meta": meta}))
            }
        })
        .await;
    let (call, mut hears) = listening_call();
    let answer = connection.call_tool(tool("x", json!({"a": 1})), NEEDED, call).await.unwrap();
    assert_eq!(result(answer), json!({"content": [], "_meta": {"vendor": 1}}));
    assert!(matches!(hears.try_recv(), Ok(CallNotification::BecameTask)));
    let asked = server.received_requests();
    let params = |method: &str| {
        asked.iter().find(|asked| asked.method() == method).unwrap().body["params"].clone()
    };
    assert_eq!(params("tools/call")["task"], json!({"ttl": 20_000}));
    assert_eq!(
        (params("tasks/get"), params("tasks/result")),
        (json!({"taskId": "t1"}), json!({"taskId": "t1"}))
    );
    let told = ["tools/call", "tasks/get", "tasks/get", "tasks/result"];
    assert!(
        request_methods(&server).ends_with(&told.map(str::to_owned)),
        "{:?}",
        request_methods(&server)
    );
}

#[tokio::test]
async fn no_task_is_requested_if_not_required_or_not_supported() {
    for (tasks, needed) in [(all_task_capabilities(), false), (json!({"requests": {}}), true)] {
        let (server, connection) =
            older_task_server(tasks, |asked| Reply::result(asked, json!({"content": []}))).await;
        let as_task = ToolTaskOptions { is_required: needed, max_wait: None };
        connection.call_tool(tool("x", json!({})), as_task, call_within(5.0)).await.unwrap();
        let asked = server.received_requests();
        let called = asked.iter().find(|asked| asked.method() == "tools/call").unwrap();
        assert_eq!(called.body["params"]["task"], Value::Null);
    }
}

#[tokio::test]
async fn questions_and_messages_of_a_task_reach_its_caller() {
    let (server, connection) =
        older_task_server(all_task_capabilities(), |asked| match asked.method() {
            "tools/call" => Reply::result(asked, json!({"task": task("working")})),
            "tasks/get" => Reply::result(asked, task("input_required")),
            _ => {
                let message = |mut message: Value| {
                    message["jsonrpc"] = json!("2.0");
                    StreamPart::Message(message)
                };
                let meta = json!({RELATED: {"taskId": "t1"}});
                let log = json!({"level": "info", "data": 3, "_meta": meta});
                let other = json!({"message": "whose?", "_meta": {RELATED: {"taskId": "t2"}}});
                let params = json!({"message": "name?", "_meta": meta});
                let progress = json!({"progressToken": 3, "progress": 1});
                Reply::Stream(vec![
                    message(json!({"method": "notifications/progress", "params": progress})),
                    message(json!({"method": "notifications/message", "params": log})),
                    message(json!({"id": "o", "method": "elicitation/create", "params": other})),
                    message(json!({"id": "q", "method": "elicitation/create", "params": params})),
                    StreamPart::Text(": beat\n\n".to_owned()),
                    StreamPart::Message(asked.result(json!({"content": []}))),
                ])
            }
        })
        .await;
    let (call, mut hears) = listening_call();
    let calling = connection.call_tool(tool("x", json!({})), NEEDED, call);
    let answering = async {
        assert!(matches!(hears.recv().await, Some(CallNotification::BecameTask)));
        let Some(CallNotification::Progress(progress)) = hears.recv().await else {
            panic!("no progress")
        };
        assert_eq!(progress["progress"], 1);
        let Some(CallNotification::Log(log)) = hears.recv().await else { panic!("no log") };
        assert_eq!(json!(log), json!({"level": "info", "data": 3}));
        let Some(CallNotification::Question { params, reply, .. }) = hears.recv().await else {
            panic!("it did not ask")
        };
        assert_eq!(json!(params), json!({"message": "name?"}));
        drop(reply.send(Ok(object(json!({"action": "accept"})))));
    };
    let (answer, ()) = tokio::join!(calling, answering);
    assert_eq!(result(answer.unwrap()), json!({"content": []}));
    let token = |asked: &ReceivedRequest| asked.body["params"]["_meta"]["progressToken"].clone();
    let called = server
        .received_requests()
        .into_iter()
        .find(|asked| asked.method() == "tools/call")
        .unwrap();
    assert_eq!(token(&called), json!(3), "the progress above was of another call");
    eventually("it is answered", || {
        let replies =
            server.received_requests().into_iter().filter(|asked| asked.method().is_empty());
        let replies: Vec<Value> = replies.map(|asked| asked.body).collect();
        // A question that names a different task is refused.
        replies.iter().any(|reply| reply["id"] == "o" && reply["error"].is_object())
    })
    .await;
}

#[tokio::test]
async fn tasks_that_wait_for_input_hold_no_permit_of_the_connection() {
    let (server, connection) =
        older_task_server_with_permits(2, all_task_capabilities(), |asked| match asked.method() {
            "tools/call" => Reply::result(asked, json!({"task": task("working")})),
            "tasks/get" => Reply::result(asked, task("input_required")),
            "tasks/result" => Reply::Stream(vec![StreamPart::Hold]),
            _ => Reply::result(asked, json!({})),
        })
        .await;
    let waits = || async {
        connection.call_tool(tool("x", json!({})), NEEDED, call_within(20.0)).await.unwrap();
    };
    let others = async {
        let waiting = || request_methods(&server).iter().filter(|it| *it == "tasks/result").count();
        eventually("three tasks wait", || waiting() == 3).await;
        connection.call_method("ping", object(json!({})), call_within(5.0)).await.unwrap();
    };
    tokio::select! {
        _ = futures_util::future::join3(waits(), waits(), waits()) => panic!("they do not end"),
        () = others => {}
    }
}

#[tokio::test]
async fn task_polling_and_cancellation_have_a_limit_per_owner_apart_from_calls() {
    let (server, connection) =
        older_task_server_with_permits(1, all_task_capabilities(), |asked| match asked.method() {
            "tools/call" => Reply::result(asked, json!({"task": task("working")})),
            "tasks/get" | "tasks/cancel" => Reply::Silence,
            _ => Reply::result(asked, json!({})),
        })
        .await;
    let count = |method: &str| request_methods(&server).iter().filter(|it| *it == method).count();
    let waits = |owner| {
        let call = McpCallOptions { owner, ..call_within(60.0) };
        connection.call_tool(tool("x", json!({})), NEEDED, call)
    };
    let ping = || async {
        connection.call_method("ping", object(json!({})), call_within(5.0)).await.unwrap();
    };
    let others = async {
        let all_begun = || count("tools/call") == 6 && count("tasks/get") == 4;
        eventually("four of six are looked at", all_begun).await;
        ping().await;
        tokio::select! {
            _ = waits(2) => panic!("it does not end"),
            () = eventually("that of another is looked at", || count("tasks/get") == 5) => {}
        }
    };
    tokio::select! {
        _ = futures_util::future::join_all((0..6).map(|_| waits(1))) => panic!("they do not end"),
        () = others => {}
    }
    eventually("all are cancelled", || count("tasks/cancel") == 7).await;
    ping().await;
    tokio::select! {
        _ = futures_util::future::join_all((0..30).map(|_| waits(1))) => panic!("they do not end"),
        () = eventually("all have begun", || count("tools/call") == 37) => ping().await,
    }
    eventually("the server is told of some", || count("tasks/cancel") == 32).await;
    ping().await;
    assert_eq!(count("tasks/cancel"), 32);
}

#[tokio::test]
async fn the_deadline_of_a_task_is_paused_during_a_question() {
    let (server, connection) =
        older_task_server(all_task_capabilities(), |asked| match asked.method() {
            "tools/call" => Reply::result(asked, json!({"task": task("working")})),
            "tasks/get" => Reply::result(asked, task("input_required")),
            _ => {
                let params = json!({"message": "name?", "_meta": {RELATED: {"taskId": "t1"}}});
                let asks = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                "params": params});
                Reply::Stream(vec![StreamPart::Message(asks), StreamPart::Hold])
            }
        })
        .await;
    let (call, mut hears) = listening_call();
    let pauses = DeadlinePauses::with_max(Duration::from_secs(20));
    let call = McpCallOptions { pauses: Some(pauses.clone()), ..call };
    let second = ToolTaskOptions { max_wait: Some(Duration::from_secs(5)), ..NEEDED };
    let mut calling = Box::pin(connection.call_tool(tool("x", json!({})), second, call));
    let asking = async {
        while !matches!(hears.recv().await, Some(CallNotification::Question { .. })) {}
        pauses.begin_pause();
        tokio::time::sleep(Duration::from_millis(5_500)).await;
    };
    tokio::select! {
        answer = &mut calling => panic!("it ended while somebody was asked: {answer:?}"),
        () = asking => pauses.end_pause(),
    }
    let answer = calling.await;
    assert!(matches!(answer, Err(McpError::Timeout { .. })), "{answer:?}");
    let asked = server.received_requests();
    let called = asked.iter().find(|asked| asked.method() == "tools/call").unwrap();
    let ttl = &called.body["params"]["task"]["ttl"];
    assert_eq!(ttl, &json!(20_000), "the task is kept for as long as it may be waited for");
}

#[tokio::test]
async fn an_abandoned_task_is_cancelled() {
    let reply = |asked: &ReceivedRequest| match asked.method() {
        "tools/call" => {
            let mut begun = task_with("working", "resultType", json!("task"));
            begun["task"] = task("working");
            Reply::result(asked, begun)
        }
        _ => Reply::result(asked, task("working")),
    };
    let late = ToolTaskOptions { max_wait: Some(Duration::from_millis(300)), ..NEEDED };
    for (server, connection) in
        [older_task_server(all_task_capabilities(), reply).await, modern_task_server(reply).await]
    {
        let cancels = || request_methods(&server).iter().filter(|it| *it == "tasks/cancel").count();
        let waits = connection.call_tool(tool("x", json!({})), NEEDED, call_within(20.0));
        assert!(tokio::time::timeout(Duration::from_millis(300), waits).await.is_err());
        eventually("it is cancelled", || cancels() == 1).await;
        let answer = connection.call_tool(tool("x", json!({})), late, call_within(20.0)).await;
        assert!(matches!(answer, Err(McpError::Timeout { .. })), "{answer:?}");
        eventually("it is cancelled too", || cancels() == 2).await;
        assert_eq!(connection.active_calls(), 0);
    }
}

#[tokio::test]
async fn a_server_without_task_cancellation_gets_no_cancel_request() {
    let tasks = json!({"requests": {"tools": {"call": {}}}});
    let (server, connection) = older_task_server(tasks, |asked| match asked.method() {
        "tools/call" => Reply::result(asked, json!({"task": task("working")})),
        "ping" => Reply::result(asked, json!({})),
        _ => Reply::error(asked, 200, -32602),
    })
    .await;
    let answer =
        connection.call_tool(tool("x", json!({})), NEEDED, call_within(5.0)).await.unwrap();
    assert!(matches!(answer, McpAnswer::Error(error) if error.code == -32602));
    connection.call_method("ping", object(json!({})), McpCallOptions::default()).await.unwrap();
    assert!(!request_methods(&server).contains(&"tasks/cancel".to_owned()));
}

#[tokio::test]
async fn a_task_of_a_modern_server_is_polled_and_its_questions_answered() {
    let looks = AtomicUsize::new(0);
    let (server, connection) = modern_task_server(move |asked| match asked.method() {
        "tools/call" => Reply::result(asked, task_with("working", "resultType", json!("task"))),
        "tasks/update" => Reply::result(asked, json!({"resultType": "complete"})),
        _ => Reply::result(
            asked,
            match looks.fetch_add(1, Ordering::Relaxed) {
                // The server may repeat an input request that was already answered.
                0 | 1 => {
                    let name =
                        json!({"method": "elicitation/create", "params": {"message": "name?"}});
                    task_with("input_required", "inputRequests", json!({"name": name}))
                }
                2 => task("working"),
                _ => task_with(
                    "completed",
                    "result",
                    json!({"content": [{"type": "text", "text": "Hi"}]}),
                ),
            },
        ),
    })
    .await;
    let (mut call, mut hears) = listening_call();
    call.capabilities = Some(object(json!({"elicitation": {}})));
    let calling = connection.call_tool(tool("x", json!({})), ToolTaskOptions::default(), call);
    let answering = async {
        let mut asked = 0;
        while let Some(heard) = hears.recv().await {
            if let CallNotification::Question { reply, .. } = heard {
                asked += 1;
                drop(
                    reply.send(Ok(object(json!({"action": "accept", "content": {"name": "Ada"}})))),
                );
            }
        }
        asked
    };
    let (answer, asked) = tokio::join!(calling, answering);
    assert_eq!(asked, 1);
    assert_eq!(result(answer.unwrap())["content"][0]["text"], "Hi");
    let asked = server.received_requests();
    let of = |method: &str| asked.iter().filter(|it| it.method() == method).collect::<Vec<_>>();
    let capabilities = json!({"elicitation": {}, "extensions": {TASKS: {}}});
    for asked in of("tools/call").into_iter().chain(of("tasks/get")).chain(of("tasks/update")) {
        let meta = &asked.body["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], capabilities);
        let name = if asked.method() == "tools/call" { "x" } else { "t1" };
        assert_eq!(asked.header("mcp-name"), Some(name));
    }
    let [update] = of("tasks/update")[..] else { panic!("{asked:?}") };
    let responses = &update.body["params"]["inputResponses"];
    assert_eq!(responses["name"]["content"], json!({"name": "Ada"}));
}

#[tokio::test]
async fn the_outcome_of_a_modern_task_is_that_of_the_call() {
    let error = json!({"code": -32603, "message": "broke off", "data": [1]});
    for (end, expected) in [
        (task_with("failed", "error", error.clone()), Some(-32603)),
        (task("cancelled"), Some(-32000)),
        (task("completed"), None),
    ] {
        let (_server, connection) = modern_task_server(move |asked| match asked.method() {
            "tools/call" => Reply::result(asked, task_with("working", "resultType", json!("task"))),
            _ => Reply::result(asked, end.clone()),
        })
        .await;
        let answer = connection
            .call_tool(tool("x", json!({})), ToolTaskOptions::default(), call_within(5.0))
            .await;
        match expected {
            Some(code) => {
                assert!(matches!(answer, Ok(McpAnswer::Error(error)) if error.code == code))
            }
            None => assert!(matches!(answer, Err(McpError::InvalidAnswer { .. })), "{answer:?}"),
        }
    }
}
