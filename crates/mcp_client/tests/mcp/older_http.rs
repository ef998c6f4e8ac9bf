//! Streamable HTTP of the older protocol: sessions, and a stream for messages that the server initiates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use mcp_client::{
    CallNotification, ConnectionSettings, McpAnswer, McpConnection, McpError, McpTarget, ServerEra,
};
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

use crate::server::{ReceivedRequest, Reply, Server, StreamPart};
use crate::support::*;

fn initialize_reply(asked: &ReceivedRequest, session: &str) -> Reply {
    let capabilities = json!({"tools": {}});
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities});
    let session = vec![("mcp-session-id", session.to_owned())];
    Reply::Json(200, session, Some(asked.result(result)))
}

async fn older_server(
    then: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> (Server, McpConnection) {
    older_server_with_settings(settings(), then).await
}

async fn older_server_with_settings(
    settings: ConnectionSettings,
    then: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> (Server, McpConnection) {
    let server = Server::start(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "server/discover") => Reply::error(asked, 400, -32000),
        (_, "initialize") => initialize_reply(asked, "s1"),
        (_, method) if method.starts_with("notifications/") => Reply::status(202),
        ("DELETE", _) => Reply::status(200),
        _ => then(asked),
    })
    .await;
    let connection = McpConnection::open(&server.target(), &settings).await.unwrap();
    assert_eq!(connection.server_description().era, ServerEra::Initialize);
    (server, connection)
}

#[tokio::test]
async fn every_request_carries_its_session_which_is_deleted_at_the_end() {
    let (server, connection) = older_server(|asked| match asked.verb.as_str() {
        "GET" => Reply::status(405),
        _ => Reply::result(asked, json!({"ok": 1})),
    })
    .await;
    let answer =
        connection.call_method("tools/call", tool("x", json!({})), call_within(5.0)).await.unwrap();
    assert_eq!(result(answer), json!({"ok": 1}));
    drop(connection);
    eventually("it is ended", || server.request_summaries().contains(&"DELETE".to_owned())).await;
    for asked in server.received_requests() {
        let is_first = matches!(asked.method(), "server/discover" | "initialize");
        let session = asked.header("mcp-session-id");
        assert_eq!(session, if is_first { None } else { Some("s1") }, "{asked:?}");
        let version = asked.header("mcp-protocol-version");
        match asked.method() {
            "server/discover" => assert_eq!(version, Some("2026-07-28")),
            "initialize" => assert_eq!(version, None),
            _ => assert_eq!(version, Some("2025-11-25")),
        }
        assert_eq!(asked.header("authorization"), Some("Bearer of-the-source"));
    }
}

#[tokio::test]
async fn a_lost_session_is_reopened_once() {
    let times = AtomicU32::new(0);
    let server = Server::start(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "initialize") => {
            initialize_reply(asked, &format!("s{}", times.fetch_add(1, Ordering::Relaxed)))
        }
        ("POST", "tools/call") => match asked.header("mcp-session-id") {
            Some("s1") => Reply::result(asked, json!({"ok": 1})),
            _ => Reply::status(404),
        },
        (_, "notifications/initialized") => Reply::status(202),
        _ => Reply::status(405),
    })
    .await;
    let settings = ConnectionSettings { era: Some(ServerEra::Initialize), ..settings() };
    let connection = McpConnection::open(&server.target(), &settings).await.unwrap();
    let calls = (0..5)
        .map(|_| connection.call_method("tools/call", tool("x", json!({})), call_within(5.0)));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(result(answer.unwrap()), json!({"ok": 1}));
    }
    let begun = server.request_summaries().iter().filter(|it| *it == "POST initialize").count();
    assert_eq!(begun, 2);
}

