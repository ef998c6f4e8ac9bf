//! One step of a run: condition, input, action, output, export and flow directive.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{select_ok, try_join_all};
use serde_json::Value;

use super::scope::Doing;
use super::{Coming, Done, Ended, Frame, Run};
use crate::document::{Action, Case, Loop, Raise, Step, Then};
use crate::fault::Fault;
use crate::template::{Scope, Template};

/// The running step, with its input and the scope of its expressions.
pub(super) struct At<'a> {
    pub(super) doing: &'a Doing<'a>,
    pub(super) scope: Scope,
    pub(super) input: Arc<Value>,
}

impl Run<'_> {
    /// Runs a step; returns its output and the directive for the next one.
    pub(super) async fn step(
        &self,
        step: &Step,
        raw_input: Arc<Value>,
        frame: &mut Frame,
    ) -> Result<(Arc<Value>, Then), Fault> {
        let (at, budget) = (&*step.reference, self.around.budget);
        budget.step().map_err(|what| Fault::bound(what, at))?;
        self.around.tools.began(budget.steps_made(), &step.name);
        let started = self.around.clock.now();
        let doing = Doing { step, raw_input: Arc::clone(&raw_input), started };
        let mut scope = frame.scope();
        if let Some(condition) = &step.condition
            && !self.holds(condition, &raw_input, &scope, &doing).await?
        {
            return Ok((raw_input, Then::Continue));
        }
        let input = match &step.input {
            Some(from) => self.evaluated(from, raw_input, &scope, Some((&doing, None)), at).await?,
            None => raw_input,
        };
        scope.variables.push(("input".into(), Arc::clone(&input)));
        let within = At { doing: &doing, scope, input };
        let (raw_output, then) = self.in_time(&within, frame).await?;
        self.after(step, within, raw_output, then, frame).await
    }

    /// Applies the step's `output` and `export` templates.
    async fn after(
        &self,
        step: &Step,
        within: At<'_>,
        raw_output: Arc<Value>,
        then: Then,
        frame: &mut Frame,
    ) -> Result<(Arc<Value>, Then), Fault> {
        let (at, mut scope) = (&*step.reference, within.scope);
        // Nested steps may have exported a new context.
        scope.variables.push(("context".into(), Arc::clone(&frame.context)));
        let described = Some((within.doing, Some(&*raw_output)));
        let output = match &step.output {
            Some(template) => {
                self.evaluated(template, Arc::clone(&raw_output), &scope, described, at).await?
            }
            None => Arc::clone(&raw_output),
        };
        if let Some(template) = &step.export {
            scope.variables.push(("output".into(), Arc::clone(&output)));
            let value = Arc::clone(&output);
            frame.context = self.evaluated(template, value, &scope, described, at).await?;
        }
        Ok((output, then))
    }

    /// Runs the step's action within the step's timeout.
    async fn in_time(
        &self,
        within: &At<'_>,
        frame: &mut Frame,
    ) -> Result<(Arc<Value>, Then), Fault> {
        let step = within.doing.step;
        let Some(timeout) = step.timeout else { return self.act(within, frame).await };
        let before = frame.until;
        frame.until = before.min(self.around.clock.elapsed().saturating_add(timeout));
        let acted =
            self.within(timeout, self.act(within, frame), || Fault::timeout(&step.reference));
        let acted = acted.await;
        frame.until = before;
        acted
    }

    fn act<'b>(
        &'b self,
        within: &'b At<'_>,
        frame: &'b mut Frame,
    ) -> Coming<'b, Result<(Arc<Value>, Then), Fault>> {
        let step = within.doing.step;
        Box::pin(async move {
            let input = Arc::clone(&within.input);
            let done = match &step.action {
                Action::Call { tool, with } => self.call(within, tool, with, frame).await?,
                Action::Set(template) => self.value(within, template).await?,
                Action::Wait(time) => {
                    self.around.clock.sleep(*time).await;
                    input
                }
                Action::Raise(raise) => return Err(self.raised(within, raise).await?),
                Action::Switch(cases) => {
                    let then = self.switch(within, cases).await?;
                    return Ok((input, then.unwrap_or(step.then)));
                }
                Action::Do(steps) => {
                    return goes_on(self.steps(steps, input, frame).await, step.then);
                }
                Action::For(it) => return goes_on(self.each(within, it, frame).await, step.then),
                Action::Try(it) => {
                    return goes_on(self.attempt(within, it, frame).await, step.then);
                }
                Action::Fork { branches, compete } => {
                    return goes_on(self.fork(input, branches, *compete, frame).await, step.then);
                }
            };
            Ok((done, step.then))
        })
    }

    pub(super) async fn holds(
        &self,
        condition: &Arc<Template>,
        value: &Arc<Value>,
        scope: &Scope,
        doing: &Doing<'_>,
    ) -> Result<bool, Fault> {
        let (value, at) = (Arc::clone(value), &*doing.step.reference);
        let said = self.evaluated(condition, value, scope, Some((doing, None)), at).await?;
        Ok(!matches!(*said, Value::Null | Value::Bool(false)))
    }

    /// Evaluates a template of the step with the step's input.
    async fn value(&self, within: &At<'_>, template: &Arc<Template>) -> Result<Arc<Value>, Fault> {
        let (input, doing) = (Arc::clone(&within.input), Some((within.doing, None)));
        self.evaluated(template, input, &within.scope, doing, &within.doing.step.reference).await
    }

    async fn call(
        &self,
        within: &At<'_>,
        tool: &str,
        with: &Arc<Template>,
        frame: &Frame,
    ) -> Result<Arc<Value>, Fault> {
        let at = &*within.doing.step.reference;
        let Value::Object(arguments) = Arc::unwrap_or_clone(self.value(within, with).await?) else {
            return Err(Fault::expression("the arguments of a tool are an object", at));
        };
        let left = frame.until.saturating_sub(self.around.clock.elapsed());
        let called = self.around.tools.call(tool, arguments, left).await;
        let value = called.map_err(|failed| Fault::of_call(failed, at))?;
        self.around.budget.keep(&value).map_err(|what| Fault::bound(what, at))?;
        Ok(Arc::new(value))
    }

    async fn raised(&self, within: &At<'_>, raise: &Raise) -> Result<Fault, Fault> {
        let at = &*within.doing.step.reference;
        let kind = text(&*self.value(within, &raise.kind).await?);
        let mut fault = Fault::standard("", raise.status, "", at);
        fault.kind = kind.clone();
        fault.title = match &raise.title {
            Some(title) => text(&*self.value(within, title).await?),
            None => kind,
        };
        if let Some(detail) = &raise.detail {
            fault.detail = Some(text(&*self.value(within, detail).await?));
        }
        if let Some(instance) = &raise.instance {
            fault.instance = instance.to_string();
        }
        Ok(fault)
    }

    /// The directive of the first case that holds.
    async fn switch(&self, within: &At<'_>, cases: &[Case]) -> Result<Option<Then>, Fault> {
        let mut otherwise = None;
        for case in cases {
            let Some(when) = &case.when else {
                otherwise = Some(case.then);
                continue;
            };
            if self.holds(when, &within.input, &within.scope, within.doing).await? {
                return Ok(Some(case.then));
            }
        }
        Ok(otherwise)
    }

    /// Runs a loop; every iteration gets the output of the one before.
    async fn each(&self, within: &At<'_>, it: &Loop, frame: &mut Frame) -> Done {
        let at = &*within.doing.step.reference;
        let list = self.value(within, &it.list).await?;
        let Value::Array(items) = &*list else {
            return Err(Fault::expression("`for` needs a list to go through", at));
        };
        let (mut value, outside) = (Arc::clone(&within.input), frame.variables.len());
        let mut ended = Ended::List;
        for (place, item) in items.iter().enumerate() {
            self.around.budget.iteration().map_err(|what| Fault::bound(what, at))?;
            frame.variables.truncate(outside);
            frame.variables.push((it.each.clone(), Arc::new(item.clone())));
            frame.variables.push((it.at.clone(), Arc::new(place.into())));
            if let Some(condition) = &it.condition {
                let mut scope = frame.scope();
                scope.variables.push(("input".into(), Arc::clone(&within.input)));
                if !self.holds(condition, &value, &scope, within.doing).await? {
                    break;
                }
            }
            (value, ended) = self.steps(&it.steps, value, frame).await?;
            if ended == Ended::Workflow {
                break;
            }
        }
        frame.variables.truncate(outside);
        Ok((value, ended))
    }

    /// Runs branches concurrently. The context that a branch exports stays in that branch.
    async fn fork(
        &self,
        input: Arc<Value>,
        branches: &[Step],
        compete: bool,
        frame: &Frame,
    ) -> Done {
        let branches = branches.iter().map(|branch| {
            let (mut frame, input) = (frame.clone(), Arc::clone(&input));
            let branch: Coming<'_, Result<(Arc<Value>, Then), Fault>> =
                Box::pin(async move { self.step(branch, input, &mut frame).await });
            branch
        });
        if compete {
            let ((winner, then), _) = select_ok(branches).await?;
            return Ok((winner, ended(then)));
        }
        let outputs = try_join_all(branches).await?;
        let is_over = outputs.iter().any(|(_, then)| *then == Then::End);
        let outputs = outputs.into_iter().map(|(output, _)| Arc::unwrap_or_clone(output)).collect();
        Ok((Arc::new(outputs), if is_over { Ended::Workflow } else { Ended::List }))
    }

    /// The time until the deadline of the enclosing task.
    pub(super) fn left(&self, frame: &Frame) -> Duration {
        frame.until.saturating_sub(self.around.clock.elapsed())
    }
}

/// The result of a step with nested steps: the workflow ends, or the step's own directive applies.
fn goes_on(done: Done, then: Then) -> Result<(Arc<Value>, Then), Fault> {
    let (value, ended) = done?;
    Ok((value, if ended == Ended::Workflow { Then::End } else { then }))
}

fn ended(then: Then) -> Ended {
    if then == Then::End { Ended::Workflow } else { Ended::List }
}

/// A string as it is, any other value as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
