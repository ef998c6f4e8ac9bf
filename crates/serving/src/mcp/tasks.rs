//! Tasks: calls that continue after their request was answered (the extension `io.modelcontextprotocol/tasks`).
//!
//! A task lives on the node that started it. Its id is random and valid only for its principal: any other caller gets
//! the error of an unknown task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use model::{RawJson, ToolId};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use toolcrib::{Clock as _, NoAnswer, Question, Said, SystemClock};

use super::error::RpcError;
use super::talk::Running;
use crate::room::{self, Kept};
use crate::work::Work;

/// Maximum duration of a task, and how long its result is kept.
const KEPT_FOR: Duration = Duration::from_secs(60 * 60);
/// The polling interval that clients should use.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Maximum size of a task's open questions, in bytes: a hundred tasks must leave space for results.
const QUESTIONS: usize = 256 << 10;
/// The tasks of this node.
#[derive(Clone, Default)]
pub(crate) struct Tasks(Arc<Mutex<HashMap<String, Arc<Task>>>>);

struct Task {
    principal: Box<str>,
    /// The called tool; `None` if it belongs to no source.
    tool: Option<ToolId>,
    begun: Timestamp,
    now: Mutex<Now>,
}

/// The owner of tasks, with a check for the tools that it still has.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) principal: &'a str,
    pub(crate) has: &'a dyn Fn(&ToolId) -> bool,
}

/// The state of a task.
struct Now {
    changed: Timestamp,
    word: Option<Box<str>>,
    /// Unanswered questions.
    open: Vec<Open>,
    /// `None` while the task runs.
    end: Option<End>,
    stop: Option<AbortHandle>,
}

struct Open {
    key: Box<str>,
    /// Stored as text, to save memory.
    asked: RawJson,
    reply: Reply,
}

/// Channel for the answer.
type Reply = oneshot::Sender<Result<Value, NoAnswer>>;

enum End {
    /// Stored as text, which needs the least memory.
    Result(Box<str>),
    Error(RawJson),
    Cancelled,
}

impl End {
    fn of(error: &RpcError) -> Self {
        Self::Error(RawJson::from(&error.to_value()))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Result(text) => text.len(),
            Self::Error(error) => error.as_str().len(),
            Self::Cancelled => 0,
        }
    }
}

impl Tasks {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Task>>> {
        self.0.lock().expect("no one panics while holding the tasks")
    }

    /// Turns a running call into a task; returns the task object for the client.
    pub(crate) fn begin(
        &self,
        all_work: &Work,
        (principal, tool): (&str, Option<ToolId>),
        running: Running,
        heard: mpsc::Receiver<Said>,
    ) -> Result<Map<String, Value>, RpcError> {
        let begun = SystemClock.now();
        let id = toolcrib::random();
        let now = Now { changed: begun, word: None, open: Vec::new(), end: None, stop: None };
        let task =
            Arc::new(Task { principal: principal.into(), tool, begun, now: Mutex::new(now) });
        {
            let mut all = self.all();
            if !room::has_room_for_one_more(&kept(&all), principal) {
                return Err(RpcError::busy("there are too many tasks: wait for some to end"));
            }
            all.insert(id.clone(), Arc::clone(&task));
            make_room(&mut all, begun);
        }
        let (tasks, working) = (self.clone(), Arc::clone(&task));
        let work = all_work.begin(async move {
            work(working, running, heard).await;
            make_room(&mut tasks.all(), SystemClock.now());
        });
        task.now().stop = Some(work);
        // Never include the result here: the client expects a new task to be working, and fetches the result.
        Ok(task.described(&id, false))
    }

    /// The owner's task, if the owner still has its tool.
    fn of(
        &self,
        owner: Owner<'_>,
        params: &Map<String, Value>,
    ) -> Result<(String, Arc<Task>), RpcError> {
        let id = params.get("taskId").and_then(Value::as_str);
        let id = id.ok_or_else(|| RpcError::invalid_params("`taskId` must be a text"))?;
        let now = SystemClock.now();
        let found = self.all().get(id).filter(|task| !task.is_over(now)).cloned();
        let found = found.filter(|task| *task.principal == *owner.principal);
        match found.filter(|task| task.tool.as_ref().is_none_or(owner.has)) {
            Some(task) => Ok((id.to_owned(), task)),
            None => Err(RpcError::invalid_params("there is no such task")),
        }
    }

    /// Answers `tasks/get`.
    pub(crate) fn get(
        &self,
        owner: Owner<'_>,
        params: &Map<String, Value>,
    ) -> Result<Map<String, Value>, RpcError> {
        let (id, task) = self.of(owner, params)?;
        Ok(task.described(&id, true))
    }

