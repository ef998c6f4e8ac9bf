//! The calls in progress on one connection, and the rules that assign messages to them.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{CallNotification, CallRecipient, DispatchCounts, MessageStream};
use crate::McpError;
use crate::json_rpc::McpAnswer;

/// How long messages about a finished call may still arrive.
const LATE_MESSAGES_FOR: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct ActiveCalls {
    pub(super) calls: HashMap<u64, ActiveCall>,
    pub(super) end_reason: Option<McpError>,
    pub(super) counts: DispatchCounts,
    /// Abandoned calls, and until when the server may still ask questions on their behalf.
    pub(super) abandoned: VecDeque<(u64, Instant)>,
    /// The owner that used the connection last, and until when messages may still be meant for an earlier owner.
    last_owner: Option<u64>,
    ambiguous_until: Option<Instant>,
}

pub(super) struct ActiveCall {
    /// `None` if the answer arrives on the call's own stream.
    pub(super) answer: Option<oneshot::Sender<Result<McpAnswer, McpError>>>,
    pub(super) notifications: Option<mpsc::Sender<CallNotification>>,
    pub(super) recipient: CallRecipient,
    pub(super) owner: u64,
    /// The server's id for the task that the call became.
    pub(super) task: Option<Box<str>>,
    pub(super) questions: Vec<(Value, AbortHandle)>,
}

impl ActiveCalls {
    /// Records that an owner uses the connection, when a call begins or ends.
    pub(super) fn note_use(&mut self, entry: &ActiveCall) {
        let is_callers = entry.recipient == CallRecipient::Caller;
        if is_callers
            && self.last_owner.replace(entry.owner).is_some_and(|before| before != entry.owner)
        {
            self.ambiguous_until = Some(Instant::now() + LATE_MESSAGES_FOR);
        }
    }

    /// The call that a notification or question belongs to; `None` if it may belong to an earlier owner's call.
    pub(super) fn notification_target(
        &mut self,
        on: MessageStream,
        task: Option<&str>,
    ) -> Option<u64> {
        let is_clear = self.ambiguous_until.is_none_or(|until| until <= Instant::now());
        match (on, task) {
            (MessageStream::Shared, None) if !is_clear => None,
            _ => self.task_owner(on, task),
        }
    }

    pub(super) fn stream_owner(&mut self, on: MessageStream) -> Option<u64> {
        match on {
            MessageStream::OfCall(call) => match self.calls.get(&call).map(|entry| entry.recipient)
            {
                Some(CallRecipient::PartOf(whole)) => Some(whole),
                _ => Some(call),
            },
            MessageStream::Shared => {
                let now = Instant::now();
                self.abandoned.retain(|(_, until)| now < *until);
                if !self.abandoned.is_empty() {
                    return None;
                }
                let mut theirs =
                    self.calls.iter().filter(|(_, entry)| entry.recipient == CallRecipient::Caller);
                match (theirs.next(), theirs.next()) {
                    (Some((id, _)), None) => Some(*id),
                    _ => None,
                }
            }
        }
    }

    /// The call that a message belongs to. A message that names a task belongs only to the call of that task.
    pub(super) fn task_owner(&mut self, on: MessageStream, task: Option<&str>) -> Option<u64> {
        let Some(task) = task else { return self.stream_owner(on) };
        let mut calls = self.calls.iter();
        calls.find(|(_, entry)| entry.task.as_deref() == Some(task)).map(|(id, _)| *id)
    }

    /// Cancels a question, as the server requests.
    pub(super) fn cancel_question(&mut self, id: &Value) {
        for entry in self.calls.values_mut() {
            let taken = entry.questions.extract_if(.., |(asked, _)| asked == id);
            taken.for_each(|(_, task)| task.abort());
        }
    }
}

impl ActiveCall {
    pub(super) fn into_answer_sender(
        mut self,
    ) -> Option<oneshot::Sender<Result<McpAnswer, McpError>>> {
        self.answer.take()
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        for (_, task) in &self.questions {
            task.abort();
        }
    }
}
