//! Reading `try`: the error filter, the retry policy and the `catch` steps.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::members::Members;
use super::{Place, Reader};
use crate::document::{Action, Attempt, Backoff, Retry};

/// Upper limit on the retries of a document.
const MOST_ATTEMPTS: u32 = 100;

impl Reader {
    pub(super) fn attempt(&mut self, members: &Members<'_>, place: &Place) -> Option<Action> {
        let mut inside = place.clone();
        inside.variables.retain(|name| !matches!(&**name, "input" | "task" | "context"));
        let steps = self.steps(&members.path_of("try"), members.get("try")?, &inside);
        let path = members.path_of("catch");
        let value = members.needed(self, "catch")?;
        let catch = self.members(&path, value)?;
        let known = ["errors", "as", "when", "exceptWhen", "retry", "do"];
        catch.only(self, &known, &[]);
        let with = self.filter(&catch);
        let variable = self.variable(&catch, "as", "error");
        let caught = place.with(&[&variable]);
        let when = self.condition(&catch, "when", &caught);
        let except_when = self.condition(&catch, "exceptWhen", &caught);
        let retry = self.retry(&catch, &caught);
        let otherwise = catch
            .get("do")
            .map(|steps| self.steps(&catch.path_of("do"), steps, &inside.with(&[&variable])));
        let otherwise = otherwise.map_or(Some(None), |steps| steps.map(Some));
        Some(Action::Try(Box::new(Attempt {
            steps: steps?,
            with,
            variable,
            when,
            except_when,
            retry,
            otherwise: otherwise?,
        })))
    }

    /// Reads the fields that an error must have to be caught.
    fn filter(&mut self, catch: &Members<'_>) -> Vec<(&'static str, Value)> {
        let Some(value) = catch.get("errors") else { return Vec::new() };
        let Some(errors) = self.members(&catch.path_of("errors"), value) else { return Vec::new() };
        errors.only(self, &["with"], &[]);
        let Some(value) = errors.get("with") else { return Vec::new() };
        let path = errors.path_of("with");
        let Some(with) = self.members(&path, value) else { return Vec::new() };
        // The DSL's schema names the field `details`, its reference documentation `detail`.
        let known = ["type", "status", "instance", "title", "detail", "details"];
        with.only(self, &known, &[]);
        let member = |name| {
            let value = with.get(name)?.clone();
            Some((if name == "details" { "detail" } else { name }, value))
        };
        known.into_iter().filter_map(member).collect()
    }

    fn retry(&mut self, catch: &Members<'_>, place: &Place) -> Option<Arc<Retry>> {
        let path = catch.path_of("retry");
        let (path, value) = match catch.get("retry")? {
            Value::String(name) => self.reused(&path, "retries", name)?,
            other => (path, other.clone()),
        };
        let retry = self.members(&path, &value)?;
        let known = ["when", "exceptWhen", "limit", "backoff", "delay"];
        retry.only(self, &known, &[("jitter", "write a `delay` and a `backoff`")]);
        let (attempts, within) = self.limit(&retry);
        let delay = retry.get("delay").and_then(|it| self.duration(&retry.path_of("delay"), it));
        Some(Arc::new(Retry {
            when: self.condition(&retry, "when", place),
            except_when: self.condition(&retry, "exceptWhen", place),
            attempts,
            within,
            delay: delay.unwrap_or_default(),
            backoff: self.backoff(&retry),
        }))
    }

    fn limit(&mut self, retry: &Members<'_>) -> (u32, Option<Duration>) {
        let Some(value) = retry.get("limit") else { return (MOST_ATTEMPTS, None) };
        let Some(limit) = self.members(&retry.path_of("limit"), value) else {
            return (MOST_ATTEMPTS, None);
        };
        limit.only(self, &["attempt", "duration"], &[]);
        let within =
            limit.get("duration").and_then(|it| self.duration(&limit.path_of("duration"), it));
        let attempts = limit.get("attempt").and_then(|value| self.count(&limit, value));
        (attempts.unwrap_or(MOST_ATTEMPTS), within)
    }

    fn count(&mut self, limit: &Members<'_>, value: &Value) -> Option<u32> {
        let attempt = self.members(&limit.path_of("attempt"), value)?;
        let why = "give the task a `timeout`, or the limit a `duration`";
        attempt.only(self, &["count"], &[("duration", why)]);
        let count = attempt.get("count")?.as_u64().and_then(|count| u32::try_from(count).ok());
        match count.filter(|count| *count <= MOST_ATTEMPTS) {
            Some(count) => Some(count),
            None => {
                let message = format!("this must be a number up to {MOST_ATTEMPTS}");
                self.wrong(&attempt.path_of("count"), message);
                None
            }
        }
    }

    fn backoff(&mut self, retry: &Members<'_>) -> Backoff {
        let path = retry.path_of("backoff");
        let Some(value) = retry.get("backoff") else { return Backoff::Constant };
        let Some(backoff) = self.members(&path, value) else { return Backoff::Constant };
        backoff.only(self, &["constant", "linear", "exponential"], &[]);
        for (name, which) in [("linear", Backoff::Linear), ("exponential", Backoff::Exponential)] {
            if backoff.has(name) {
                if backoff.get(name).and_then(Value::as_object).is_some_and(|it| !it.is_empty()) {
                    self.wrong(&backoff.path_of(name), "this must be an empty object");
                }
                return which;
            }
        }
        Backoff::Constant
    }
}
