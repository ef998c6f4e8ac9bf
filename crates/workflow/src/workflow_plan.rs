//! The plan of a workflow: its steps and tools, without running anything.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::workflow_document::{
    FlowDirective, ForTask, RetryBackoff, StepAction, TryTask, Workflow, WorkflowStep,
};

/// The steps and tools of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkflowPlan {
    /// Name of the workflow.
    pub workflow: String,
    /// Names of the tools that it may call, as the document spells them.
    pub tools: BTreeSet<String>,
    /// Its steps, in the order of the document.
    pub steps: Vec<PlannedStep>,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedStep {
    /// Number of enclosing steps.
    pub depth: usize,
    /// Name of the step.
    pub name: String,
    /// Description of the step's action.
    pub what: String,
    /// JSON pointer to the step in the document.
    pub reference: String,
}

impl Workflow {
    /// The plan of the workflow.
    pub fn to_plan(&self) -> WorkflowPlan {
        let mut plan = WorkflowPlan {
            workflow: self.name.to_string(),
            tools: BTreeSet::new(),
            steps: Vec::new(),
        };
        plan.add_steps(&self.steps, 0);
        plan
    }

    /// Names of the tools that the workflow may call, as the document spells them.
    pub fn tool_names(&self) -> BTreeSet<String> {
        self.to_plan().tools
    }

    /// Approximate memory, relative to a small tool.
    pub fn memory_weight(&self) -> u32 {
        u32::try_from(self.to_plan().steps.len()).unwrap_or(u32::MAX)
    }
}

impl WorkflowPlan {
    fn add_steps(&mut self, steps: &[WorkflowStep], depth: usize) {
        for step in steps {
            if let StepAction::Call { tool, .. } = &step.action {
                self.tools.insert(tool.to_string());
            }
            self.steps.push(PlannedStep {
                depth,
                name: step.name.to_string(),
                what: format!(
                    "{}{}{}",
                    describe_action(step, steps),
                    describe_conditions(step),
                    describe_directive(step, steps)
                ),
                reference: step.reference.to_string(),
            });
            for (_, inside) in step.action.nested_steps() {
                self.add_steps(inside, depth + 1);
            }
        }
    }
}

impl fmt::Display for WorkflowPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            let indent = "  ".repeat(step.depth);
            writeln!(f, "{indent}{}: {}", step.name, step.what)?;
        }
        Ok(())
    }
}

fn describe_action(step: &WorkflowStep, beside: &[WorkflowStep]) -> String {
    match &step.action {
        StepAction::Call { tool, with } => format!("call {tool} {}", with.to_summary()),
        StepAction::Do(_) => "do".to_owned(),
        StepAction::Set(template) => format!("set {}", template.to_summary()),
        StepAction::Switch(cases) => {
            let case = |case: &crate::workflow_document::SwitchCase| {
                let when = case.when.as_ref().map_or("otherwise".to_owned(), |it| it.to_summary());
                format!("{when} → {}", directive_target(case.then, beside))
            };
            format!("switch {}", cases.iter().map(case).collect::<Vec<_>>().join("; "))
        }
        StepAction::For(it) => describe_loop(it),
        StepAction::Fork { branches, compete: false } => {
            format!("fork {} branches", branches.len())
        }
        StepAction::Fork { branches, compete: true } => {
            format!("fork {} branches, the first one wins", branches.len())
        }
        StepAction::Try(it) => describe_try(it),
        StepAction::Wait(time) => format!("wait {time:?}"),
        StepAction::Raise(raise) => format!("raise {} {}", raise.status, raise.kind.to_summary()),
    }
}

fn describe_loop(it: &ForTask) -> String {
    let condition = it.condition.as_ref().map(|it| format!(" while {}", it.to_summary()));
    format!(
        "for each ${} in {}{}",
        it.item_variable,
        it.list.to_summary(),
        condition.unwrap_or_default()
    )
}

fn describe_try(it: &TryTask) -> String {
    let filter: Vec<String> =
        it.error_filter.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let which = if filter.is_empty() { "all errors".to_owned() } else { filter.join(", ") };
    let retry = it.retry.as_ref().map(|retry| {
        let backoff = match retry.backoff {
            RetryBackoff::Constant => "",
            RetryBackoff::Linear => ", linear",
            RetryBackoff::Exponential => ", exponential",
        };
        format!("; again up to {} times after {:?}{backoff}", retry.attempts, retry.delay)
    });
    format!("try, catching {which}{}", retry.unwrap_or_default())
}

fn describe_conditions(step: &WorkflowStep) -> String {
    let condition = step.condition.as_ref().map(|it| format!(", if {}", it.to_summary()));
    let timeout = step.timeout.map(|time| format!(", within {time:?}"));
    [condition, timeout].into_iter().flatten().collect()
}

fn describe_directive(step: &WorkflowStep, beside: &[WorkflowStep]) -> String {
    match step.then {
        FlowDirective::Continue => String::new(),
        then => format!(", then {}", directive_target(then, beside)),
    }
}

/// The target of a flow directive, as text.
pub(crate) fn directive_target(then: FlowDirective, beside: &[WorkflowStep]) -> String {
    match then {
        FlowDirective::Continue => "continue".to_owned(),
        FlowDirective::Exit => "exit".to_owned(),
        FlowDirective::End => "end".to_owned(),
        FlowDirective::To(place) => {
            beside.get(place).map(|step| step.name.to_string()).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests;
