//! Dispatches incoming messages: answers by request id, progress by token, all others only to an unambiguous call.
//!
//! A question or log message on the stream of one call belongs to that call. On a shared stream nothing names the call:
//! the message is delivered only if exactly one call is in progress, none was abandoned recently, and no other owner
//! used the connection recently, because messages may arrive late. So a question can never reach the wrong caller.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::json_size::is_longer;
use serde_json::{Map, Value};
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::McpError;
use super::changes::Bell;
use super::message::{self, Answer, INTERNAL, Incoming, NO_METHOD, NoMessage, RpcError};
use super::settings::Call;
pub use heard::{Counts, Heard, Reply};
use open::{Entry, Open};
pub(crate) use whose::{Whose, put_related, take_related};

mod heard;
mod open;
mod whose;

/// Unanswered questions per call.
const MAX_QUESTIONS: usize = 16;
/// How long a server may still ask questions on behalf of an abandoned call.
const GIVEN_UP: Duration = Duration::from_secs(30);
const MAX_GIVEN_UP: usize = 256;
/// The maximum JSON size of a notification, in bytes: the queue bounds only their number.
const MAX_SAID: usize = 64 * 1024;
const QUESTIONS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];

/// All calls of one connection that are in progress.
#[derive(Default)]
pub(crate) struct Hearing {
    next: AtomicU64,
    open: Mutex<Open>,
    pub(crate) bell: Bell,
    /// The modern era has no server requests: a call that needs input ends with its questions.
    pub(crate) has_no_questions: AtomicBool,
    /// Notified when the server acknowledges a subscription.
    pub(crate) acknowledged: Notify,
}

/// The stream that a message arrived on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Shared,
    Of(u64),
}

/// The next step for a received message.
pub(crate) enum Next {
    /// The message was an answer and was delivered.
    Taken,
    Nothing,
    /// The answer to the call that owns the stream.
    Answered(Answer),
    /// A reply to send now.
    Reply(Vec<u8>),
    /// A question; its reply is sent once available.
    Ask(Asked),
}

/// A question that waits for its reply.
pub(crate) struct Asked {
    pub(crate) call: u64,
    pub(crate) id: Value,
    task: Option<Box<str>>,
    answer: oneshot::Receiver<Reply>,
}

impl Asked {
    pub(crate) async fn reply(self) -> Vec<u8> {
        let refused = || Err(RpcError::new(INTERNAL, "nobody answered the question"));
        let mut answer = self.answer.await.unwrap_or_else(|_| refused());
        if let (Ok(result), Some(task)) = (&mut answer, &self.task) {
            put_related(result, task);
        }
        message::reply(&self.id, &answer)
    }
}

impl Hearing {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a call whose answer arrives on the shared stream.
    pub(crate) fn begin(
        &self,
        call: &Call,
        whose: Whose,
    ) -> Result<(u64, oneshot::Receiver<Result<Answer, McpError>>), McpError> {
        let (answer, coming) = oneshot::channel();
        Ok((self.enter(Some(answer), call, whose)?, coming))
    }

    /// Registers a call whose answer arrives on its own stream.
    pub(crate) fn begin_alone(&self, call: &Call, whose: Whose) -> Result<u64, McpError> {
        self.enter(None, call, whose)
    }

    /// Records the server's id for the task that a call became.
    pub(crate) fn becomes(&self, call: u64, task: &str) {
        if let Some(entry) = self.open().calls.get_mut(&call) {
            entry.task = Some(task.into());
        }
    }

