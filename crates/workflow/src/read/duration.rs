//! Reading durations: an object of numbers, or an ISO 8601 string.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};
use serde_json::Value;

use super::Reader;
use super::members::Members;

/// Fields of a duration object, in milliseconds.
const PARTS: [(&str, u64); 5] = [
    ("days", 86_400_000),
    ("hours", 3_600_000),
    ("minutes", 60_000),
    ("seconds", 1_000),
    ("milliseconds", 1),
];

impl Reader {
    pub(super) fn duration(&mut self, path: &str, value: &Value) -> Option<Duration> {
        let duration = match value {
            Value::String(text) => written(text),
            Value::Object(_) => return self.parts(path, value),
            _ => None,
        };
        if duration.is_none() {
            self.wrong(path, "this must be a duration, like `{seconds: 3}` or `PT3S`");
        }
        duration
    }

    fn parts(&mut self, path: &str, value: &Value) -> Option<Duration> {
        let members = self.members(path, value)?;
        members.only(self, &PARTS.map(|(name, _)| name), &[]);
        let mut sum = 0_u64;
        for (name, milliseconds) in PARTS {
            let Some(value) = members.get(name) else { continue };
            match value.as_u64().and_then(|number| number.checked_mul(milliseconds)) {
                Some(part) => sum = sum.saturating_add(part),
                None => self.wrong(&members.path_of(name), "this must be a number without a sign"),
            }
        }
        Some(Duration::from_millis(sum))
    }

    /// Reads `timeout` of the document or of a step.
    pub(super) fn timeout(&mut self, members: &Members<'_>) -> Option<Duration> {
        let value = members.get("timeout")?;
        let path = members.path_of("timeout");
        let (path, value) = match value {
            Value::String(name) => self.reused(&path, "timeouts", name)?,
            other => (path, other.clone()),
        };
        let timeout = self.members(&path, &value)?;
        timeout.only(self, &["after"], &[]);
        let after = timeout.needed(self, "after")?;
        self.duration(&timeout.path_of("after"), after)
    }
}

fn written(text: &str) -> Option<Duration> {
    let span: Span = text.parse().ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(duration).ok()
}
