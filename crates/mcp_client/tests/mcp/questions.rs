//! A request of the server reaches the call that it belongs to, and no other.

use std::time::Duration;

use mcp_client::{CallNotification, DeadlinePauses, McpCallOptions, RpcError};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn the_only_call_gets_the_question_and_its_answer_is_returned() {
    let connection = open("legacy").await;
    let (call, mut hears) = listening_call();
    let asking = connection.call_method("tools/call", tool("ask", json!({})), call);
    let answering = async {
        let Some(CallNotification::Question { method, params, reply }) = hears.recv().await else {
            panic!("it did not ask")
        };
        assert_eq!((&*method, json!(params)), ("elicitation/create", json!({"message": "name?"})));
        reply.send(Ok(object(json!({"action": "accept", "content": {"name": "Ada"}})))).unwrap();
    };
    let (answer, ()) = tokio::join!(asking, answering);
    let expected = json!({"answer": {"action": "accept", "content": {"name": "Ada"}}});
    assert_eq!(result(answer.unwrap()), expected);
}

#[tokio::test]
async fn during_a_question_the_permit_is_released_and_the_deadline_paused() {
    let mut settings = settings();
    settings.limits.max_calls = 1;
    let connection = open_with("legacy", &settings).await.unwrap();
    let (call, mut hears) = listening_call();
    let pauses = DeadlinePauses::with_max(Duration::from_secs(20));
    let call = McpCallOptions { pauses: Some(pauses.clone()), ..call };
    let call = McpCallOptions { deadline: Some(Duration::from_secs(1)), ..call };
    let asking = connection.call_method("tools/call", tool("ask", json!({})), call);
    let answering = async {
        let Some(CallNotification::Question { reply, .. }) = hears.recv().await else {
            panic!("it did not ask")
        };
        pauses.begin_pause();
        let slow = tool("slow", json!({"seconds": 1.5, "word": "x"}));
        connection.call_method("tools/call", slow, call_within(10.0)).await.unwrap();
        pauses.end_pause();
        reply.send(Ok(object(json!({"action": "cancel"})))).unwrap();
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(result(answer.unwrap()), json!({"answer": {"action": "cancel"}}));
}

#[tokio::test]
async fn a_question_is_refused_explicitly_or_by_not_answering() {
    let connection = open("legacy").await;
    for says_so in [true, false] {
        let (call, mut hears) = listening_call();
        let asking = connection.call_method("tools/call", tool("ask", json!({})), call);
        let answering = async {
            let Some(CallNotification::Question { reply, .. }) = hears.recv().await else {
                panic!("it did not ask")
            };
            if says_so {
                reply.send(Err(RpcError::new(-1, "I would rather not"))).unwrap();
            }
        };
        let (answer, ()) = tokio::join!(asking, answering);
        let code = result(answer.unwrap())["answer"]["code"].clone();
        assert_eq!(code, json!(if says_so { -1 } else { -32603 }));
    }
}

#[tokio::test]
async fn a_question_is_refused_if_two_calls_are_in_progress() {
    let connection = open("legacy").await;
    let (other, mut others) = listening_call();
    let slow = tool("slow", json!({"seconds": 0.5, "word": "x"}));
    let slow = connection.call_method("tools/call", slow, other);
    let (call, mut hears) = listening_call();
    let asking = connection.call_method("tools/call", tool("ask", json!({})), call);
    let (slow, answer) = tokio::join!(slow, asking);
    slow.unwrap();
    assert_eq!(result(answer.unwrap())["answer"]["code"], json!(-32601));
    assert!(others.try_recv().is_err() && hears.try_recv().is_err());
    assert_eq!(connection.dispatch_counts().refused_questions, 1);
}

#[tokio::test]
async fn a_call_that_cannot_answer_gets_no_question() {
    let connection = open("legacy").await;
    let answer = call(&connection, "ask", json!({})).await.unwrap();
    assert_eq!(answer["answer"]["code"], json!(-32601));
    let modern = open("modern").await;
    let (call, mut hears) = listening_call();
    let answer = modern.call_method("tools/call", tool("ask", json!({})), call).await.unwrap();
    assert_eq!(result(answer)["answer"]["code"], json!(-32601));
    assert!(hears.try_recv().is_err());
}
