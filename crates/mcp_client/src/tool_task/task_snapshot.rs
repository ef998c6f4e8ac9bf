//! A task as its server reports it.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::McpError;
use crate::json_rpc::{McpAnswer, RpcError};

/// The default poll interval, and the bounds for intervals that the server requests.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(30);

pub(super) struct TaskSnapshot {
    pub(super) id: Box<str>,
    pub(super) status: McpTaskStatus,
    pub(super) poll_interval: Duration,
    /// The complete object.
    pub(super) raw: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum McpTaskStatus {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl TaskSnapshot {
    /// Parses a task; `None` if the object is not one.
    pub(super) fn from_json(raw: &Map<String, Value>) -> Option<Self> {
        let status = match raw.get("status")?.as_str()? {
            "working" => McpTaskStatus::Working,
            "input_required" => McpTaskStatus::InputRequired,
            "completed" => McpTaskStatus::Completed,
            "failed" => McpTaskStatus::Failed,
            "cancelled" => McpTaskStatus::Cancelled,
            _ => return None,
        };
        let pause = raw.get("pollIntervalMs").or_else(|| raw.get("pollInterval"));
        let pause =
            pause.and_then(Value::as_u64).map_or(DEFAULT_POLL_INTERVAL, Duration::from_millis);
        let pause = pause.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL);
        Some(Self {
            id: raw.get("taskId")?.as_str()?.into(),
            status,
            poll_interval: pause,
            raw: raw.clone(),
        })
    }

    /// Takes the answer out of a finished task, where the status contains it.
    pub(super) fn take_answer(&mut self) -> Result<McpAnswer, McpError> {
        let unreadable = |why| McpError::unreadable("tasks/get", why);
        match self.status {
            McpTaskStatus::Completed => match self.raw.shift_remove("result") {
                Some(Value::Object(result)) => Ok(McpAnswer::Result(result)),
                _ => Err(unreadable("a task that is completed has no result")),
            },
            McpTaskStatus::Failed => {
                let error = self.raw.shift_remove("error");
                let code = error.as_ref().and_then(|error| error.get("code")?.as_i64());
                match (error, code) {
                    (Some(Value::Object(raw)), Some(code)) => {
                        Ok(McpAnswer::Error(RpcError { code, raw }))
                    }
                    _ => Err(unreadable("a task that failed has no error")),
                }
            }
            McpTaskStatus::Cancelled => {
                Ok(McpAnswer::Error(RpcError::new(TASK_CANCELLED, "the server cancelled the task")))
            }
            McpTaskStatus::Working | McpTaskStatus::InputRequired => {
                Err(unreadable("the task is not over"))
            }
        }
    }
}

/// An implementation-defined JSON-RPC error code.
const TASK_CANCELLED: i64 = -32000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(task: Value) -> Option<TaskSnapshot> {
        TaskSnapshot::from_json(task.as_object()?)
    }

    #[test]
    fn the_requested_poll_interval_is_kept_within_bounds() {
        let task = |more: Value| {
            let mut task = json!({"taskId": "a", "status": "working"});
            task.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            read(task).unwrap().poll_interval
        };
        assert_eq!(task(json!({})), DEFAULT_POLL_INTERVAL);
        assert_eq!(task(json!({"pollInterval": 5000})), Duration::from_secs(5));
        assert_eq!(task(json!({"pollIntervalMs": 200})), Duration::from_millis(200));
        assert_eq!(task(json!({"pollIntervalMs": 0})), MIN_POLL_INTERVAL);
        assert_eq!(task(json!({"pollInterval": u64::MAX})), MAX_POLL_INTERVAL);
    }

    #[test]
    fn an_invalid_task_is_rejected() {
        for odd in [
            json!({}),
            json!({"taskId": 7, "status": "working"}),
            json!({"taskId": "a", "status": "asleep"}),
            json!({"status": "working"}),
        ] {
            assert!(read(odd).is_none());
        }
        for unusable in [
            json!({"taskId": "a", "status": "completed"}),
            json!({"taskId": "a", "status": "failed", "error": {"message": "no"}}),
            json!({"taskId": "a", "status": "working"}),
        ] {
            assert!(read(unusable).unwrap().take_answer().is_err());
        }
    }
}
