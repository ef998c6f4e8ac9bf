//! Pending calls over REST: calls that continue after their request was answered. Their caller can poll and cancel
//! them.
//!
//! A call lives on the node that started it. Its id is random; for any other caller, the call does not exist. Results
//! are kept for an hour, and their number and size are limited.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, LOCATION, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use jiff::Timestamp;
use model::{CallStatus, ErrorCode, Failure, Outcome, RawJson, ToolId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use toolcrib::{AgentView, Clock as _, Identity, NewCall, Said, SystemClock, ViewedTool};

use crate::answer::Named;
use crate::app::App;
use crate::caller::Caller;
use crate::problem::{Code, Problem};
use crate::room::{self, Kept};
use crate::route::Route;
use crate::watching::principal;

/// How long a result is kept.
const KEPT_FOR: Duration = Duration::from_secs(60 * 60);
/// Maximum duration of a call: slightly longer than a job is polled.
const RUNS_FOR: Duration = Duration::from_secs(61 * 60);

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("get_agent_call", "/api/agents/calls/{id}", get)
            .agent("agents", "Look at a call that goes on")
            .answers_plain::<PendingCall>(),
        Route::delete("cancel_agent_call", "/api/agents/calls/{id}", cancel)
            .agent("agents", "Cancel a call that goes on, and forget it")
            .calls()
            .answers_plain::<PendingCall>(),
    ]
}

/// A call that goes on after its request was answered.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PendingCall {
    /// Known to nobody but the caller.
    id: String,
    /// How it is.
    state: CallState,
    /// When it began.
    began_at: String,
    /// What was last heard of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Box<str>>,
    /// What came of it, if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Outcome>")]
    outcome: Option<RawJson>,
}

/// How a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CallState {
    /// It goes on.
    Working,
    /// There is a result.
    Completed,
    /// There is an error.
    Failed,
    /// Nobody wants it any more.
    Cancelled,
}

/// The pending calls of this node.
#[derive(Default)]
pub(crate) struct PendingCalls(Arc<Mutex<HashMap<String, Arc<Call>>>>);

struct Call {
    principal: Box<str>,
    /// The called tool; `None` if it belongs to no source.
    tool: Option<ToolId>,
    began: Timestamp,
    word: Mutex<Option<Box<str>>>,
    end: OnceLock<End>,
    stop: Mutex<Option<AbortHandle>>,
}

struct End {
    at: Timestamp,
    status: CallStatus,
    /// Stored as text: a parsed tree of small values needs forty times the memory.
    outcome: RawJson,
}

/// A call whose caller has no answer yet. Dropping it aborts the call.
pub(super) struct Begun<'a> {
    calls: &'a PendingCalls,
    id: String,
    call: Arc<Call>,
    /// The outcome, while it can still be the answer.
    ended: oneshot::Receiver<Outcome>,
    is_told: bool,
}

impl PendingCalls {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Call>>> {
        self.0.lock().expect("no one panics while holding the calls")
    }

