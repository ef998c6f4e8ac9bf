//! A call before it begins: what is told of whoever makes it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::{Abilities, CallContext, Inner, Level, Memory, Said};

/// How much may be said that nobody has taken yet; further progress and log lines are left out.
const UNHEARD: usize = 64;

/// A call before it begins: what its caller can do, wants to hear and has answered.
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
    /// Of a caller that answers by making the call again.
    pub(super) answers: Option<Map<String, Value>>,
    pub(super) remembered: Memory,
}

impl NewCall {
    /// By a caller that can do this.
    pub fn by(abilities: Abilities) -> Self {
        Self { abilities, ..Self::default() }
    }

    /// The caller wants to know how far the call is.
    pub fn wanting_progress(self) -> Self {
        Self { wants_progress: true, ..self }
    }

    /// The caller wants log lines of this gravity and above.
    pub fn logging(self, from: Option<Level>) -> Self {
        Self { log_from: from, ..self }
    }

    /// The caller answers by making the call again; these are the answers so far.
    pub fn answering(self, answers: Map<String, Value>) -> Self {
        Self { answers: Some(answers), ..self }
    }

    /// What the call before this one left to remember ([`CallContext::take_memory`]).
    pub fn remembering(self, remembered: Option<String>) -> Self {
        let remembered = remembered.and_then(|text| serde_json::from_str(&text).ok());
        Self { remembered: remembered.unwrap_or_default(), ..self }
    }

    /// Begins, and is listened to.
    pub fn heard(self) -> (CallContext, mpsc::Receiver<Said>) {
        let (said, heard) = mpsc::channel(UNHEARD);
        (self.begins(Some(said)), heard)
    }

    /// Begins without being listened to.
    pub fn unheard(self) -> CallContext {
        self.begins(None)
    }

    fn begins(self, said: Option<mpsc::Sender<Said>>) -> CallContext {
        let asks_later = AtomicBool::new(self.answers.is_some());
        CallContext(Arc::new(Inner { begun_as: self, said, asks_later, ..Inner::default() }))
    }
}
