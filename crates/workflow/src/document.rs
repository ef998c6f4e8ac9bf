//! A workflow as it was read: everything in it is known to be supported and right in itself.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::template::Template;

/// A workflow, ready to be run.
#[derive(Debug)]
pub struct Workflow {
    /// What its tool is called.
    pub name: Box<str>,
    /// A name for people.
    pub title: Option<Box<str>>,
    /// What it does.
    pub summary: Option<Box<str>>,
    /// The author's own words on it, `name=value`.
    pub tags: Vec<Box<str>>,
    /// Of its arguments.
    pub input_schema: Option<Value>,
    /// Of its result.
    pub output_schema: Option<Value>,
    pub(crate) input: Option<Arc<Template>>,
    pub(crate) output: Option<Arc<Template>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) steps: Vec<Step>,
    pub(crate) definition: Arc<Value>,
}

/// A task of the DSL.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: Box<str>,
    /// Where it stands in the document, as a JSON pointer.
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

/// Where a list of steps goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// With the next one.
    Continue,
    /// Behind the list.
    Exit,
    /// Nowhere: the workflow is over.
    End,
    /// With that step of the list.
    To(usize),
}

/// What a step does.
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
    /// None holds where no other does.
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
    /// Members that an error must have to be caught.
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
    /// How often in all, the first time not counted.
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
    /// How long to wait before the attempt of this number, which begins at 1.
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

/// The error that a step raises.
#[derive(Debug)]
pub(crate) struct Raise {
    pub(crate) kind: Arc<Template>,
    pub(crate) status: u16,
    pub(crate) title: Option<Arc<Template>>,
    pub(crate) detail: Option<Arc<Template>>,
    pub(crate) instance: Option<Box<str>>,
}

impl Action {
    /// The lists of steps in it.
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
