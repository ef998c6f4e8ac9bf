//! Pending calls over REST: calls that continue after their request was answered. Their caller can poll and cancel
//! them.
//!
//! A call lives on the node that started it. Its id is random; for any other caller, the call does not exist. Results
//! are kept for an hour, and their number and size are limited.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use api_types::problem::{Problem, ProblemCode};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, LOCATION, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};
use endpoint::app_state::AppState;
use endpoint::caller::Caller;
use endpoint::responses::PathName;
use endpoint::retention;
use endpoint::retention::RetainedEntry;
use endpoint::route::ApiRoute;
use endpoint::view_subscription::principal_key;
use futures_util::FutureExt as _;
use jiff::Timestamp;
use model::{CallFailure, CallStatus, ErrorCode, Outcome, RawJson, ToolId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use toolcrib::{
    AgentView, CallBuilder, CallUpdate, CallerIdentity, Clock as _, SystemClock, ViewedTool,
};

/// How long a result is kept.
const RESULT_RETENTION: Duration = Duration::from_secs(60 * 60);
/// Maximum duration of a call: slightly longer than a job is polled.
const MAX_CALL_DURATION: Duration = Duration::from_secs(61 * 60);

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("get_agent_call", "/api/agents/calls/{id}", get_call)
            .for_agents("agents", "Look at a call that goes on")
            .returns_json::<PendingCall>(),
        ApiRoute::delete("cancel_agent_call", "/api/agents/calls/{id}", cancel_call)
            .for_agents("agents", "Cancel a call that goes on, and forget it")
            .marked_as_tool_call()
            .returns_json::<PendingCall>(),
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
#[derive(Clone, Default)]
pub(crate) struct PendingCalls(Arc<Mutex<HashMap<String, Arc<BackgroundCall>>>>);

struct BackgroundCall {
    principal: Box<str>,
    /// The called tool; `None` if it belongs to no source.
    tool: Option<ToolId>,
    began: Timestamp,
    word: Mutex<Option<Box<str>>>,
    end: OnceLock<FinishedCall>,
    stop: Mutex<Option<AbortHandle>>,
}

struct FinishedCall {
    at: Timestamp,
    status: CallStatus,
    /// Stored as text: a parsed tree of small values needs forty times the memory.
    outcome: RawJson,
}

/// A call whose caller has no answer yet. Dropping it aborts the call.
pub(crate) struct UnansweredCall<'a> {
    calls: &'a PendingCalls,
    id: String,
    call: Arc<BackgroundCall>,
    /// The outcome, while it can still be the answer.
    ended: oneshot::Receiver<Outcome>,
    is_told: bool,
}

impl PendingCalls {
    /// The pending calls in the state of the server.
    pub(crate) fn of_app(app: &AppState) -> &Self {
        app.extensions.get().expect("the server registers its pending calls at startup")
    }

