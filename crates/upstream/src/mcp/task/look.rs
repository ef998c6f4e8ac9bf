//! A task as its server reports it.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::mcp::McpError;
use crate::mcp::message::{Answer, RpcError};

/// The default poll interval, and the bounds for intervals that the server requests.
const PAUSE: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

pub(super) struct Task {
    pub(super) id: Box<str>,
    pub(super) status: Status,
    pub(super) pause: Duration,
    /// The complete object.
    pub(super) raw: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl Task {
    /// Parses a task; `None` if the object is not one.
    pub(super) fn read(raw: &Map<String, Value>) -> Option<Self> {
        let status = match raw.get("status")?.as_str()? {
            "working" => Status::Working,
            "input_required" => Status::InputRequired,
            "completed" => Status::Completed,
            "failed" => Status::Failed,
            "cancelled" => Status::Cancelled,
            _ => return None,
        };
        let pause = raw.get("pollIntervalMs").or_else(|| raw.get("pollInterval"));
        let pause = pause.and_then(Value::as_u64).map_or(PAUSE, Duration::from_millis);
        let pause = pause.clamp(SHORTEST, LONGEST);
        Some(Self { id: raw.get("taskId")?.as_str()?.into(), status, pause, raw: raw.clone() })
    }

    /// Takes the answer out of a finished task, where the status contains it.
    pub(super) fn take_answer(&mut self) -> Result<Answer, McpError> {
        let unreadable = |why| McpError::unreadable("tasks/get", why);
        match self.status {
            Status::Completed => match self.raw.shift_remove("result") {
                Some(Value::Object(result)) => Ok(Answer::Result(result)),
                _ => Err(unreadable("a task that is completed has no result")),
            },
            Status::Failed => {
                let error = self.raw.shift_remove("error");
                let code = error.as_ref().and_then(|error| error.get("code")?.as_i64());
                match (error, code) {
                    (Some(Value::Object(raw)), Some(code)) => {
                        Ok(Answer::Error(RpcError { code, raw }))
                    }
                    _ => Err(unreadable("a task that failed has no error")),
                }
            }
            Status::Cancelled => {
                Ok(Answer::Error(RpcError::new(CANCELLED, "the server cancelled the task")))
            }
            Status::Working | Status::InputRequired => Err(unreadable("the task is not over")),
        }
    }
}

/// An implementation-defined JSON-RPC error code.
const CANCELLED: i64 = -32000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(task: Value) -> Option<Task> {
        Task::read(task.as_object()?)
    }

    #[test]
    fn the_requested_poll_interval_is_kept_within_bounds() {
        let task = |more: Value| {
            let mut task = json!({"taskId": "a", "status": "working"});
            task.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            read(task).unwrap().pause
        };
        assert_eq!(task(json!({})), PAUSE);
        assert_eq!(task(json!({"pollInterval": 5000})), Duration::from_secs(5));
        assert_eq!(task(json!({"pollIntervalMs": 200})), Duration::from_millis(200));
        assert_eq!(task(json!({"pollIntervalMs": 0})), SHORTEST);
        assert_eq!(task(json!({"pollInterval": u64::MAX})), LONGEST);
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