    /// Starts a call that may outlive its request.
    pub(super) fn begin<'a>(
        &'a self,
        app: &App,
        principal: String,
        view: AgentView,
        tool: ViewedTool,
        arguments: Map<String, Value>,
    ) -> Result<Begun<'a>, Problem> {
        let began = SystemClock.now();
        let (id, word, end) = (toolcrib::random(), Mutex::default(), OnceLock::new());
        let principal = principal.into();
        let (called, stop) = (view.id_of_call(&tool, &arguments), Mutex::default());
        let call = Arc::new(Call { principal, tool: called, began, word, end, stop });
        {
            let mut all = self.all();
            check_number(&all, &call.principal)?;
            make_room(&mut all, began);
            all.insert(id.clone(), Arc::clone(&call));
        }
        let (working, calls) = (Arc::clone(&call), Self(Arc::clone(&self.0)));
        let (tell, ended) = oneshot::channel();
        let stop = app.go_on(async move {
            let running = carried_out(&working, &view, &tool, arguments);
            let ended = timeout(RUNS_FOR, AssertUnwindSafe(running).catch_unwind()).await;
            // Every call must get an outcome, or it would never expire.
            let outcome = match ended {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => broken_off(tool.known_as(), "the tool failed inside"),
                Err(_) => broken_off(tool.known_as(), "the call took too long"),
            };
            working.finish(&outcome);
            // Stored before it is sent: a caller that polls later finds it.
            drop(tell.send(outcome));
            make_room(&mut calls.all(), SystemClock.now());
        });
        *call.stop.lock().expect("no one panics while holding it") = Some(stop);
        Ok(Begun { calls: self, id, call, ended, is_told: false })
    }

    /// The caller's own call, if the caller still has its tool.
    fn of(&self, app: &App, identity: &Identity, id: &str) -> Result<Arc<Call>, Problem> {
        let (now, principal) = (SystemClock.now(), principal(identity));
        let found = self.all().get(id).filter(|call| !call.is_over(now)).cloned();
        let found = found.filter(|call| *call.principal == *principal);
        let has = |tool: &ToolId| app.crib.view_of(identity).may_read_of(tool);
        let found = found.filter(|call| call.tool.as_ref().is_none_or(has));
        found.ok_or_else(|| Problem::not_found("call", id))
    }
}

async fn carried_out(
    call: &Call,
    view: &AgentView,
    tool: &ViewedTool,
    arguments: Map<String, Value>,
) -> Outcome {
    let (context, mut heard) = NewCall::default().wanting_progress().heard();
    let mut running = std::pin::pin!(view.outcome_of(tool, arguments, &context));
    loop {
        tokio::select! {
            biased;
            outcome = &mut running => return outcome,
            Some(said) = heard.recv() => if let Said::Progress(progress) = said {
                let word = progress.message.map(|said| room::word(&said));
                *call.word.lock().expect("no one panics while holding it") = word;
            },
        }
    }
}

fn broken_off(tool_id: ToolId, why: &str) -> Outcome {
    tracing::error!(tool = %tool_id, why, "a call of `{tool_id}` was broken off: {why}");
    Outcome {
        tool_id,
        status: CallStatus::Failed,
        result: None,
        content: Vec::new(),
        error: Some(Failure::new(ErrorCode::InternalError, why, false)),
        execution_time_ms: 0,
        upstream_status: None,
    }
}

impl Call {
    fn finish(&self, outcome: &Outcome) {
        let text = RawJson::of(outcome).expect("an outcome is JSON");
        self.end.get_or_init(|| End {
            at: SystemClock.now(),
            status: outcome.status,
            outcome: text,
        });
    }

    fn is_over(&self, now: Timestamp) -> bool {
        self.end.get().is_some_and(|end| end.at + KEPT_FOR < now)
    }

    fn stop(&self) {
        let stop = self.stop.lock().expect("no one panics while holding it");
        stop.iter().for_each(AbortHandle::abort);
    }

    fn described(&self, id: &str) -> PendingCall {
        let end = self.end.get();
        let state = match end.map(|end| end.status) {
            None => CallState::Working,
            Some(CallStatus::Completed) => CallState::Completed,
            Some(CallStatus::Failed) => CallState::Failed,
        };
        let message = self.word.lock().expect("no one panics while holding it").clone();
        let (id, began_at) = (id.to_owned(), self.began.to_string());
        PendingCall { id, state, began_at, message, outcome: end.map(|end| end.outcome.clone()) }
    }
}

impl Begun<'_> {
    /// Waits for the outcome; if it arrives in time, the call is dropped instead of kept.
    pub(super) async fn ended_within(&mut self, wait: Duration) -> Option<Outcome> {
        timeout(wait, &mut self.ended).await.ok()?.ok()
    }

    /// Answers 202 with the address of the call, which continues.
    pub(super) fn goes_on(mut self) -> Response {
        self.is_told = true;
        let address = format!("/api/agents/calls/{}", self.id);
        let address = HeaderValue::try_from(address).expect("an address of ours is ASCII");
        let headers = [(LOCATION, address), (RETRY_AFTER, HeaderValue::from_static("1"))];
        (StatusCode::ACCEPTED, headers, Json(self.call.described(&self.id))).into_response()
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.call.stop();
            self.calls.all().remove(&self.id);
        }
    }
}

