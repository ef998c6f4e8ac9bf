//! Who hears what, without any server.

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
fn what_is_said_on_a_shared_stream_is_heard_by_the_only_call_of_a_caller() {
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
async fn what_a_call_that_was_given_up_asks_late_is_not_asked_of_the_next_one() {
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
async fn what_is_told_or_asked_late_about_a_call_does_not_reach_somebody_else() {
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
async fn a_question_ends_with_its_call_and_when_the_server_takes_it_back() {
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
fn the_end_is_told_to_every_call_and_to_those_who_come_later() {
    let hearing = Hearing::default();
    let (_, mut answer) = hearing.begin(&Call::default(), Whose::Callers).unwrap();
    hearing.fail(McpError::NotReading);
    hearing.fail(McpError::Closed);
    assert!(matches!(answer.try_recv(), Ok(Err(McpError::NotReading))));
    assert!(matches!(hearing.begin(&Call::default(), Whose::Callers), Err(McpError::NotReading)));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_read_is_the_end_of_its_call_too() {
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
    /// Whatever a server answers, a call gets an answer with its own number or none.
    #[test]
    fn no_call_gets_the_answer_of_another(ids in prop::collection::vec(0u64..8, 0..40)) {
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
    fn no_bytes_are_too_strange_to_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(message::read_here(&bytes));
    }
}
