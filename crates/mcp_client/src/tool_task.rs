//! Tool calls that become tasks of the server: polled until they finish, so that the caller just waits for the answer.
//!
//! In 2025-11-25 the client requests a task (`basic/utilities/tasks`). In 2026-07-28 the server decides (the extension
//! `io.modelcontextprotocol/tasks`). A task is cancelled when its caller stops waiting.

mod task_questions;
mod task_snapshot;

use std::pin::pin;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::sleep;

use self::task_snapshot::{McpTaskStatus, TaskSnapshot};
use super::connection_settings::{McpCallOptions, ServerEra};
use super::deadline_pauses::{DeadlinePauses, run_with_pauses};
use super::dispatch::{CallNotification, CallRecipient, take_related_task};
use super::json_rpc::{McpAnswer, RpcError};
use super::mcp_connection::{McpConnection, PermitPool};
use super::{McpError, ServerDescription};

const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The deadline of one status request.
const POLL_DEADLINE: Duration = Duration::from_secs(30);
/// The deadline of a cancellation.
const CANCEL_DEADLINE: Duration = Duration::from_secs(10);
/// How many consecutive status requests may fail.
const MAX_FAILED_POLLS: u32 = 5;

/// The options of a tool call that may become a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToolTaskOptions {
    /// Whether the tool must be called as a task (`execution.taskSupport` is `required`).
    pub is_required: bool,
    /// How long a task may take, without pauses for questions; by default the deadline of the call.
    pub max_wait: Option<Duration>,
}

/// The server's way of creating tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskProtocol {
    /// The client requests a task, and later its result.
    Requested,
    /// The server decides, and a status answer contains the result.
    ServerDecided,
}

impl McpConnection {
    /// Calls a tool. If the call becomes a task, it is polled until it finishes; dropping the future cancels the task.
    pub async fn call_tool(
        &self,
        mut params: Map<String, Value>,
        as_task: ToolTaskOptions,
        mut call: McpCallOptions,
    ) -> Result<McpAnswer, McpError> {
        let Some(form) = task_protocol(self.server_description(), as_task) else {
            return self.call_method("tools/call", params, call).await;
        };
        let mut patience = as_task.max_wait.unwrap_or(call.deadline_or_default());
        match form {
            TaskProtocol::ServerDecided => {
                call.capabilities = Some(self.capabilities_with_tasks(&call))
            }
            TaskProtocol::Requested => {
                let ttl = patience.max(call.max_duration()).as_millis();
                let ttl = u64::try_from(ttl).unwrap_or(u64::MAX);
                params.insert("task".to_owned(), json!({"ttl": ttl}));
            }
        }
        let _use = self.mark_in_use();
        let mut whole = self.begin_composite_call(&call)?;
        let part = CallRecipient::PartOf(whole.id);
        let answer = self.send_request("tools/call", &mut params, &call, part).await?;
        let Some(task) = created_task(form, &answer) else {
            whole.is_finished = true;
            return Ok(answer);
        };
        whole.set_task(&task.id);
        // A caller that misses the notification does not know of the longer deadline.
        if call
            .notifications
            .as_ref()
            .is_some_and(|heard| heard.try_send(CallNotification::BecameTask).is_err())
        {
            patience = patience.min(call.deadline_or_default());
        }
        let pauses = call.pauses.clone();
        let mut begun = ServerTask {
            connection: self,
            protocol: form,
            call,
            recipient: part,
            max_wait: patience,
            snapshot: task,
            is_finished: false,
        };
        let late = |deadline| McpError::Timeout { method: "tools/call".into(), deadline };
        let done = run_with_pauses(patience, pauses.as_ref(), pin!(begun.wait_for_answer())).await;
        let answer = done.map_err(late)??;
        whole.is_finished = true;
        Ok(answer)
    }

    /// The capabilities of the caller, with support for tasks.
    fn capabilities_with_tasks(&self, call: &McpCallOptions) -> Map<String, Value> {
        let mut all = self.capabilities_of(call).clone();
        let extensions = all.entry("extensions").or_insert_with(|| json!({}));
        if let Some(extensions) = extensions.as_object_mut() {
            extensions.insert(TASKS_EXTENSION.to_owned(), json!({}));
        }
        all
    }
}

/// How the call may become a task; `None` if it cannot.
fn task_protocol(about: &ServerDescription, as_task: ToolTaskOptions) -> Option<TaskProtocol> {
    match about.era {
        ServerEra::Modern => about
            .has_capability_path(&["extensions", TASKS_EXTENSION])
            .then_some(TaskProtocol::ServerDecided),
        // A server without this capability must not be asked for a task, whatever its tools state.
        ServerEra::Initialize | ServerEra::HttpSse => {
            let takes = about.has_capability_path(&["tasks", "requests", "tools", "call"]);
            (as_task.is_required && takes).then_some(TaskProtocol::Requested)
        }
    }
}