#[tokio::test]
async fn a_lost_session_is_reopened_for_nonstandard_errors_too() {
    let times = AtomicU32::new(0);
    let server = Server::start(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "initialize") => {
            initialize_reply(asked, &format!("s{}", times.fetch_add(1, Ordering::Relaxed)))
        }
        ("POST", "tools/call") if asked.header("mcp-session-id") == Some("s0") => {
            let mut refused = asked.error(-32000);
            refused["error"]["message"] = json!("Bad Request: No valid session ID provided");
            refused["id"] = Value::Null;
            Reply::Json(400, vec![], Some(refused))
        }
        ("POST", "tools/call") => Reply::result(asked, json!({"ok": 1})),
        (_, "other") => Reply::error(asked, 400, -32602),
        (_, "notifications/initialized") => Reply::status(202),
        _ => Reply::status(405),
    })
    .await;
    let settings = ConnectionSettings { era: Some(ServerEra::Initialize), ..settings() };
    let connection = McpConnection::open(&server.target(), &settings).await.unwrap();
    let answer =
        connection.call_method("tools/call", tool("x", json!({})), call_within(5.0)).await.unwrap();
    assert_eq!(result(answer), json!({"ok": 1}));
    let other = connection.call_method("other", object(json!({})), call_within(5.0)).await;
    assert!(matches!(other, Ok(McpAnswer::Error(error)) if error.code == -32602));
}

#[tokio::test]
async fn a_tool_error_that_mentions_a_session_does_not_repeat_the_call() {
    let times = AtomicU32::new(0);
    let server = Server::start(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "initialize") => {
            initialize_reply(asked, &format!("s{}", times.fetch_add(1, Ordering::Relaxed)))
        }
        ("POST", "notifications/initialized") => Reply::status(202),
        ("POST", _) if asked.header("mcp-session-id") == Some("s2") => {
            Reply::result(asked, json!({"ok": 1}))
        }
        ("POST", _) => {
            let mut refused = asked.error(-32000);
            refused["error"]["message"] = json!("the checkout session has expired");
            Reply::Json(400, vec![], Some(refused))
        }
        _ => Reply::status(405),
    })
    .await;
    let settings = ConnectionSettings { era: Some(ServerEra::Initialize), ..settings() };
    let connection = McpConnection::open(&server.target(), &settings).await.unwrap();
    let answer = connection.call_method("tools/call", tool("x", json!({})), call_within(5.0)).await;
    assert!(matches!(answer, Ok(McpAnswer::Error(error)) if error.message().contains("checkout")));
    let times = |what: &str| server.request_summaries().iter().filter(|it| **it == what).count();
    assert_eq!((times("POST tools/call"), times("POST initialize")), (1, 2));
    // A read-only request is repeated.
    let answer =
        connection.call_method("prompts/get", object(json!({})), call_within(5.0)).await.unwrap();
    assert_eq!(result(answer), json!({"ok": 1}));
    assert_eq!((times("POST prompts/get"), times("POST initialize")), (2, 3));
}

#[tokio::test]
async fn the_server_stream_opens_before_the_first_call_and_follows_the_session() {
    let times = AtomicU32::new(0);
    let server = Server::start(move |asked| match (asked.verb.as_str(), asked.method()) {
        (_, "initialize") => {
            initialize_reply(asked, &format!("s{}", times.fetch_add(1, Ordering::Relaxed)))
        }
        ("GET", _) => Reply::Stream(vec![StreamPart::Hold]),
        ("POST", "tools/call") if asked.header("mcp-session-id") == Some("s0") => {
            Reply::status(404)
        }
        (_, "notifications/initialized") => Reply::status(202),
        _ => Reply::result(asked, json!({})),
    })
    .await;
    let settings = ConnectionSettings { era: Some(ServerEra::Initialize), ..settings() };
    let connection = McpConnection::open(&server.target(), &settings).await.unwrap();
    connection.call_method("tools/call", tool("x", json!({})), call_within(5.0)).await.unwrap();
    let streams = || {
        let asked = server.received_requests().into_iter().filter(|asked| asked.verb == "GET");
        asked.map(|asked| asked.header("mcp-session-id").unwrap().to_owned()).collect::<Vec<_>>()
    };
    eventually("the stream is that of the new session", || streams() == ["s0", "s1"]).await;
    let begin = ["POST initialize", "POST notifications/initialized", "GET", "POST tools/call"];
    assert_eq!(server.request_summaries()[..4], begin);
}

#[tokio::test]
async fn a_session_that_is_lost_repeatedly_is_an_error() {
    let (_server, connection) = older_server(|_| Reply::status(404)).await;
    let answer = connection.call_method("tools/call", tool("x", json!({})), call_within(5.0)).await;
    assert!(matches!(answer, Err(McpError::UnexpectedStatus { status: 404, .. })));
}

