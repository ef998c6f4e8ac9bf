//! A call while it runs: what a tool can say to whoever called it, and ask of them.
//!
//! A tool says things on the way (progress, log lines) and may ask (for a form to be filled in, for a model's words, for
//! folders). How a question travels depends on the caller. Either it is sent and the tool waits; or the call ends with
//! the question, and is made again with the answer. A tool need not know: it asks under a key, and where the call is made
//! again it gets the answers it had before.

mod abilities;
mod new;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use model::TraceContext;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, mpsc, oneshot};

pub use self::abilities::{Abilities, Ability, TASKS};
pub use self::new::NewCall;

/// How long somebody may take to answer while a tool waits.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// How grave a log line is (RFC 5424, as MCP has it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the words are the documentation")]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    /// The word on the wire.
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

/// What a tool asks of the caller, in the shape MCP gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// A form to fill in, or an address to open.
    Elicit(Map<String, Value>),
    /// Words of the caller's model.
    Sample(Map<String, Value>),
    /// The caller's folders.
    Roots,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The call ends here, and is made again with the answer. A tool passes it on with `?`.
    #[error("the call waits for an answer of the caller")]
    Later,
    /// The caller cannot do that.
    #[error("the caller cannot do what the tool needs: {}", .0.name())]
    Unable(Ability),
    /// The caller says why not, or is gone.
    #[error("{0}")]
    Refused(String),
}

/// What a running call says.
#[derive(Debug)]
pub enum Said {
    /// How far it is.
    Progress(Progress),
    /// A line for the log.
    Log {
        /// How grave.
        level: Level,
        /// Who says it.
        logger: Option<Box<str>>,
        /// What.
        data: Value,
    },
    /// A question that is to be answered while the tool waits.
    Asks {
        /// Names it within the call.
        key: Box<str>,
        /// What.
        question: Question,
        /// Takes the answer.
        reply: oneshot::Sender<Result<Value, NoAnswer>>,
    },
    /// It goes on without the caller, who comes back for the result.
    GoesOn,
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Grows.
    pub progress: f64,
    /// What it grows to.
    pub total: Option<f64>,
    /// For people.
    pub message: Option<Box<str>>,
}

/// A call while it runs; cheap to clone, and every clone is the same call.
#[derive(Clone, Debug, Default)]
pub struct CallContext(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    begun_as: NewCall,
    said: Option<mpsc::Sender<Said>>,
    /// Questions end the call as long as this holds.
    asks_later: AtomicBool,
    memory: Mutex<Memory>,
    open: Mutex<Vec<(Box<str>, Question)>>,
    /// What upstreams are told.
    trace: OnceLock<TraceContext>,
    /// Nobody waits for it any more.
    is_over: AtomicBool,
    over: Notify,
}

/// What a call leaves until it is made again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    /// What it has to say to whoever it asks for something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked: Option<String>,
    /// Its row, which waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    row: Option<Box<str>>,
}

/// Held while somebody waits for a call.
pub(crate) struct Awaited<'a>(&'a CallContext);

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.0.is_over.store(true, Ordering::Release);
        self.0.0.over.notify_waiters();
    }
}

impl CallContext {
    /// For a caller that hears nothing and cannot be asked. Others begin with a [`NewCall`].
    pub fn silent() -> Self {
        Self::default()
    }