    /// Answers `tasks/update` with answers to open questions. Answers to unknown questions are ignored.
    pub(crate) fn update(
        &self,
        owner: Owner<'_>,
        params: &Map<String, Value>,
    ) -> Result<Map<String, Value>, RpcError> {
        let (_, task) = self.of(owner, params)?;
        let Some(Value::Object(answers)) = params.get("inputResponses") else {
            return Err(RpcError::invalid_params("`inputResponses` must be an object"));
        };
        let mut now = task.now();
        let open = std::mem::take(&mut now.open);
        for one in open {
            match answers.get(&*one.key).filter(|answer| answer.is_object()) {
                Some(answer) => drop(one.reply.send(Ok(answer.clone()))),
                None => now.open.push(one),
            }
        }
        now.changed = SystemClock.now();
        Ok(Map::new())
    }

    /// Answers `tasks/cancel`: aborts the task if it still runs.
    pub(crate) fn cancel(
        &self,
        owner: Owner<'_>,
        params: &Map<String, Value>,
    ) -> Result<Map<String, Value>, RpcError> {
        let (_, task) = self.of(owner, params)?;
        let mut now = task.now();
        if now.end.is_none() {
            now.stop.iter().for_each(AbortHandle::abort);
            now.finish(End::Cancelled);
        }
        Ok(Map::new())
    }
}

impl Task {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().expect("no one panics while holding a task")
    }

    /// Whether the task has expired.
    fn is_over(&self, at: Timestamp) -> bool {
        let now = self.now();
        now.end.is_some() && now.changed + KEPT_FOR < at
    }

    fn described(&self, id: &str, whole: bool) -> Map<String, Value> {
        let now = self.now();
        let status = match &now.end {
            None if now.open.is_empty() => "working",
            None => "input_required",
            Some(End::Result(_)) => "completed",
            Some(End::Error(_)) => "failed",
            Some(End::Cancelled) => "cancelled",
        };
        let status = if whole { status } else { "working" };
        let mut described = json!({
            "taskId": id,
            "status": status,
            "createdAt": self.begun.to_string(),
            "lastUpdatedAt": now.changed.to_string(),
            "ttlMs": millis(KEPT_FOR),
            "pollIntervalMs": millis(LOOK_EVERY),
        });
        if let Some(word) = &now.word {
            described["statusMessage"] = Value::from(&**word);
        }
        match &now.end {
            _ if !whole => {}
            None if now.open.is_empty() => {}
            None => {
                let open = now.open.iter();
                described["inputRequests"] =
                    open.map(|one| (one.key.to_string(), one.asked.to_value())).collect();
            }
            Some(End::Result(result)) => {
                described["result"] = serde_json::from_str(result).unwrap_or_default();
            }
            Some(End::Error(error)) => described["error"] = error.to_value(),
            Some(End::Cancelled) => {}
        }
        match described {
            Value::Object(described) => described,
            _ => Map::new(),
        }
    }
}

impl Now {
    fn finish(&mut self, end: End) {
        self.end = Some(end);
        self.open.clear();
        self.changed = SystemClock.now();
    }

    /// Adds a question, or refuses it if the open questions are too large.
    fn ask(&mut self, key: Box<str>, question: &Question, reply: Reply) {
        let asked = RawJson::from(&asked(question));
        if QUESTIONS < self.questions() + key.len() + asked.as_str().len() {
            let why = format!("the open questions of a task have at most {QUESTIONS} bytes");
            return drop(reply.send(Err(NoAnswer::Refused(why))));
        }
        self.open.push(Open { key, asked, reply });
    }

    fn questions(&self) -> usize {
        self.open.iter().map(|one| one.key.len() + one.asked.as_str().len()).sum()
    }

    /// Size of the whole state, in bytes.
    fn bytes(&self) -> usize {
        let word = self.word.as_ref().map_or(0, |word| word.len());
        word + self.questions() + self.end.as_ref().map_or(0, End::bytes)
    }
}

/// Removes results that are expired, too many or too large.
fn make_room(all: &mut HashMap<String, Arc<Task>>, now: Timestamp) {
    all.retain(|_, task| !task.is_over(now));
    for id in room::surplus(kept(all)) {
        all.remove(&id);
    }
}

fn kept(all: &HashMap<String, Arc<Task>>) -> Vec<Kept> {
    let kept = all.iter().map(|(id, task)| {
        let now = task.now();
        let end = now.end.as_ref().map(|_| now.changed);
        Kept { id: id.clone(), principal: task.principal.clone(), bytes: now.bytes(), end }
    });
    kept.collect()
}

