//! Settings for polling a long-running upstream job (requirement E2): written by an admin in a source's settings, or
//! given in a specification or HTTP manifest. The crate `sources` turns them into templates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::StatusPolling;

/// How work is followed. In an address, `{answer.…}` stands for a place in the first answer, `{header.…}` for a header of it
/// and `{args.…}` for an argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PollingSettings {
    /// Where to ask: a path such as `/jobs/{answer.id}`, or the same behind its origin, or a place that holds a whole
    /// address: `{answer.links.status}`, a header of the first answer such as `{header.operation-location}`, or
    /// `{location}` unless it is said.
    #[serde(default = "default_status_url", skip_serializing_if = "is_default_status_url")]
    pub status_url: Box<str>,
    /// Where the status stands in an answer: `job.state`; or a JSON Pointer, which begins with `/`: `/@odata.status`. Unless
    /// it is said, the status of HTTP tells: as long as it is 202 the work goes on, and the answer after that is its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_path: Option<Box<str>>,
    /// Statuses that mean done; with `status_path` alone, and needed there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completed: Vec<StatusWord>,
    /// Statuses that mean failed, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<StatusWord>,
    /// Where the result stands in the last answer, likewise; the whole of it unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_path: Option<Box<str>>,
    /// How long to wait before asking first, in milliseconds: 100 to 600,000; 1,000 if not said. Every further wait is half
    /// as long again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = StatusPolling::WAIT_RANGE_MS.0, max = StatusPolling::WAIT_RANGE_MS.1))]
    pub interval_ms: Option<u32>,
    /// The longest wait, in milliseconds, likewise; 30,000 if not said. It is never shorter than the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = StatusPolling::WAIT_RANGE_MS.0, max = StatusPolling::WAIT_RANGE_MS.1))]
    pub max_interval_ms: Option<u32>,
    /// How often to ask: 1 to 1,000; 60 if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = StatusPolling::ATTEMPTS_RANGE.0, max = StatusPolling::ATTEMPTS_RANGE.1))]
    pub attempts: Option<u32>,
    /// How to say that the work is not wanted any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelSettings>,
}

/// A request that ends work which was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CancelSettings {
    /// `DELETE`, `POST`, `PUT` or `PATCH`.
    #[serde(default = "default_cancel_method", skip_serializing_if = "is_default_cancel_method")]
    pub method: Box<str>,
    /// Where to, like the address of the status.
    pub url: Box<str>,
}

/// A status: `"done"`, `true` or `3`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StatusWord {
    /// A text.
    Text(Box<str>),
    /// Yes or no.
    Bool(bool),
    /// A number.
    Number(Number),
}

/// The steps of a field path into an answer: `jobs.0.state`, or, where names contain dots, the JSON Pointer
/// `/jobs/0/@odata.state` (RFC 6901).
pub fn path_steps(place: &str) -> Vec<Box<str>> {
    match place.strip_prefix('/') {
        Some(pointer) => {
            let plain = |step: &str| step.replace("~1", "/").replace("~0", "~").into();
            pointer.split('/').map(plain).collect()
        }
        None => place.split('.').filter(|step| !step.is_empty()).map(Into::into).collect(),
    }
}

fn default_status_url() -> Box<str> {
    "{location}".into()
}

fn is_default_status_url(url: &str) -> bool {
    url == "{location}"
}

fn default_cancel_method() -> Box<str> {
    "DELETE".into()
}

fn is_default_cancel_method(method: &str) -> bool {
    method == "DELETE"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_path_is_dotted_or_a_json_pointer() {
        for (place, expected) in [
            ("", &[][..]),
            ("jobs.0.state", &["jobs", "0", "state"]),
            ("/@odata.status", &["@odata.status"]),
            ("/jobs/0/a~1b~01", &["jobs", "0", "a/b~1"]),
            ("/", &[""]),
        ] {
            let steps: Vec<String> = path_steps(place).into_iter().map(Into::into).collect();
            assert_eq!(steps, expected, "{place}");
        }
    }

    #[test]
    fn default_values_are_not_serialised() {
        let least = json!({"status_path": "state", "completed": ["done", true, 3]});
        let usual = json!({"status_url": "{location}", "status_path": "state",
            "completed": ["done", true, 3], "failed": []});
        for written in [&least, &usual] {
            let read: PollingSettings = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), least);
        }
        // Stored settings may contain fields of a later version.
        let later = json!({"status_path": "state", "completed": ["x"], "every": 1});
        assert!(serde_json::from_value::<PollingSettings>(later).is_ok());
    }
}
