//! Tasks: calls that continue after their request was answered (the extension `io.modelcontextprotocol/tasks`).
//!
//! A task lives on the node that started it. Its id is random and valid only for its principal: any other caller gets
//! the error of an unknown task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use endpoint::background_tasks::BackgroundTasks;
use endpoint::retention;
use endpoint::retention::RetainedEntry;
use jiff::Timestamp;
use model::{RawJson, ToolId};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use toolcrib::{CallUpdate, Clock as _, InputError, InputRequest, SystemClock};

use super::error_response::RpcErrorResponse;
use super::running_call::CallFuture;

/// Maximum duration of a task, and how long its result is kept.
const TASK_TTL: Duration = Duration::from_secs(60 * 60);
/// The polling interval that clients should use.
const TASK_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum size of a task's open questions, in bytes: a hundred tasks must leave space for results.
const QUESTIONS: usize = 256 << 10;
/// The tasks of this node.
#[derive(Clone, Default)]
pub(crate) struct McpTasks(Arc<Mutex<HashMap<String, Arc<McpTask>>>>);

struct McpTask {
    principal: Box<str>,
    /// The called tool; `None` if it belongs to no source.
    tool: Option<ToolId>,
    begun: Timestamp,
    now: Mutex<TaskState>,
}

/// The owner of tasks, with a check for the tools that it still has.
#[derive(Clone, Copy)]
pub(crate) struct TaskOwner<'a> {
    pub(crate) principal: &'a str,
    pub(crate) has: &'a dyn Fn(&ToolId) -> bool,
}

/// The state of a task.
struct TaskState {
    changed: Timestamp,
    status_message: Option<Box<str>>,
    questions: Vec<TaskQuestion>,
    /// `None` while the task runs.
    outcome: Option<TaskOutcome>,
    stop: Option<AbortHandle>,
}

struct TaskQuestion {
    key: Box<str>,
    /// Stored as text, to save memory.
    asked: RawJson,
    reply: TaskReply,
}

/// Channel for the answer.
type TaskReply = oneshot::Sender<Result<Value, InputError>>;

enum TaskOutcome {
    /// Stored as text, which needs the least memory.
    Result(Box<str>),
    Error(RawJson),
    Cancelled,
}

impl TaskOutcome {
    fn from_error(error: &RpcErrorResponse) -> Self {
        Self::Error(RawJson::from(&error.to_value()))
    }

    fn byte_size(&self) -> usize {
        match self {
            Self::Result(text) => text.len(),
            Self::Error(error) => error.as_str().len(),
            Self::Cancelled => 0,
        }
    }
}

