//! Pending interactions with clients: questions that wait for answers, and calls that a client may cancel.
//!
//! A question has a random id, and only the principal that received it can answer. So two clients with equal ids, or a
//! client that guesses ids, cannot reach each other's calls.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;
use tokio::sync::oneshot;
use toolcrib::NoAnswer;

use super::message::Id;

type Reply = oneshot::Sender<Result<Value, NoAnswer>>;

/// Questions that wait for an answer.
#[derive(Default)]
pub(crate) struct Asked(Mutex<HashMap<String, (Box<str>, Reply)>>);

/// Above this number of questions, those without a waiting call are removed.
const MANY: usize = 1_000;

impl Asked {
    fn waiting(&self) -> MutexGuard<'_, HashMap<String, (Box<str>, Reply)>> {
        self.0.lock().expect("no one panics while holding the questions")
    }

    /// Registers a question to a principal and returns its id.
    pub(crate) fn put(&self, principal: &str, reply: Reply) -> String {
        let id = toolcrib::random();
        let mut waiting = self.waiting();
        if MANY < waiting.len() {
            waiting.retain(|_, (_, reply)| !reply.is_closed());
        }
        waiting.insert(id.clone(), (principal.into(), reply));
        id
    }

    /// Delivers an answer, if it belongs to a question that this principal received.
    pub(crate) fn answer(&self, principal: &str, id: &Id, outcome: Result<Value, Value>) -> bool {
        let Value::String(id) = id.to_value() else { return false };
        let mut waiting = self.waiting();
        if waiting.get(&id).is_none_or(|(asked, _)| **asked != *principal) {
            return false;
        }
        let Some((_, reply)) = waiting.remove(&id) else { return false };
        let outcome = outcome.map_err(|error| {
            let message = error.get("message").and_then(Value::as_str);
            NoAnswer::Refused(message.unwrap_or("the caller refused").to_owned())
        });
        reply.send(outcome).is_ok()
    }

    pub(crate) fn forget(&self, id: &str) {
        self.waiting().remove(id);
    }
}

/// Running calls that their client can cancel.
#[derive(Default)]
pub(crate) struct Stoppable(Mutex<Calls>);

/// Cancel signals by owner and request id.
type Calls = HashMap<(Box<str>, Id), oneshot::Sender<()>>;

impl Stoppable {
    fn all(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().expect("no one panics while holding the calls")
    }

    /// Registers a call; the receiver fires when the client cancels it.
    pub(crate) fn begin(&self, whose: &str, id: &Id) -> oneshot::Receiver<()> {
        let (stop, stopped) = oneshot::channel();
        self.all().insert((whose.into(), id.clone()), stop);
        stopped
    }

    pub(crate) fn stop(&self, whose: &str, id: &Id) {
        if let Some(stop) = self.all().remove(&(whose.into(), id.clone())) {
            stop.send(()).ok();
        }
    }

    pub(crate) fn end(&self, whose: &str, id: &Id) {
        let mut all = self.all();
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
        let asked = Asked::default();
        let (reply, answer) = oneshot::channel();
        let id = Id::of(&json!(asked.put("ada", reply))).unwrap();
        assert!(!asked.answer("eve", &id, Ok(json!("mine"))));
        assert!(!asked.answer("ada", &Id::of(&json!(1)).unwrap(), Ok(json!("guessed"))));
        assert!(asked.answer("ada", &id, Ok(json!("yes"))));
        assert!(!asked.answer("ada", &id, Ok(json!("again"))));
        assert_eq!(answer.await.unwrap(), Ok(json!("yes")));
    }

    #[test]
    fn a_call_can_be_cancelled_only_by_its_own_client() {
        let (calls, id) = (Stoppable::default(), Id::of(&json!(1)).unwrap());
        let (mut ada, mut eve) = (calls.begin("ada", &id), calls.begin("eve", &id));
        calls.stop("eve", &id);
        assert!(ada.try_recv().is_err() && eve.try_recv().is_ok());
        drop(ada);
        calls.end("ada", &id);
        assert!(calls.all().is_empty());
    }
}
