//! A request to an MCP server on behalf of a caller. Messages and questions of the server go only to that caller,
//! whichever eras the two of them speak.
//!
//! A server asks in one of two ways: during the request, and waits (older versions); or by ending the request with its
//! questions, to be repeated with the answers (2026-07-28). A caller answers in one of the same two ways. Where both
//! wait, the answer is passed on. Where only the server ends the request, we repeat it. Where only the caller returns
//! later, the request stays open and is parked until then.

mod bridge_failure;
mod running_request;

use std::sync::Arc;
use std::time::Duration;

use json::json_size::exceeds_size;
use mcp_client::{McpAnswer, McpError, RpcError};
use model::{Agent, CallFailure, DisplayName, ErrorCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;

pub use self::bridge_failure::{BridgeFailure, RetryAdvice};
pub use self::running_request::trace_headers;
use provider::{CallContext, CallerCapability, InputError, InputRequest};

use self::running_request::{RunningRequest, RunningStep, parse_question};
use super::UpstreamConnection;
use crate::parking_lot::ParkingLot;
use crate::principal::{principal_hash, principal_key};
use crate::source_gates::{CallPermit, SourceVerdict};
use crate::state_cipher::random_id;

/// The default time limit of a request.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(120);
/// The most bytes to pass on of an error's message, and of its other data as JSON.
const MAX_ERROR_MESSAGE: usize = 4 << 10;
const MAX_ERROR_DATA: usize = 16 << 10;
/// The most parked requests of one caller: each may hold a connection or a program.
const MAX_PARKED_PER_CALLER: usize = 4;
/// How often a server may end one request with questions while the caller waits.
const MAX_ROUNDS: usize = 20;

/// The outcome of a request.
pub enum BridgeOutcome {
    /// The server's result.
    Result(Map<String, Value>),
    /// The server's error.
    Error(RpcError),
    /// The caller must answer questions and return; the call context holds the state for that.
    NeedsAnswers,
    /// The caller lacks an ability that the server needs.
    Unable(CallerCapability),
    Failed(BridgeFailure),
}

impl BridgeOutcome {
    /// The verdict on the server.
    pub fn verdict(&self) -> SourceVerdict {
        match self {
            Self::Failed(failed) => failed.verdict,
            Self::Result(_) | Self::Error(_) | Self::NeedsAnswers | Self::Unable(_) => {
                SourceVerdict::Works
            }
        }
    }

    pub fn failure(&self) -> Option<&CallFailure> {
        match self {
            Self::Failed(failed) => Some(&failed.failure),
            Self::Result(_) | Self::Error(_) | Self::NeedsAnswers | Self::Unable(_) => None,
        }
    }
}

impl From<BridgeFailure> for BridgeOutcome {
    fn from(failed: BridgeFailure) -> Self {
        Self::Failed(failed)
    }
}

/// A failure that is not the server's fault, as far as is known.
impl From<CallFailure> for BridgeOutcome {
    fn from(failure: CallFailure) -> Self {
        Self::Failed(failure.into())
    }
}

/// A request to a server.
#[derive(Clone)]
pub struct BridgeRequest {
    pub params: Map<String, Value>,
    pub target: RequestTarget,
    /// Whether the request is idempotent.
    pub is_idempotent: bool,
    /// The audience of the token, if it differs from the source's.
    pub audience: Option<DisplayName>,
    /// When the caller stops waiting, if that is sooner than usual.
    pub caller_deadline: Option<Instant>,
    /// The request's own deadline. Time that people take to answer is added to it.
    pub own_deadline: Option<Instant>,
}

impl BridgeRequest {
    /// A request other than a tool call.
    pub fn for_method(params: Map<String, Value>, method: &'static str) -> Self {
        let what = RequestTarget::Other(method);
        Self {
            params,
            target: what,
            is_idempotent: false,
            audience: None,
            caller_deadline: None,
            own_deadline: None,
        }
    }
}

/// The requested operation of a server.
#[derive(Clone)]
pub enum RequestTarget {
    /// A tool call. The schema says which arguments are repeated in headers.
    Tool { schema: Arc<Value>, must_be_a_task: bool },
    /// Another operation, by its method.
    Other(&'static str),
}

impl RequestTarget {
    fn method(&self) -> &'static str {
        match self {
            Self::Tool { .. } => "tools/call",
            Self::Other(method) => method,
        }
    }
}

/// The state that a call keeps until its caller returns.
#[derive(Serialize, Deserialize)]
enum ContinuationState {
    /// The request is open and parked on this node.
    Parked(Box<str>),
    /// The server has ended it with these questions, in this round, and needs `state` back.
    Asked { round: usize, keys: Vec<Box<str>>, state: Option<Value> },
}

/// Requests that wait for their callers to return.
pub struct ParkedRequests(ParkingLot<ParkedRequest>);

pub struct ParkedRequest {
    method: &'static str,
    running: RunningRequest,
}

impl ParkedRequests {
    pub(crate) fn new() -> Self {
        Self(ParkingLot::new(MAX_PARKED_PER_CALLER))
    }

    fn park_request(&self, agent: &Agent, parked: ParkedRequest) -> Box<str> {
        let id: Box<str> = random_id().into();
        self.0.park(id.clone(), principal_key(agent), parked);
        id
    }

    /// The parked request that a caller returns for, if there is one; it needs no other connection.
    pub fn take_parked(
        &self,
        agent: &Agent,
        wanted: &BridgeRequest,
        call: &CallContext,
    ) -> Option<Result<ParkedRequest, BridgeOutcome>> {
        let Some(ContinuationState::Parked(id)) = continuation_state(call) else { return None };
        let method = wanted.target.method();
        let parked = self.0.take_parked(&id, &principal_key(agent), |it| it.method == method);
        Some(parked.ok_or_else(|| request_gone_failure().into()))
    }
}

fn continuation_state(call: &CallContext) -> Option<ContinuationState> {
    call.upstream_state().and_then(|text| serde_json::from_str(text).ok())
}

/// How a request starts.
pub enum RequestStart {
    /// On a connection.
    Connected(Box<UpstreamConnection>),
    /// From a parked request.
    Resumed(Box<ParkedRequest>),
}

/// Makes a request for a caller, and repeats it with answers as often as the server asks.
pub async fn bridge_request(
    parked: &ParkedRequests,
    begun: RequestStart,
    agent: &Agent,
    wanted: BridgeRequest,
    call: &CallContext,
    stay: &mut CallPermit<'_>,
) -> BridgeOutcome {
    let (method, memory) = (wanted.target.method(), continuation_state(call));
    let is_new = memory.is_none();
    let (upstream, waited) = match begun {
        RequestStart::Connected(upstream) => (Arc::from(upstream), None),
        RequestStart::Resumed(parked) => {
            (Arc::clone(&parked.running.upstream), Some(parked.running))
        }
    };
    let mut due = wanted.own_deadline;
    let begin = |again, due| {
        RunningRequest::begin_request(&upstream, (&wanted, due), again, call, principal_hash(agent))
    };
    let (mut rounds, is_parked) = (0, waited.is_some());
    let mut running = match (waited, memory) {
        (Some(running), _) => running,
        (None, None) => begin(None, due),
        (None, Some(ContinuationState::Asked { round, keys, state })) => {
            rounds = round;
            let answers = keys.iter().filter_map(|key| {
                Some((key.to_string(), call.answer_for(&question_key(key, round))?.clone()))
            });
            begin(Some(repeat_parameters(answers.collect(), state)), due)
        }
        (None, Some(ContinuationState::Parked(_))) => return request_gone_failure().into(),
    };
    for round in rounds + 1..=rounds + MAX_ROUNDS {
        let answer = match running.next_step(call, stay).await {
            RunningStep::Answered(Ok(answer)) => answer,
            RunningStep::Answered(Err(error @ McpError::Unauthorized { status: 401, .. }))
                if round == rounds + 1 && !is_parked && !running.has_begun() =>
            {
                return BridgeFailure {
                    retry: RetryAdvice::WithNewToken,
                    ..BridgeFailure::from_mcp_error(&error)
                }
                .into();
            }
            RunningStep::Answered(Err(error)) => {
                let has_begun = !is_new || 1 < round || running.has_begun();
                let failed = BridgeFailure::from_mcp_error(&error);
                if !has_begun {
                    return failed.into();
                }
                // Retrying could ask people the same question again, or do something twice.
                let failure = CallFailure { retryable: false, retry_after: None, ..failed.failure };
                return BridgeFailure { failure, retry: RetryAdvice::Never, ..failed }.into();
            }
            RunningStep::CallerMustReturn => {
                let running = running.detach();
                let id = parked.park_request(agent, ParkedRequest { method, running });
                return ask_and_return(call, &ContinuationState::Parked(id));
            }
            RunningStep::TooLong(failure) => return failure.into(),
        };
        let mut result = match answer {
            McpAnswer::Error(mut error) => {
                running.mask.mask_fields(&mut error.raw);
                truncate_error(&mut error.raw);
                return BridgeOutcome::Error(error);
            }
            McpAnswer::Result(result) => result,
        };
        if result.get("resultType").is_none_or(|kind| kind != "input_required") {
            running.mask.mask_fields(&mut result);
            return BridgeOutcome::Result(result);
        }
        // It returns to the server unchanged; the caller carries it encrypted.
        let state = result.shift_remove("requestState");
        running.mask.mask_fields(&mut result);
        let Some(questions) = parse_questions(result, upstream.may_see_roots()) else {
            return BridgeFailure::server_fault(unusable_answer_failure(
                "it asks for something that is not known",
            ))
            .into();
        };
        let keys: Vec<Box<str>> = questions.iter().map(|(key, _)| key.clone()).collect();
        let questions = questions.into_iter();
        let questions = questions.map(|(key, question)| (question_key(&key, round), question));
        let questions: Vec<_> = questions.collect();
        let reaches = |(_, question): &(_, InputRequest)| call.input_error(question).is_none();
        let is_waited_for = call.waits_for_answers() && !questions.is_empty();
        if is_waited_for
            && questions.iter().all(reaches)
            && let Err(failure) = stay.release()
        {
            return upstream_failure(failure.message, false).into();
        }
        let (asked_at, is_anybody_asked) = (Instant::now(), !questions.is_empty());
        match call.ask_all(questions).await {
            Ok(answers) => {
                // Waiting for a permit counts as part of asking.
                stay.reacquire().await;
                let by_people = if is_anybody_asked { asked_at.elapsed() } else { Duration::ZERO };
                due = due.map(|due| due + by_people + running.pauses.total_paused());
                let answers = keys.iter().map(ToString::to_string).zip(answers).collect();
                running = begin(Some(repeat_parameters(answers, state)), due);
            }
            Err(InputError::Pending) => {
                return ask_and_return(call, &ContinuationState::Asked { round, keys, state });
            }
            Err(InputError::Unsupported(ability)) => return BridgeOutcome::Unable(ability),
            Err(InputError::Refused(why)) => return upstream_failure(why, false).into(),
        }
    }
    BridgeFailure::server_fault(unusable_answer_failure("it asks again and again")).into()
}

/// Limits the size of an error: the size limit of results does not apply to errors.
fn truncate_error(error: &mut Map<String, Value>) {
    if let Some(Value::String(message)) = error.get_mut("message")
        && MAX_ERROR_MESSAGE < message.len()
    {
        message.truncate(message.floor_char_boundary(MAX_ERROR_MESSAGE));
        message.push('…');
    }
    if error.get("data").is_some_and(|data| exceeds_size(data, MAX_ERROR_DATA)) {
        error.shift_remove("data");
    }
}

/// The remaining time, rounded up to tenths of a second: it is shown to people, and 30 s reads better than 29.999987 s.
pub fn remaining_until(until: Instant) -> Duration {
    let left = until.saturating_duration_since(Instant::now());
    let tenths = left.as_millis().div_ceil(100).max(1);
    Duration::from_millis(u64::try_from(tenths * 100).unwrap_or(u64::MAX))
}

/// A key is unique only within its round, so the round is part of the question's key.
fn question_key(key: &str, round: usize) -> Box<str> {
    format!("{round}-{key}").into()
}

fn ask_and_return(call: &CallContext, memory: &ContinuationState) -> BridgeOutcome {
    call.save_upstream_state(serde_json::to_string(memory).expect("a memory is JSON"));
    BridgeOutcome::NeedsAnswers
}

/// The parameters to add to a repeated request.
fn repeat_parameters(answers: Map<String, Value>, state: Option<Value>) -> Map<String, Value> {
    let mut again = Map::from_iter([("inputResponses".to_owned(), Value::Object(answers))]);
    again.extend(state.map(|state| ("requestState".to_owned(), state)));
    again
}

/// The questions that a request ended with; `None` if one of them is of an unknown kind.
fn parse_questions(
    mut result: Map<String, Value>,
    roots: bool,
) -> Option<Vec<(Box<str>, InputRequest)>> {
    let Some(Value::Object(asked)) = result.shift_remove("inputRequests") else {
        // Only a state to return.
        return Some(Vec::new());
    };
    let questions = asked.into_iter().map(|(key, asked)| {
        let method = asked.get("method")?.as_str()?.to_owned();
        let params = asked.get("params").and_then(Value::as_object).cloned();
        Some((key.into(), parse_question(&method, params.unwrap_or_default(), roots)?))
    });
    questions.collect()
}

fn request_gone_failure() -> CallFailure {
    let why = "the request that asked is gone: it was too long ago, or on another node; call again";
    upstream_failure(why.to_owned(), true)
}

fn unusable_answer_failure(why: &str) -> CallFailure {
    upstream_failure(format!("the server's answer cannot be used: {why}"), false)
}

fn upstream_failure(message: String, retryable: bool) -> CallFailure {
    CallFailure::new(ErrorCode::UpstreamError, message, retryable)
}
