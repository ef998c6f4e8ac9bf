//! Dispatch of messages to calls, without a server.

use proptest::prelude::*;
use serde_json::json;
use tokio::sync::mpsc;

use super::message::Answers;
use super::*;

fn notification(method: &str, params: Value) -> Incoming {
    let Value::Object(params) = params else { panic!("parameters are an object") };
    Incoming::Notification { method: method.to_owned(), params }
}

fn by(heard: mpsc::Sender<Heard>) -> Call {
    Call { heard: Some(heard), ..Call::default() }
}

fn question() -> Incoming {
    Incoming::Request { id: json!("q"), method: "roots/list".to_owned(), params: Map::new() }
}

#[test]
fn a_notification_on_a_shared_stream_reaches_the_only_active_call() {
    let hearing = Hearing::default();
    let (heard, mut hears) = mpsc::channel(8);
    let (ours, _answer) = hearing.begin(&Call::default(), Whose::Ours).unwrap();
    let (first, _answer) = hearing.begin(&by(heard), Whose::Callers).unwrap();
    let log = || notification("notifications/message", json!({"data": 1}));
    hearing.hear(log(), Stream::Shared);
    assert!(matches!(hears.try_recv(), Ok(Heard::Log(_))));
    let (second, _answer) = hearing.begin(&Call::default(), Whose::Callers).unwrap();
    hearing.hear(log(), Stream::Shared);
    assert!(matches!(hearing.hear(question(), Stream::Shared), Next::Reply(_)));
    assert!(hears.try_recv().is_err());
    hearing.end(second);
    assert!(
        matches!(hearing.hear(question(), Stream::Shared), Next::Ask(asked) if asked.call == first)
    );
    assert!(hearing.give_up(first) && hearing.give_up(ours) && !hearing.give_up(ours));
}

#[tokio::test(start_paused = true)]
async fn a_late_question_of_an_abandoned_call_does_not_reach_the_next_call() {
    for is_answered in [true, false] {
        let hearing = Hearing::default();
        let (first, _answer) = hearing.begin(&Call::default(), Whose::Callers).unwrap();
        hearing.give_up(first);
        let (heard, _hears) = mpsc::channel(8);
        let (_, _answer) = hearing.begin(&by(heard), Whose::Callers).unwrap();
        assert!(matches!(hearing.hear(question(), Stream::Shared), Next::Reply(_)));
        if is_answered {
            let answer = Answer::Result(Map::new());
            hearing.hear(Incoming::Answer { id: json!(first), answer }, Stream::Shared);
        } else {
            tokio::time::sleep(GIVEN_UP).await;
        }
        assert!(matches!(hearing.hear(question(), Stream::Shared), Next::Ask(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn late_messages_about_a_call_do_not_reach_another_owner() {
    let hearing = Hearing::default();
    let log = || notification("notifications/message", json!({"data": 1}));
    let (heard, mut hears) = mpsc::channel(8);
    for (owner, is_told) in [(1, true), (1, true), (2, false), (2, false), (1, false)] {
        let call = Call { owner, ..by(heard.clone()) };
        let (id, _answer) = hearing.begin(&call, Whose::Callers).unwrap();
        hearing.hear(log(), Stream::Shared);
        assert_eq!(hears.try_recv().is_ok(), is_told, "{owner}");
        let is_asked = matches!(hearing.hear(question(), Stream::Shared), Next::Ask(_));
        assert_eq!((is_asked, hears.try_recv().is_ok()), (is_told, is_told), "{owner}");
        hearing.end(id);
    }
    tokio::time::sleep(GIVEN_UP).await;
    let (_, _answer) = hearing.begin(&Call { owner: 1, ..by(heard) }, Whose::Callers).unwrap();
    hearing.hear(log(), Stream::Shared);
    assert!(hears.try_recv().is_ok());
}

#[tokio::test]
async fn a_question_ends_with_its_call_or_when_the_server_cancels_it() {
    let hearing = Hearing::default();
    for takes_back in [true, false] {
        let (heard, mut hears) = mpsc::channel(8);
        let call = hearing.begin_alone(&by(heard), Whose::Callers).unwrap();
        let Next::Ask(asked) = hearing.hear(question(), Stream::Of(call)) else {
            panic!("nobody was asked")
        };
        let task = tokio::spawn(asked.reply());
        hearing.bind(call, json!("q"), task.abort_handle());
        if takes_back {
            let cancelled = notification("notifications/cancelled", json!({"requestId": "q"}));
            hearing.hear(cancelled, Stream::Shared);
        } else {
            hearing.end(call);
        }
        assert!(task.await.unwrap_err().is_cancelled());
        let Ok(Heard::Asks { reply, .. }) = hears.try_recv() else { panic!("nobody was asked") };
        assert!(reply.is_closed());
        hearing.end(call);
    }
}

#[test]
fn the_end_of_a_connection_fails_current_and_later_calls() {
    let hearing = Hearing::default();
    let (_, mut answer) = hearing.begin(&Call::default(), Whose::Callers).unwrap();
    hearing.fail(McpError::NotReading);
    hearing.fail(McpError::Closed);
    assert!(matches!(answer.try_recv(), Ok(Err(McpError::NotReading))));
    assert!(matches!(hearing.begin(&Call::default(), Whose::Callers), Err(McpError::NotReading)));
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_answer_fails_its_call() {
    let hearing = Hearing::default();
    let (heard, _hears) = mpsc::channel(8);
    let call = |owner| Call { owner, ..by(heard.clone()) };
    let (first, mut answer) = hearing.begin(&call(1), Whose::Callers).unwrap();
    let (_, _answer) = hearing.begin(&call(2), Whose::Callers).unwrap();
    tokio::time::sleep(2 * GIVEN_UP).await;
    hearing.garbage(&NoMessage { answers: Answers::Call(first), too_much: None });
    assert!(matches!(answer.try_recv(), Ok(Err(McpError::Unreadable { .. }))));
    let asked = hearing.hear(question(), Stream::Shared);
    assert!(matches!(asked, Next::Reply(_)), "it may be about the first");
    tokio::time::sleep(2 * GIVEN_UP).await;
    assert!(matches!(hearing.hear(question(), Stream::Shared), Next::Ask(_)));
}

proptest! {
    /// Whatever a server answers, a call receives only an answer with its own id.
    #[test]
    fn no_call_receives_the_answer_to_another(ids in prop::collection::vec(0u64..8, 0..40)) {
        let hearing = Hearing::default();
        let mut calls: Vec<_> = (0..5).map(|_| hearing.begin(&Call::default(), Whose::Callers).unwrap()).collect();
        for id in &ids {
            let answer = Answer::Result(Map::from_iter([("id".to_owned(), json!(id))]));
            hearing.hear(Incoming::Answer { id: json!(id), answer }, Stream::Shared);
        }
        for (id, answer) in &mut calls {
            match answer.try_recv() {
                Ok(Ok(Answer::Result(result))) => prop_assert_eq!(&result["id"], &json!(*id)),
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
        drop(message::read_here(&bytes));
    }
}