/// Rejects a new call if too many are running, per caller or in all.
fn check_number(all: &HashMap<String, Arc<Call>>, principal: &str) -> Result<(), Problem> {
    if !room::has_room_for_one_more(&kept(all), principal) {
        let detail = "too many calls go on: wait for some to end, or cancel them";
        return Err(Problem::later(Code::RateLimited, detail, 10));
    }
    Ok(())
}

/// Removes results that are expired, too many or too large.
fn make_room(all: &mut HashMap<String, Arc<Call>>, now: Timestamp) {
    all.retain(|_, call| !call.is_over(now));
    for id in room::surplus(kept(all)) {
        all.remove(&id);
    }
}

fn kept(all: &HashMap<String, Arc<Call>>) -> Vec<Kept> {
    let kept = all.iter().map(|(id, call)| {
        let end = call.end.get();
        let bytes = end.map_or(0, |end| end.outcome.as_str().len());
        let (id, principal) = (id.clone(), call.principal.clone());
        Kept { id, principal, bytes, end: end.map(|end| end.at) }
    });
    kept.collect()
}

async fn get(
    Caller(identity): Caller,
    State(app): State<App>,
    Named(id): Named,
) -> Result<Json<PendingCall>, Problem> {
    Ok(Json(app.pending.of(&app, &identity, &id)?.described(&id)))
}

async fn cancel(
    Caller(identity): Caller,
    State(app): State<App>,
    Named(id): Named,
) -> Result<Json<PendingCall>, Problem> {
    let call = app.pending.of(&app, &identity, &id)?;
    call.stop();
    app.pending.all().remove(&id);
    let mut described = call.described(&id);
    if described.state == CallState::Working {
        described.state = CallState::Cancelled;
    }
    Ok(Json(described))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(principal: &str, at: i64, bytes: usize) -> Arc<Call> {
        let at = Timestamp::from_second(at).unwrap();
        let (word, stop) = (Mutex::default(), Mutex::default());
        let outcome = RawJson::of(&"x".repeat(bytes)).unwrap();
        let end = OnceLock::from(End { at, status: CallStatus::Completed, outcome });
        Arc::new(Call { principal: principal.into(), tool: None, began: at, word, end, stop })
    }

    fn left(calls: &[Arc<Call>]) -> Vec<usize> {
        let named = |(index, call): (usize, &Arc<Call>)| (index.to_string(), Arc::clone(call));
        let mut all: HashMap<_, _> = calls.iter().enumerate().map(named).collect();
        make_room(&mut all, Timestamp::from_second(10_000).unwrap());
        let mut left: Vec<usize> = all.keys().map(|id| id.parse().unwrap()).collect();
        left.sort_unstable();
        left
    }

    #[test]
    fn results_are_evicted_when_they_are_too_old_or_too_large() {
        let hour = 60 * 60;
        let calls = [ended("ada", 10_000 - hour - 1, 1), ended("ada", 9_999, 1)];
        assert_eq!(left(&calls), [1]);
        let large = [ended("ada", 9_000, 20 << 20), ended("ada", 9_001, 20 << 20)];
        assert_eq!(left(&large), [1]);
    }

    #[test]
    fn a_result_is_stored_as_the_text_whose_size_counts() {
        let call = Call { end: OnceLock::new(), ..Arc::into_inner(ended("ada", 0, 1)).unwrap() };
        let outcome = json!({"tool_id": "s:a", "status": "completed", "result": vec![0; 100_000],
            "error": null, "execution_time_ms": 1, "upstream_status": null});
        call.finish(&serde_json::from_value(outcome.clone()).unwrap());
        let described = json!(call.described("x"));
        assert_eq!((&described["state"], &described["outcome"]), (&json!("completed"), &outcome));
        let kept = kept(&HashMap::from([("x".to_owned(), Arc::new(call))]));
        assert_eq!(kept[0].bytes, outcome.to_string().len());
    }
}
