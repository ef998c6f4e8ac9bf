//! Builder of a call context: the capabilities, subscriptions and earlier answers of the caller.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::{Abilities, CallContext, Inner, Level, Memory, Said};

/// Capacity of the update channel; when it is full, progress and log lines are dropped.
const UNHEARD: usize = 64;

/// A call before it starts: what its caller supports, subscribes to and has answered.
///
/// ```
/// use toolcrib::{Abilities, NewCall};
///
/// let asks_people = Abilities { elicitation: true, ..Abilities::default() };
/// let (call, heard) = NewCall::by(asks_people).wanting_progress().heard();
/// # let _ = (call, heard);
/// ```
#[derive(Clone, Debug, Default)]
pub struct NewCall {
    pub(super) abilities: Abilities,
    pub(super) wants_progress: bool,
    pub(super) log_from: Option<Level>,
    /// Set for a caller that answers by repeating the call.
    pub(super) answers: Option<Map<String, Value>>,
    pub(super) remembered: Memory,
}

impl NewCall {
    /// A call by a caller with these capabilities.
    pub fn by(abilities: Abilities) -> Self {
        Self { abilities, ..Self::default() }
    }

    /// The caller wants progress.
    pub fn wanting_progress(self) -> Self {
        Self { wants_progress: true, ..self }
    }

    /// The caller wants log lines of this level and above.
    pub fn logging(self, from: Option<Level>) -> Self {
        Self { log_from: from, ..self }
    }

    /// The caller answers by repeating the call; these are the answers so far.
    pub fn answering(self, answers: Map<String, Value>) -> Self {
        Self { answers: Some(answers), ..self }
    }

    /// The state that the previous round of this call left ([`CallContext::take_memory`]).
    pub fn remembering(self, remembered: Option<String>) -> Self {
        let remembered = remembered.and_then(|text| serde_json::from_str(&text).ok());
        Self { remembered: remembered.unwrap_or_default(), ..self }
    }

    /// Starts the call and returns its update channel.
    pub fn heard(self) -> (CallContext, mpsc::Receiver<Said>) {
        let (said, heard) = mpsc::channel(UNHEARD);
        (self.begins(Some(said)), heard)
    }

    /// Starts the call without an update channel.
    pub fn unheard(self) -> CallContext {
        self.begins(None)
    }

    fn begins(self, said: Option<mpsc::Sender<Said>>) -> CallContext {
        let asks_later = AtomicBool::new(self.answers.is_some());
        CallContext(Arc::new(Inner { begun_as: self, said, asks_later, ..Inner::default() }))
    }
}
