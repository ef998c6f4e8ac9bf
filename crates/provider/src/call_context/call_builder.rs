//! Builder of a call context: the capabilities, subscriptions and earlier answers of the caller.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::{CallContext, CallContextInner, CallUpdate, CallerCapabilities, LogLevel, ResumeState};

/// Capacity of the update channel; when it is full, progress and log lines are dropped.
const UPDATE_CAPACITY: usize = 64;

/// A call before it starts: what its caller supports, subscribes to and has answered.
///
/// ```
/// use toolcrib_provider::{CallBuilder, CallerCapabilities};
///
/// let asks_people = CallerCapabilities { elicitation: true, ..CallerCapabilities::default() };
/// let (call, updates) = CallBuilder::by_caller(asks_people).with_progress().start_with_updates();
/// # let _ = (call, updates);
/// ```
#[derive(Clone, Debug, Default)]
pub struct CallBuilder {
    pub(super) capabilities: CallerCapabilities,
    pub(super) wants_progress: bool,
    pub(super) log_from: Option<LogLevel>,
    /// Set for a caller that answers by repeating the call.
    pub(super) answers: Option<Map<String, Value>>,
    pub(super) resume_state: ResumeState,
}

impl CallBuilder {
    /// A call by a caller with these capabilities.
    pub fn by_caller(abilities: CallerCapabilities) -> Self {
        Self { capabilities: abilities, ..Self::default() }
    }

    /// The caller wants progress.
    pub fn with_progress(self) -> Self {
        Self { wants_progress: true, ..self }
    }

    /// The caller wants log lines of this level and above.
    pub fn with_log_level(self, from: Option<LogLevel>) -> Self {
        Self { log_from: from, ..self }
    }

    /// The caller answers by repeating the call; these are the answers so far.
    pub fn with_answers(self, answers: Map<String, Value>) -> Self {
        Self { answers: Some(answers), ..self }
    }

    /// The state that the previous round of this call left ([`CallContext::take_resume_state`]).
    pub fn with_resume_state(self, remembered: Option<String>) -> Self {
        let remembered = remembered.and_then(|text| serde_json::from_str(&text).ok());
        Self { resume_state: remembered.unwrap_or_default(), ..self }
    }

    /// Starts the call and returns its update channel.
    pub fn start_with_updates(self) -> (CallContext, mpsc::Receiver<CallUpdate>) {
        let (said, heard) = mpsc::channel(UPDATE_CAPACITY);
        (self.start_with(Some(said)), heard)
    }

    /// Starts the call without an update channel.
    pub fn start_without_updates(self) -> CallContext {
        self.start_with(None)
    }

    fn start_with(self, said: Option<mpsc::Sender<CallUpdate>>) -> CallContext {
        let asks_later = AtomicBool::new(self.answers.is_some());
        CallContext(Arc::new(CallContextInner {
            options: self,
            updates: said,
            defers_input: asks_later,
            ..CallContextInner::default()
        }))
    }
}