#[tokio::test]
async fn an_abandoned_call_sends_a_cancellation() {
    let (server, connection) = older_server(|asked| match asked.verb.as_str() {
        "GET" => Reply::status(405),
        _ => Reply::Stream(vec![StreamPart::Hold]),
    })
    .await;
    let mut call = call_within(0.3);
    call.headers.insert("authorization", "Bearer of-the-caller".parse().unwrap());
    let answer = connection.call_method("tools/call", tool("x", json!({})), call).await;
    assert!(matches!(answer, Err(McpError::Timeout { .. })));
    let cancelled = || {
        let mut asked = server.received_requests().into_iter();
        asked.find(|asked| asked.method() == "notifications/cancelled")
    };
    eventually("it is cancelled", || cancelled().is_some()).await;
    let call =
        server.received_requests().into_iter().find(|it| it.method() == "tools/call").unwrap();
    let cancelled = cancelled().unwrap();
    assert_eq!(cancelled.body["params"], json!({"requestId": call.body["id"]}));
    assert_eq!(cancelled.header("authorization"), Some("Bearer of-the-caller"));
}

#[tokio::test]
async fn cancellations_to_an_unresponsive_server_are_limited() {
    let server = Server::start(|asked| match (asked.verb.as_str(), asked.method()) {
        (_, "initialize") => initialize_reply(asked, "s1"),
        (_, "notifications/initialized") => Reply::status(202),
        (_, "notifications/cancelled") => Reply::Silence,
        (_, "tools/call") => Reply::Stream(vec![StreamPart::Hold]),
        ("POST", _) => Reply::result(asked, json!({})),
        _ => Reply::status(405),
    })
    .await;
    let settings = ConnectionSettings { era: Some(ServerEra::Initialize), ..settings() };
    let connection = McpConnection::open(&server.target(), &settings).await.unwrap();
    let cancelled = || {
        server.request_summaries().iter().filter(|it| *it == "POST notifications/cancelled").count()
    };
    for _ in 0..4 {
        let call = || connection.call_method("tools/call", tool("x", json!({})), call_within(0.5));
        for answer in futures_util::future::join_all((0..25).map(|_| call())).await {
            assert!(matches!(answer, Err(McpError::Timeout { .. })));
        }
    }
    eventually("it is told of some", || cancelled() == 64).await;
    connection.call_method("ping", object(json!({})), call_within(5.0)).await.unwrap();
    assert_eq!(cancelled(), 64);
}

#[tokio::test]
async fn session_deletions_at_an_unresponsive_server_are_limited() {
    let server = Server::start(|asked| match (asked.verb.as_str(), asked.method()) {
        (_, "initialize") => initialize_reply(asked, "s1"),
        ("DELETE", _) => Reply::Silence,
        _ => Reply::status(202),
    })
    .await;
    let settings = ConnectionSettings { era: Some(ServerEra::Initialize), ..settings() };
    let (target, count) = (server.target(), |server: &Server| {
        server.request_summaries().iter().filter(|it| *it == "DELETE").count()
    });
    begin_and_end(50, &target, &settings).await;
    eventually("some are ended", || count(&server) == 32).await;
    McpConnection::open(&target, &settings).await.unwrap();
    assert_eq!(count(&server), 32);
    let other = Server::start(|asked| match (asked.verb.as_str(), asked.method()) {
        (_, "initialize") => initialize_reply(asked, "s2"),
        _ => Reply::status(202),
    })
    .await;
    begin_and_end(50, &other.target(), &settings).await;
    eventually("one that listens is told of all", || count(&other) == 50).await;
}

