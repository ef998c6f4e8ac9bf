//! A parsed workflow: every part of it is supported and valid on its own.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::template::Template;

/// A workflow that is ready to run.
#[derive(Debug)]
pub struct Workflow {
    /// Name of the workflow's tool.
    pub name: Box<str>,
    /// Human-readable title.
    pub title: Option<Box<str>>,
    /// Summary of the workflow's purpose.
    pub summary: Option<Box<str>>,
    /// The author's tags, each as `name=value`.
    pub tags: Vec<Box<str>>,
    /// JSON Schema of the arguments.
    pub input_schema: Option<Value>,
    /// JSON Schema of the result.
    pub output_schema: Option<Value>,
    pub(crate) input: Option<Arc<Template>>,
    pub(crate) output: Option<Arc<Template>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) steps: Vec<Step>,
    pub(crate) definition: Arc<Value>,
}

/// One task of the DSL.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: Box<str>,
    /// JSON pointer to the step in the document.
    pub(crate) reference: Box<str>,
    pub(crate) definition: Arc<Value>,
    pub(crate) condition: Option<Arc<Template>>,
    pub(crate) input: Option<Arc<Template>>,
    pub(crate) output: Option<Arc<Template>>,
    pub(crate) export: Option<Arc<Template>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) then: Then,
    pub(crate) action: Action,
}

/// The flow directive of a task (`then`): the task that runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The next task of the list.
    Continue,
    /// Leave the list of tasks.
    Exit,
    /// End the workflow.
    End,
    /// The task with this index in the same list.
    To(usize),
}

/// The kind of a task, with its settings.
#[derive(Debug)]
pub(crate) enum Action {
    Call { tool: Box<str>, with: Arc<Template> },
    Do(Vec<Step>),
    Set(Arc<Template>),
    Switch(Vec<Case>),
    For(Box<Loop>),
    Fork { branches: Vec<Step>, compete: bool },
    Try(Box<Attempt>),
    Wait(Duration),
    Raise(Box<Raise>),
}

#[derive(Debug)]
pub(crate) struct Case {
    /// `None` is the default case: it applies if no other case holds.
    pub(crate) when: Option<Arc<Template>>,
    pub(crate) then: Then,
}

#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) each: Box<str>,
    pub(crate) at: Box<str>,
    pub(crate) list: Arc<Template>,
    pub(crate) condition: Option<Arc<Template>>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) steps: Vec<Step>,
    /// Fields and values that an error must have to be caught.
    pub(crate) with: Vec<(&'static str, Value)>,
    pub(crate) variable: Box<str>,
    pub(crate) when: Option<Arc<Template>>,
    pub(crate) except_when: Option<Arc<Template>>,
    pub(crate) retry: Option<Arc<Retry>>,
    pub(crate) otherwise: Option<Vec<Step>>,
}

#[derive(Debug)]
pub(crate) struct Retry {
    pub(crate) when: Option<Arc<Template>>,
    pub(crate) except_when: Option<Arc<Template>>,
    /// Maximum number of retries, without the first attempt.
    pub(crate) attempts: u32,
    pub(crate) within: Option<Duration>,
    pub(crate) delay: Duration,
    pub(crate) backoff: Backoff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backoff {
    Constant,
    Linear,
    Exponential,
}

impl Retry {
    /// The delay before this retry; the first retry has number 1.
    pub(crate) fn wait(&self, attempt: u32) -> Duration {
        match self.backoff {
            Backoff::Constant => self.delay,
            Backoff::Linear => self.delay.saturating_mul(attempt),
            Backoff::Exponential => {
                let times = 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
                self.delay.saturating_mul(times)
            }
        }
    }
}

/// The error of a `raise` task.
#[derive(Debug)]
pub(crate) struct Raise {
    pub(crate) kind: Arc<Template>,
    pub(crate) status: u16,
    pub(crate) title: Option<Arc<Template>>,
    pub(crate) detail: Option<Arc<Template>>,
    pub(crate) instance: Option<Box<str>>,
}

impl Action {
    /// The nested lists of steps, each with its field name in the document.
    pub(crate) fn inside(&self) -> Vec<(&'static str, &[Step])> {
        match self {
            Self::Do(steps) => vec![("do", steps)],
            Self::For(it) => vec![("do", &it.steps)],
            Self::Fork { branches, .. } => vec![("branches", branches)],
            Self::Try(attempt) => {
                let otherwise = attempt.otherwise.as_deref().map(|steps| ("catch", steps));
                [("try", attempt.steps.as_slice())].into_iter().chain(otherwise).collect()
            }
            Self::Call { .. } | Self::Set(_) | Self::Switch(_) | Self::Wait(_) | Self::Raise(_) => {
                Vec::new()
            }
        }
    }
}
