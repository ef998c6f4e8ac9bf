//! Dispatches incoming messages: answers by request id, progress by token, all others only to an unambiguous call.
//!
//! A question or log message on the stream of one call belongs to that call. On a shared stream nothing names the call:
//! the message is delivered only if exactly one call is in progress, none was abandoned recently, and no other owner
//! used the connection recently, because messages may arrive late. So a question can never reach the wrong caller.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use active_calls::{ActiveCall, ActiveCalls};
use json::json_size::exceeds_size;
use serde_json::{Map, Value};
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::connection_settings::McpCallOptions;
use super::json_rpc::{
    BrokenMessage, INTERNAL_ERROR, METHOD_NOT_FOUND, McpAnswer, RpcError, ServerMessage,
};
use super::server_changes::ChangeNotifier;
use super::{McpError, json_rpc};
pub use call_notification::{CallNotification, DispatchCounts, QuestionReply};
pub(crate) use call_recipient::{CallRecipient, set_related_task, take_related_task};

mod active_calls;
mod call_notification;
mod call_recipient;

/// Unanswered questions per call.
const MAX_QUESTIONS: usize = 16;
/// How long a server may still ask questions on behalf of an abandoned call.
const ABANDONED_FOR: Duration = Duration::from_secs(30);
const MAX_ABANDONED: usize = 256;
/// The maximum JSON size of a notification, in bytes: the queue bounds only their number.
const MAX_NOTIFICATION_BYTES: usize = 64 * 1024;
const QUESTION_METHODS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];

/// All calls of one connection that are in progress.
#[derive(Default)]
pub(crate) struct MessageDispatcher {
    next_id: AtomicU64,
    active: Mutex<ActiveCalls>,
    pub(crate) change_notifier: ChangeNotifier,
    /// The modern era has no server requests: a call that needs input ends with its questions.
    pub(crate) rejects_questions: AtomicBool,
    /// Notified when the server acknowledges a subscription.
    pub(crate) acknowledged: Notify,
}

/// The stream that a message arrived on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageStream {
    Shared,
    OfCall(u64),
}

/// The next step for a received message.
pub(crate) enum DispatchStep {
    /// The message was an answer and was delivered.
    Delivered,
    Ignored,
    /// The answer to the call that owns the stream.
    Answered(McpAnswer),
    /// A reply to send now.
    Reply(Vec<u8>),
    /// A question; its reply is sent once available.
    AwaitReply(PendingQuestion),
}

/// A question that waits for its reply.
pub(crate) struct PendingQuestion {
    pub(crate) call: u64,
    pub(crate) id: Value,
    task: Option<Box<str>>,
    answer: oneshot::Receiver<QuestionReply>,
}

impl PendingQuestion {
    pub(crate) async fn await_reply(self) -> Vec<u8> {
        let refused = || Err(RpcError::new(INTERNAL_ERROR, "nobody answered the question"));
        let mut answer = self.answer.await.unwrap_or_else(|_| refused());
        if let (Ok(result), Some(task)) = (&mut answer, &self.task) {
            set_related_task(result, task);
        }
        json_rpc::encode_reply(&self.id, &answer)
    }
}

impl MessageDispatcher {
    fn lock_calls(&self) -> MutexGuard<'_, ActiveCalls> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a call whose answer arrives on the shared stream.
    pub(crate) fn register_call(
        &self,
        call: &McpCallOptions,
        whose: CallRecipient,
    ) -> Result<(u64, oneshot::Receiver<Result<McpAnswer, McpError>>), McpError> {
        let (answer, coming) = oneshot::channel();
        Ok((self.insert_call(Some(answer), call, whose)?, coming))
    }

    /// Registers a call whose answer arrives on its own stream.
    pub(crate) fn register_streamed_call(
        &self,
        call: &McpCallOptions,
        whose: CallRecipient,
    ) -> Result<u64, McpError> {
        self.insert_call(None, call, whose)
    }

    /// Records the server's id for the task that a call became.
    pub(crate) fn set_task(&self, call: u64, task: &str) {
        if let Some(entry) = self.lock_calls().calls.get_mut(&call) {
            entry.task = Some(task.into());
        }
    }

