//! The calls that are under way.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{Counts, Heard, Stream};
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
    /// Ours are nobody's: they neither hear nor stand in the way.
    pub(super) owner: Option<u64>,
    pub(super) asked: Vec<(Value, AbortHandle)>,
}

impl Open {
    pub(super) fn uses(&mut self, owner: u64) {
        if self.last.replace(owner).is_some_and(|before| before != owner) {
            self.unclear_until = Some(Instant::now() + LATE);
        }
    }

    pub(super) fn is_used_by_one(&self) -> bool {
        self.unclear_until.is_none_or(|until| until <= Instant::now())
    }

    pub(super) fn whose(&mut self, on: Stream) -> Option<u64> {
        match on {
            Stream::Of(call) => Some(call),
            Stream::Shared => {
                let now = Instant::now();
                self.given_up.retain(|(_, until)| now < *until);
                if !self.given_up.is_empty() {
                    return None;
                }
                let mut theirs = self.calls.iter().filter(|(_, entry)| entry.owner.is_some());
                match (theirs.next(), theirs.next()) {
                    (Some((id, _)), None) => Some(*id),
                    _ => None,
                }
            }
        }
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
