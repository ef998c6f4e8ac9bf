//! The `try` task: run the steps, retry as the policy says, then run the `catch` steps.

use std::sync::Arc;

use serde_json::Value;

use super::step::At;
use super::{Done, Frame, Run};
use crate::document::{Attempt, Retry};
use crate::fault::Fault;
use crate::template::{Scope, Template};

impl Run<'_> {
    pub(super) async fn attempt(&self, within: &At<'_>, it: &Attempt, frame: &mut Frame) -> Done {
        let began = self.around.clock.elapsed();
        let outside = frame.variables.len();
        let mut attempts = 0;
        loop {
            let done = self.steps(&it.steps, Arc::clone(&within.input), frame).await;
            frame.variables.truncate(outside);
            let fault = match done {
                Err(fault) if !fault.is_final => fault,
                done => return done,
            };
            let error = Arc::new(fault.to_value());
            let mut scope = within.scope.clone();
            scope.variables.push((it.variable.clone(), Arc::clone(&error)));
            if !self.catches(within, it, &error, &scope).await? {
                return Err(fault);
            }
            if let Some(retry) = &it.retry
                && attempts < retry.attempts
                && self.is_wanted(within, retry, &scope).await?
            {
                attempts += 1;
                let wait = retry.wait(attempts);
                let over = self.around.clock.elapsed().saturating_add(wait);
                let in_time = retry.within.is_none_or(|time| over.saturating_sub(began) <= time);
                // Do not sleep past the deadline: the retry could not run any more.
                if in_time && wait < self.left(frame) {
                    self.around.clock.sleep(wait).await;
                    continue;
                }
            }
            return self.give_up(within, it, fault, error, frame).await;
        }
    }

    async fn catches(
        &self,
        within: &At<'_>,
        it: &Attempt,
        error: &Value,
        scope: &Scope,
    ) -> Result<bool, Fault> {
        let fits = |(name, value): &(&str, Value)| error.get(*name) == Some(value);
        Ok(it.with.iter().all(fits)
            && self.says(within, it.when.as_ref(), scope, true).await?
            && !self.says(within, it.except_when.as_ref(), scope, false).await?)
    }

    async fn is_wanted(
        &self,
        within: &At<'_>,
        retry: &Retry,
        scope: &Scope,
    ) -> Result<bool, Fault> {
        Ok(self.says(within, retry.when.as_ref(), scope, true).await?
            && !self.says(within, retry.except_when.as_ref(), scope, false).await?)
    }

    async fn says(
        &self,
        within: &At<'_>,
        condition: Option<&Arc<Template>>,
        scope: &Scope,
        otherwise: bool,
    ) -> Result<bool, Fault> {
        match condition {
            Some(condition) => self.holds(condition, &within.input, scope, within.doing).await,
            None => Ok(otherwise),
        }
    }

    /// Runs the `catch` steps. Without `catch` steps, an error of a task with a retry policy stays an error.
    async fn give_up(
        &self,
        within: &At<'_>,
        it: &Attempt,
        fault: Fault,
        error: Arc<Value>,
        frame: &mut Frame,
    ) -> Done {
        let Some(steps) = &it.otherwise else {
            return match it.retry {
                Some(_) => Err(fault),
                None => Ok((Arc::clone(&within.input), super::Ended::List)),
            };
        };
        let outside = frame.variables.len();
        frame.variables.push((it.variable.clone(), error));
        let done = self.steps(steps, Arc::clone(&within.input), frame).await;
        frame.variables.truncate(outside);
        done
    }
}
