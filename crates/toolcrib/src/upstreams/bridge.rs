//! A request to an MCP server on behalf of a caller. Messages and questions of the server go only to that caller,
//! whichever eras the two of them speak.
//!
//! A server asks in one of two ways: during the request, and waits (older versions); or by ending the request with its
//! questions, to be repeated with the answers (2026-07-28). A caller answers in one of the same two ways. Where both
//! wait, the answer is passed on. Where only the server ends the request, we repeat it. Where only the caller returns
//! later, the request stays open and is parked until then.

mod failed;
mod running;

use std::sync::Arc;
use std::time::Duration;

use model::json_size::is_longer;
use model::{Agent, ErrorCode, Failure, Name};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;
use upstream::mcp::{Answer, McpError, RpcError};

pub(crate) use self::failed::{Failed, Retry};
pub(crate) use self::running::trace_headers;
use self::running::{Next, Running, question};
use super::parking::Parking;
use super::{Upstream, number, whose};
use crate::call::{Ability, CallContext, NoAnswer, Question};
use crate::gates::{Stay, Verdict};
use crate::seal::random;

/// The default time limit of a request.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
/// The most bytes to pass on of an error's message, and of its other data as JSON.
const ERROR_MESSAGE: usize = 4 << 10;
const ERROR_DATA: usize = 16 << 10;
/// The most parked requests of one caller: each may hold a connection or a program.
const PARKED_OF_ONE: usize = 4;
/// How often a server may end one request with questions while the caller waits.
const ROUNDS: usize = 20;

/// The outcome of a request.
pub(crate) enum Bridged {
    /// The server's result.
    Result(Map<String, Value>),
    /// The server's error.
    Error(RpcError),
    /// The caller must answer questions and return; the call context holds the state for that.
    Asks,
    /// The caller lacks an ability that the server needs.
    Unable(Ability),
    Failed(Failed),
}

impl Bridged {
    /// The verdict on the server.
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Failed(failed) => failed.verdict,
            Self::Result(_) | Self::Error(_) | Self::Asks | Self::Unable(_) => Verdict::Works,
        }
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failed) => Some(&failed.failure),
            Self::Result(_) | Self::Error(_) | Self::Asks | Self::Unable(_) => None,
        }
    }
}

impl From<Failed> for Bridged {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

/// A failure that is not the server's fault, as far as is known.
impl From<Failure> for Bridged {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.into())
    }
}

/// A request to a server.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) params: Map<String, Value>,
    pub(crate) what: Asking,
    /// Whether the request is idempotent.
    pub(crate) is_repeatable: bool,
    /// The audience of the token, if it differs from the source's.
    pub(crate) audience: Option<Name>,
    /// When the caller stops waiting, if that is sooner than usual.
    pub(crate) until: Option<Instant>,
    /// The request's own deadline. Time that people take to answer is added to it.
    pub(crate) due: Option<Instant>,
}

impl Wanted {
    /// A request other than a tool call.
    pub(crate) fn other(params: Map<String, Value>, method: &'static str) -> Self {
        let what = Asking::Other(method);
        Self { params, what, is_repeatable: false, audience: None, until: None, due: None }
    }
}

/// The requested operation of a server.
#[derive(Clone)]
pub(crate) enum Asking {
    /// A tool call. The schema says which arguments are repeated in headers.
    Tool { schema: Arc<Value>, must_be_a_task: bool },
    /// Another operation, by its method.
    Other(&'static str),
}

impl Asking {
    fn method(&self) -> &'static str {
        match self {
            Self::Tool { .. } => "tools/call",
            Self::Other(method) => method,
        }
    }
}

/// The state that a call keeps until its caller returns.
#[derive(Serialize, Deserialize)]
enum Memory {
    /// The request is open and parked on this node.
    Parked(Box<str>),
    /// The server has ended it with these questions, in this round, and needs `state` back.
    Asked { round: usize, keys: Vec<Box<str>>, state: Option<Value> },
}

/// Requests that wait for their callers to return.
pub(crate) struct ParkedRequests(Parking<Parked>);

pub(crate) struct Parked {
    method: &'static str,
    running: Running,
}

