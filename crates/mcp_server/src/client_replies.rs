//! Pending interactions with clients: questions that wait for answers, and calls that a client may cancel.
//!
//! A question has a random id, and only the principal that received it can answer. So two clients with equal ids, or a
//! client that guesses ids, cannot reach each other's calls.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;
use tokio::sync::oneshot;
use toolcrib::InputError;

use super::incoming_message::JsonRpcId;

type QuestionReplySender = oneshot::Sender<Result<Value, InputError>>;

/// Questions that wait for an answer.
#[derive(Default)]
pub(crate) struct PendingQuestions(Mutex<HashMap<String, (Box<str>, QuestionReplySender)>>);

/// Above this number of questions, those without a waiting call are removed.
const CLEANUP_THRESHOLD: usize = 1_000;

impl PendingQuestions {
    fn lock_questions(&self) -> MutexGuard<'_, HashMap<String, (Box<str>, QuestionReplySender)>> {
        self.0.lock().expect("no one panics while holding the questions")
    }

    /// Registers a question to a principal and returns its id.
    pub(crate) fn register_question(&self, principal: &str, reply: QuestionReplySender) -> String {
        let id = toolcrib::random_id();
        let mut waiting = self.lock_questions();
        if CLEANUP_THRESHOLD < waiting.len() {
            waiting.retain(|_, (_, reply)| !reply.is_closed());
        }
        waiting.insert(id.clone(), (principal.into(), reply));
        id
    }

    /// Delivers an answer, if it belongs to a question that this principal received.
    pub(crate) fn deliver_answer(
        &self,
        principal: &str,
        id: &JsonRpcId,
        outcome: Result<Value, Value>,
    ) -> bool {
        let Value::String(id) = id.to_value() else { return false };
        let mut waiting = self.lock_questions();
        if waiting.get(&id).is_none_or(|(asked, _)| **asked != *principal) {
            return false;
        }
        let Some((_, reply)) = waiting.remove(&id) else { return false };
        let outcome = outcome.map_err(|error| {
            let message = error.get("message").and_then(Value::as_str);
            InputError::Refused(message.unwrap_or("the caller refused").to_owned())
        });
        reply.send(outcome).is_ok()
    }

    pub(crate) fn remove_question(&self, id: &str) {
        self.lock_questions().remove(id);
    }
}

/// Running calls that their client can cancel.
#[derive(Default)]
pub(crate) struct CancellableCalls(Mutex<CancelSenders>);

/// Cancel signals by owner and request id.
type CancelSenders = HashMap<(Box<str>, JsonRpcId), oneshot::Sender<()>>;

impl CancellableCalls {
    fn lock_calls(&self) -> MutexGuard<'_, CancelSenders> {
        self.0.lock().expect("no one panics while holding the calls")
    }

    /// Registers a call; the receiver fires when the client cancels it.
    pub(crate) fn register_call(&self, whose: &str, id: &JsonRpcId) -> oneshot::Receiver<()> {
        let (stop, stopped) = oneshot::channel();
        self.lock_calls().insert((whose.into(), id.clone()), stop);
        stopped
    }

    pub(crate) fn cancel_call(&self, whose: &str, id: &JsonRpcId) {
        if let Some(stop) = self.lock_calls().remove(&(whose.into(), id.clone())) {
            stop.send(()).ok();
        }
    }

    pub(crate) fn remove_call(&self, whose: &str, id: &JsonRpcId) {
        let mut all = self.lock_calls();
        let key = (whose.into(), id.clone());
        // The client may have reused the id for a new call meanwhile; keep that one.
        if all.get(&key).is_some_and(oneshot::Sender::is_closed) {
            all.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn only_the_asked_principal_can_answer() {
        let asked = PendingQuestions::default();
        let (reply, answer) = oneshot::channel();
        let id = JsonRpcId::from_value(&json!(asked.register_question("ada", reply))).unwrap();
        assert!(!asked.deliver_answer("eve", &id, Ok(json!("mine"))));
        assert!(!asked.deliver_answer(
            "ada",
            &JsonRpcId::from_value(&json!(1)).unwrap(),
            Ok(json!("guessed"))
        ));
        assert!(asked.deliver_answer("ada", &id, Ok(json!("yes"))));
        assert!(!asked.deliver_answer("ada", &id, Ok(json!("again"))));
        assert_eq!(answer.await.unwrap(), Ok(json!("yes")));
    }

    #[test]
    fn a_call_can_be_cancelled_only_by_its_own_client() {
        let (calls, id) = (CancellableCalls::default(), JsonRpcId::from_value(&json!(1)).unwrap());
        let (mut ada, mut eve) = (calls.register_call("ada", &id), calls.register_call("eve", &id));
        calls.cancel_call("eve", &id);
        assert!(ada.try_recv().is_err() && eve.try_recv().is_ok());
        drop(ada);
        calls.remove_call("ada", &id);
        assert!(calls.lock_calls().is_empty());
    }
}
