//! Reading `try`: the error filter, the retry policy and the `catch` steps.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::workflow_object::WorkflowObject;
use super::{DocumentReader, DocumentScope};
use crate::workflow_document::{RetryBackoff, StepAction, StepRetryPolicy, TryTask};

/// Upper limit on the retries of a document.
const MOST_ATTEMPTS: u32 = 100;

impl DocumentReader {
    pub(super) fn read_try(
        &mut self,
        members: &WorkflowObject<'_>,
        place: &DocumentScope,
    ) -> Option<StepAction> {
        let mut inside = place.clone();
        inside.variables.retain(|name| !matches!(&**name, "input" | "task" | "context"));
        let steps = self.read_steps(&members.field_path("try"), members.get("try")?, &inside);
        let path = members.field_path("catch");
        let value = members.require_field(self, "catch")?;
        let catch = self.read_object(&path, value)?;
        let known = ["errors", "as", "when", "exceptWhen", "retry", "do"];
        catch.reject_unknown_fields(self, &known, &[]);
        let with = self.read_error_filter(&catch);
        let variable = self.read_variable_name(&catch, "as", "error");
        let caught = place.with_variables(&[&variable]);
        let when = self.read_condition(&catch, "when", &caught);
        let except_when = self.read_condition(&catch, "exceptWhen", &caught);
        let retry = self.read_retry_policy(&catch, &caught);
        let otherwise = catch.get("do").map(|steps| {
            self.read_steps(&catch.field_path("do"), steps, &inside.with_variables(&[&variable]))
        });
        let otherwise = otherwise.map_or(Some(None), |steps| steps.map(Some));
        Some(StepAction::Try(Box::new(TryTask {
            steps: steps?,
            error_filter: with,
            variable,
            when,
            except_when,
            retry,
            catch_steps: otherwise?,
        })))
    }

    /// Reads the fields that an error must have to be caught.
    fn read_error_filter(&mut self, catch: &WorkflowObject<'_>) -> Vec<(&'static str, Value)> {
        let Some(value) = catch.get("errors") else { return Vec::new() };
        let Some(errors) = self.read_object(&catch.field_path("errors"), value) else {
            return Vec::new();
        };
        errors.reject_unknown_fields(self, &["with"], &[]);
        let Some(value) = errors.get("with") else { return Vec::new() };
        let path = errors.field_path("with");
        let Some(with) = self.read_object(&path, value) else { return Vec::new() };
        // The DSL's schema names the field `details`, its reference documentation `detail`.
        let known = ["type", "status", "instance", "title", "detail", "details"];
        with.reject_unknown_fields(self, &known, &[]);
        let member = |name| {
            let value = with.get(name)?.clone();
            Some((if name == "details" { "detail" } else { name }, value))
        };
        known.into_iter().filter_map(member).collect()
    }

    fn read_retry_policy(
        &mut self,
        catch: &WorkflowObject<'_>,
        place: &DocumentScope,
    ) -> Option<Arc<StepRetryPolicy>> {
        let path = catch.field_path("retry");
        let (path, value) = match catch.get("retry")? {
            Value::String(name) => self.resolve_reference(&path, "retries", name)?,
            other => (path, other.clone()),
        };
        let retry = self.read_object(&path, &value)?;
        let known = ["when", "exceptWhen", "limit", "backoff", "delay"];
        retry.reject_unknown_fields(self, &known, &[("jitter", "write a `delay` and a `backoff`")]);
        let (attempts, within) = self.read_retry_limit(&retry);
        let delay =
            retry.get("delay").and_then(|it| self.read_duration(&retry.field_path("delay"), it));
        Some(Arc::new(StepRetryPolicy {
            when: self.read_condition(&retry, "when", place),
            except_when: self.read_condition(&retry, "exceptWhen", place),
            attempts,
            within,
            delay: delay.unwrap_or_default(),
            backoff: self.read_backoff(&retry),
        }))
    }

    fn read_retry_limit(&mut self, retry: &WorkflowObject<'_>) -> (u32, Option<Duration>) {
        let Some(value) = retry.get("limit") else { return (MOST_ATTEMPTS, None) };
        let Some(limit) = self.read_object(&retry.field_path("limit"), value) else {
            return (MOST_ATTEMPTS, None);
        };
        limit.reject_unknown_fields(self, &["attempt", "duration"], &[]);
        let within = limit
            .get("duration")
            .and_then(|it| self.read_duration(&limit.field_path("duration"), it));
        let attempts =
            limit.get("attempt").and_then(|value| self.read_attempt_count(&limit, value));
        (attempts.unwrap_or(MOST_ATTEMPTS), within)
    }

    fn read_attempt_count(&mut self, limit: &WorkflowObject<'_>, value: &Value) -> Option<u32> {
        let attempt = self.read_object(&limit.field_path("attempt"), value)?;
        let why = "give the task a `timeout`, or the limit a `duration`";
        attempt.reject_unknown_fields(self, &["count"], &[("duration", why)]);
        let count = attempt.get("count")?.as_u64().and_then(|count| u32::try_from(count).ok());
        match count.filter(|count| *count <= MOST_ATTEMPTS) {
            Some(count) => Some(count),
            None => {
                let message = format!("this must be a number up to {MOST_ATTEMPTS}");
                self.report_problem(&attempt.field_path("count"), message);
                None
            }
        }
    }

    fn read_backoff(&mut self, retry: &WorkflowObject<'_>) -> RetryBackoff {
        let path = retry.field_path("backoff");
        let Some(value) = retry.get("backoff") else { return RetryBackoff::Constant };
        let Some(backoff) = self.read_object(&path, value) else { return RetryBackoff::Constant };
        backoff.reject_unknown_fields(self, &["constant", "linear", "exponential"], &[]);
        for (name, which) in
            [("linear", RetryBackoff::Linear), ("exponential", RetryBackoff::Exponential)]
        {
            if backoff.has_field(name) {
                if backoff.get(name).and_then(Value::as_object).is_some_and(|it| !it.is_empty()) {
                    self.report_problem(&backoff.field_path(name), "this must be an empty object");
                }
                return which;
            }
        }
        RetryBackoff::Constant
    }
}