    fn enter(
        &self,
        answer: Option<oneshot::Sender<Result<Answer, McpError>>>,
        call: &Call,
        whose: Whose,
    ) -> Result<u64, McpError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let mut open = self.open();
        if let Some(ended) = &open.ended {
            return Err(ended.clone());
        }
        // A composite call gets its notifications from its own entry, so its parts must not repeat them.
        let heard = call.heard.clone().filter(|_| !matches!(whose, Whose::PartOf(_)));
        let (owner, asked) = (call.owner, Vec::new());
        let entry = Entry { answer, heard, whose, owner, task: None, asked };
        open.used_by(&entry);
        open.calls.insert(id, entry);
        Ok(id)
    }

    /// Removes a finished call.
    pub(crate) fn end(&self, id: u64) {
        let mut open = self.open();
        if let Some(entry) = open.calls.remove(&id) {
            open.used_by(&entry);
        }
    }

    /// Removes a call that no caller waits for any more. Returns whether it was in progress; then the server may not
    /// know yet, and its next questions may belong to this call.
    pub(crate) fn give_up(&self, id: u64) -> bool {
        let mut open = self.open();
        let Some(entry) = open.calls.remove(&id) else { return false };
        open.used_by(&entry);
        if entry.whose == Whose::Callers {
            if MAX_GIVEN_UP <= open.given_up.len() {
                open.given_up.pop_front();
            }
            open.given_up.push_back((id, Instant::now() + GIVEN_UP));
        }
        true
    }

    /// Ends the connection and fails every call. The first error is kept.
    pub(crate) fn fail(&self, error: McpError) {
        let mut open = self.open();
        let error = open.ended.get_or_insert(error).clone();
        let calls = std::mem::take(&mut open.calls);
        drop(open);
        for entry in calls.into_values() {
            if let Some(answer) = entry.into_answer() {
                drop(answer.send(Err(error.clone())));
            }
        }
    }

    /// Why the connection has ended, if it has.
    pub(crate) fn ended(&self) -> Option<McpError> {
        self.open().ended.clone()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.open().counts
    }

    /// Counts an invalid message. If it was clearly meant as the answer to a call, that call fails at once.
    pub(crate) fn garbage(&self, no_message: &NoMessage) {
        let mut open = self.open();
        open.counts.garbage += 1;
        let waits = |id: &u64| open.calls.get(id).is_some_and(|it| it.answer.is_some());
        let answers = no_message.answers.call();
        let entry = answers.filter(waits).and_then(|id| open.calls.remove(&id));
        match &entry {
            Some(entry) => open.used_by(entry),
            None => open.given_up.retain(|(given_up, _)| Some(*given_up) != answers),
        }
        drop(open);
        if let Some(answer) = entry.and_then(Entry::into_answer) {
            drop(answer.send(Err(no_message.error())));
        }
    }

    /// Delivers a message to its recipient.
    pub(crate) fn hear(&self, message: Incoming, on: Stream) -> Next {
        match message {
            Incoming::Answer { id, answer } => self.answer(&id, answer, on),
            Incoming::Notification { method, params } => {
                self.tell(method, params, on);
                Next::Nothing
            }
            Incoming::Request { id, method, params } => self.ask(id, method, params, on),
        }
    }

    fn answer(&self, id: &Value, answer: Answer, on: Stream) -> Next {
        let mut open = self.open();
        // Our ids are integers: `"1"` and `1.0` are not 1.
        let id = id.as_u64();
        match on {
            Stream::Of(call) if id == Some(call) => return Next::Answered(answer),
            Stream::Of(_) => {}
            Stream::Shared => {
                let waits = |id: &u64| open.calls.get(id).is_some_and(|it| it.answer.is_some());
                if let Some(entry) = id.filter(waits).and_then(|id| open.calls.remove(&id)) {
                    open.used_by(&entry);
                    drop(open);
                    if let Some(waiting) = entry.into_answer() {
                        drop(waiting.send(Ok(answer)));
                    }
                    return Next::Taken;
                }
            }
        }
        // The server has finished an abandoned call.
        open.given_up.retain(|(given_up, _)| Some(*given_up) != id);
        open.counts.unknown_answers += 1;
        Next::Nothing
    }

    fn tell(&self, method: String, mut params: Map<String, Value>, on: Stream) {
        match method.as_str() {
            "notifications/progress" => {
                let token = params.shift_remove("progressToken").and_then(|token| token.as_u64());
                let is_its_own = match on {
                    Stream::Of(_) => token == self.open().whose(on),
                    Stream::Shared => true,
                };
                if let Some(call) = token.filter(|_| is_its_own) {
                    self.say(Some(call), Heard::Progress(params));
                }
            }
            "notifications/message" => {
                let task = take_related(&mut params);
                let call = self.open().who_is_told(on, task.as_deref());
                self.say(call, Heard::Log(params));
            }
            "notifications/cancelled" => {
                if let Some(id) = params.get("requestId") {
                    self.open().take_back(id);
                }
            }
            "notifications/tools/list_changed" => self.bell.ring(|changes| changes.tools += 1),
            "notifications/prompts/list_changed" => self.bell.ring(|changes| changes.prompts += 1),
            "notifications/resources/list_changed" => {
                self.bell.ring(|changes| changes.resources += 1);
            }
            "notifications/resources/updated" => {
                if let Some(uri) = params.get("uri").and_then(Value::as_str) {
                    self.bell.ring(|changes| changes.update(uri));
                }
            }
            "notifications/subscriptions/acknowledged" => self.acknowledged.notify_waiters(),
            _ => {
                let call = self.open().who_is_told(on, None);
                self.say(call, Heard::Told { method: method.into(), params });
            }
        }
    }

    /// Delivers a notification without waiting. It is dropped if it is too long or the caller's queue is full.
    fn say(&self, call: Option<u64>, heard: Heard) {
        let is_too_long = match &heard {
            Heard::Progress(params) | Heard::Log(params) | Heard::Told { params, .. } => {
                is_longer(params, MAX_SAID)
            }
            Heard::GoesOn | Heard::Asks { .. } => false,
        };
        let mut open = self.open();
        let Some(hears) = call.and_then(|id| open.calls.get(&id)?.heard.clone()) else {
            return;
        };
        if is_too_long || hears.try_send(heard).is_err() {
            open.counts.unheard += 1;
        }
    }

    fn ask(&self, id: Value, method: String, mut params: Map<String, Value>, on: Stream) -> Next {
        let reply = |answer: Reply| Next::Reply(message::reply(&id, &answer));
        if method == "ping" {
            return reply(Ok(Map::new()));
        }
        if !QUESTIONS.contains(&method.as_str()) {
            return reply(Err(RpcError::new(NO_METHOD, "this client does not do that")));
        }
        let has_questions = !self.has_no_questions.load(Ordering::Relaxed);
        let mut open = self.open();
        let task = take_related(&mut params);
        let whose = open.who_is_told(on, task.as_deref());
        let asked = whose.filter(|_| has_questions).and_then(|call| {
            let entry = open.calls.get(&call)?;
            let hears = entry.heard.as_ref().filter(|_| entry.asked.len() < MAX_QUESTIONS)?;
            let (reply, answer) = oneshot::channel();
            hears.try_send(Heard::Asks { method: method.into(), params, reply }).ok()?;
            Some(Asked { call, id: id.clone(), task, answer })
        });
        match asked {
            Some(asked) => Next::Ask(asked),
            None => {
                open.counts.refused += 1;
                let why = "it is not clear which call asks, or its caller cannot be asked";
                reply(Err(RpcError::new(NO_METHOD, why)))
            }
        }
    }

    /// Ends a question together with its call.
    pub(crate) fn bind(&self, call: u64, id: Value, task: AbortHandle) {
        match self.open().calls.get_mut(&call) {
            Some(entry) => {
                entry.asked.retain(|(_, task)| !task.is_finished());
                entry.asked.push((id, task));
            }
            None => task.abort(),
        }
    }
}

#[cfg(test)]
mod tests;