/// A question as an input request of the modern era.
pub(crate) fn asked(question: &Question) -> Value {
    json!({"method": question.method(), "params": question.params()})
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

async fn work(task: Arc<Task>, mut running: Running, mut heard: mpsc::Receiver<Said>) {
    let all_of_it = async {
        loop {
            tokio::select! {
                biased;
                Some(said) = heard.recv() => task.hear(said),
                ended = &mut running => return ended,
            }
        }
    };
    let ended = tokio::time::timeout(KEPT_FOR, all_of_it).await;
    let ended = ended.unwrap_or_else(|_| Err(RpcError::internal("the task took too long")));
    let mut now = task.now();
    if now.end.is_none() {
        let end = match ended {
            Ok(result) if room::BYTES_OF_ONE < result.len() => {
                End::of(&RpcError::internal("the result is too large to be kept"))
            }
            Ok(result) => End::Result(result.into()),
            Err(error) => End::of(&error),
        };
        now.finish(end);
    }
}

impl Task {
    fn hear(&self, said: Said) {
        let mut now = self.now();
        match said {
            Said::Asks { key, question, reply } => now.ask(key, &question, reply),
            Said::Progress(progress) => {
                let word = progress.message.map(|said| room::word(&said));
                now.word = word.or(now.word.take());
            }
            Said::Log { .. } | Said::GoesOn => return,
        }
        now.changed = SystemClock.now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(principal: &str) -> Owner<'_> {
        Owner { principal, has: &|_| true }
    }

    /// A task with a result of this size, after its end.
    async fn ended(
        (tasks, work): (&Tasks, &Work),
        principal: &str,
        bytes: usize,
    ) -> Map<String, Value> {
        let text = json!({"x": "x".repeat(bytes)}).to_string();
        let (_say, heard) = mpsc::channel(1);
        let running: Running = Box::pin(async move { Ok(text) });
        let begun = tasks.begin(work, (principal, None), running, heard);
        let params = Map::from_iter([("taskId".to_owned(), begun.unwrap()["taskId"].clone())]);
        while tasks.get(owner(principal), &params).is_ok_and(|task| task["status"] == "working") {
            tokio::task::yield_now().await;
        }
        params
    }

    #[tokio::test]
    async fn messages_and_questions_of_a_task_are_bounded() {
        let (tasks, work) = (Tasks::default(), Work::default());
        let (say, heard) = mpsc::channel(100);
        let begun = tasks.begin(&work, ("ada", None), Box::pin(std::future::pending()), heard);
        let params = Map::from_iter([("taskId".to_owned(), begun.unwrap()["taskId"].clone())]);
        let message = Some("x".repeat(8 << 20).into());
        let progress = toolcrib::Progress { progress: 1.0, total: None, message };
        say.send(Said::Progress(progress)).await.unwrap();
        // Almost as many values as bytes: as a parsed tree they need far more memory.
        let large = Map::from_iter([("message".to_owned(), json!(vec![0; 50_000]))]);
        let mut replies = Vec::new();
        for number in 0..16 {
            let (reply, replied) = oneshot::channel();
            let (key, question) = (number.to_string().into(), Question::Elicit(large.clone()));
            say.send(Said::Asks { key, question, reply }).await.unwrap();
            replies.push(replied);
        }
        let last = replies.pop().unwrap();
        let last = tokio::time::timeout(Duration::from_secs(10), last).await.unwrap().unwrap();
        assert!(
            matches!(&last, Err(NoAnswer::Refused(why)) if why.contains("262144 bytes")),
            "{last:?}"
        );
        let got = tasks.get(owner("ada"), &params).unwrap();
        assert_eq!(got["status"], "input_required");
        assert_eq!(got["statusMessage"].as_str().map(str::len), Some(200));
        assert_eq!(got["inputRequests"].as_object().map(Map::len), Some(2));
        assert_eq!(got["inputRequests"]["0"]["params"], Value::Object(large));
        let bytes = kept(&tasks.all())[0].bytes;
        assert!((200_000..=QUESTIONS + 200).contains(&bytes), "{bytes}");
    }

    #[tokio::test]
    async fn too_large_results_are_evicted_oldest_first() {
        let (tasks, work, most) = (Tasks::default(), Work::default(), room::BYTES_OF_ONE);
        let at = (&tasks, &work);
        let other = ended(at, "bob", most / 2).await;
        let old = ended(at, "ada", most / 2).await;
        let new = ended(at, "ada", most / 2).await;
        while tasks.get(owner("ada"), &old).is_ok() {
            tokio::task::yield_now().await;
        }
        let kept = tasks.get(owner("ada"), &new).unwrap();
        assert_eq!(kept["result"]["x"].as_str().map(str::len), Some(most / 2));
        assert!(tasks.get(owner("bob"), &other).is_ok(), "one client takes no room of another");
        let large = ended(at, "ada", most).await;
        assert_eq!(tasks.get(owner("ada"), &large).unwrap()["status"], "failed");
    }
}