impl McpTasks {
    fn lock_tasks(&self) -> MutexGuard<'_, HashMap<String, Arc<McpTask>>> {
        self.0.lock().expect("no one panics while holding the tasks")
    }

    /// Turns a running call into a task; returns the task object for the client.
    pub(crate) fn start_task(
        &self,
        all_work: &BackgroundTasks,
        (principal, tool): (&str, Option<ToolId>),
        running: CallFuture,
        heard: mpsc::Receiver<CallUpdate>,
    ) -> Result<Map<String, Value>, RpcErrorResponse> {
        let begun = SystemClock.now();
        let id = toolcrib::random_id();
        let now = TaskState {
            changed: begun,
            status_message: None,
            questions: Vec::new(),
            outcome: None,
            stop: None,
        };
        let task =
            Arc::new(McpTask { principal: principal.into(), tool, begun, now: Mutex::new(now) });
        {
            let mut all = self.lock_tasks();
            if !retention::has_capacity_for(&retention_entries(&all), principal) {
                return Err(RpcErrorResponse::server_busy(
                    "there are too many tasks: wait for some to end",
                ));
            }
            all.insert(id.clone(), Arc::clone(&task));
            evict_results(&mut all, begun);
        }
        let (tasks, working) = (self.clone(), Arc::clone(&task));
        let work = all_work.spawn_task(async move {
            drive_task(working, running, heard).await;
            evict_results(&mut tasks.lock_tasks(), SystemClock.now());
        });
        task.lock_state().stop = Some(work);
        // Never include the result here: the client expects a new task to be working, and fetches the result.
        Ok(task.to_object(&id, false))
    }

    /// The owner's task, if the owner still has its tool.
    fn find_task(
        &self,
        owner: TaskOwner<'_>,
        params: &Map<String, Value>,
    ) -> Result<(String, Arc<McpTask>), RpcErrorResponse> {
        let id = params.get("taskId").and_then(Value::as_str);
        let id = id.ok_or_else(|| RpcErrorResponse::invalid_params("`taskId` must be a text"))?;
        let now = SystemClock.now();
        let found = self.lock_tasks().get(id).filter(|task| !task.is_expired(now)).cloned();
        let found = found.filter(|task| *task.principal == *owner.principal);
        match found.filter(|task| task.tool.as_ref().is_none_or(owner.has)) {
            Some(task) => Ok((id.to_owned(), task)),
            None => Err(RpcErrorResponse::invalid_params("there is no such task")),
        }
    }

    /// Answers `tasks/get`.
    pub(crate) fn get_task(
        &self,
        owner: TaskOwner<'_>,
        params: &Map<String, Value>,
    ) -> Result<Map<String, Value>, RpcErrorResponse> {
        let (id, task) = self.find_task(owner, params)?;
        Ok(task.to_object(&id, true))
    }

    /// Answers `tasks/update` with answers to open questions. Answers to unknown questions are ignored.
    pub(crate) fn update_task(
        &self,
        owner: TaskOwner<'_>,
        params: &Map<String, Value>,
    ) -> Result<Map<String, Value>, RpcErrorResponse> {
        let (_, task) = self.find_task(owner, params)?;
        let Some(Value::Object(answers)) = params.get("inputResponses") else {
            return Err(RpcErrorResponse::invalid_params("`inputResponses` must be an object"));
        };
        let mut now = task.lock_state();
        let open = std::mem::take(&mut now.questions);
        for one in open {
            match answers.get(&*one.key).filter(|answer| answer.is_object()) {
                Some(answer) => drop(one.reply.send(Ok(answer.clone()))),
                None => now.questions.push(one),
            }
        }
        now.changed = SystemClock.now();
        Ok(Map::new())
    }

    /// Answers `tasks/cancel`: aborts the task if it still runs.
    pub(crate) fn cancel_task(
        &self,
        owner: TaskOwner<'_>,
        params: &Map<String, Value>,
    ) -> Result<Map<String, Value>, RpcErrorResponse> {
        let (_, task) = self.find_task(owner, params)?;
        let mut now = task.lock_state();
        if now.outcome.is_none() {
            now.stop.iter().for_each(AbortHandle::abort);
            now.finish_with(TaskOutcome::Cancelled);
        }
        Ok(Map::new())
    }
}

impl McpTask {
    fn lock_state(&self) -> MutexGuard<'_, TaskState> {
        self.now.lock().expect("no one panics while holding a task")
    }

    /// Whether the task has expired.
    fn is_expired(&self, at: Timestamp) -> bool {
        let now = self.lock_state();
        now.outcome.is_some() && now.changed + TASK_TTL < at
    }

    fn to_object(&self, id: &str, whole: bool) -> Map<String, Value> {
        let now = self.lock_state();
        let status = match &now.outcome {
            None if now.questions.is_empty() => "working",
            None => "input_required",
            Some(TaskOutcome::Result(_)) => "completed",
            Some(TaskOutcome::Error(_)) => "failed",
            Some(TaskOutcome::Cancelled) => "cancelled",
        };
        let status = if whole { status } else { "working" };
        let mut described = json!({
            "taskId": id,
            "status": status,
            "createdAt": self.begun.to_string(),
            "lastUpdatedAt": now.changed.to_string(),
            "ttlMs": as_millis_u64(TASK_TTL),
            "pollIntervalMs": as_millis_u64(TASK_POLL_INTERVAL),
        });
        if let Some(word) = &now.status_message {
            described["statusMessage"] = Value::from(&**word);
        }
        match &now.outcome {
            _ if !whole => {}
            None if now.questions.is_empty() => {}
            None => {
                let open = now.questions.iter();
                described["inputRequests"] =
                    open.map(|one| (one.key.to_string(), one.asked.to_value())).collect();
            }
            Some(TaskOutcome::Result(result)) => {
                described["result"] = serde_json::from_str(result).unwrap_or_default();
            }
            Some(TaskOutcome::Error(error)) => described["error"] = error.to_value(),
            Some(TaskOutcome::Cancelled) => {}
        }
        match described {
            Value::Object(described) => described,
            _ => Map::new(),
        }
    }
}

