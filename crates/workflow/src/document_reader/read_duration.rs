//! Reading durations: an object of numbers, or an ISO 8601 string.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};
use serde_json::Value;

use super::DocumentReader;
use super::workflow_object::WorkflowObject;

/// Fields of a duration object, in milliseconds.
const DURATION_UNITS: [(&str, u64); 5] = [
    ("days", 86_400_000),
    ("hours", 3_600_000),
    ("minutes", 60_000),
    ("seconds", 1_000),
    ("milliseconds", 1),
];

impl DocumentReader {
    pub(super) fn read_duration(&mut self, path: &str, value: &Value) -> Option<Duration> {
        let duration = match value {
            Value::String(text) => parse_iso_duration(text),
            Value::Object(_) => return self.read_duration_object(path, value),
            _ => None,
        };
        if duration.is_none() {
            self.report_problem(path, "this must be a duration, like `{seconds: 3}` or `PT3S`");
        }
        duration
    }

    fn read_duration_object(&mut self, path: &str, value: &Value) -> Option<Duration> {
        let members = self.read_object(path, value)?;
        members.reject_unknown_fields(self, &DURATION_UNITS.map(|(name, _)| name), &[]);
        let mut sum = 0_u64;
        for (name, milliseconds) in DURATION_UNITS {
            let Some(value) = members.get(name) else { continue };
            match value.as_u64().and_then(|number| number.checked_mul(milliseconds)) {
                Some(part) => sum = sum.saturating_add(part),
                None => self.report_problem(
                    &members.field_path(name),
                    "this must be a number without a sign",
                ),
            }
        }
        Some(Duration::from_millis(sum))
    }

    /// Reads `timeout` of the document or of a step.
    pub(super) fn read_timeout(&mut self, members: &WorkflowObject<'_>) -> Option<Duration> {
        let value = members.get("timeout")?;
        let path = members.field_path("timeout");
        let (path, value) = match value {
            Value::String(name) => self.resolve_reference(&path, "timeouts", name)?,
            other => (path, other.clone()),
        };
        let timeout = self.read_object(&path, &value)?;
        timeout.reject_unknown_fields(self, &["after"], &[]);
        let after = timeout.require_field(self, "after")?;
        self.read_duration(&timeout.field_path("after"), after)
    }
}

fn parse_iso_duration(text: &str) -> Option<Duration> {
    let span: Span = text.parse().ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(duration).ok()
}
