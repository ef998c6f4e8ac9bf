//! Tool calls that become tasks of the server: polled until they finish, so that the caller just waits for the answer.
//!
//! In 2025-11-25 the client requests a task (`basic/utilities/tasks`). In 2026-07-28 the server decides (the extension
//! `io.modelcontextprotocol/tasks`). A task is cancelled when its caller stops waiting.

mod look;
mod questions;

use std::pin::pin;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::sleep;

use self::look::{Status, Task};
use super::connection::{Among, Connection};
use super::hearing::{Heard, Whose, take_related};
use super::message::{Answer, RpcError};
use super::pauses::{Pauses, in_time};
use super::settings::{Call, Era};
use super::{About, McpError};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The deadline of one status request.
const LOOK: Duration = Duration::from_secs(30);
/// The deadline of a cancellation.
const ASIDE: Duration = Duration::from_secs(10);
/// How many consecutive status requests may fail.
const MAX_MISSED: u32 = 5;

/// The options of a tool call that may become a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsTask {
    /// Whether the tool must be called as a task (`execution.taskSupport` is `required`).
    pub is_needed: bool,
    /// How long a task may take, without pauses for questions; by default the deadline of the call.
    pub patience: Option<Duration>,
}

/// The server's way of creating tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The client requests a task, and later its result.
    Asked,
    /// The server decides, and a status answer contains the result.
    Given,
}

impl Connection {
    /// Calls a tool. If the call becomes a task, it is polled until it finishes; dropping the future cancels the task.
    pub async fn call_tool(
        &self,
        mut params: Map<String, Value>,
        as_task: AsTask,
        mut call: Call,
    ) -> Result<Answer, McpError> {
        let Some(form) = form(self.about(), as_task) else {
            return self.request("tools/call", params, call).await;
        };
        let mut patience = as_task.patience.unwrap_or(call.time());
        match form {
            Form::Given => call.capabilities = Some(self.with_tasks(&call)),
            Form::Asked => {
                let ttl = patience.max(call.longest()).as_millis();
                let ttl = u64::try_from(ttl).unwrap_or(u64::MAX);
                params.insert("task".to_owned(), json!({"ttl": ttl}));
            }
        }
        let _use = self.in_use();
        let mut whole = self.hold(&call)?;
        let part = Whose::PartOf(whole.id);
        let answer = self.run("tools/call", &mut params, &call, part).await?;
        let Some(task) = begun(form, &answer) else {
            whole.is_over = true;
            return Ok(answer);
        };
        whole.becomes(&task.id);
        // A caller that misses the notification does not know of the longer deadline.
        if call.heard.as_ref().is_some_and(|heard| heard.try_send(Heard::GoesOn).is_err()) {
            patience = patience.min(call.time());
        }
        let pauses = call.pauses.clone();
        let mut begun =
            Begun { connection: self, form, call, part, patience, task, is_over: false };
        let late = |deadline| McpError::Timeout { method: "tools/call".into(), deadline };
        let done = in_time(patience, pauses.as_ref(), pin!(begun.wait())).await;
        let answer = done.map_err(late)??;
        whole.is_over = true;
        Ok(answer)
    }

    /// The capabilities of the caller, with support for tasks.
    fn with_tasks(&self, call: &Call) -> Map<String, Value> {
        let mut all = self.capabilities_of(call).clone();
        let extensions = all.entry("extensions").or_insert_with(|| json!({}));
        if let Some(extensions) = extensions.as_object_mut() {
            extensions.insert(EXTENSION.to_owned(), json!({}));
        }
        all
    }
}

/// How the call may become a task; `None` if it cannot.
fn form(about: &About, as_task: AsTask) -> Option<Form> {
    match about.era {
        Era::Modern => about.says(&["extensions", EXTENSION]).then_some(Form::Given),
        // A server without this capability must not be asked for a task, whatever its tools state.
        Era::Initialize | Era::HttpSse => {
            let takes = about.says(&["tasks", "requests", "tools", "call"]);
            (as_task.is_needed && takes).then_some(Form::Asked)
        }
    }
}