impl TaskState {
    fn finish_with(&mut self, end: TaskOutcome) {
        self.outcome = Some(end);
        self.questions.clear();
        self.changed = SystemClock.now();
    }

    /// Adds a question, or refuses it if the open questions are too large.
    fn add_question(&mut self, key: Box<str>, question: &InputRequest, reply: TaskReply) {
        let asked = RawJson::from(&question_to_json(question));
        if QUESTIONS < self.question_bytes() + key.len() + asked.as_str().len() {
            let why = format!("the open questions of a task have at most {QUESTIONS} bytes");
            return drop(reply.send(Err(InputError::Refused(why))));
        }
        self.questions.push(TaskQuestion { key, asked, reply });
    }

    fn question_bytes(&self) -> usize {
        self.questions.iter().map(|one| one.key.len() + one.asked.as_str().len()).sum()
    }

    /// Size of the whole state, in bytes.
    fn byte_size(&self) -> usize {
        let word = self.status_message.as_ref().map_or(0, |word| word.len());
        word + self.question_bytes() + self.outcome.as_ref().map_or(0, TaskOutcome::byte_size)
    }
}

/// Removes results that are expired, too many or too large.
fn evict_results(all: &mut HashMap<String, Arc<McpTask>>, now: Timestamp) {
    all.retain(|_, task| !task.is_expired(now));
    for id in retention::select_evictions(retention_entries(all)) {
        all.remove(&id);
    }
}

fn retention_entries(all: &HashMap<String, Arc<McpTask>>) -> Vec<RetainedEntry> {
    let kept = all.iter().map(|(id, task)| {
        let now = task.lock_state();
        let end = now.outcome.as_ref().map(|_| now.changed);
        RetainedEntry {
            id: id.clone(),
            principal: task.principal.clone(),
            bytes: now.byte_size(),
            end,
        }
    });
    kept.collect()
}

/// A question as an input request of the modern era.
pub(crate) fn question_to_json(question: &InputRequest) -> Value {
    json!({"method": question.method(), "params": question.params()})
}