/// Opens this number of sessions and closes them at the same time.
async fn begin_and_end(sessions: usize, target: &McpTarget, settings: &ConnectionSettings) {
    let opening = (0..sessions).map(|_| McpConnection::open(target, settings));
    let connections = futures_util::future::join_all(opening).await;
    assert!(connections.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_server_request_on_the_stream_of_a_call_is_answered_by_that_call() {
    let (answered, was_answered) = watch::channel(false);
    let (server, connection) = older_server(move |asked| match (asked.verb.as_str(), asked.method()) {
        ("GET", _) => Reply::status(405),
        ("POST", "") => {
            answered.send_replace(true);
            Reply::status(202)
        }
        (_, "slow") => Reply::Stream(vec![
            StreamPart::Until(was_answered.clone()),
            StreamPart::Message(asked.result(json!({}))),
        ]),
        _ => {
            let question = json!({"jsonrpc": "2.0", "id": "q1", "method": "sampling/createMessage", "params": {"a": 1}});
            let ping = json!({"jsonrpc": "2.0", "id": "p1", "method": "ping"});
            Reply::Stream(vec![
                StreamPart::Message(question),
                StreamPart::Until(was_answered.clone()),
                StreamPart::Message(ping),
                StreamPart::Message(asked.result(json!({"done": 1}))),
            ])
        }
    })
    .await;
    // A second call is in progress; a request on the stream of a call still belongs to that call.
    let (other, mut others) = listening_call();
    let slow = connection.call_method("slow", object(json!({})), other);
    let (mut call, mut hears) = listening_call();
    call.headers.insert("authorization", "Bearer of-the-caller".parse().unwrap());
    let asking = connection.call_method("tools/call", tool("x", json!({})), call);
    let answering = async {
        let Some(CallNotification::Question { method, reply, .. }) = hears.recv().await else {
            panic!("no question")
        };
        assert_eq!(&*method, "sampling/createMessage");
        reply.send(Ok(object(json!({"role": "assistant"})))).unwrap();
    };
    let (slow, answer, ()) = tokio::join!(slow, asking, answering);
    slow.unwrap();
    assert_eq!(result(answer.unwrap()), json!({"done": 1}));
    assert!(others.try_recv().is_err());
    let replies: Vec<_> = server
        .received_requests()
        .into_iter()
        .filter(|it| it.verb == "POST" && it.method().is_empty())
        .collect();
    let expected = json!({"jsonrpc": "2.0", "id": "q1", "result": {"role": "assistant"}});
    assert_eq!(replies.first().unwrap().body, expected);
    assert_eq!(replies.first().unwrap().header("authorization"), Some("Bearer of-the-caller"));
}

#[tokio::test]
async fn a_broken_stream_is_resumed_after_the_last_event() {
    let (server, connection) =
        older_server(|asked| match (asked.verb.as_str(), asked.header("last-event-id")) {
            ("GET", Some("e2")) => Reply::Stream(vec![StreamPart::Message(
                json!({"jsonrpc": "2.0", "id": 3, "result": {"late": 1}}),
            )]),
            ("GET", _) => Reply::status(405),
            _ => {
                assert_eq!(asked.body["id"], json!(3));
                Reply::Stream(vec![StreamPart::Text(
                    "id: e1\nretry: 20\ndata:\n\nid: e2\n\n".to_owned(),
                )])
            }
        })
        .await;
    let answer =
        connection.call_method("tools/call", tool("x", json!({})), call_within(5.0)).await.unwrap();
    assert_eq!(result(answer), json!({"late": 1}));
    assert_eq!(server.received_requests().last().unwrap().header("mcp-session-id"), Some("s1"));
}

#[tokio::test]
async fn the_total_size_of_a_resumed_stream_is_limited() {
    let mut settings = settings();
    settings.limits.max_stream_bytes = 50_000;
    let times = AtomicUsize::new(0);
    let (server, connection) = older_server_with_settings(settings, move |asked| {
        if asked.verb == "GET" && asked.header("last-event-id").is_none() {
            return Reply::status(405);
        }
        let number = times.fetch_add(1, Ordering::Relaxed);
        let comment = "x".repeat(20_000);
        Reply::Stream(vec![StreamPart::Text(format!("id: {number}\nretry: 1\n:{comment}\n\n"))])
    })
    .await;
    let endless =
        connection.call_method("tools/call", tool("x", json!({})), call_within(20.0)).await;
    let error = endless.unwrap_err();
    assert!(matches!(error, McpError::AnswerTooLarge { limit: 50_000, .. }), "{error}");
    let resumed =
        server.received_requests().iter().filter(|it| it.header("last-event-id").is_some()).count();
    assert_eq!(resumed, 2);
}

#[tokio::test]
async fn the_server_stream_delivers_changes_and_requests_to_the_only_call() {
    let (tell, _) = broadcast::channel::<Value>(8);
    let tells = tell.clone();
    let (answered, was_answered) = watch::channel(false);
    let (_server, connection) =
        older_server(move |asked| match (asked.verb.as_str(), asked.method()) {
            ("GET", _) => Reply::Stream(vec![StreamPart::From(tells.subscribe())]),
            ("POST", "") => {
                answered.send_replace(asked.body["result"]["roots"].is_array());
                Reply::status(202)
            }
            _ => Reply::Stream(vec![
                StreamPart::Until(was_answered.clone()),
                StreamPart::Message(asked.result(json!({"done": 1}))),
            ]),
        })
        .await;
    let mut changes = connection.subscribe_changes();
    eventually("it listens", || 0 < tell.receiver_count()).await;
    tell.send(json!({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})).unwrap();
    changes.wait_for(|changes| changes.prompts == 1).await.unwrap();
    // No call is in progress that could answer.
    let question = json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"});
    tell.send(question.clone()).unwrap();
    eventually("it is refused", || connection.dispatch_counts().refused_questions == 1).await;
    let (call, mut hears) = listening_call();
    let asking = connection.call_method("tools/call", tool("x", json!({})), call);
    let answering = async {
        eventually("it is under way", || connection.active_calls() == 1).await;
        tell.send(question).unwrap();
        let Some(CallNotification::Question { reply, .. }) = hears.recv().await else {
            panic!("no question")
        };
        reply.send(Ok(object(json!({"roots": []})))).unwrap();
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(result(answer.unwrap()), json!({"done": 1}));
}

#[tokio::test]
async fn a_401_is_not_followed_by_other_protocol_versions() {
    let server = Server::start(|_| Reply::status(401)).await;
    let Err(error) = McpConnection::open(&server.target(), &settings()).await else {
        panic!("it opened")
    };
    assert!(matches!(error, McpError::Unauthorized { status: 401, .. }));
    assert!(!error.to_string().contains("of-the-source"));
    assert_eq!(server.request_summaries(), ["POST server/discover"]);
}

#[tokio::test]
async fn resources_are_subscribed_again_in_a_new_session() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let gone = Arc::clone(&is_gone);
    let (server, connection) = older_server(move |asked| match asked.method() {
        "tools/call" if gone.swap(false, Ordering::Relaxed) => Reply::status(404),
        "resources/subscribe" if asked.body["params"]["uri"] == "test://no" => {
            Reply::error(asked, 200, -32002)
        }
        "" => Reply::status(405),
        _ => Reply::result(asked, json!({})),
    })
    .await;
    let follow = async || {
        let uris = ["test://a".into(), "test://no".into()].into();
        connection.subscribe_resources(uris, &call_within(5.0)).await.unwrap()
    };
    let count =
        || server.request_summaries().iter().filter(|it| *it == "POST resources/subscribe").count();
    let refused = follow().await;
    assert!(
        matches!(&refused[..], [(uri, error)] if &**uri == "test://no" && error.code == -32002)
    );
    assert!(follow().await.is_empty());
    assert_eq!(count(), 2);
    let session = connection.session_generation();
    is_gone.store(true, Ordering::Relaxed);
    connection.call_method("tools/call", tool("x", json!({})), call_within(5.0)).await.unwrap();
    assert!(session < connection.session_generation());
    follow().await;
    assert_eq!(count(), 4);
}

#[tokio::test]
async fn resources_are_subscribed_and_unsubscribed_one_by_one() {
    let (server, connection) = older_server(|asked| match asked.verb.as_str() {
        "GET" => Reply::status(405),
        _ => Reply::result(asked, json!({})),
    })
    .await;
    let follow = async |uris: &[&str]| {
        let uris = uris.iter().map(|uri| Box::from(*uri)).collect();
        connection.subscribe_resources(uris, &call_within(5.0)).await.unwrap();
    };
    follow(&["test://a", "test://b"]).await;
    follow(&["test://b", "test://c"]).await;
    let told = |asked: &ReceivedRequest| {
        let uri = asked.body["params"]["uri"].as_str()?.to_owned();
        Some(format!("{} {uri}", asked.method()))
    };
    let asked: Vec<_> = server.received_requests().iter().filter_map(told).collect();
    assert_eq!(
        asked,
        [
            "resources/subscribe test://a",
            "resources/subscribe test://b",
            "resources/unsubscribe test://a",
            "resources/subscribe test://c",
        ]
    );
}