impl ParkedRequests {
    pub(crate) fn new() -> Self {
        Self(Parking::new(PARKED_OF_ONE))
    }

    fn put(&self, agent: &Agent, parked: Parked) -> Box<str> {
        let id: Box<str> = random().into();
        self.0.put(id.clone(), whose(agent), parked);
        id
    }

    /// The parked request that a caller returns for, if there is one; it needs no other connection.
    pub(crate) fn take(
        &self,
        agent: &Agent,
        wanted: &Wanted,
        call: &CallContext,
    ) -> Option<Result<Parked, Bridged>> {
        let Some(Memory::Parked(id)) = memory(call) else { return None };
        let method = wanted.what.method();
        let parked = self.0.take(&id, &whose(agent), |it| it.method == method);
        Some(parked.ok_or_else(|| gone().into()))
    }
}

fn memory(call: &CallContext) -> Option<Memory> {
    call.remembered().and_then(|text| serde_json::from_str(text).ok())
}

/// How a request starts.
pub(crate) enum Begun {
    /// On a connection.
    With(Box<Upstream>),
    /// From a parked request.
    Before(Box<Parked>),
}

/// Makes a request for a caller, and repeats it with answers as often as the server asks.
pub(crate) async fn bridge(
    parked: &ParkedRequests,
    begun: Begun,
    agent: &Agent,
    wanted: Wanted,
    call: &CallContext,
    stay: &mut Stay<'_>,
) -> Bridged {
    let (method, memory) = (wanted.what.method(), memory(call));
    let is_new = memory.is_none();
    let (upstream, waited) = match begun {
        Begun::With(upstream) => (Arc::from(upstream), None),
        Begun::Before(parked) => (Arc::clone(&parked.running.upstream), Some(parked.running)),
    };
    let mut due = wanted.due;
    let begin = |again, due| Running::begin(&upstream, (&wanted, due), again, call, number(agent));
    let (mut rounds, is_parked) = (0, waited.is_some());
    let mut running = match (waited, memory) {
        (Some(running), _) => running,
        (None, None) => begin(None, due),
        (None, Some(Memory::Asked { round, keys, state })) => {
            rounds = round;
            let answers = keys.iter().filter_map(|key| {
                Some((key.to_string(), call.answer(&asked_as(key, round))?.clone()))
            });
            begin(Some(again(answers.collect(), state)), due)
        }
        (None, Some(Memory::Parked(_))) => return gone().into(),
    };
    for round in rounds + 1..=rounds + ROUNDS {
        let answer = match running.next(call, stay).await {
            Next::Answered(Ok(answer)) => answer,
            Next::Answered(Err(error @ McpError::Unauthorized { status: 401, .. }))
                if round == rounds + 1 && !is_parked && !running.has_begun() =>
            {
                return Failed { retry: Retry::WithAnotherToken, ..Failed::after(&error) }.into();
            }
            Next::Answered(Err(error)) => {
                let has_begun = !is_new || 1 < round || running.has_begun();
                let failed = Failed::after(&error);
                if !has_begun {
                    return failed.into();
                }
                // Retrying could ask people the same question again, or do something twice.
                let failure = Failure { retryable: false, retry_after: None, ..failed.failure };
                return Failed { failure, retry: Retry::InVain, ..failed }.into();
            }
            Next::Later => {
                let running = running.aside();
                let id = parked.put(agent, Parked { method, running });
                return asks(call, &Memory::Parked(id));
            }
            Next::TooLong(failure) => return failure.into(),
        };
        let mut result = match answer {
            Answer::Error(mut error) => {
                running.mask.members(&mut error.raw);
                cut(&mut error.raw);
                return Bridged::Error(error);
            }
            Answer::Result(result) => result,
        };
        if result.get("resultType").is_none_or(|kind| kind != "input_required") {
            running.mask.members(&mut result);
            return Bridged::Result(result);
        }
        // It returns to the server unchanged; the caller carries it encrypted.
        let state = result.shift_remove("requestState");
        running.mask.members(&mut result);
        let Some(questions) = questions(result, upstream.may_see_roots()) else {
            return Failed::broken(unreadable("it asks for something that is not known")).into();
        };
        let keys: Vec<Box<str>> = questions.iter().map(|(key, _)| key.clone()).collect();
        let questions = questions.into_iter();
        let questions = questions.map(|(key, question)| (asked_as(&key, round), question));
        let questions: Vec<_> = questions.collect();
        let reaches = |(_, question): &(_, Question)| call.cannot_ask(question).is_none();
        let is_waited_for = call.waits_for_answers() && !questions.is_empty();
        if is_waited_for
            && questions.iter().all(reaches)
            && let Err(failure) = stay.step_aside()
        {
            return of_upstream(failure.message, false).into();
        }
        let (asked_at, is_anybody_asked) = (Instant::now(), !questions.is_empty());
        match call.ask_all(questions).await {
            Ok(answers) => {
                // Waiting for a permit counts as part of asking.
                stay.come_back().await;
                let by_people = if is_anybody_asked { asked_at.elapsed() } else { Duration::ZERO };
                due = due.map(|due| due + by_people + running.pauses.taken());
                let answers = keys.iter().map(ToString::to_string).zip(answers).collect();
                running = begin(Some(again(answers, state)), due);
            }
            Err(NoAnswer::Later) => return asks(call, &Memory::Asked { round, keys, state }),
            Err(NoAnswer::Unable(ability)) => return Bridged::Unable(ability),
            Err(NoAnswer::Refused(why)) => return of_upstream(why, false).into(),
        }
    }
    Failed::broken(unreadable("it asks again and again")).into()
}