    /// Until this is dropped, somebody waits for the call.
    pub(crate) fn awaited(&self) -> Awaited<'_> {
        Awaited(self)
    }

    /// Whether nobody waits for the call any more: it was cancelled, or answered. A handler is dropped then, and need
    /// not look; what it started elsewhere, on a thread or in a task, can.
    pub fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Acquire)
    }

    /// Ends when nobody waits for the call any more.
    pub async fn over(&self) {
        let mut over = std::pin::pin!(self.0.over.notified());
        // From here on no word is missed.
        over.as_mut().enable();
        if !self.is_over() {
            over.await;
        }
    }

    /// Upstreams are told that they are called within this trace.
    pub(crate) fn within(&self, trace: Option<TraceContext>) {
        if let Some(trace) = trace {
            self.0.trace.get_or_init(|| trace);
        }
    }

    /// The trace that the call is part of: what a tool calls in turn is told so.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.0.trace.get()
    }

    /// What the caller can do.
    pub fn abilities(&self) -> Abilities {
        self.0.begun_as.abilities
    }

    pub(crate) fn log_from(&self) -> Option<Level> {
        self.0.begun_as.log_from
    }

    pub(crate) fn remembered(&self) -> Option<&str> {
        self.0.begun_as.remembered.asked.as_deref()
    }

    /// The row that the call left before.
    pub(crate) fn remembered_row(&self) -> Option<&str> {
        self.0.begun_as.remembered.row.as_deref()
    }

    /// Leaves something to remember when the call is made again.
    pub(crate) fn remember(&self, memory: String) {
        self.0.memory.lock().expect("no one panics while holding it").asked = Some(memory);
    }

    /// Leaves a row that waits until the call is made again.
    pub(crate) fn remember_row(&self, row: Box<str>) {
        self.0.memory.lock().expect("no one panics while holding it").row = Some(row);
    }

    /// What is to come back with the answers, sealed: it is nobody's business.
    pub fn take_memory(&self) -> Option<String> {
        let memory =
            std::mem::take(&mut *self.0.memory.lock().expect("no one panics while holding it"));
        let is_empty = memory == Memory::default();
        (!is_empty).then(|| serde_json::to_string(&memory).expect("a memory is JSON"))
    }

    /// An answer that came with the call.
    pub(crate) fn answer(&self, key: &str) -> Option<&Value> {
        self.0.begun_as.answers.as_ref()?.get(key)
    }

    /// Says how far it is.
    pub fn progress(&self, progress: Progress) {
        if self.0.begun_as.wants_progress {
            self.say(Said::Progress(progress));
        }
    }

    /// Says something for the log.
    pub fn log(&self, level: Level, logger: Option<&str>, data: Value) {
        if self.0.begun_as.log_from.is_some_and(|from| from <= level) {
            self.say(Said::Log { level, logger: logger.map(Into::into), data });
        }
    }

    fn say(&self, said: Said) {
        if let Some(hears) = &self.0.said {
            // Whoever does not listen misses what is said; a tool does not wait for that.
            drop(hears.try_send(said));
        }
    }

    /// Goes on without the caller, if the caller can come back for the result. Says whether it does.
    pub fn go_on(&self) -> bool {
        let told = self.0.begun_as.abilities.tasks
            && self.0.said.as_ref().is_some_and(|hears| hears.try_send(Said::GoesOn).is_ok());
        if told {
            self.0.asks_later.store(false, Ordering::Release);
        }
        told
    }

    /// The same for a tool that cannot do it otherwise.
    pub fn must_go_on(&self) -> Result<(), NoAnswer> {
        if self.go_on() { Ok(()) } else { Err(NoAnswer::Unable(Ability::Tasks)) }
    }

    /// Asks the caller. The key names the question within the call, and is the same when the call is made again.
    pub async fn ask(&self, key: &str, question: Question) -> Result<Value, NoAnswer> {
        let mut answers = self.ask_all(vec![(key.into(), question)]).await?;
        answers.pop().ok_or(NoAnswer::Later)
    }

    /// Asks several things at once; the answers come in the same order.
    pub async fn ask_all(
        &self,
        questions: Vec<(Box<str>, Question)>,
    ) -> Result<Vec<Value>, NoAnswer> {
        if let Some(why) = questions.iter().find_map(|(_, question)| self.cannot_ask(question)) {
            return Err(why);
        }
        if !self.waits_for_answers() {
            return self.look_up(questions);
        }
        // Without questions nobody needs to be there.
        let Some(hears) = &self.0.said else { return Ok(Vec::new()) };
        let gone = |_| NoAnswer::Refused("the caller is gone".to_owned());
        let mut waiting = Vec::with_capacity(questions.len());
        for (key, question) in questions {
            let (reply, answer) = oneshot::channel();
            let asks = Said::Asks { key, question, reply };
            hears.send(asks).await.map_err(|_| NoAnswer::Refused("the caller is gone".into()))?;
            waiting.push(answer);
        }
        let mut answers = Vec::with_capacity(waiting.len());
        for answer in waiting {
            let answer = tokio::time::timeout(PATIENCE, answer).await;
            let late = |_| NoAnswer::Refused("nobody answered in time".to_owned());
            answers.push(answer.map_err(late)?.map_err(gone)??);
        }
        Ok(answers)
    }

    /// Why a question does not reach the caller at all, if it does not.
    pub(crate) fn cannot_ask(&self, question: &Question) -> Option<NoAnswer> {
        let ability = question.needs();
        if !self.abilities().have(ability) {
            return Some(NoAnswer::Unable(ability));
        }
        let is_heard = self.0.said.as_ref().is_some_and(|hears| !hears.is_closed());
        let nobody = || NoAnswer::Refused("nobody is there to answer".to_owned());
        (self.waits_for_answers() && !is_heard).then(nobody)
    }

    /// Whether questions are answered while the tool waits.
    pub(crate) fn waits_for_answers(&self) -> bool {
        !self.0.asks_later.load(Ordering::Acquire)
    }

    /// The answers that are there; what is not is left open.
    fn look_up(&self, questions: Vec<(Box<str>, Question)>) -> Result<Vec<Value>, NoAnswer> {
        let fits = |key: &str| self.answer(key).filter(|answer| answer.is_object());
        if let Some(answers) = questions.iter().map(|(key, _)| fits(key).cloned()).collect() {
            return Ok(answers);
        }
        let missing = questions.into_iter().filter(|(key, _)| fits(key).is_none());
        self.0.open.lock().expect("no one panics while holding it").extend(missing);
        Err(NoAnswer::Later)
    }

    /// Whether the call is to end with questions.
    pub(crate) fn has_open(&self) -> bool {
        !self.0.open.lock().expect("no one panics while holding it").is_empty()
    }

    /// The questions the call ended with.
    pub(crate) fn take_open(&self) -> Vec<(Box<str>, Question)> {
        std::mem::take(&mut *self.0.open.lock().expect("no one panics while holding it"))
    }
}

impl Question {
    fn needs(&self) -> Ability {
        match self {
            Self::Elicit(form) if form.get("mode").is_some_and(|mode| mode == "url") => {
                Ability::ElicitationByUrl
            }
            Self::Elicit(_) => Ability::Elicitation,
            Self::Sample(_) => Ability::Sampling,
            Self::Roots => Ability::Roots,
        }
    }

    /// The method of MCP that asks it.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Elicit(_) => "elicitation/create",
            Self::Sample(_) => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// What it asks, in the shape of MCP's parameters.
    pub fn params(&self) -> Value {
        match self {
            Self::Elicit(params) | Self::Sample(params) => Value::Object(params.clone()),
            Self::Roots => json!({}),
        }
    }
}
