//! Tasks: calls that go on after their client was answered (the extension `io.modelcontextprotocol/tasks`).
//!
//! A task lives on the node that began it. Its id cannot be guessed, and says nothing to anybody but whom it was given
//! to: for others there is no such task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use toolcrib::{Clock as _, NoAnswer, Question, Said, SystemClock};

use super::error::RpcError;
use super::talk::Running;
use crate::work::Work;

/// How long a task may run, and how long its result is kept.
const KEPT_FOR: Duration = Duration::from_secs(60 * 60);
/// How often a client should look.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How many there are at once: of one client, and of all.
const OF_ONE: usize = 100;
const OF_ALL: usize = 10_000;

/// The tasks of this node.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<HashMap<String, Arc<Task>>>);

struct Task {
    principal: Box<str>,
    begun: Timestamp,
    now: Mutex<Now>,
}

/// How a task is.
struct Now {
    changed: Timestamp,
    /// For people.
    word: Option<Box<str>>,
    /// Questions nobody has answered yet.
    open: Vec<Open>,
    /// None as long as it runs.
    end: Option<End>,
    stop: Option<AbortHandle>,
}

struct Open {
    key: Box<str>,
    question: Question,
    reply: oneshot::Sender<Result<Value, NoAnswer>>,
}

enum End {
    Result(Value),
    Error(RpcError),
    Cancelled,
}

impl Tasks {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Task>>> {
        self.0.lock().expect("no one panics while holding the tasks")
    }

    /// A call goes on as a task. Says what its client is told.
    pub(crate) fn begin(
        &self,
        all_work: &Work,
        principal: &str,
        running: Running,
        heard: mpsc::Receiver<Said>,
    ) -> Result<Map<String, Value>, RpcError> {
        let begun = SystemClock.now();
        let id = toolcrib::random();
        let now = Now { changed: begun, word: None, open: Vec::new(), end: None, stop: None };
        let task = Arc::new(Task { principal: principal.into(), begun, now: Mutex::new(now) });
        {
            let mut all = self.all();
            all.retain(|_, task| !task.is_over(begun));
            make_room(&mut all, principal)?;
            all.insert(id.clone(), Arc::clone(&task));
        }
        let work = all_work.begin(work(Arc::clone(&task), running, heard));
        task.now().stop = Some(work);
        // A result that is there already is for whoever looks: a task that was just begun has none.
        Ok(task.described(&id, false))
    }

    fn of(
        &self,
        principal: &str,
        params: &Map<String, Value>,
    ) -> Result<(String, Arc<Task>), RpcError> {
        let id = params.get("taskId").and_then(Value::as_str);
        let id = id.ok_or_else(|| RpcError::invalid_params("`taskId` must be a text"))?;
        let now = SystemClock.now();
        let found = self.all().get(id).filter(|task| !task.is_over(now)).cloned();
        match found.filter(|task| *task.principal == *principal) {
            Some(task) => Ok((id.to_owned(), task)),
            None => Err(RpcError::invalid_params("there is no such task")),
        }
    }

    /// `tasks/get`
    pub(crate) fn get(
        &self,
        principal: &str,
        params: &Map<String, Value>,
    ) -> Result<Map<String, Value>, RpcError> {
        let (id, task) = self.of(principal, params)?;
        Ok(task.described(&id, true))
    }

    /// `tasks/update`: answers to what it asks. Answers to anything else are left aside.
    pub(crate) fn update(
        &self,
        principal: &str,
        params: &Map<String, Value>,
    ) -> Result<Map<String, Value>, RpcError> {
        let (_, task) = self.of(principal, params)?;
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

    /// `tasks/cancel`: it stops if it still runs.
    pub(crate) fn cancel(
        &self,
        principal: &str,
        params: &Map<String, Value>,
    ) -> Result<Map<String, Value>, RpcError> {
        let (_, task) = self.of(principal, params)?;
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

    /// Whether nobody can ask for it any more.
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
                    open.map(|one| (one.key.to_string(), asked(&one.question))).collect();
            }
            Some(End::Result(result)) => described["result"] = result.clone(),
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
}

/// Those that have ended go first, the oldest of them before the others.
fn make_room(all: &mut HashMap<String, Arc<Task>>, principal: &str) -> Result<(), RpcError> {
    let own = all.iter().filter(|(_, task)| *task.principal == *principal);
    let mut ended: Vec<(Timestamp, String)> = Vec::new();
    let mut running = 0;
    for (id, task) in own {
        let now = task.now();
        match now.end {
            Some(_) => ended.push((now.changed, id.clone())),
            None => running += 1,
        }
    }
    if OF_ONE <= running || OF_ALL <= all.len() {
        return Err(RpcError::busy("there are too many tasks: wait for some to end"));
    }
    ended.sort_unstable();
    let too_many = (running + ended.len() + 1).saturating_sub(OF_ONE);
    for (_, id) in ended.iter().take(too_many) {
        all.remove(id);
    }
    Ok(())
}

/// A question as clients without sessions get it.
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
            Ok(result) => End::Result(serde_json::from_str(&result).unwrap_or_default()),
            Err(error) => End::Error(error),
        };
        now.finish(end);
    }
}

impl Task {
    fn hear(&self, said: Said) {
        let mut now = self.now();
        match said {
            Said::Asks { key, question, reply } => now.open.push(Open { key, question, reply }),
            Said::Progress(progress) => now.word = progress.message.or(now.word.take()),
            Said::Log { .. } | Said::GoesOn => return,
        }
        now.changed = SystemClock.now();
    }
}
