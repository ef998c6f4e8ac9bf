//! What waits for something of a client: questions for their answers, and calls for the word that nobody wants them.
//!
//! A question goes out under a number nobody can guess, and its answer counts only from whom it was put to. So two
//! clients with the same ids, or one that guesses, never get into each other's calls.

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

/// More than this is looked through for those nobody waits for any more.
const MANY: usize = 1_000;

impl Asked {
    fn waiting(&self) -> MutexGuard<'_, HashMap<String, (Box<str>, Reply)>> {
        self.0.lock().expect("no one panics while holding the questions")
    }

    /// Puts a question to somebody, and says under which id.
    pub(crate) fn put(&self, principal: &str, reply: Reply) -> String {
        let id = toolcrib::random();
        let mut waiting = self.waiting();
        if MANY < waiting.len() {
            waiting.retain(|_, (_, reply)| !reply.is_closed());
        }
        waiting.insert(id.clone(), (principal.into(), reply));
        id
    }

    /// Takes an answer, if it is one to a question put to this principal.
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

/// Calls that can be stopped by whoever made them.
#[derive(Default)]
pub(crate) struct Stoppable(Mutex<Calls>);

/// By whose they are and what they are called.
type Calls = HashMap<(Box<str>, Id), oneshot::Sender<()>>;

impl Stoppable {
    fn all(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().expect("no one panics while holding the calls")
    }

    /// A call begins; it ends when the word comes.
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
        // Somebody may have used the same id again meanwhile; that call is not this one.
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
    async fn an_answer_counts_only_from_whom_was_asked() {
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
    fn a_call_is_stopped_by_its_own_client_only() {
        let (calls, id) = (Stoppable::default(), Id::of(&json!(1)).unwrap());
        let (mut ada, mut eve) = (calls.begin("ada", &id), calls.begin("eve", &id));
        calls.stop("eve", &id);
        assert!(ada.try_recv().is_err() && eve.try_recv().is_ok());
        drop(ada);
        calls.end("ada", &id);
        assert!(calls.all().is_empty());
    }
}