    fn lock_calls(&self) -> MutexGuard<'_, HashMap<String, Arc<BackgroundCall>>> {
        self.0.lock().expect("no one panics while holding the calls")
    }

    /// Starts a call that may outlive its request.
    pub(crate) fn start_call<'a>(
        &'a self,
        app: &AppState,
        principal: String,
        view: AgentView,
        tool: ViewedTool,
        arguments: Map<String, Value>,
    ) -> Result<UnansweredCall<'a>, Problem> {
        let began = SystemClock.now();
        let (id, word, end) = (toolcrib::random_id(), Mutex::default(), OnceLock::new());
        let principal = principal.into();
        let (called, stop) = (view.called_tool_id(&tool, &arguments), Mutex::default());
        let call = Arc::new(BackgroundCall { principal, tool: called, began, word, end, stop });
        {
            let mut all = self.lock_calls();
            check_call_limit(&all, &call.principal)?;
            evict_results(&mut all, began);
            all.insert(id.clone(), Arc::clone(&call));
        }
        let (working, calls) = (Arc::clone(&call), Self(Arc::clone(&self.0)));
        let (tell, ended) = oneshot::channel();
        let stop = app.spawn_cancellable(async move {
            let running = drive_call(&working, &view, &tool, arguments);
            let ended = timeout(MAX_CALL_DURATION, AssertUnwindSafe(running).catch_unwind()).await;
            // Every call must get an outcome, or it would never expire.
            let outcome = match ended {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => aborted_outcome(tool.reported_id(), "the tool failed inside"),
                Err(_) => aborted_outcome(tool.reported_id(), "the call took too long"),
            };
            working.store_outcome(&outcome);
            // Stored before it is sent: a caller that polls later finds it.
            drop(tell.send(outcome));
            evict_results(&mut calls.lock_calls(), SystemClock.now());
        });
        *call.stop.lock().expect("no one panics while holding it") = Some(stop);
        Ok(UnansweredCall { calls: self, id, call, ended, is_told: false })
    }

    /// The caller's own call, if the caller still has its tool.
    fn find_call(
        &self,
        app: &AppState,
        identity: &CallerIdentity,
        id: &str,
    ) -> Result<Arc<BackgroundCall>, Problem> {
        let (now, principal) = (SystemClock.now(), principal_key(identity));
        let found = self.lock_calls().get(id).filter(|call| !call.is_expired(now)).cloned();
        let found = found.filter(|call| *call.principal == *principal);
        let has = |tool: &ToolId| app.crib.view_for_identity(identity).may_read_result_of(tool);
        let found = found.filter(|call| call.tool.as_ref().is_none_or(has));
        found.ok_or_else(|| Problem::not_found("call", id))
    }
}

async fn drive_call(
    call: &BackgroundCall,
    view: &AgentView,
    tool: &ViewedTool,
    arguments: Map<String, Value>,
) -> Outcome {
    let (context, mut heard) = CallBuilder::default().with_progress().start_with_updates();
    let mut running = std::pin::pin!(view.call_for_outcome(tool, arguments, &context));
    loop {
        tokio::select! {
            biased;
            outcome = &mut running => return outcome,
            Some(said) = heard.recv() => if let CallUpdate::Progress(progress) = said {
                let word = progress.message.map(|said| retention::truncate_status(&said));
                *call.word.lock().expect("no one panics while holding it") = word;
            },
        }
    }
}

fn aborted_outcome(tool_id: ToolId, why: &str) -> Outcome {
    tracing::error!(tool = %tool_id, why, "a call of `{tool_id}` was broken off: {why}");
    Outcome {
        tool_id,
        status: CallStatus::Failed,
        result: None,
        content: Vec::new(),
        error: Some(CallFailure::new(ErrorCode::InternalError, why, false)),
        execution_time_ms: 0,
        upstream_status: None,
    }
}

impl BackgroundCall {
    fn store_outcome(&self, outcome: &Outcome) {
        let text = RawJson::serialize_value(outcome).expect("an outcome is JSON");
        self.end.get_or_init(|| FinishedCall {
            at: SystemClock.now(),
            status: outcome.status,
            outcome: text,
        });
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        self.end.get().is_some_and(|end| end.at + RESULT_RETENTION < now)
    }

    fn abort_call(&self) {
        let stop = self.stop.lock().expect("no one panics while holding it");
        stop.iter().for_each(AbortHandle::abort);
    }

    fn to_pending_call(&self, id: &str) -> PendingCall {
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

impl UnansweredCall<'_> {
    /// Waits for the outcome; if it arrives in time, the call is dropped instead of kept.
    pub(crate) async fn wait_for_outcome(&mut self, wait: Duration) -> Option<Outcome> {
        timeout(wait, &mut self.ended).await.ok()?.ok()
    }

    /// Answers 202 with the address of the call, which continues.
    pub(crate) fn into_accepted_response(mut self) -> Response {
        self.is_told = true;
        let address = format!("/api/agents/calls/{}", self.id);
        let address = HeaderValue::try_from(address).expect("an address of ours is ASCII");
        let headers = [(LOCATION, address), (RETRY_AFTER, HeaderValue::from_static("1"))];
        (StatusCode::ACCEPTED, headers, Json(self.call.to_pending_call(&self.id))).into_response()
    }
}

impl Drop for UnansweredCall<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.call.abort_call();
            self.calls.lock_calls().remove(&self.id);
        }
    }
}

