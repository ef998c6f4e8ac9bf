//! Streamable HTTP of the modern protocol: every request is self-contained.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_client::{
    CallNotification, McpAnswer, McpCallOptions, McpConnection, McpError, McpItemKind,
    McpListWarning, McpTarget, ServerEra,
};
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};
use upstream::egress::EgressPolicy;
use upstream::http::{HttpClient, HttpError};

use crate::server::{ReceivedRequest, Reply, Server, StreamPart};
use crate::support::*;

fn discover_reply(asked: &ReceivedRequest) -> Reply {
    let capabilities = json!({"tools": {"listChanged": true}});
    let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "resultType": "complete"});
    Reply::result(asked, result)
}

async fn modern_server(
    then: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> (Server, McpConnection) {
    let server = Server::start(move |asked| match asked.method() {
        "server/discover" => discover_reply(asked),
        _ => then(asked),
    })
    .await;
    let connection = McpConnection::open(&server.target(), &settings()).await.unwrap();
    assert_eq!(connection.server_description().era, ServerEra::Modern);
    (server, connection)
}

#[tokio::test]
async fn a_request_is_self_contained_and_repeats_its_key_fields_in_headers() {
    let (server, connection) =
        modern_server(|asked| Reply::result(asked, json!({"big": 1.0e300}))).await;
    let schema = json!({"properties": {"to": {"type": "string", "x-mcp-header": "To"}}});
    let mut call = McpCallOptions { schema: Some(Arc::new(schema)), ..call_within(5.0) };
    call.headers.insert("authorization", "Bearer of-the-caller".parse().unwrap());
    let params = tool("grüße", json!({"to": "Zoë"}));
    let answer = connection.call_method("tools/call", params, call).await.unwrap();
    assert_eq!(result(answer).to_string(), r#"{"big":1e+300}"#);
    let asked = server.received_requests();
    let [discover, call] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(discover.header("mcp-method"), Some("server/discover"));
    assert_eq!(discover.header("authorization"), Some("Bearer of-the-source"));
    for (name, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "=?base64?Z3LDvMOfZQ==?="),
        ("mcp-param-to", "=?base64?Wm/Dqw==?="),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("authorization", "Bearer of-the-caller"),
    ] {
        assert_eq!(call.header(name), Some(value), "{name}");
    }
    let meta = &call.body["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], json!("2026-07-28"));
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    assert_eq!(call.header("mcp-session-id"), None);
}

#[tokio::test]
async fn messages_on_the_stream_of_a_call_belong_to_that_call() {
    let (_server, connection) = modern_server(|asked| {
        let token = asked.body["params"]["_meta"]["progressToken"].clone();
        let told = |method: &str, params: Value| {
            StreamPart::Message(json!({"jsonrpc": "2.0", "method": method, "params": params}))
        };
        let other = json!({"progressToken": 99, "progress": 1});
        let mine = json!({"progressToken": token, "progress": 2});
        Reply::Stream(vec![
            StreamPart::Text(": beat\n\n".to_owned()),
            told("notifications/progress", other),
            told("notifications/progress", mine),
            told("notifications/message", json!({"level": "info", "data": 3})),
            StreamPart::Message(json!({"jsonrpc": "2.0", "id": 7, "method": "roots/list"})),
            StreamPart::Text("data: not json\n\n".to_owned()),
            StreamPart::Message(json!({"jsonrpc": "2.0", "id": 99, "result": {"wrong": 1}})),
            StreamPart::Message(asked.result(json!({"right": 1}))),
            StreamPart::Hold,
        ])
    })
    .await;
    let (call, mut hears) = listening_call();
    let answer = connection.call_method("tools/call", tool("x", json!({})), call).await.unwrap();
    assert_eq!(result(answer), json!({"right": 1}));
    assert!(
        matches!(hears.try_recv(), Ok(CallNotification::Progress(params)) if json!(params) == json!({"progress": 2}))
    );
    assert!(matches!(hears.try_recv(), Ok(CallNotification::Log(params)) if params["data"] == 3));
    assert!(hears.try_recv().is_err());
    let counts = connection.dispatch_counts();
    assert_eq!((counts.garbage, counts.unknown_answers, counts.refused_questions), (1, 1, 1));
}

#[tokio::test]
async fn oversized_progress_and_log_messages_are_dropped() {
    let (_server, connection) = modern_server(|asked| {
        let token = asked.body["params"]["_meta"]["progressToken"].clone();
        let told = |method: &str, params: Value| {
            StreamPart::Message(json!({"jsonrpc": "2.0", "method": method, "params": params}))
        };
        let progress =
            |message: String| json!({"progressToken": token, "progress": 1, "message": message});
        Reply::Stream(vec![
            told("notifications/progress", progress("x".repeat(64 << 10))),
            told("notifications/message", json!({"level": "info", "data": "x".repeat(64 << 10)})),
            told("notifications/message", json!({"level": "info", "data": "x".repeat(60 << 10)})),
            StreamPart::Message(asked.result(json!({}))),
        ])
    })
    .await;
    let (call, mut hears) = listening_call();
    connection.call_method("tools/call", tool("x", json!({})), call).await.unwrap();
    let heard = hears.try_recv();
    assert!(
        matches!(&heard, Ok(CallNotification::Log(params)) if params["data"].as_str().unwrap().len() == 60 << 10)
    );
    assert!(hears.try_recv().is_err());
    assert_eq!(connection.dispatch_counts().dropped_notifications, 2);
}

#[tokio::test]
async fn an_abandoned_call_closes_its_stream() {
    let (server, connection) = modern_server(|_| Reply::Stream(vec![StreamPart::Hold])).await;
    let answer = connection.call_method("tools/call", tool("x", json!({})), call_within(0.3)).await;
    assert!(matches!(answer, Err(McpError::Timeout { .. })));
    let mut left = server.left.clone();
    left.wait_for(|left| *left == 1).await.unwrap();
    assert_eq!(server.request_summaries(), ["POST server/discover", "POST tools/call"]);
    assert_eq!(connection.active_calls(), 0);
}

#[tokio::test]
async fn errors_are_returned_whatever_the_http_status() {
    let (_server, connection) = modern_server(|asked| match asked.method() {
        "a" => Reply::error(asked, 404, -32601),
        "b" => Reply::error(asked, 400, -32020),
        "c" => Reply::Json(401, vec![("www-authenticate", "Bearer x=\"y\"".to_owned())], None),
        "d" => Reply::status(502),
        "e" => Reply::Raw(
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/html\r\n\r\nhi".to_vec(),
        ),
        "f" => Reply::Json(200, vec![], Some(json!({"jsonrpc": "2.0", "id": 999, "result": {}}))),
        _ => Reply::Stream(vec![StreamPart::Text("id: 1\ndata:\n\n".to_owned())]),
    })
    .await;
    let ask = async |method: &str| {
        connection.call_method(method, object(json!({})), call_within(5.0)).await
    };
    for (method, code) in [("a", -32601), ("b", -32020)] {
        assert!(matches!(ask(method).await, Ok(McpAnswer::Error(error)) if error.code == code));
    }
    let error = ask("c").await.unwrap_err();
    assert!(
        matches!(&error, McpError::Unauthorized { status: 401, challenge: Some(it), .. } if &**it == "Bearer x=\"y\"")
    );
    assert!(matches!(ask("d").await, Err(McpError::UnexpectedStatus { status: 502, .. })));
    assert!(matches!(ask("e").await, Err(McpError::InvalidAnswer { .. })));
    assert!(matches!(ask("f").await, Err(McpError::InvalidAnswer { .. })));
    assert!(matches!(ask("g").await, Err(McpError::StreamBroken { .. })));
}

#[tokio::test]
async fn slow_and_endless_streams_are_cut() {
    let (_server, connection) = modern_server(|asked| match asked.method() {
        "slow" => Reply::Stream(vec![StreamPart::Trickle]),
        "endless" => Reply::Stream(vec![StreamPart::Endless]),
        _ => Reply::Stream(vec![StreamPart::Text("data: {".to_owned()), StreamPart::Endless]),
    })
    .await;
    let start = Instant::now();
    let slow = connection.call_method("slow", object(json!({})), call_within(0.5)).await;
    assert!(matches!(slow, Err(McpError::Timeout { .. })));
    assert!(start.elapsed() < Duration::from_secs(1));
    let endless = connection.call_method("endless", object(json!({})), call_within(1.0)).await;
    assert!(matches!(endless, Err(McpError::Timeout { .. })), "it is read at a pace");
    let endless =
        connection.call_method("endless data", object(json!({})), call_within(20.0)).await;
    let error = endless.unwrap_err();
    assert!(matches!(error, McpError::AnswerTooLarge { what: "bytes", .. }), "{error}");
}

#[tokio::test]
async fn an_oversized_notification_does_not_fail_the_call() {
    let (_server, connection) = modern_server(|asked| {
        let told = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": vec![json!({}); 100_000]}});
        Reply::Stream(vec![StreamPart::Message(told), StreamPart::Message(asked.result(json!({"a": 1})))])
    })
    .await;
    let answer = connection.call_method("x", object(json!({})), call_within(20.0)).await.unwrap();
    assert_eq!(result(answer), json!({"a": 1}));
    assert_eq!(connection.dispatch_counts().garbage, 1);
}

#[tokio::test]
async fn too_many_values_are_refused_before_the_message_is_complete() {
    let (_server, connection) = modern_server(|_| {
        let many = format!("data: {{\"result\": [{}", "{},".repeat(100_000));
        Reply::Stream(vec![StreamPart::Text(many), StreamPart::Trickle])
    })
    .await;
    let many = connection.call_method("many", object(json!({})), call_within(20.0)).await;
    let error = many.unwrap_err();
    assert!(matches!(error, McpError::AnswerTooLarge { what: "values", .. }), "{error}");
}

#[tokio::test]
async fn a_tool_with_invalid_header_annotations_is_omitted() {
    let (_server, connection) = modern_server(|asked| {
        let property = json!({"type": "number", "x-mcp-header": "N"});
        let wrong = json!({"name": "wrong", "inputSchema": {"properties": {"n": property}}});
        Reply::result(asked, json!({"tools": [wrong, {"name": "right", "inputSchema": {}}]}))
    })
    .await;
    let listing =
        connection.fetch_list(McpItemKind::Tools, McpCallOptions::default()).await.unwrap();
    assert_eq!(listing.items.len(), 1);
    assert!(
        matches!(listing.warnings.as_slice(), [McpListWarning::InvalidHeaderAnnotation { key, .. }] if &**key == "wrong")
    );
    assert!(
        connection
            .fetch_list(McpItemKind::Prompts, McpCallOptions::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn a_broken_change_subscription_is_renewed() {
    let (tell, _) = broadcast::channel::<Value>(8);
    let tells = tell.clone();
    let (server, connection) = modern_server(move |asked| match asked.body["id"].as_u64() {
        Some(2) => Reply::Stream(vec![]),
        _ => Reply::Stream(vec![StreamPart::From(tells.subscribe())]),
    })
    .await;
    let mut changes = connection.subscribe_changes();
    // The first subscription breaks off. Notifications may have been missed, so everything counts as changed.
    changes.wait_for(|changes| changes.tools == 1).await.unwrap();
    eventually("it is open again", || 0 < tell.receiver_count()).await;
    tell.send(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).unwrap();
    changes.wait_for(|changes| changes.tools == 2).await.unwrap();
    let asked = server.received_requests();
    let wanted = &asked.last().unwrap().body["params"]["notifications"];
    assert_eq!(*wanted, json!({"toolsListChanged": true}));
    drop(connection);
    let mut left = server.left.clone();
    left.wait_for(|left| *left == 1).await.unwrap();
}

/// The first message of a subscription.
fn subscription_acknowledged() -> StreamPart {
    let method = "notifications/subscriptions/acknowledged";
    StreamPart::Message(json!({"jsonrpc": "2.0", "method": method, "params": {}}))
}

#[tokio::test]
async fn resources_are_followed_by_a_new_subscription() {
    let (server, connection) = modern_server(|asked| {
        let uris = asked.body["params"]["notifications"]["resourceSubscriptions"].clone();
        let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uris[0]}});
        Reply::Stream(vec![subscription_acknowledged(), StreamPart::Message(updated), StreamPart::Hold])
    })
    .await;
    let mut changes = connection.subscribe_changes();
    eventually("it listens", || server.received_requests().len() == 2).await;
    connection.subscribe_resources(["test://a".into()].into(), &call_within(5.0)).await.unwrap();
    changes
        .wait_for(|changes| changes.updated_resources == [(1, "test://a".into())])
        .await
        .unwrap();
    connection.subscribe_resources(["test://b".into()].into(), &call_within(5.0)).await.unwrap();
    let both = [(1, "test://a".into()), (2, "test://b".into())];
    changes.wait_for(|changes| changes.updated_resources == both).await.unwrap();
    assert_eq!(changes.borrow().tools, 0);
    let mut left = server.left.clone();
    left.wait_for(|left| *left == 2).await.unwrap();
}

#[tokio::test]
async fn frequent_subscription_changes_are_throttled_and_lose_no_notification() {
    let (tell, _) = broadcast::channel::<Value>(8);
    let telling = tell.clone();
    let (server, connection) = modern_server(move |_| {
        Reply::Stream(vec![subscription_acknowledged(), StreamPart::From(telling.subscribe())])
    })
    .await;
    let mut changes = connection.subscribe_changes();
    eventually("it listens", || server.received_requests().len() == 2).await;
    let begun = Instant::now();
    for number in 0..30 {
        let churn = format!("test://{number}").into();
        connection
            .subscribe_resources(["test://kept".into(), churn].into(), &call_within(5.0))
            .await
            .unwrap();
        let told = format!("test://told-{number}");
        let params = json!({"uri": told});
        let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params});
        tell.send(updated).unwrap();
        let heard =
            changes.wait_for(|it| it.updated_resources.iter().any(|(_, uri)| **uri == *told));
        tokio::time::timeout(Duration::from_secs(10), heard).await.unwrap().unwrap();
    }
    let last =
        || server.received_requests().last().unwrap().body["params"]["notifications"].clone();
    let wanted = json!(["test://29", "test://kept"]);
    eventually("the last are asked for", || last()["resourceSubscriptions"] == wanted).await;
    let listens = server.received_requests().len() - 1;
    assert!(
        (listens as u64) <= 2 + begun.elapsed().as_secs(),
        "{listens} in {:?}",
        begun.elapsed()
    );
    let mut left = server.left.clone();
    left.wait_for(|left| *left as usize + 1 == listens).await.unwrap();
}

