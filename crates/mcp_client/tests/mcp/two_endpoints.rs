//! The HTTP+SSE transport of 2024-11-05: one event stream, and a separate endpoint for requests.

use std::time::{Duration, Instant};

use mcp_client::{McpConnection, McpError, ServerEra};
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

use crate::server::{Reply, Server, StreamPart};
use crate::support::*;

async fn server(endpoint: &'static str) -> Server {
    server_that_breaks(endpoint, watch::channel(false).1).await
}

/// A server whose stream ends on demand.
async fn server_that_breaks(endpoint: &'static str, breaks: watch::Receiver<bool>) -> Server {
    let (tell, _) = broadcast::channel::<Value>(8);
    Server::start(move |asked| match (asked.verb.as_str(), asked.path.as_str()) {
        ("GET", "/mcp") => Reply::Stream(vec![
            StreamPart::Text(format!("event: endpoint\ndata: {endpoint}\n\n")),
            StreamPart::FromUntil(tell.subscribe(), breaks.clone()),
        ]),
        ("POST", "/messages?session=1") => {
            let version = json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}});
            match asked.method() {
                "initialize" => drop(tell.send(asked.result(version))),
                "slow" | "notifications/initialized" => {}
                "notifications/cancelled" => return Reply::Silence,
                "many" => drop(tell.send(asked.result(json!({"all": vec![json!({}); 100_000]})))),
                "large" => {
                    let (result, id) = ("x".repeat(9_000_000), &asked.body["id"]);
                    drop(
                        tell.send(json!({"result": {"text": result}, "jsonrpc": "2.0", "id": id})),
                    );
                }
                _ => drop(tell.send(asked.result(json!({"echo": asked.body["params"]})))),
            }
            Reply::status(202)
        }
        _ => Reply::status(405),
    })
    .await
}

#[tokio::test]
async fn the_transport_is_detected_and_used() {
    let server = server("/messages?session=1").await;
    let connection = McpConnection::open(&server.target(), &settings()).await.unwrap();
    assert_eq!(
        (connection.server_description().era, connection.server_description().version),
        (ServerEra::HttpSse, "2024-11-05")
    );
    let answer =
        connection.call_method("x", object(json!({"a": 1})), call_within(5.0)).await.unwrap();
    assert_eq!(result(answer), json!({"echo": {"a": 1}}));
    let given_up = connection.call_method("slow", object(json!({})), call_within(0.2)).await;
    assert!(matches!(given_up, Err(McpError::Timeout { .. })));
    let is_cancelled =
        || server.request_summaries().contains(&"POST notifications/cancelled".to_owned());
    eventually("it is cancelled", is_cancelled).await;
    let sent = server.received_requests().into_iter().find(|asked| asked.method() == "x").unwrap();
    assert_eq!(sent.header("authorization"), Some("Bearer of-the-source"));
}

#[tokio::test]
async fn cancellations_to_an_unresponsive_server_are_limited() {
    let server = server("/messages?session=1").await;
    let connection = McpConnection::open(&server.target(), &settings()).await.unwrap();
    let cancelled = || {
        server.request_summaries().iter().filter(|it| *it == "POST notifications/cancelled").count()
    };
    for _ in 0..4 {
        let call = || connection.call_method("slow", object(json!({})), call_within(0.5));
        for answer in futures_util::future::join_all((0..25).map(|_| call())).await {
            assert!(matches!(answer, Err(McpError::Timeout { .. })));
        }
    }
    eventually("it is told of some", || cancelled() == 64).await;
    connection.call_method("x", object(json!({})), call_within(5.0)).await.unwrap();
    assert_eq!(cancelled(), 64);
}

#[tokio::test]
async fn credentials_are_not_sent_to_another_origin() {
    let server = server("http://127.0.0.1:1/messages").await;
    let Err(error) = McpConnection::open(&server.target(), &settings()).await else {
        panic!("it opened")
    };
    assert!(matches!(error, McpError::EndpointOriginMismatch), "{error}");
}

#[tokio::test]
async fn an_oversized_answer_fails_only_its_own_call() {
    let server = server("/messages?session=1").await;
    let connection = McpConnection::open(&server.target(), &settings()).await.unwrap();
    let slow = connection.call_method("slow", object(json!({})), call_within(5.0));
    let others = async {
        for (method, of) in [("many", "values"), ("large", "bytes")] {
            let error = connection.call_method(method, object(json!({})), call_within(20.0)).await;
            let error = error.unwrap_err();
            assert!(
                matches!(error, McpError::AnswerTooLarge { what, .. } if what == of),
                "{error}"
            );
        }
        connection.call_method("x", object(json!({})), call_within(5.0)).await.unwrap();
    };
    let (slow, ()) = tokio::join!(slow, others);
    assert!(matches!(slow, Err(McpError::Timeout { .. })), "{slow:?}");
    assert!(connection.end_reason().is_none());
}

#[tokio::test]
async fn the_end_of_the_stream_fails_every_call() {
    let (tell, breaks) = watch::channel(false);
    let server = server_that_breaks("/messages?session=1", breaks).await;
    let connection = McpConnection::open(&server.target(), &settings()).await.unwrap();
    let slow = connection.call_method("slow", object(json!({})), call_within(20.0));
    let end = async {
        eventually("it is sent", || server.request_summaries().contains(&"POST slow".to_owned()))
            .await;
        tell.send_replace(true);
        Instant::now()
    };
    let (slow, ended) = tokio::join!(slow, end);
    assert!(matches!(slow, Err(McpError::StreamBroken { .. })));
    assert!(ended.elapsed() < Duration::from_secs(1));
    assert!(connection.end_reason().is_some());
}