/// Rejects a new call if too many are running, per caller or in all.
fn check_call_limit(
    all: &HashMap<String, Arc<BackgroundCall>>,
    principal: &str,
) -> Result<(), Problem> {
    if !retention::has_capacity_for(&retention_entries(all), principal) {
        let detail = "too many calls go on: wait for some to end, or cancel them";
        return Err(Problem::retry_after(ProblemCode::RateLimited, detail, 10));
    }
    Ok(())
}

/// Removes results that are expired, too many or too large.
fn evict_results(all: &mut HashMap<String, Arc<BackgroundCall>>, now: Timestamp) {
    all.retain(|_, call| !call.is_expired(now));
    for id in retention::select_evictions(retention_entries(all)) {
        all.remove(&id);
    }
}

fn retention_entries(all: &HashMap<String, Arc<BackgroundCall>>) -> Vec<RetainedEntry> {
    let kept = all.iter().map(|(id, call)| {
        let end = call.end.get();
        let bytes = end.map_or(0, |end| end.outcome.as_str().len());
        let (id, principal) = (id.clone(), call.principal.clone());
        RetainedEntry { id, principal, bytes, end: end.map(|end| end.at) }
    });
    kept.collect()
}

async fn get_call(
    Caller(identity): Caller,
    State(app): State<AppState>,
    PathName(id): PathName,
) -> Result<Json<PendingCall>, Problem> {
    Ok(Json(PendingCalls::of_app(&app).find_call(&app, &identity, &id)?.to_pending_call(&id)))
}

async fn cancel_call(
    Caller(identity): Caller,
    State(app): State<AppState>,
    PathName(id): PathName,
) -> Result<Json<PendingCall>, Problem> {
    let call = PendingCalls::of_app(&app).find_call(&app, &identity, &id)?;
    call.abort_call();
    PendingCalls::of_app(&app).lock_calls().remove(&id);
    let mut described = call.to_pending_call(&id);
    if described.state == CallState::Working {
        described.state = CallState::Cancelled;
    }
    Ok(Json(described))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(principal: &str, at: i64, bytes: usize) -> Arc<BackgroundCall> {
        let at = Timestamp::from_second(at).unwrap();
        let (word, stop) = (Mutex::default(), Mutex::default());
        let outcome = RawJson::serialize_value(&"x".repeat(bytes)).unwrap();
        let end = OnceLock::from(FinishedCall { at, status: CallStatus::Completed, outcome });
        Arc::new(BackgroundCall {
            principal: principal.into(),
            tool: None,
            began: at,
            word,
            end,
            stop,
        })
    }

    fn left(calls: &[Arc<BackgroundCall>]) -> Vec<usize> {
        let named =
            |(index, call): (usize, &Arc<BackgroundCall>)| (index.to_string(), Arc::clone(call));
        let mut all: HashMap<_, _> = calls.iter().enumerate().map(named).collect();
        evict_results(&mut all, Timestamp::from_second(10_000).unwrap());
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
        let call =
            BackgroundCall { end: OnceLock::new(), ..Arc::into_inner(ended("ada", 0, 1)).unwrap() };
        let outcome = json!({"tool_id": "s:a", "status": "completed", "result": vec![0; 100_000],
            "error": null, "execution_time_ms": 1, "upstream_status": null});
        call.store_outcome(&serde_json::from_value(outcome.clone()).unwrap());
        let described = json!(call.to_pending_call("x"));
        assert_eq!((&described["state"], &described["outcome"]), (&json!("completed"), &outcome));
        let kept = retention_entries(&HashMap::from([("x".to_owned(), Arc::new(call))]));
        assert_eq!(kept[0].bytes, outcome.to_string().len());
    }
}