/// Limits the size of an error: the size limit of results does not apply to errors.
fn cut(error: &mut Map<String, Value>) {
    if let Some(Value::String(message)) = error.get_mut("message")
        && ERROR_MESSAGE < message.len()
    {
        message.truncate(message.floor_char_boundary(ERROR_MESSAGE));
        message.push('…');
    }
    if error.get("data").is_some_and(|data| is_longer(data, ERROR_DATA)) {
        error.shift_remove("data");
    }
}

/// The remaining time, rounded up to tenths of a second: it is shown to people, and 30 s reads better than 29.999987 s.
pub(crate) fn left_until(until: Instant) -> Duration {
    let left = until.saturating_duration_since(Instant::now());
    let tenths = left.as_millis().div_ceil(100).max(1);
    Duration::from_millis(u64::try_from(tenths * 100).unwrap_or(u64::MAX))
}

/// A key is unique only within its round, so the round is part of the question's key.
fn asked_as(key: &str, round: usize) -> Box<str> {
    format!("{round}-{key}").into()
}

fn asks(call: &CallContext, memory: &Memory) -> Bridged {
    call.remember(serde_json::to_string(memory).expect("a memory is JSON"));
    Bridged::Asks
}

/// The parameters to add to a repeated request.
fn again(answers: Map<String, Value>, state: Option<Value>) -> Map<String, Value> {
    let mut again = Map::from_iter([("inputResponses".to_owned(), Value::Object(answers))]);
    again.extend(state.map(|state| ("requestState".to_owned(), state)));
    again
}

/// The questions that a request ended with; `None` if one of them is of an unknown kind.
fn questions(mut result: Map<String, Value>, roots: bool) -> Option<Vec<(Box<str>, Question)>> {
    let Some(Value::Object(asked)) = result.shift_remove("inputRequests") else {
        // Only a state to return.
        return Some(Vec::new());
    };
    let questions = asked.into_iter().map(|(key, asked)| {
        let method = asked.get("method")?.as_str()?.to_owned();
        let params = asked.get("params").and_then(Value::as_object).cloned();
        Some((key.into(), question(&method, params.unwrap_or_default(), roots)?))
    });
    questions.collect()
}

fn gone() -> Failure {
    let why = "the request that asked is gone: it was too long ago, or on another node; call again";
    of_upstream(why.to_owned(), true)
}

fn unreadable(why: &str) -> Failure {
    of_upstream(format!("the server's answer cannot be used: {why}"), false)
}

fn of_upstream(message: String, retryable: bool) -> Failure {
    Failure::new(ErrorCode::UpstreamError, message, retryable)
}
