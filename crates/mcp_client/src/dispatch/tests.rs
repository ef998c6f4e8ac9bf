//! Dispatch of messages to calls, without a server.

use proptest::prelude::*;
use serde_json::json;
use tokio::sync::mpsc;

use super::json_rpc::AnswerTarget;
use super::*;

fn notification(method: &str, params: Value) -> ServerMessage {
    let Value::Object(params) = params else { panic!("parameters are an object") };
    ServerMessage::Notification { method: method.to_owned(), params }
}

fn by(heard: mpsc::Sender<CallNotification>) -> McpCallOptions {
    McpCallOptions { notifications: Some(heard), ..McpCallOptions::default() }
}

fn question() -> ServerMessage {
    ServerMessage::Request { id: json!("q"), method: "roots/list".to_owned(), params: Map::new() }
}

#[test]
fn a_notification_on_a_shared_stream_reaches_the_only_active_call() {
    let hearing = MessageDispatcher::default();
    let (heard, mut hears) = mpsc::channel(8);
    let (ours, _answer) =
        hearing.register_call(&McpCallOptions::default(), CallRecipient::Internal).unwrap();
    let (first, _answer) = hearing.register_call(&by(heard), CallRecipient::Caller).unwrap();
    let log = || notification("notifications/message", json!({"data": 1}));
    hearing.dispatch(log(), MessageStream::Shared);
    assert!(matches!(hears.try_recv(), Ok(CallNotification::Log(_))));
    let (second, _answer) =
        hearing.register_call(&McpCallOptions::default(), CallRecipient::Caller).unwrap();
    hearing.dispatch(log(), MessageStream::Shared);
    assert!(matches!(hearing.dispatch(question(), MessageStream::Shared), DispatchStep::Reply(_)));
    assert!(hears.try_recv().is_err());
    hearing.finish_call(second);
    assert!(
        matches!(hearing.dispatch(question(), MessageStream::Shared), DispatchStep::AwaitReply(asked) if asked.call == first)
    );
    assert!(
        hearing.abandon_call(first) && hearing.abandon_call(ours) && !hearing.abandon_call(ours)
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_question_of_an_abandoned_call_does_not_reach_the_next_call() {
    for is_answered in [true, false] {
        let hearing = MessageDispatcher::default();
        let (first, _answer) =
            hearing.register_call(&McpCallOptions::default(), CallRecipient::Caller).unwrap();
        hearing.abandon_call(first);
        let (heard, _hears) = mpsc::channel(8);
        let (_, _answer) = hearing.register_call(&by(heard), CallRecipient::Caller).unwrap();
        assert!(matches!(
            hearing.dispatch(question(), MessageStream::Shared),
            DispatchStep::Reply(_)
        ));
        if is_answered {
            let answer = McpAnswer::Result(Map::new());
            hearing.dispatch(
                ServerMessage::Answer { id: json!(first), answer },
                MessageStream::Shared,
            );
        } else {
            tokio::time::sleep(ABANDONED_FOR).await;
        }
        assert!(matches!(
            hearing.dispatch(question(), MessageStream::Shared),
            DispatchStep::AwaitReply(_)
        ));
    }
}

#[tokio::test(start_paused = true)]
async fn late_messages_about_a_call_do_not_reach_another_owner() {
    let hearing = MessageDispatcher::default();
    let log = || notification("notifications/message", json!({"data": 1}));
    let (heard, mut hears) = mpsc::channel(8);
    for (owner, is_told) in [(1, true), (1, true), (2, false), (2, false), (1, false)] {
        let call = McpCallOptions { owner, ..by(heard.clone()) };
        let (id, _answer) = hearing.register_call(&call, CallRecipient::Caller).unwrap();
        hearing.dispatch(log(), MessageStream::Shared);
        assert_eq!(hears.try_recv().is_ok(), is_told, "{owner}");
        let is_asked = matches!(
            hearing.dispatch(question(), MessageStream::Shared),
            DispatchStep::AwaitReply(_)
        );
        assert_eq!((is_asked, hears.try_recv().is_ok()), (is_told, is_told), "{owner}");
        hearing.finish_call(id);
    }
    tokio::time::sleep(ABANDONED_FOR).await;
    let (_, _answer) = hearing
        .register_call(&McpCallOptions { owner: 1, ..by(heard) }, CallRecipient::Caller)
        .unwrap();
    hearing.dispatch(log(), MessageStream::Shared);
    assert!(hears.try_recv().is_ok());
}

#[tokio::test]
async fn a_question_ends_with_its_call_or_when_the_server_cancels_it() {
    let hearing = MessageDispatcher::default();
    for takes_back in [true, false] {
        let (heard, mut hears) = mpsc::channel(8);
        let call = hearing.register_streamed_call(&by(heard), CallRecipient::Caller).unwrap();
        let DispatchStep::AwaitReply(asked) =
            hearing.dispatch(question(), MessageStream::OfCall(call))
        else {
            panic!("nobody was asked")
        };
        let task = tokio::spawn(asked.await_reply());
        hearing.bind_question(call, json!("q"), task.abort_handle());
        if takes_back {
            let cancelled = notification("notifications/cancelled", json!({"requestId": "q"}));
            hearing.dispatch(cancelled, MessageStream::Shared);
        } else {
            hearing.finish_call(call);
        }
        assert!(task.await.unwrap_err().is_cancelled());
        let Ok(CallNotification::Question { reply, .. }) = hears.try_recv() else {
            panic!("nobody was asked")
        };
        assert!(reply.is_closed());
        hearing.finish_call(call);
    }
}

#[test]
fn the_end_of_a_connection_fails_current_and_later_calls() {
    let hearing = MessageDispatcher::default();
    let (_, mut answer) =
        hearing.register_call(&McpCallOptions::default(), CallRecipient::Caller).unwrap();
    hearing.fail_all(McpError::NotReading);
    hearing.fail_all(McpError::Closed);
    assert!(matches!(answer.try_recv(), Ok(Err(McpError::NotReading))));
    assert!(matches!(
        hearing.register_call(&McpCallOptions::default(), CallRecipient::Caller),
        Err(McpError::NotReading)
    ));
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_answer_fails_its_call() {
    let hearing = MessageDispatcher::default();
    let (heard, _hears) = mpsc::channel(8);
    let call = |owner| McpCallOptions { owner, ..by(heard.clone()) };
    let (first, mut answer) = hearing.register_call(&call(1), CallRecipient::Caller).unwrap();
    let (_, _answer) = hearing.register_call(&call(2), CallRecipient::Caller).unwrap();
    tokio::time::sleep(2 * ABANDONED_FOR).await;
    hearing.record_garbage(&BrokenMessage { target: AnswerTarget::Call(first), exceeded: None });
    assert!(matches!(answer.try_recv(), Ok(Err(McpError::InvalidAnswer { .. }))));
    let asked = hearing.dispatch(question(), MessageStream::Shared);
    assert!(matches!(asked, DispatchStep::Reply(_)), "it may be about the first");
    tokio::time::sleep(2 * ABANDONED_FOR).await;
    assert!(matches!(
        hearing.dispatch(question(), MessageStream::Shared),
        DispatchStep::AwaitReply(_)
    ));
}

proptest! {
    /// Whatever a server answers, a call receives only an answer with its own id.
    #[test]
    fn no_call_receives_the_answer_to_another(ids in prop::collection::vec(0u64..8, 0..40)) {
        let hearing = MessageDispatcher::default();
        let mut calls: Vec<_> = (0..5).map(|_| hearing.register_call(&McpCallOptions::default(), CallRecipient::Caller).unwrap()).collect();
        for id in &ids {
            let answer = McpAnswer::Result(Map::from_iter([("id".to_owned(), json!(id))]));
            hearing.dispatch(ServerMessage::Answer { id: json!(id), answer }, MessageStream::Shared);
        }
        for (id, answer) in &mut calls {
            match answer.try_recv() {
                Ok(Ok(McpAnswer::Result(result))) => prop_assert_eq!(&result["id"], &json!(*id)),
                Ok(other) => prop_assert!(false, "{:?}", other),
                Err(_) => prop_assert!(!ids.contains(id)),
            }
        }
        let mut known: Vec<_> = ids.iter().filter(|id| (1..=5).contains(*id)).collect();
        known.sort_unstable();
        known.dedup();
        prop_assert_eq!(hearing.counts().unknown_answers, (ids.len() - known.len()) as u64);
    }

    #[test]
    fn arbitrary_bytes_can_be_parsed(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(json_rpc::parse_inline(&bytes));
    }
}