#[tokio::test]
async fn a_subscription_stays_open_until_the_next_has_begun() {
    let (begin, has_begun) = watch::channel(false);
    let (tell, _) = broadcast::channel::<Value>(8);
    let telling = tell.clone();
    let (server, connection) = modern_server(move |asked| match asked.body["id"].as_u64() {
        Some(2) => {
            Reply::Stream(vec![subscription_acknowledged(), StreamPart::From(telling.subscribe())])
        }
        _ => Reply::Stream(vec![
            StreamPart::Until(has_begun.clone()),
            subscription_acknowledged(),
            StreamPart::Hold,
        ]),
    })
    .await;
    let mut changes = connection.subscribe_changes();
    eventually("it listens", || 0 < tell.receiver_count()).await;
    // Further changes of the subscription wait until the next one has begun.
    for uri in ["test://a", "test://b"] {
        connection.subscribe_resources([uri.into()].into(), &call_within(5.0)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1_200)).await;
    }
    tell.send(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).unwrap();
    let heard = changes.wait_for(|changes| changes.tools == 1);
    tokio::time::timeout(Duration::from_secs(10), heard).await.unwrap().unwrap();
    assert_eq!(server.received_requests().len(), 3);
    begin.send(true).unwrap();
    let mut left = server.left.clone();
    left.wait_for(|left| *left == 2).await.unwrap();
    let last =
        || server.received_requests().last().unwrap().body["params"]["notifications"].clone();
    assert_eq!(last()["resourceSubscriptions"], json!(["test://b"]));
}

