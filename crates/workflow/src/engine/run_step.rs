//! One step of a run: condition, input, action, output, export and flow directive.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{select_ok, try_join_all};
use serde_json::Value;

use super::evaluation_scope::ActiveStep;
use super::{FlowOutcome, StepFrame, StepsResult, WorkflowFuture, WorkflowRun};
use crate::value_template::{ExpressionScope, ValueTemplate};
use crate::workflow_document::{
    FlowDirective, ForTask, RaiseTask, StepAction, SwitchCase, WorkflowStep,
};
use crate::workflow_fault::WorkflowFault;

/// The running step, with its input and the scope of its expressions.
pub(super) struct StepContext<'a> {
    pub(super) doing: &'a ActiveStep<'a>,
    pub(super) scope: ExpressionScope,
    pub(super) input: Arc<Value>,
}

impl WorkflowRun<'_> {
    /// Runs a step; returns its output and the directive for the next one.
    pub(super) async fn run_step(
        &self,
        step: &WorkflowStep,
        raw_input: Arc<Value>,
        frame: &mut StepFrame,
    ) -> Result<(Arc<Value>, FlowDirective), WorkflowFault> {
        let (at, budget) = (&*step.reference, self.environment.budget);
        budget.consume_step().map_err(|what| WorkflowFault::limit_reached(what, at))?;
        self.environment.tools.on_step_started(budget.steps_made(), &step.name);
        let started = self.environment.clock.now();
        let doing = ActiveStep { step, raw_input: Arc::clone(&raw_input), started };
        let mut scope = frame.step_scope();
        if let Some(condition) = &step.condition
            && !self.condition_holds(condition, &raw_input, &scope, &doing).await?
        {
            return Ok((raw_input, FlowDirective::Continue));
        }
        let input = match &step.input {
            Some(from) => {
                self.evaluate_template(from, raw_input, &scope, Some((&doing, None)), at).await?
            }
            None => raw_input,
        };
        scope.variables.push(("input".into(), Arc::clone(&input)));
        let within = StepContext { doing: &doing, scope, input };
        let (raw_output, then) = self.run_action_in_time(&within, frame).await?;
        self.apply_output(step, within, raw_output, then, frame).await
    }

    /// Applies the step's `output` and `export` templates.
    async fn apply_output(
        &self,
        step: &WorkflowStep,
        within: StepContext<'_>,
        raw_output: Arc<Value>,
        then: FlowDirective,
        frame: &mut StepFrame,
    ) -> Result<(Arc<Value>, FlowDirective), WorkflowFault> {
        let (at, mut scope) = (&*step.reference, within.scope);
        // Nested steps may have exported a new context.
        scope.variables.push(("context".into(), Arc::clone(&frame.context)));
        let described = Some((within.doing, Some(&*raw_output)));
        let output = match &step.output {
            Some(template) => {
                self.evaluate_template(template, Arc::clone(&raw_output), &scope, described, at)
                    .await?
            }
            None => Arc::clone(&raw_output),
        };
        if let Some(template) = &step.export {
            scope.variables.push(("output".into(), Arc::clone(&output)));
            let value = Arc::clone(&output);
            frame.context = self.evaluate_template(template, value, &scope, described, at).await?;
        }
        Ok((output, then))
    }

    /// Runs the step's action within the step's timeout.
    async fn run_action_in_time(
        &self,
        within: &StepContext<'_>,
        frame: &mut StepFrame,
    ) -> Result<(Arc<Value>, FlowDirective), WorkflowFault> {
        let step = within.doing.step;
        let Some(timeout) = step.timeout else { return self.run_action(within, frame).await };
        let before = frame.deadline;
        frame.deadline = before.min(self.environment.clock.elapsed().saturating_add(timeout));
        let acted = self.run_with_timeout(timeout, self.run_action(within, frame), || {
            WorkflowFault::timed_out(&step.reference)
        });
        let acted = acted.await;
        frame.deadline = before;
        acted
    }

    fn run_action<'b>(
        &'b self,
        within: &'b StepContext<'_>,
        frame: &'b mut StepFrame,
    ) -> WorkflowFuture<'b, Result<(Arc<Value>, FlowDirective), WorkflowFault>> {
        let step = within.doing.step;
        Box::pin(async move {
            let input = Arc::clone(&within.input);
            let done = match &step.action {
                StepAction::Call { tool, with } => {
                    self.call_tool(within, tool, with, frame).await?
                }
                StepAction::Set(template) => self.evaluate_in_step(within, template).await?,
                StepAction::Wait(time) => {
                    self.environment.clock.sleep(*time).await;
                    input
                }
                StepAction::Raise(raise) => return Err(self.raise_fault(within, raise).await?),
                StepAction::Switch(cases) => {
                    let then = self.select_case(within, cases).await?;
                    return Ok((input, then.unwrap_or(step.then)));
                }
                StepAction::Do(steps) => {
                    return finish_nested(self.run_steps(steps, input, frame).await, step.then);
                }
                StepAction::For(it) => {
                    return finish_nested(self.run_loop(within, it, frame).await, step.then);
                }
                StepAction::Try(it) => {
                    return finish_nested(self.run_try(within, it, frame).await, step.then);
                }
                StepAction::Fork { branches, compete } => {
                    return finish_nested(
                        self.run_branches(input, branches, *compete, frame).await,
                        step.then,
                    );
                }
            };
            Ok((done, step.then))
        })
    }

    pub(super) async fn condition_holds(
        &self,
        condition: &Arc<ValueTemplate>,
        value: &Arc<Value>,
        scope: &ExpressionScope,
        doing: &ActiveStep<'_>,
    ) -> Result<bool, WorkflowFault> {
        let (value, at) = (Arc::clone(value), &*doing.step.reference);
        let said = self.evaluate_template(condition, value, scope, Some((doing, None)), at).await?;
        Ok(!matches!(*said, Value::Null | Value::Bool(false)))
    }

    /// Evaluates a template of the step with the step's input.
    async fn evaluate_in_step(
        &self,
        within: &StepContext<'_>,
        template: &Arc<ValueTemplate>,
    ) -> Result<Arc<Value>, WorkflowFault> {
        let (input, doing) = (Arc::clone(&within.input), Some((within.doing, None)));
        self.evaluate_template(template, input, &within.scope, doing, &within.doing.step.reference)
            .await
    }

    async fn call_tool(
        &self,
        within: &StepContext<'_>,
        tool: &str,
        with: &Arc<ValueTemplate>,
        frame: &StepFrame,
    ) -> Result<Arc<Value>, WorkflowFault> {
        let at = &*within.doing.step.reference;
        let Value::Object(arguments) =
            Arc::unwrap_or_clone(self.evaluate_in_step(within, with).await?)
        else {
            return Err(WorkflowFault::expression_failed(
                "the arguments of a tool are an object",
                at,
            ));
        };
        let left = frame.deadline.saturating_sub(self.environment.clock.elapsed());
        let called = self.environment.tools.call_tool(tool, arguments, left).await;
        let value = called.map_err(|failed| WorkflowFault::from_call_failure(failed, at))?;
        self.environment
            .budget
            .consume_data(&value)
            .map_err(|what| WorkflowFault::limit_reached(what, at))?;
        Ok(Arc::new(value))
    }

    async fn raise_fault(
        &self,
        within: &StepContext<'_>,
        raise: &RaiseTask,
    ) -> Result<WorkflowFault, WorkflowFault> {
        let at = &*within.doing.step.reference;
        let kind = value_to_text(&*self.evaluate_in_step(within, &raise.kind).await?);
        let mut fault = WorkflowFault::standard_error("", raise.status, "", at);
        fault.kind = kind.clone();
        fault.title = match &raise.title {
            Some(title) => value_to_text(&*self.evaluate_in_step(within, title).await?),
            None => kind,
        };
        if let Some(detail) = &raise.detail {
            fault.detail = Some(value_to_text(&*self.evaluate_in_step(within, detail).await?));
        }
        if let Some(instance) = &raise.instance {
            fault.instance = instance.to_string();
        }
        Ok(fault)
    }

    /// The directive of the first case that holds.
    async fn select_case(
        &self,
        within: &StepContext<'_>,
        cases: &[SwitchCase],
    ) -> Result<Option<FlowDirective>, WorkflowFault> {
        let mut otherwise = None;
        for case in cases {
            let Some(when) = &case.when else {
                otherwise = Some(case.then);
                continue;
            };
            if self.condition_holds(when, &within.input, &within.scope, within.doing).await? {
                return Ok(Some(case.then));
            }
        }
        Ok(otherwise)
    }

    /// Runs a loop; every iteration gets the output of the one before.
    async fn run_loop(
        &self,
        within: &StepContext<'_>,
        it: &ForTask,
        frame: &mut StepFrame,
    ) -> StepsResult {
        let at = &*within.doing.step.reference;
        let list = self.evaluate_in_step(within, &it.list).await?;
        let Value::Array(items) = &*list else {
            return Err(WorkflowFault::expression_failed("`for` needs a list to go through", at));
        };
        let (mut value, outside) = (Arc::clone(&within.input), frame.variables.len());
        let mut ended = FlowOutcome::List;
        for (place, item) in items.iter().enumerate() {
            self.environment
                .budget
                .consume_iteration()
                .map_err(|what| WorkflowFault::limit_reached(what, at))?;
            frame.variables.truncate(outside);
            frame.variables.push((it.item_variable.clone(), Arc::new(item.clone())));
            frame.variables.push((it.index_variable.clone(), Arc::new(place.into())));
            if let Some(condition) = &it.condition {
                let mut scope = frame.step_scope();
                scope.variables.push(("input".into(), Arc::clone(&within.input)));
                if !self.condition_holds(condition, &value, &scope, within.doing).await? {
                    break;
                }
            }
            (value, ended) = self.run_steps(&it.steps, value, frame).await?;
            if ended == FlowOutcome::Workflow {
                break;
            }
        }
        frame.variables.truncate(outside);
        Ok((value, ended))
    }

    /// Runs branches concurrently. The context that a branch exports stays in that branch.
    async fn run_branches(
        &self,
        input: Arc<Value>,
        branches: &[WorkflowStep],
        compete: bool,
        frame: &StepFrame,
    ) -> StepsResult {
        let branches = branches.iter().map(|branch| {
            let (mut frame, input) = (frame.clone(), Arc::clone(&input));
            let branch: WorkflowFuture<'_, Result<(Arc<Value>, FlowDirective), WorkflowFault>> =
                Box::pin(async move { self.run_step(branch, input, &mut frame).await });
            branch
        });
        if compete {
            let ((winner, then), _) = select_ok(branches).await?;
            return Ok((winner, outcome_of_directive(then)));
        }
        let outputs = try_join_all(branches).await?;
        let is_over = outputs.iter().any(|(_, then)| *then == FlowDirective::End);
        let outputs = outputs.into_iter().map(|(output, _)| Arc::unwrap_or_clone(output)).collect();
        Ok((Arc::new(outputs), if is_over { FlowOutcome::Workflow } else { FlowOutcome::List }))
    }

    /// The time until the deadline of the enclosing task.
    pub(super) fn time_left(&self, frame: &StepFrame) -> Duration {
        frame.deadline.saturating_sub(self.environment.clock.elapsed())
    }
}

/// The result of a step with nested steps: the workflow ends, or the step's own directive applies.
fn finish_nested(
    done: StepsResult,
    then: FlowDirective,
) -> Result<(Arc<Value>, FlowDirective), WorkflowFault> {
    let (value, ended) = done?;
    Ok((value, if ended == FlowOutcome::Workflow { FlowDirective::End } else { then }))
}

fn outcome_of_directive(then: FlowDirective) -> FlowOutcome {
    if then == FlowDirective::End { FlowOutcome::Workflow } else { FlowOutcome::List }
}

/// A string as it is, any other value as JSON.
fn value_to_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