fn created_task(form: TaskProtocol, answer: &McpAnswer) -> Option<TaskSnapshot> {
    let McpAnswer::Result(result) = answer else { return None };
    match form {
        TaskProtocol::Requested => TaskSnapshot::from_json(result.get("task")?.as_object()?),
        TaskProtocol::ServerDecided => {
            let is_task = result.get("resultType").is_some_and(|kind| kind == "task");
            is_task.then(|| TaskSnapshot::from_json(result)).flatten()
        }
    }
}

/// A task of the server. Dropping it before the task has finished cancels it.
struct ServerTask<'a> {
    connection: &'a McpConnection,
    protocol: TaskProtocol,
    call: McpCallOptions,
    recipient: CallRecipient,
    max_wait: Duration,
    snapshot: TaskSnapshot,
    is_finished: bool,
}

impl ServerTask<'_> {
    async fn wait_for_answer(&mut self) -> Result<McpAnswer, McpError> {
        let mut asked = task_questions::AskedQuestions::default();
        loop {
            if self.snapshot.status == McpTaskStatus::Working {
                sleep(self.snapshot.poll_interval).await;
            }
            if let Some(error) = self.poll_status().await? {
                return Ok(McpAnswer::Error(error));
            }
            match (self.protocol, self.snapshot.status) {
                (_, McpTaskStatus::Working) => {}
                // The request for the result waits for the end of the task and delivers its questions.
                (TaskProtocol::Requested, _) => return self.fetch_result().await,
                (TaskProtocol::ServerDecided, McpTaskStatus::InputRequired) => {
                    if let Some(refused) = self.answer_questions(&mut asked).await? {
                        return Ok(McpAnswer::Error(refused));
                    }
                    sleep(self.snapshot.poll_interval).await;
                }
                (TaskProtocol::ServerDecided, _) => {
                    self.is_finished = true;
                    return self.snapshot.take_answer();
                }
            }
        }
    }

    /// Updates the status. Returns an error if the server does not know the task.
    async fn poll_status(&mut self) -> Result<Option<RpcError>, McpError> {
        let mut missed = 0;
        loop {
            match self
                .send_task_request("tasks/get", Map::new(), self.follow_up_options(POLL_DEADLINE))
                .await
            {
                Ok(McpAnswer::Error(error)) => return Ok(Some(error)),
                Ok(McpAnswer::Result(result)) => {
                    let unreadable = || McpError::unreadable("tasks/get", "it is no task");
                    self.snapshot = TaskSnapshot::from_json(&result).ok_or_else(unreadable)?;
                    return Ok(None);
                }
                Err(McpError::Http(_) | McpError::Timeout { .. }) if missed < MAX_FAILED_POLLS => {
                    missed += 1;
                    sleep(self.snapshot.poll_interval).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Fetches the result, where that is a separate request.
    async fn fetch_result(&mut self) -> Result<McpAnswer, McpError> {
        let pauses = self.call.pauses.clone();
        let pauses = pauses.unwrap_or_else(|| DeadlinePauses::with_max(self.max_wait));
        // The request may last as long as the task or a user takes, so it must not occupy a call permit.
        pauses.release_permit();
        let call = McpCallOptions { pauses: Some(pauses), ..self.follow_up_options(self.max_wait) };
        let mut answer = self.send_task_request("tasks/result", Map::new(), call).await?;
        self.is_finished = true;
        if let McpAnswer::Result(result) = &mut answer {
            take_related_task(result);
        }
        Ok(answer)
    }

    async fn send_task_request(
        &self,
        method: &str,
        mut params: Map<String, Value>,
        call: McpCallOptions,
    ) -> Result<McpAnswer, McpError> {
        params.insert("taskId".to_owned(), json!(self.snapshot.id));
        let among = PermitPool::TaskPolls(self.call.owner);
        self.connection.send_request_in(among, method, &mut params, &call, self.recipient).await
    }

    fn follow_up_options(&self, deadline: Duration) -> McpCallOptions {
        follow_up_of(&self.call, deadline)
    }
}

/// The options of a follow-up request. Notifications are already delivered through the call itself.
fn follow_up_of(call: &McpCallOptions, deadline: Duration) -> McpCallOptions {
    let (headers, capabilities) = (call.headers.clone(), call.capabilities.clone());
    McpCallOptions { deadline: Some(deadline), headers, capabilities, ..McpCallOptions::default() }
}

impl Drop for ServerTask<'_> {
    fn drop(&mut self) {
        let can = self.protocol == TaskProtocol::ServerDecided
            || self.connection.server_description().has_capability_path(&["tasks", "cancel"]);
        if !self.is_finished && can {
            let params = Map::from_iter([("taskId".to_owned(), json!(self.snapshot.id))]);
            // The server decides whether the task really stops.
            self.connection.send_cancel_notice(
                "tasks/cancel",
                params,
                follow_up_of(&self.call, CANCEL_DEADLINE),
            );
        }
    }
}
