//! The context of a running call: how a tool reports progress, writes log lines and asks its caller for input.
//!
//! A tool may ask for a filled-in form, a completion of the caller's model, or folders. How such a request travels
//! depends on the caller. Either it is sent and the tool waits, or the call ends with the request and is repeated with
//! the answer. A tool need not know which: it asks under a key, and the repeated call already has the earlier answers.

mod call_builder;
mod caller_capabilities;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use model::TraceContext;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, mpsc, oneshot};

pub use self::call_builder::CallBuilder;
pub use self::caller_capabilities::{CallerCapabilities, CallerCapability, TASKS_EXTENSION};

/// How long a waiting tool waits for the caller's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Severity of a log line (RFC 5424, as in MCP).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the words are the documentation")]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    /// The level's name in MCP messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

/// A request of a tool for input from the caller, in the shape of MCP.
#[derive(Clone, Debug, PartialEq)]
pub enum InputRequest {
    /// A form to fill in, or a URL to open.
    Elicit(Map<String, Value>),
    /// A completion of the caller's model.
    Sample(Map<String, Value>),
    /// The caller's folders.
    Roots,
}

/// Why there is no answer from the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The call ends now and is repeated with the answer. A tool propagates this error with `?`.
    #[error("the call waits for an answer of the caller")]
    Pending,
    /// The caller lacks this capability.
    #[error("the caller cannot do what the tool needs: {}", .0.name())]
    Unsupported(CallerCapability),
    /// The caller refused, or has disconnected.
    #[error("{0}")]
    Refused(String),
}

/// A message of a running call to its caller.
#[derive(Debug)]
pub enum CallUpdate {
    /// Progress of the call.
    Progress(CallProgress),
    /// A log line.
    Log {
        /// Severity.
        level: LogLevel,
        /// Name of the logger.
        logger: Option<Box<str>>,
        /// The logged value.
        data: Value,
    },
    /// A request for input; the tool waits for the answer.
    InputRequired {
        /// Identifies the request within the call.
        key: Box<str>,
        /// The request.
        question: InputRequest,
        /// Receives the answer.
        reply: oneshot::Sender<Result<Value, InputError>>,
    },
    /// The call continues without the caller, who fetches the result later.
    Detached,
}

/// Progress of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallProgress {
    /// The current value, which only increases.
    pub progress: f64,
    /// The value at completion, if known.
    pub total: Option<f64>,
    /// Human-readable message.
    pub message: Option<Box<str>>,
}

/// The context of a running call. Cheap to clone; all clones belong to the same call.
#[derive(Clone, Debug, Default)]
pub struct CallContext(Arc<CallContextInner>);

#[derive(Debug, Default)]
struct CallContextInner {
    options: CallBuilder,
    updates: Option<mpsc::Sender<CallUpdate>>,
    /// If set, a request for input ends the call instead of waiting.
    defers_input: AtomicBool,
    resume_state: Mutex<ResumeState>,
    pending_input: Mutex<Vec<(Box<str>, InputRequest)>>,
    /// Sent to upstreams.
    trace: OnceLock<TraceContext>,
    /// The call was cancelled or answered.
    is_over: AtomicBool,
    over_notify: Notify,
}

/// State that a call leaves for its repetition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ResumeState {
    /// State of the upstream that asked for input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked: Option<String>,
    /// The suspended row in the call log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    row: Option<Box<str>>,
}

/// Marks the call as over when its waiter drops this guard.
pub struct CallGuard<'a>(&'a CallContext);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.0.is_over.store(true, Ordering::Release);
        self.0.0.over_notify.notify_waiters();
    }
}

impl CallContext {
    /// A context for a caller that receives no updates and cannot be asked. Other contexts start with [`CallBuilder`].
    pub fn silent() -> Self {
        Self::default()
    }