    fn insert_call(
        &self,
        answer: Option<oneshot::Sender<Result<McpAnswer, McpError>>>,
        call: &McpCallOptions,
        whose: CallRecipient,
    ) -> Result<u64, McpError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut open = self.lock_calls();
        if let Some(ended) = &open.end_reason {
            return Err(ended.clone());
        }
        // A composite call gets its notifications from its own entry, so its parts must not repeat them.
        let heard =
            call.notifications.clone().filter(|_| !matches!(whose, CallRecipient::PartOf(_)));
        let (owner, asked) = (call.owner, Vec::new());
        let entry = ActiveCall {
            answer,
            notifications: heard,
            recipient: whose,
            owner,
            task: None,
            questions: asked,
        };
        open.note_use(&entry);
        open.calls.insert(id, entry);
        Ok(id)
    }

    /// Removes a finished call.
    pub(crate) fn finish_call(&self, id: u64) {
        let mut open = self.lock_calls();
        if let Some(entry) = open.calls.remove(&id) {
            open.note_use(&entry);
        }
    }

    /// Removes a call that no caller waits for any more. Returns whether it was in progress; then the server may not
    /// know yet, and its next questions may belong to this call.
    pub(crate) fn abandon_call(&self, id: u64) -> bool {
        let mut open = self.lock_calls();
        let Some(entry) = open.calls.remove(&id) else { return false };
        open.note_use(&entry);
        if entry.recipient == CallRecipient::Caller {
            if MAX_ABANDONED <= open.abandoned.len() {
                open.abandoned.pop_front();
            }
            open.abandoned.push_back((id, Instant::now() + ABANDONED_FOR));
        }
        true
    }

    /// Ends the connection and fails every call. The first error is kept.
    pub(crate) fn fail_all(&self, error: McpError) {
        let mut open = self.lock_calls();
        let error = open.end_reason.get_or_insert(error).clone();
        let calls = std::mem::take(&mut open.calls);
        drop(open);
        for entry in calls.into_values() {
            if let Some(answer) = entry.into_answer_sender() {
                drop(answer.send(Err(error.clone())));
            }
        }
    }

    /// Why the connection has ended, if it has.
    pub(crate) fn end_reason(&self) -> Option<McpError> {
        self.lock_calls().end_reason.clone()
    }

    pub(crate) fn counts(&self) -> DispatchCounts {
        self.lock_calls().counts
    }

    /// Counts an invalid message. If it was clearly meant as the answer to a call, that call fails at once.
    pub(crate) fn record_garbage(&self, no_message: &BrokenMessage) {
        let mut open = self.lock_calls();
        open.counts.garbage += 1;
        let waits = |id: &u64| open.calls.get(id).is_some_and(|it| it.answer.is_some());
        let answers = no_message.target.call_id();
        let entry = answers.filter(waits).and_then(|id| open.calls.remove(&id));
        match &entry {
            Some(entry) => open.note_use(entry),
            None => open.abandoned.retain(|(given_up, _)| Some(*given_up) != answers),
        }
        drop(open);
        if let Some(answer) = entry.and_then(ActiveCall::into_answer_sender) {
            drop(answer.send(Err(no_message.to_error())));
        }
    }

    /// Delivers a message to its recipient.
    pub(crate) fn dispatch(&self, message: ServerMessage, on: MessageStream) -> DispatchStep {
        match message {
            ServerMessage::Answer { id, answer } => self.deliver_answer(&id, answer, on),
            ServerMessage::Notification { method, params } => {
                self.deliver_notification(method, params, on);
                DispatchStep::Ignored
            }
            ServerMessage::Request { id, method, params } => {
                self.deliver_question(id, method, params, on)
            }
        }
    }

    fn deliver_answer(&self, id: &Value, answer: McpAnswer, on: MessageStream) -> DispatchStep {
        let mut open = self.lock_calls();
        // Our ids are integers: `"1"` and `1.0` are not 1.
        let id = id.as_u64();
        match on {
            MessageStream::OfCall(call) if id == Some(call) => {
                return DispatchStep::Answered(answer);
            }
            MessageStream::OfCall(_) => {}
            MessageStream::Shared => {
                let waits = |id: &u64| open.calls.get(id).is_some_and(|it| it.answer.is_some());
                if let Some(entry) = id.filter(waits).and_then(|id| open.calls.remove(&id)) {
                    open.note_use(&entry);
                    drop(open);
                    if let Some(waiting) = entry.into_answer_sender() {
                        drop(waiting.send(Ok(answer)));
                    }
                    return DispatchStep::Delivered;
                }
            }
        }
        // The server has finished an abandoned call.
        open.abandoned.retain(|(given_up, _)| Some(*given_up) != id);
        open.counts.unknown_answers += 1;
        DispatchStep::Ignored
    }

    fn deliver_notification(
        &self,
        method: String,
        mut params: Map<String, Value>,
        on: MessageStream,
    ) {
        match method.as_str() {
            "notifications/progress" => {
                let token = params.shift_remove("progressToken").and_then(|token| token.as_u64());
                let is_its_own = match on {
                    MessageStream::OfCall(_) => token == self.lock_calls().stream_owner(on),
                    MessageStream::Shared => true,
                };
                if let Some(call) = token.filter(|_| is_its_own) {
                    self.notify_call(Some(call), CallNotification::Progress(params));
                }
            }
            "notifications/message" => {
                let task = take_related_task(&mut params);
                let call = self.lock_calls().notification_target(on, task.as_deref());
                self.notify_call(call, CallNotification::Log(params));
            }
            "notifications/cancelled" => {
                if let Some(id) = params.get("requestId") {
                    self.lock_calls().cancel_question(id);
                }
            }
            "notifications/tools/list_changed" => {
                self.change_notifier.record_change(|changes| changes.tools += 1)
            }
            "notifications/prompts/list_changed" => {
                self.change_notifier.record_change(|changes| changes.prompts += 1)
            }
            "notifications/resources/list_changed" => {
                self.change_notifier.record_change(|changes| changes.resources += 1);
            }
            "notifications/resources/updated" => {
                if let Some(uri) = params.get("uri").and_then(Value::as_str) {
                    self.change_notifier.record_change(|changes| changes.mark_resource(uri));
                }
            }
            "notifications/subscriptions/acknowledged" => self.acknowledged.notify_waiters(),
            _ => {
                let call = self.lock_calls().notification_target(on, None);
                self.notify_call(call, CallNotification::Other { method: method.into(), params });
            }
        }
    }

    /// Delivers a notification without waiting. It is dropped if it is too long or the caller's queue is full.
    fn notify_call(&self, call: Option<u64>, heard: CallNotification) {
        let is_too_long = match &heard {
            CallNotification::Progress(params)
            | CallNotification::Log(params)
            | CallNotification::Other { params, .. } => {
                exceeds_size(params, MAX_NOTIFICATION_BYTES)
            }
            CallNotification::BecameTask | CallNotification::Question { .. } => false,
        };
        let mut open = self.lock_calls();
        let Some(hears) = call.and_then(|id| open.calls.get(&id)?.notifications.clone()) else {
            return;
        };
        if is_too_long || hears.try_send(heard).is_err() {
            open.counts.dropped_notifications += 1;
        }
    }

    fn deliver_question(
        &self,
        id: Value,
        method: String,
        mut params: Map<String, Value>,
        on: MessageStream,
    ) -> DispatchStep {
        let reply =
            |answer: QuestionReply| DispatchStep::Reply(json_rpc::encode_reply(&id, &answer));
        if method == "ping" {
            return reply(Ok(Map::new()));
        }
        if !QUESTION_METHODS.contains(&method.as_str()) {
            return reply(Err(RpcError::new(METHOD_NOT_FOUND, "this client does not do that")));
        }
        let has_questions = !self.rejects_questions.load(Ordering::Relaxed);
        let mut open = self.lock_calls();
        let task = take_related_task(&mut params);
        let whose = open.notification_target(on, task.as_deref());
        let asked = whose.filter(|_| has_questions).and_then(|call| {
            let entry = open.calls.get(&call)?;
            let hears =
                entry.notifications.as_ref().filter(|_| entry.questions.len() < MAX_QUESTIONS)?;
            let (reply, answer) = oneshot::channel();
            hears
                .try_send(CallNotification::Question { method: method.into(), params, reply })
                .ok()?;
            Some(PendingQuestion { call, id: id.clone(), task, answer })
        });
        match asked {
            Some(asked) => DispatchStep::AwaitReply(asked),
            None => {
                open.counts.refused_questions += 1;
                let why = "it is not clear which call asks, or its caller cannot be asked";
                reply(Err(RpcError::new(METHOD_NOT_FOUND, why)))
            }
        }
    }

    /// Ends a question together with its call.
    pub(crate) fn bind_question(&self, call: u64, id: Value, task: AbortHandle) {
        match self.lock_calls().calls.get_mut(&call) {
            Some(entry) => {
                entry.questions.retain(|(_, task)| !task.is_finished());
                entry.questions.push((id, task));
            }
            None => task.abort(),
        }
    }
}

#[cfg(test)]
mod tests;
