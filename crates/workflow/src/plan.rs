//! The plan of a workflow: its steps and tools, without running anything.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::document::{Action, Attempt, Backoff, Loop, Step, Then, Workflow};

/// The steps and tools of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Name of the workflow.
    pub workflow: String,
    /// Names of the tools that it may call, as the document spells them.
    pub tools: BTreeSet<String>,
    /// Its steps, in the order of the document.
    pub steps: Vec<Planned>,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
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
    pub fn plan(&self) -> Plan {
        let mut plan =
            Plan { workflow: self.name.to_string(), tools: BTreeSet::new(), steps: Vec::new() };
        plan.add(&self.steps, 0);
        plan
    }

    /// Names of the tools that the workflow may call, as the document spells them.
    pub fn tools(&self) -> BTreeSet<String> {
        self.plan().tools
    }

    /// Approximate memory, relative to a small tool.
    pub fn weight(&self) -> u32 {
        u32::try_from(self.plan().steps.len()).unwrap_or(u32::MAX)
    }
}

impl Plan {
    fn add(&mut self, steps: &[Step], depth: usize) {
        for step in steps {
            if let Action::Call { tool, .. } = &step.action {
                self.tools.insert(tool.to_string());
            }
            self.steps.push(Planned {
                depth,
                name: step.name.to_string(),
                what: format!(
                    "{}{}{}",
                    told(step, steps),
                    circumstances(step),
                    goes_on(step, steps)
                ),
                reference: step.reference.to_string(),
            });
            for (_, inside) in step.action.inside() {
                self.add(inside, depth + 1);
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            let indent = "  ".repeat(step.depth);
            writeln!(f, "{indent}{}: {}", step.name, step.what)?;
        }
        Ok(())
    }
}

fn told(step: &Step, beside: &[Step]) -> String {
    match &step.action {
        Action::Call { tool, with } => format!("call {tool} {}", with.shown()),
        Action::Do(_) => "do".to_owned(),
        Action::Set(template) => format!("set {}", template.shown()),
        Action::Switch(cases) => {
            let case = |case: &crate::document::Case| {
                let when = case.when.as_ref().map_or("otherwise".to_owned(), |it| it.shown());
                format!("{when} → {}", target(case.then, beside))
            };
            format!("switch {}", cases.iter().map(case).collect::<Vec<_>>().join("; "))
        }
        Action::For(it) => told_loop(it),
        Action::Fork { branches, compete: false } => format!("fork {} branches", branches.len()),
        Action::Fork { branches, compete: true } => {
            format!("fork {} branches, the first one wins", branches.len())
        }
        Action::Try(it) => told_attempt(it),
        Action::Wait(time) => format!("wait {time:?}"),
        Action::Raise(raise) => format!("raise {} {}", raise.status, raise.kind.shown()),
    }
}

fn told_loop(it: &Loop) -> String {
    let condition = it.condition.as_ref().map(|it| format!(" while {}", it.shown()));
    format!("for each ${} in {}{}", it.each, it.list.shown(), condition.unwrap_or_default())
}

fn told_attempt(it: &Attempt) -> String {
    let filter: Vec<String> =
        it.with.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let which = if filter.is_empty() { "all errors".to_owned() } else { filter.join(", ") };
    let retry = it.retry.as_ref().map(|retry| {
        let backoff = match retry.backoff {
            Backoff::Constant => "",
            Backoff::Linear => ", linear",
            Backoff::Exponential => ", exponential",
        };
        format!("; again up to {} times after {:?}{backoff}", retry.attempts, retry.delay)
    });
    format!("try, catching {which}{}", retry.unwrap_or_default())
}

fn circumstances(step: &Step) -> String {
    let condition = step.condition.as_ref().map(|it| format!(", if {}", it.shown()));
    let timeout = step.timeout.map(|time| format!(", within {time:?}"));
    [condition, timeout].into_iter().flatten().collect()
}

fn goes_on(step: &Step, beside: &[Step]) -> String {
    match step.then {
        Then::Continue => String::new(),
        then => format!(", then {}", target(then, beside)),
    }
}

/// The target of a flow directive, as text.
pub(crate) fn target(then: Then, beside: &[Step]) -> String {
    match then {
        Then::Continue => "continue".to_owned(),
        Then::Exit => "exit".to_owned(),
        Then::End => "end".to_owned(),
        Then::To(place) => beside.get(place).map(|step| step.name.to_string()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