    /// Returns a guard that the waiter of the call holds.
    pub fn guard(&self) -> CallGuard<'_> {
        CallGuard(self)
    }

    /// Whether the call is over: it was cancelled or answered. The handler is dropped then and need not check. Threads
    /// and tasks that it started can.
    pub fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Acquire)
    }

    /// Completes when the call is over.
    pub async fn wait_until_over(&self) {
        let mut over = std::pin::pin!(self.0.over_notify.notified());
        // From here on, no notification is missed.
        over.as_mut().enable();
        if !self.is_over() {
            over.await;
        }
    }

    /// Sets the trace that upstream requests belong to; the first one wins.
    pub fn set_trace(&self, trace: Option<TraceContext>) {
        if let Some(trace) = trace {
            self.0.trace.get_or_init(|| trace);
        }
    }

    /// The trace of the call. A tool adds it to the requests that it sends.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.0.trace.get()
    }

    /// The capabilities of the caller.
    pub fn capabilities(&self) -> CallerCapabilities {
        self.0.options.capabilities
    }

    /// The lowest level of log lines that the caller wants; `None` if it wants none.
    pub fn min_log_level(&self) -> Option<LogLevel> {
        self.0.options.log_from
    }

    /// The state that the upstream gave the caller to repeat.
    pub fn upstream_state(&self) -> Option<&str> {
        self.0.options.resume_state.asked.as_deref()
    }

    /// The suspended row that the earlier round of this call left in the call log.
    pub fn suspended_row(&self) -> Option<&str> {
        self.0.options.resume_state.row.as_deref()
    }

    /// Saves the upstream's state for the repetition of this call.
    pub fn save_upstream_state(&self, memory: String) {
        self.0.resume_state.lock().expect("no one panics while holding it").asked = Some(memory);
    }

    /// Saves the suspended row for the repetition of this call.
    pub fn save_suspended_row(&self, row: Box<str>) {
        self.0.resume_state.lock().expect("no one panics while holding it").row = Some(row);
    }

    /// Takes the state that must come back with the answers. Encrypt it: it is not meant for the client.
    pub fn take_resume_state(&self) -> Option<String> {
        let memory = std::mem::take(
            &mut *self.0.resume_state.lock().expect("no one panics while holding it"),
        );
        let is_empty = memory == ResumeState::default();
        (!is_empty).then(|| serde_json::to_string(&memory).expect("a memory is JSON"))
    }

    /// An answer that came with the call.
    pub fn answer_for(&self, key: &str) -> Option<&Value> {
        self.0.options.answers.as_ref()?.get(key)
    }

    /// Reports progress, if the caller wants it.
    pub fn report_progress(&self, progress: CallProgress) {
        if self.0.options.wants_progress {
            self.send_update(CallUpdate::Progress(progress));
        }
    }

    /// Sends a log line, if the caller wants its level.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: Value) {
        if self.0.options.log_from.is_some_and(|from| from <= level) {
            self.send_update(CallUpdate::Log { level, logger: logger.map(Into::into), data });
        }
    }

    fn send_update(&self, said: CallUpdate) {
        if let Some(hears) = &self.0.updates {
            // If the channel is full or closed, the update is dropped: a tool does not wait for a slow reader.
            drop(hears.try_send(said));
        }
    }

    /// Continues without the caller, if it can fetch the result later. Returns whether the call is detached.
    pub fn detach(&self) -> bool {
        let told = self.0.options.capabilities.tasks
            && self
                .0
                .updates
                .as_ref()
                .is_some_and(|hears| hears.try_send(CallUpdate::Detached).is_ok());
        if told {
            self.0.defers_input.store(false, Ordering::Release);
        }
        told
    }

    /// Detaches the call, or fails if the caller does not support that.
    pub fn require_detach(&self) -> Result<(), InputError> {
        if self.detach() { Ok(()) } else { Err(InputError::Unsupported(CallerCapability::Tasks)) }
    }

    /// Asks the caller for input. The key identifies the request within the call, and must be equal in the repeated
    /// call.
    pub async fn ask(&self, key: &str, question: InputRequest) -> Result<Value, InputError> {
        let mut answers = self.ask_all(vec![(key.into(), question)]).await?;
        answers.pop().ok_or(InputError::Pending)
    }

    /// Sends several requests for input at once; the answers have the same order.
    pub async fn ask_all(
        &self,
        questions: Vec<(Box<str>, InputRequest)>,
    ) -> Result<Vec<Value>, InputError> {
        if let Some(why) = questions.iter().find_map(|(_, question)| self.input_error(question)) {
            return Err(why);
        }
        if !self.waits_for_answers() {
            return self.take_answers(questions);
        }
        // Without an update channel there can be no requests here.
        let Some(hears) = &self.0.updates else { return Ok(Vec::new()) };
        let gone = |_| InputError::Refused("the caller is gone".to_owned());
        let mut waiting = Vec::with_capacity(questions.len());
        for (key, question) in questions {
            let (reply, answer) = oneshot::channel();
            let asks = CallUpdate::InputRequired { key, question, reply };
            hears.send(asks).await.map_err(|_| InputError::Refused("the caller is gone".into()))?;
            waiting.push(answer);
        }
        let mut answers = Vec::with_capacity(waiting.len());
        for answer in waiting {
            let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer).await;
            let late = |_| InputError::Refused("nobody answered in time".to_owned());
            answers.push(answer.map_err(late)?.map_err(gone)??);
        }
        Ok(answers)
    }

    /// The error, if a request cannot reach the caller.
    pub fn input_error(&self, question: &InputRequest) -> Option<InputError> {
        let ability = question.required_capability();
        if !self.capabilities().supports(ability) {
            return Some(InputError::Unsupported(ability));
        }
        let is_heard = self.0.updates.as_ref().is_some_and(|hears| !hears.is_closed());
        let nobody = || InputError::Refused("nobody is there to answer".to_owned());
        (self.waits_for_answers() && !is_heard).then(nobody)
    }

    /// Whether a tool waits while the caller answers.
    pub fn waits_for_answers(&self) -> bool {
        !self.0.defers_input.load(Ordering::Acquire)
    }

    /// Returns the answers that came with the call, or records the unanswered requests and ends the call.
    fn take_answers(
        &self,
        questions: Vec<(Box<str>, InputRequest)>,
    ) -> Result<Vec<Value>, InputError> {
        let fits = |key: &str| self.answer_for(key).filter(|answer| answer.is_object());
        if let Some(answers) = questions.iter().map(|(key, _)| fits(key).cloned()).collect() {
            return Ok(answers);
        }
        let missing = questions.into_iter().filter(|(key, _)| fits(key).is_none());
        self.0.pending_input.lock().expect("no one panics while holding it").extend(missing);
        Err(InputError::Pending)
    }

    /// Whether the call ends with requests for input.
    pub(crate) fn has_pending_input(&self) -> bool {
        !self.0.pending_input.lock().expect("no one panics while holding it").is_empty()
    }

    /// Takes the requests for input that the call ended with.
    pub fn take_pending_input(&self) -> Vec<(Box<str>, InputRequest)> {
        std::mem::take(&mut *self.0.pending_input.lock().expect("no one panics while holding it"))
    }
}

impl InputRequest {
    fn required_capability(&self) -> CallerCapability {
        match self {
            Self::Elicit(form) if form.get("mode").is_some_and(|mode| mode == "url") => {
                CallerCapability::ElicitationByUrl
            }
            Self::Elicit(_) => CallerCapability::Elicitation,
            Self::Sample(_) => CallerCapability::Sampling,
            Self::Roots => CallerCapability::Roots,
        }
    }

    /// The MCP method of the request.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Elicit(_) => "elicitation/create",
            Self::Sample(_) => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// The MCP parameters of the request.
    pub fn params(&self) -> Value {
        match self {
            Self::Elicit(params) | Self::Sample(params) => Value::Object(params.clone()),
            Self::Roots => json!({}),
        }
    }
}
