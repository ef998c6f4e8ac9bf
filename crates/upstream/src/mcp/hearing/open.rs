//! The calls that are under way.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{Counts, Heard, Stream, Whose};
use crate::mcp::McpError;
use crate::mcp::message::Answer;

/// For so long a server may still tell something about a call that is over.
const LATE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Open {
    pub(super) calls: HashMap<u64, Entry>,
    pub(super) ended: Option<McpError>,
    pub(super) counts: Counts,
    /// Calls that were given up, and until when the server may still ask in their name.
    pub(super) given_up: VecDeque<(u64, Instant)>,
    /// Who used it last, and until when what is said may be meant for somebody before them.
    last: Option<u64>,
    unclear_until: Option<Instant>,
}

pub(super) struct Entry {
    /// None where the answer comes on a stream of its own.
    pub(super) answer: Option<oneshot::Sender<Result<Answer, McpError>>>,
    pub(super) heard: Option<mpsc::Sender<Heard>>,
    pub(super) whose: Whose,
    pub(super) owner: u64,
    /// What the server calls the task that it became.
    pub(super) task: Option<Box<str>>,
    pub(super) asked: Vec<(Value, AbortHandle)>,
}

impl Open {
    /// A call begins, or is over.
    pub(super) fn used_by(&mut self, entry: &Entry) {
        let is_callers = entry.whose == Whose::Callers;
        if is_callers && self.last.replace(entry.owner).is_some_and(|before| before != entry.owner)
        {
            self.unclear_until = Some(Instant::now() + LATE);
        }
    }

    /// What is told or asked may be about a call that is over.
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

    /// Whose a message is that may say which task it is about. If it does, it is nobody else's.
    pub(super) fn whose_task(&mut self, on: Stream, task: Option<&str>) -> Option<u64> {
        let Some(task) = task else { return self.whose(on) };
        let mut calls = self.calls.iter();
        calls.find(|(_, entry)| entry.task.as_deref() == Some(task)).map(|(id, _)| *id)
    }

    /// The server no longer wants the answer.
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
