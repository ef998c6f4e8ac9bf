//! The `try` task: run the steps, retry as the policy says, then run the `catch` steps.

use std::sync::Arc;

use serde_json::Value;

use super::run_step::StepContext;
use super::{StepFrame, StepsResult, WorkflowRun};
use crate::value_template::{ExpressionScope, ValueTemplate};
use crate::workflow_document::{StepRetryPolicy, TryTask};
use crate::workflow_fault::WorkflowFault;

impl WorkflowRun<'_> {
    pub(super) async fn run_try(
        &self,
        within: &StepContext<'_>,
        it: &TryTask,
        frame: &mut StepFrame,
    ) -> StepsResult {
        let began = self.environment.clock.elapsed();
        let outside = frame.variables.len();
        let mut attempts = 0;
        loop {
            let done = self.run_steps(&it.steps, Arc::clone(&within.input), frame).await;
            frame.variables.truncate(outside);
            let fault = match done {
                Err(fault) if !fault.is_final => fault,
                done => return done,
            };
            let error = Arc::new(fault.to_value());
            let mut scope = within.scope.clone();
            scope.variables.push((it.variable.clone(), Arc::clone(&error)));
            if !self.catches_error(within, it, &error, &scope).await? {
                return Err(fault);
            }
            if let Some(retry) = &it.retry
                && attempts < retry.attempts
                && self.should_retry(within, retry, &scope).await?
            {
                attempts += 1;
                let wait = retry.delay_before(attempts);
                let over = self.environment.clock.elapsed().saturating_add(wait);
                let in_time = retry.within.is_none_or(|time| over.saturating_sub(began) <= time);
                // Do not sleep past the deadline: the retry could not run any more.
                if in_time && wait < self.time_left(frame) {
                    self.environment.clock.sleep(wait).await;
                    continue;
                }
            }
            return self.run_catch(within, it, fault, error, frame).await;
        }
    }

    async fn catches_error(
        &self,
        within: &StepContext<'_>,
        it: &TryTask,
        error: &Value,
        scope: &ExpressionScope,
    ) -> Result<bool, WorkflowFault> {
        let fits = |(name, value): &(&str, Value)| error.get(*name) == Some(value);
        Ok(it.error_filter.iter().all(fits)
            && self.condition_or_default(within, it.when.as_ref(), scope, true).await?
            && !self.condition_or_default(within, it.except_when.as_ref(), scope, false).await?)
    }

    async fn should_retry(
        &self,
        within: &StepContext<'_>,
        retry: &StepRetryPolicy,
        scope: &ExpressionScope,
    ) -> Result<bool, WorkflowFault> {
        Ok(self.condition_or_default(within, retry.when.as_ref(), scope, true).await?
            && !self.condition_or_default(within, retry.except_when.as_ref(), scope, false).await?)
    }

    async fn condition_or_default(
        &self,
        within: &StepContext<'_>,
        condition: Option<&Arc<ValueTemplate>>,
        scope: &ExpressionScope,
        otherwise: bool,
    ) -> Result<bool, WorkflowFault> {
        match condition {
            Some(condition) => {
                self.condition_holds(condition, &within.input, scope, within.doing).await
            }
            None => Ok(otherwise),
        }
    }

    /// Runs the `catch` steps. Without `catch` steps, an error of a task with a retry policy stays an error.
    async fn run_catch(
        &self,
        within: &StepContext<'_>,
        it: &TryTask,
        fault: WorkflowFault,
        error: Arc<Value>,
        frame: &mut StepFrame,
    ) -> StepsResult {
        let Some(steps) = &it.catch_steps else {
            return match it.retry {
                Some(_) => Err(fault),
                None => Ok((Arc::clone(&within.input), super::FlowOutcome::List)),
            };
        };
        let outside = frame.variables.len();
        frame.variables.push((it.variable.clone(), error));
        let done = self.run_steps(steps, Arc::clone(&within.input), frame).await;
        frame.variables.truncate(outside);
        done
    }
}
