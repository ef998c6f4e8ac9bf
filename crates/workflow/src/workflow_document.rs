//! A parsed workflow: every part of it is supported and valid on its own.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::value_template::ValueTemplate;

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
    pub(crate) input: Option<Arc<ValueTemplate>>,
    pub(crate) output: Option<Arc<ValueTemplate>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) steps: Vec<WorkflowStep>,
    pub(crate) definition: Arc<Value>,
}

/// One task of the DSL.
#[derive(Debug)]
pub(crate) struct WorkflowStep {
    pub(crate) name: Box<str>,
    /// JSON pointer to the step in the document.
    pub(crate) reference: Box<str>,
    pub(crate) definition: Arc<Value>,
    pub(crate) condition: Option<Arc<ValueTemplate>>,
    pub(crate) input: Option<Arc<ValueTemplate>>,
    pub(crate) output: Option<Arc<ValueTemplate>>,
    pub(crate) export: Option<Arc<ValueTemplate>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) then: FlowDirective,
    pub(crate) action: StepAction,
}

/// The flow directive of a task (`then`): the task that runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowDirective {
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
pub(crate) enum StepAction {
    Call { tool: Box<str>, with: Arc<ValueTemplate> },
    Do(Vec<WorkflowStep>),
    Set(Arc<ValueTemplate>),
    Switch(Vec<SwitchCase>),
    For(Box<ForTask>),
    Fork { branches: Vec<WorkflowStep>, compete: bool },
    Try(Box<TryTask>),
    Wait(Duration),
    Raise(Box<RaiseTask>),
}

#[derive(Debug)]
pub(crate) struct SwitchCase {
    /// `None` is the default case: it applies if no other case holds.
    pub(crate) when: Option<Arc<ValueTemplate>>,
    pub(crate) then: FlowDirective,
}

#[derive(Debug)]
pub(crate) struct ForTask {
    pub(crate) item_variable: Box<str>,
    pub(crate) index_variable: Box<str>,
    pub(crate) list: Arc<ValueTemplate>,
    pub(crate) condition: Option<Arc<ValueTemplate>>,
    pub(crate) steps: Vec<WorkflowStep>,
}

#[derive(Debug)]
pub(crate) struct TryTask {
    pub(crate) steps: Vec<WorkflowStep>,
    /// Fields and values that an error must have to be caught.
    pub(crate) error_filter: Vec<(&'static str, Value)>,
    pub(crate) variable: Box<str>,
    pub(crate) when: Option<Arc<ValueTemplate>>,
    pub(crate) except_when: Option<Arc<ValueTemplate>>,
    pub(crate) retry: Option<Arc<StepRetryPolicy>>,
    pub(crate) catch_steps: Option<Vec<WorkflowStep>>,
}

#[derive(Debug)]
pub(crate) struct StepRetryPolicy {
    pub(crate) when: Option<Arc<ValueTemplate>>,
    pub(crate) except_when: Option<Arc<ValueTemplate>>,
    /// Maximum number of retries, without the first attempt.
    pub(crate) attempts: u32,
    pub(crate) within: Option<Duration>,
    pub(crate) delay: Duration,
    pub(crate) backoff: RetryBackoff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryBackoff {
    Constant,
    Linear,
    Exponential,
}

impl StepRetryPolicy {
    /// The delay before this retry; the first retry has number 1.
    pub(crate) fn delay_before(&self, attempt: u32) -> Duration {
        match self.backoff {
            RetryBackoff::Constant => self.delay,
            RetryBackoff::Linear => self.delay.saturating_mul(attempt),
            RetryBackoff::Exponential => {
                let times = 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
                self.delay.saturating_mul(times)
            }
        }
    }
}

/// The error of a `raise` task.
#[derive(Debug)]
pub(crate) struct RaiseTask {
    pub(crate) kind: Arc<ValueTemplate>,
    pub(crate) status: u16,
    pub(crate) title: Option<Arc<ValueTemplate>>,
    pub(crate) detail: Option<Arc<ValueTemplate>>,
    pub(crate) instance: Option<Box<str>>,
}

impl StepAction {
    /// The nested lists of steps, each with its field name in the document.
    pub(crate) fn nested_steps(&self) -> Vec<(&'static str, &[WorkflowStep])> {
        match self {
            Self::Do(steps) => vec![("do", steps)],
            Self::For(it) => vec![("do", &it.steps)],
            Self::Fork { branches, .. } => vec![("branches", branches)],
            Self::Try(attempt) => {
                let otherwise = attempt.catch_steps.as_deref().map(|steps| ("catch", steps));
                [("try", attempt.steps.as_slice())].into_iter().chain(otherwise).collect()
            }
            Self::Call { .. } | Self::Set(_) | Self::Switch(_) | Self::Wait(_) | Self::Raise(_) => {
                Vec::new()
            }
        }
    }
}