fn as_millis_u64(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

async fn drive_task(
    task: Arc<McpTask>,
    mut running: CallFuture,
    mut heard: mpsc::Receiver<CallUpdate>,
) {
    let all_of_it = async {
        loop {
            tokio::select! {
                biased;
                Some(said) = heard.recv() => task.handle_message(said),
                ended = &mut running => return ended,
            }
        }
    };
    let ended = tokio::time::timeout(TASK_TTL, all_of_it).await;
    let ended =
        ended.unwrap_or_else(|_| Err(RpcErrorResponse::internal_error("the task took too long")));
    let mut now = task.lock_state();
    if now.outcome.is_none() {
        let end = match ended {
            Ok(result) if retention::MAX_BYTES_PER_CALLER < result.len() => {
                TaskOutcome::from_error(&RpcErrorResponse::internal_error(
                    "the result is too large to be kept",
                ))
            }
            Ok(result) => TaskOutcome::Result(result.into()),
            Err(error) => TaskOutcome::from_error(&error),
        };
        now.finish_with(end);
    }
}

impl McpTask {
    fn handle_message(&self, said: CallUpdate) {
        let mut now = self.lock_state();
        match said {
            CallUpdate::InputRequired { key, question, reply } => {
                now.add_question(key, &question, reply)
            }
            CallUpdate::Progress(progress) => {
                let word = progress.message.map(|said| retention::truncate_status(&said));
                now.status_message = word.or(now.status_message.take());
            }
            CallUpdate::Log { .. } | CallUpdate::Detached => return,
        }
        now.changed = SystemClock.now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(principal: &str) -> TaskOwner<'_> {
        TaskOwner { principal, has: &|_| true }
    }

    /// A task with a result of this size, after its end.
    async fn ended(
        (tasks, work): (&McpTasks, &BackgroundTasks),
        principal: &str,
        bytes: usize,
    ) -> Map<String, Value> {
        let text = json!({"x": "x".repeat(bytes)}).to_string();
        let (_say, heard) = mpsc::channel(1);
        let running: CallFuture = Box::pin(async move { Ok(text) });
        let begun = tasks.start_task(work, (principal, None), running, heard);
        let params = Map::from_iter([("taskId".to_owned(), begun.unwrap()["taskId"].clone())]);
        while tasks
            .get_task(owner(principal), &params)
            .is_ok_and(|task| task["status"] == "working")
        {
            tokio::task::yield_now().await;
        }
        params
    }

    #[tokio::test]
    async fn messages_and_questions_of_a_task_are_bounded() {
        let (tasks, work) = (McpTasks::default(), BackgroundTasks::default());
        let (say, heard) = mpsc::channel(100);
        let begun = tasks.start_task(&work, ("ada", None), Box::pin(std::future::pending()), heard);
        let params = Map::from_iter([("taskId".to_owned(), begun.unwrap()["taskId"].clone())]);
        let message = Some("x".repeat(8 << 20).into());
        let progress = toolcrib::CallProgress { progress: 1.0, total: None, message };
        say.send(CallUpdate::Progress(progress)).await.unwrap();
        // Almost as many values as bytes: as a parsed tree they need far more memory.
        let large = Map::from_iter([("message".to_owned(), json!(vec![0; 50_000]))]);
        let mut replies = Vec::new();
        for number in 0..16 {
            let (reply, replied) = oneshot::channel();
            let (key, question) = (number.to_string().into(), InputRequest::Elicit(large.clone()));
            say.send(CallUpdate::InputRequired { key, question, reply }).await.unwrap();
            replies.push(replied);
        }
        let last = replies.pop().unwrap();
        let last = tokio::time::timeout(Duration::from_secs(10), last).await.unwrap().unwrap();
        assert!(
            matches!(&last, Err(InputError::Refused(why)) if why.contains("262144 bytes")),
            "{last:?}"
        );
        let got = tasks.get_task(owner("ada"), &params).unwrap();
        assert_eq!(got["status"], "input_required");
        assert_eq!(got["statusMessage"].as_str().map(str::len), Some(200));
        assert_eq!(got["inputRequests"].as_object().map(Map::len), Some(2));
        assert_eq!(got["inputRequests"]["0"]["params"], Value::Object(large));
        let bytes = retention_entries(&tasks.lock_tasks())[0].bytes;
        assert!((200_000..=QUESTIONS + 200).contains(&bytes), "{bytes}");
    }

    #[tokio::test]
    async fn too_large_results_are_evicted_oldest_first() {
        let (tasks, work, most) =
            (McpTasks::default(), BackgroundTasks::default(), retention::MAX_BYTES_PER_CALLER);
        let at = (&tasks, &work);
        let other = ended(at, "bob", most / 2).await;
        let old = ended(at, "ada", most / 2).await;
        let new = ended(at, "ada", most / 2).await;
        while tasks.get_task(owner("ada"), &old).is_ok() {
            tokio::task::yield_now().await;
        }
        let kept = tasks.get_task(owner("ada"), &new).unwrap();
        assert_eq!(kept["result"]["x"].as_str().map(str::len), Some(most / 2));
        assert!(
            tasks.get_task(owner("bob"), &other).is_ok(),
            "one client takes no room of another"
        );
        let large = ended(at, "ada", most).await;
        assert_eq!(tasks.get_task(owner("ada"), &large).unwrap()["status"], "failed");
    }
}