#[tokio::test]
async fn a_supported_version_in_a_version_error_is_retried() {
    let times = std::sync::atomic::AtomicU32::new(0);
    let server = Server::start(move |asked| {
        if times.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            let mut refused = asked.error(-32022);
            refused["error"]["data"] = json!({"supported": ["2026-07-28"]});
            return Reply::Json(400, vec![], Some(refused));
        }
        discover_reply(asked)
    })
    .await;
    let connection = McpConnection::open(&server.target(), &settings()).await.unwrap();
    assert_eq!(connection.server_description().era, ServerEra::Modern);
    assert_eq!(server.request_summaries(), ["POST server/discover", "POST server/discover"]);
}

#[tokio::test]
async fn a_forbidden_address_is_not_contacted() {
    let server = Server::start(discover_reply).await;
    let McpTarget::Http { url, headers, .. } = server.target() else { panic!("it is over HTTP") };
    let target = McpTarget::Http { client: HttpClient::new(EgressPolicy::default()), url, headers };
    let Err(error) = McpConnection::open(&target, &settings()).await else { panic!("it opened") };
    let McpError::Http(error) = error else { panic!("{error}") };
    assert!(matches!(*error, HttpError::EgressDenied(_)), "{error}");
    assert!(server.received_requests().is_empty());
}