fn begun(form: Form, answer: &Answer) -> Option<Task> {
    let Answer::Result(result) = answer else { return None };
    match form {
        Form::Asked => Task::read(result.get("task")?.as_object()?),
        Form::Given => {
            let is_task = result.get("resultType").is_some_and(|kind| kind == "task");
            is_task.then(|| Task::read(result)).flatten()
        }
    }
}

/// A task of the server. Dropping it before the task has finished cancels it.
struct Begun<'a> {
    connection: &'a Connection,
    form: Form,
    call: Call,
    part: Whose,
    patience: Duration,
    task: Task,
    is_over: bool,
}

impl Begun<'_> {
    async fn wait(&mut self) -> Result<Answer, McpError> {
        let mut asked = questions::Asked::default();
        loop {
            if self.task.status == Status::Working {
                sleep(self.task.pause).await;
            }
            if let Some(error) = self.look().await? {
                return Ok(Answer::Error(error));
            }
            match (self.form, self.task.status) {
                (_, Status::Working) => {}
                // The request for the result waits for the end of the task and delivers its questions.
                (Form::Asked, _) => return self.result().await,
                (Form::Given, Status::InputRequired) => {
                    if let Some(refused) = self.answer(&mut asked).await? {
                        return Ok(Answer::Error(refused));
                    }
                    sleep(self.task.pause).await;
                }
                (Form::Given, _) => {
                    self.is_over = true;
                    return self.task.take_answer();
                }
            }
        }
    }

    /// Updates the status. Returns an error if the server does not know the task.
    async fn look(&mut self) -> Result<Option<RpcError>, McpError> {
        let mut missed = 0;
        loop {
            match self.ask("tasks/get", Map::new(), self.part_within(LOOK)).await {
                Ok(Answer::Error(error)) => return Ok(Some(error)),
                Ok(Answer::Result(result)) => {
                    let unreadable = || McpError::unreadable("tasks/get", "it is no task");
                    self.task = Task::read(&result).ok_or_else(unreadable)?;
                    return Ok(None);
                }
                Err(McpError::Http(_) | McpError::Timeout { .. }) if missed < MAX_MISSED => {
                    missed += 1;
                    sleep(self.task.pause).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Fetches the result, where that is a separate request.
    async fn result(&mut self) -> Result<Answer, McpError> {
        let pauses = self.call.pauses.clone();
        let pauses = pauses.unwrap_or_else(|| Pauses::up_to(self.patience));
        // The request may last as long as the task or a user takes, so it must not occupy a call permit.
        pauses.give_way();
        let call = Call { pauses: Some(pauses), ..self.part_within(self.patience) };
        let mut answer = self.ask("tasks/result", Map::new(), call).await?;
        self.is_over = true;
        if let Answer::Result(result) = &mut answer {
            take_related(result);
        }
        Ok(answer)
    }

    async fn ask(
        &self,
        method: &str,
        mut params: Map<String, Value>,
        call: Call,
    ) -> Result<Answer, McpError> {
        params.insert("taskId".to_owned(), json!(self.task.id));
        let among = Among::Looks(self.call.owner);
        self.connection.run_among(among, method, &mut params, &call, self.part).await
    }

    fn part_within(&self, deadline: Duration) -> Call {
        part_of(&self.call, deadline)
    }
}

/// The options of a follow-up request. Notifications are already delivered through the call itself.
fn part_of(call: &Call, deadline: Duration) -> Call {
    let (headers, capabilities) = (call.headers.clone(), call.capabilities.clone());
    Call { deadline: Some(deadline), headers, capabilities, ..Call::default() }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let can = self.form == Form::Given || self.connection.about().says(&["tasks", "cancel"]);
        if !self.is_over && can {
            let params = Map::from_iter([("taskId".to_owned(), json!(self.task.id))]);
            // The server decides whether the task really stops.
            self.connection.say_last("tasks/cancel", params, part_of(&self.call, ASIDE));
        }
    }
}
