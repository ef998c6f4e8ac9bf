//! The calls in progress on one connection, and the rules that assign messages to them.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{Counts, Heard, Stream, Whose};
use crate::mcp::McpError;
use crate::mcp::message::Answer;

/// How long messages about a finished call may still arrive.
const LATE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Open {
    pub(super) calls: HashMap<u64, Entry>,
    pub(super) ended: Option<McpError>,
    pub(super) counts: Counts,
    /// Abandoned calls, and until when the server may still ask questions on their behalf.
    pub(super) given_up: VecDeque<(u64, Instant)>,
    /// The owner that used the connection last, and until when messages may still be meant for an earlier owner.
    last: Option<u64>,
    unclear_until: Option<Instant>,
}

pub(super) struct Entry {
    /// `None` if the answer arrives on the call's own stream.
    pub(super) answer: Option<oneshot::Sender<Result<Answer, McpError>>>,
    pub(super) heard: Option<mpsc::Sender<Heard>>,
    pub(super) whose: Whose,
    pub(super) owner: u64,
    /// The server's id for the task that the call became.
    pub(super) task: Option<Box<str>>,
    pub(super) asked: Vec<(Value, AbortHandle)>,
}

impl Open {
    /// Records that an owner uses the connection, when a call begins or ends.
    pub(super) fn used_by(&mut self, entry: &Entry) {
        let is_callers = entry.whose == Whose::Callers;
        if is_callers && self.last.replace(entry.owner).is_some_and(|before| before != entry.owner)
        {
            self.unclear_until = Some(Instant::now() + LATE);
        }
    }

    /// The call that a notification or question belongs to; `None` if it may belong to an earlier owner's call.
    pub(super) fn who_is_told(&mut self, on: Stream, task: Option<&str>) -> Option<u64> {
        let is_clear = self.unclear_until.is_none_or(|until| until <= Instant::now());
        match (on, task) {
            (Stream::Shared, None) if !is_clear => None,
            _ => self.whose_task(on, task),
        }
    }

    pub(super) fn whose(&mut self, on: Stream) -> Option<u64> {
        match on {
            Stream::Of(call) => match self.calls.get(&call).map(|entry| entry.whose) {
                Some(Whose::PartOf(whole)) => Some(whole),
                _ => Some(call),
            },
            Stream::Shared => {
                let now = Instant::now();
                self.given_up.retain(|(_, until)| now < *until);
                if !self.given_up.is_empty() {
                    return None;
                }
                let mut theirs =
                    self.calls.iter().filter(|(_, entry)| entry.whose == Whose::Callers);
                match (theirs.next(), theirs.next()) {
                    (Some((id, _)), None) => Some(*id),
                    _ => None,
                }
            }
        }
    }

    /// The call that a message belongs to. A message that names a task belongs only to the call of that task.
    pub(super) fn whose_task(&mut self, on: Stream, task: Option<&str>) -> Option<u64> {
        let Some(task) = task else { return self.whose(on) };
        let mut calls = self.calls.iter();
        calls.find(|(_, entry)| entry.task.as_deref() == Some(task)).map(|(id, _)| *id)
    }

    /// Cancels a question, as the server requests.
    pub(super) fn take_back(&mut self, id: &Value) {
        for entry in self.calls.values_mut() {
            let taken = entry.asked.extract_if(.., |(asked, _)| asked == id);
            taken.for_each(|(_, task)| task.abort());
        }
    }
}

impl Entry {
    pub(super) fn into_answer(mut self) -> Option<oneshot::Sender<Result<Answer, McpError>>> {
        self.answer.take()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        for (_, task) in &self.asked {
            task.abort();
        }
    }
}
