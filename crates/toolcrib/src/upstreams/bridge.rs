//! A request to an MCP server on behalf of a caller. What the server says and asks on the way goes to that caller and to
//! nobody else, whichever eras the two of them speak.
//!
//! A server asks in one of two ways: on the way, and waits (older versions); or by ending the request with its questions,
//! to be made again with the answers (2026-07-28). A caller answers in one of the same two ways. Where both wait, the
//! answer is handed on. Where only the server ends the request, we make it again. Where only the caller comes again, the
//! request stays open and is parked until then.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use execution::Mask;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use model::json_size::is_longer;
use model::{Agent, ErrorCode, Failure, Name, TraceContext};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use upstream::http::HttpError;
use upstream::mcp::{Answer, AsTask, Call, Heard, McpError, Pauses, Reply, RpcError};

use super::parking::Parking;
use super::{Upstream, number, whose};
use crate::call::{Abilities, Ability, CallContext, Level, NoAnswer, Progress, Question};
use crate::gates::{Stay, Verdict};
use crate::seal::random;

/// How long a server may take, and how long with the time in which somebody is asked on the way.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
const WITH_QUESTIONS: Duration = Duration::from_secs(15 * 60);
/// The same for a task of the server whose caller has a task of ours.
const AS_TASK: Duration = Duration::from_secs(60 * 60);
/// How much may be said that nobody has taken yet.
const UNHEARD: usize = 64;
/// What is passed on of the message of an error, in bytes, and how long what it has beside that may be as JSON.
const ERROR_MESSAGE: usize = 4 << 10;
const ERROR_DATA: usize = 16 << 10;
/// How many requests of one caller wait for it to come again: each may hold a connection or a program.
const PARKED_OF_ONE: usize = 4;
/// How often a server may end one request with questions while the caller waits.
const ROUNDS: usize = 20;

/// What came of a request.
pub(crate) enum Bridged {
    /// As it came.
    Result(Map<String, Value>),
    /// As it came.
    Error(RpcError),
    /// The caller is to answer and come again; what there is to remember, the call remembers.
    Asks,
    /// The caller cannot do what the server needs.
    Unable(Ability),
    Failed(Failure),
    /// The same, but the server has answered: it may work for others.
    Denied(Failure),
    /// The same: the server did not take the credential and has done nothing.
    Refused(Failure),
    /// The same, and the server is at fault: it may not work for others either.
    Broken(Failure),
    /// The same, and it has not answered: asked again, it may.
    Lost(Failure),
    /// The same, but for the fault: it has too much to do, and says when it may be asked again.
    Later(Failure),
}

impl Bridged {
    /// Why a server gave no answer, and what that says about it.
    pub(crate) fn after(error: &McpError) -> Self {
        match (verdict(error), failure(error)) {
            (Verdict::Fails, failure) if is_lost(error) => Self::Lost(failure),
            (Verdict::Fails, failure) => Self::Broken(failure),
            (_, failure) if is_put_off(error) => Self::Later(failure),
            (Verdict::Works | Verdict::Answers, failure) => Self::Denied(failure),
            (Verdict::Nothing, failure) => Self::Failed(failure),
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Broken(_) | Self::Lost(_) => Verdict::Fails,
            Self::Denied(_) | Self::Refused(_) | Self::Later(_) => Verdict::Answers,
            Self::Failed(_) => Verdict::Nothing,
            Self::Result(_) | Self::Error(_) | Self::Asks | Self::Unable(_) => Verdict::Works,
        }
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Broken(failure)
            | Self::Lost(failure)
            | Self::Later(failure)
            | Self::Failed(failure)
            | Self::Denied(failure)
            | Self::Refused(failure) => Some(failure),
            Self::Result(_) | Self::Error(_) | Self::Asks | Self::Unable(_) => None,
        }
    }
}

/// A request to a server.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) params: Map<String, Value>,
    pub(crate) what: Asking,
    /// Whether asking twice has the effect of asking once.
    pub(crate) is_repeatable: bool,
    /// For whom the token is that it is asked with, if it is another than the source says.
    pub(crate) audience: Option<Name>,
    /// When nobody waits for it any more, if that is sooner than usual.
    pub(crate) until: Option<Instant>,
    /// When its own time is over. What people take to answer comes on top.
    pub(crate) due: Option<Instant>,
}

impl Wanted {
    /// Something else than a tool.
    pub(crate) fn other(params: Map<String, Value>, method: &'static str) -> Self {
        let what = Asking::Other(method);
        Self { params, what, is_repeatable: false, audience: None, until: None, due: None }
    }
}

/// What a server is asked for.
#[derive(Clone)]
pub(crate) enum Asking {
    /// A tool. Its schema says which arguments are repeated in headers.
    Tool { schema: Arc<Value>, must_be_a_task: bool },
    /// Something else, by its method.
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

/// What a call remembers until its caller comes again.
#[derive(Serialize, Deserialize)]
enum Memory {
    /// The request is open and waits on this node.
    Parked(Box<str>),
    /// The server ended it with these questions, for so many times by now, and wants this back.
    Asked { round: usize, keys: Vec<Box<str>>, state: Option<Value> },
}

/// Requests that wait for their callers to come again.
pub(crate) struct ParkedRequests(Parking<Parked>);

pub(crate) struct Parked {
    method: &'static str,
    running: Running,
}

/// A request under way.
struct Running {
    answer: Coming,
    heard: mpsc::Receiver<Heard>,
    /// How many questions there were.
    asked: usize,
    /// Those that wait for the caller to come again.
    waiting: Vec<Asked>,
    /// The server's time stands still while somebody is asked.
    pauses: Pauses,
    /// Whether it goes on as a task of the server.
    is_task: bool,
    /// It is open for as long as somebody keeps it.
    upstream: Arc<Upstream>,
    /// What the server must not repeat: with what it was asked.
    mask: Mask,
}

enum Coming {
    /// While somebody waits.
    Here(Pin<Box<dyn Future<Output = Result<Answer, McpError>> + Send>>),
    /// While nobody does.
    Aside(Aside),
}

/// Goes on by itself, until it is dropped.
struct Aside(JoinHandle<Result<Answer, McpError>>);

struct Asked {
    key: Box<str>,
    question: Question,
    reply: oneshot::Sender<Reply>,
}

enum Next {
    Answered(Result<Answer, McpError>),
    /// The caller answers when it comes again.
    Later,
    /// It goes on for longer than it may.
    TooLong(Failure),
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

    /// The request that a caller comes again for, if that is what it comes for: it is open, and wants no other connection.
    pub(crate) fn take(
        &self,
        agent: &Agent,
        wanted: &Wanted,
        call: &CallContext,
    ) -> Option<Result<Parked, Bridged>> {
        let Some(Memory::Parked(id)) = memory(call) else { return None };
        let method = wanted.what.method();
        let parked = self.0.take(&id, &whose(agent), |it| it.method == method);
        Some(parked.ok_or_else(|| Bridged::Failed(gone())))
    }
}

fn memory(call: &CallContext) -> Option<Memory> {
    call.remembered().and_then(|text| serde_json::from_str(text).ok())
}

/// How a request begins.
pub(crate) enum Begun {
    /// It has a connection.
    With(Box<Upstream>),
    /// It waited for its caller.
    Before(Box<Parked>),
}

/// Makes a request for a caller, as often as it takes.
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
        (None, Some(Memory::Parked(_))) => return Bridged::Failed(gone()),
    };
    for round in rounds + 1..=rounds + ROUNDS {
        let answer = match running.next(call, stay).await {
            Next::Answered(Ok(answer)) => answer,
            Next::Answered(Err(error @ McpError::Unauthorized { status: 401, .. }))
                if round == rounds + 1 && !is_parked && !running.has_begun() =>
            {
                return Bridged::Refused(failure(&error));
            }
            Next::Answered(Err(error)) => {
                let has_begun = !is_new || 1 < round || running.has_begun();
                let in_vain = |failure| Failure { retryable: false, retry_after: None, ..failure };
                // Nobody is asked the same again, and nothing is done twice.
                return match Bridged::after(&error) {
                    failed if !has_begun => failed,
                    Bridged::Lost(failure) | Bridged::Broken(failure) => {
                        Bridged::Broken(in_vain(failure))
                    }
                    Bridged::Later(failure) | Bridged::Denied(failure) => {
                        Bridged::Denied(in_vain(failure))
                    }
                    Bridged::Failed(failure) => Bridged::Failed(in_vain(failure)),
                    failed => failed,
                };
            }
            Next::Later => {
                let running = running.aside();
                let id = parked.put(agent, Parked { method, running });
                return asks(call, &Memory::Parked(id));
            }
            Next::TooLong(failure) => return Bridged::Failed(failure),
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
        // It goes back to the server as it came, sealed for whoever carries it.
        let state = result.shift_remove("requestState");
        running.mask.members(&mut result);
        let Some(questions) = questions(result, upstream.may_see_roots()) else {
            return Bridged::Broken(unreadable("it asks for something that is not known"));
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
            return Bridged::Failed(of_upstream(failure.message, false));
        }
        let (asked_at, is_anybody_asked) = (Instant::now(), !questions.is_empty());
        match call.ask_all(questions).await {
            Ok(answers) => {
                // To wait for a place again is part of having asked.
                stay.come_back().await;
                let by_people = if is_anybody_asked { asked_at.elapsed() } else { Duration::ZERO };
                due = due.map(|due| due + by_people + running.pauses.taken());
                let answers = keys.iter().map(ToString::to_string).zip(answers).collect();
                running = begin(Some(again(answers, state)), due);
            }
            Err(NoAnswer::Later) => return asks(call, &Memory::Asked { round, keys, state }),
            Err(NoAnswer::Unable(ability)) => return Bridged::Unable(ability),
            Err(NoAnswer::Refused(why)) => return Bridged::Failed(of_upstream(why, false)),
        }
    }
    Bridged::Broken(unreadable("it asks again and again"))
}

/// An error is told in a few words: results have a budget, and this is none.
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

/// The time that is left, in tenths of a second: it is told to people, and a little more is better than 29.999987 s.
pub(crate) fn left_until(until: Instant) -> Duration {
    let left = until.saturating_duration_since(Instant::now());
    let tenths = left.as_millis().div_ceil(100).max(1);
    Duration::from_millis(u64::try_from(tenths * 100).unwrap_or(u64::MAX))
}

/// How upstreams over HTTP are told of a trace. What else came along with it (`baggage`) is not for them.
pub(crate) fn trace_headers(trace: &TraceContext) -> impl Iterator<Item = (&'static str, String)> {
    let state = trace.state().map(|state| ("tracestate", state.to_owned()));
    [("traceparent", trace.parent())].into_iter().chain(state)
}

/// A key names a question within its round alone: the same one later is another question.
fn asked_as(key: &str, round: usize) -> Box<str> {
    format!("{round}-{key}").into()
}

fn asks(call: &CallContext, memory: &Memory) -> Bridged {
    call.remember(serde_json::to_string(memory).expect("a memory is JSON"));
    Bridged::Asks
}

/// What is added to a request that is made again.
fn again(answers: Map<String, Value>, state: Option<Value>) -> Map<String, Value> {
    let mut again = Map::from_iter([("inputResponses".to_owned(), Value::Object(answers))]);
    again.extend(state.map(|state| ("requestState".to_owned(), state)));
    again
}

/// The questions a request ended with; none if one of them is of no known kind.
fn questions(mut result: Map<String, Value>, roots: bool) -> Option<Vec<(Box<str>, Question)>> {
    let Some(Value::Object(asked)) = result.shift_remove("inputRequests") else {
        // Nothing but a state to come back with.
        return Some(Vec::new());
    };
    let questions = asked.into_iter().map(|(key, asked)| {
        let method = asked.get("method")?.as_str()?.to_owned();
        let params = asked.get("params").and_then(Value::as_object).cloned();
        Some((key.into(), question(&method, params.unwrap_or_default(), roots)?))
    });
    questions.collect()
}

fn question(method: &str, params: Map<String, Value>, roots: bool) -> Option<Question> {
    match method {
        "elicitation/create" => Some(Question::Elicit(params)),
        "sampling/createMessage" => Some(Question::Sample(params)),
        "roots/list" if roots => Some(Question::Roots),
        _ => None,
    }
}

impl Running {
    /// Whether the server has said on the way that it is at it: it took the call.
    fn has_begun(&self) -> bool {
        self.is_task || 0 < self.asked
    }

    fn begin(
        upstream: &Arc<Upstream>,
        (wanted, due): (&Wanted, Option<Instant>),
        again: Option<Map<String, Value>>,
        call: &CallContext,
        owner: u64,
    ) -> Self {
        let (say, heard) = mpsc::channel(UNHEARD);
        let mut abilities = call.abilities();
        abilities.roots &= upstream.may_see_roots();
        let can_be_asked = abilities.elicitation
            || abilities.elicitation_by_url
            || abilities.sampling
            || abilities.roots;
        let time = upstream.timeout().unwrap_or(DEADLINE);
        let deadline = due.map_or(time, |due| time.min(left_until(due)));
        let most = if can_be_asked { deadline.max(WITH_QUESTIONS) } else { deadline };
        // Who comes back for the result has more time than who waits for it; who could be asked has not.
        let as_task = if call.abilities().tasks { AS_TASK } else { deadline };
        let left = wanted.until.map(|until| until.saturating_duration_since(Instant::now()));
        let within = |time: Duration| left.map_or(time, |left| left.min(time));
        let (deadline, patience) = (within(deadline), Some(within(as_task)));
        let pauses = Pauses::up_to(within(most));
        let schema = match &wanted.what {
            Asking::Tool { schema, .. } => Some(Arc::clone(schema)),
            Asking::Other(_) => None,
        };
        let mut headers = upstream.carried.headers.clone();
        for (name, value) in call.trace().into_iter().flat_map(trace_headers) {
            if let Ok(value) = value.try_into() {
                headers.insert(name, value);
            }
        }
        let how = Call {
            deadline: Some(deadline),
            pauses: Some(pauses.clone()),
            capabilities: Some(capabilities(abilities)),
            log_level: call.log_from().map(|level| level.as_str().into()),
            schema,
            owner,
            heard: Some(say),
            headers,
            trace: call.trace().cloned(),
        };
        let (what, mut params) = (wanted.what.clone(), wanted.params.clone());
        params.extend(again.into_iter().flatten());
        let connection = upstream.connection.clone();
        let answer = Box::pin(async move {
            match what {
                Asking::Tool { must_be_a_task: is_needed, .. } => {
                    connection.call_tool(params, AsTask { is_needed, patience }, how).await
                }
                Asking::Other(method) => connection.request(method, params, how).await,
            }
        });
        let (waiting, mask, upstream) = (Vec::new(), upstream.mask(), Arc::clone(upstream));
        let (answer, asked, is_task) = (Coming::Here(answer), 0, false);
        Self { answer, heard, asked, waiting, pauses, is_task, upstream, mask }
    }

    /// Hears what the server says until it has answered or the caller has to come again.
    async fn next(&mut self, call: &CallContext, stay: &mut Stay<'_>) -> Next {
        let Self { answer, heard, asked, waiting, pauses, is_task, upstream, mask } = self;
        let roots = upstream.may_see_roots();
        if *is_task && let Err(failure) = stay.step_aside() {
            return Next::TooLong(of_upstream(failure.message, false));
        }
        let mut asking: FuturesUnordered<_> =
            waiting.drain(..).map(|asked| asked.of(call)).collect();
        loop {
            tokio::select! {
                biased;
                Some(said) = heard.recv() => match masked(said, mask) {
                    Heard::Progress(params) => tell_progress(call, &params),
                    Heard::Log(params) => tell_log(call, params),
                    Heard::GoesOn => {
                        *is_task = true;
                        if let Err(failure) = stay.step_aside() {
                            return Next::TooLong(of_upstream(failure.message, false));
                        }
                        // Whoever can come back for the result is let go.
                        call.go_on();
                    }
                    Heard::Told { .. } => {}
                    Heard::Asks { method, params, reply } => match question(&method, params, roots) {
                        Some(question) => {
                            *asked += 1;
                            let key = format!("question-{asked}").into();
                            let cannot = call.cannot_ask(&question);
                            let asked = Asked { key, question, reply };
                            // Whoever answers by coming again is gone in a moment.
                            if let Some(why) = cannot {
                                asked.told(Err(why));
                            } else if call.waits_for_answers() && let Err(failure) = stay.step_aside() {
                                asked.refuse(-32000, &failure.message);
                            } else {
                                pauses.begin();
                                asking.push(asked.of(call));
                            }
                        }
                        None => drop(reply.send(Err(RpcError::new(-32601, "there is no such method")))),
                    },
                },
                Some((asked, given)) = asking.next() => {
                    if let Err(NoAnswer::Later) = given {
                        waiting.push(asked);
                        // All of them are answered in the same way, and none waits.
                        while let Some((asked, _)) = asking.next().await {
                            waiting.push(asked);
                        }
                        return Next::Later;
                    }
                    if asking.is_empty() {
                        if !*is_task {
                            // The server may not wait for as long as that takes.
                            tokio::select! {
                                () = stay.come_back() => {}
                                answer = answer.next() => return Next::Answered(answer),
                            }
                        }
                        pauses.end();
                    }
                    asked.told(given);
                }
                answer = answer.next() => return Next::Answered(answer),
            }
        }
    }

    fn aside(self) -> Self {
        let answer = match self.answer {
            Coming::Here(answer) => Coming::Aside(Aside(tokio::spawn(answer))),
            aside @ Coming::Aside(_) => aside,
        };
        Self { answer, ..self }
    }
}

impl Coming {
    async fn next(&mut self) -> Result<Answer, McpError> {
        match self {
            Self::Here(answer) => answer.await,
            Self::Aside(Aside(handle)) => handle.await.unwrap_or(Err(McpError::Closed)),
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Asked {
    async fn of(self, call: &CallContext) -> (Self, Result<Value, NoAnswer>) {
        let answer = call.ask(&self.key, self.question.clone()).await;
        (self, answer)
    }

    fn told(self, answer: Result<Value, NoAnswer>) {
        match answer {
            Ok(answer) => self.reply(answer),
            Err(NoAnswer::Unable(_)) => self.refuse(-32601, "the client cannot do that"),
            Err(why @ (NoAnswer::Refused(_) | NoAnswer::Later)) => {
                self.refuse(-32000, &why.to_string());
            }
        }
    }

    fn reply(self, answer: Value) {
        let reply = match answer {
            Value::Object(answer) => Ok(answer),
            _ => Err(RpcError::new(-32603, "the client's answer is no object")),
        };
        // Whoever asked may have given up.
        drop(self.reply.send(reply));
    }

    fn refuse(self, code: i64, why: &str) {
        drop(self.reply.send(Err(RpcError::new(code, why))));
    }
}

fn capabilities(abilities: Abilities) -> Map<String, Value> {
    let mut all = Map::new();
    let mut modes = Map::new();
    for (can, mode) in [(abilities.elicitation, "form"), (abilities.elicitation_by_url, "url")] {
        if can {
            modes.insert(mode.to_owned(), json!({}));
        }
    }
    if !modes.is_empty() {
        all.insert("elicitation".to_owned(), Value::Object(modes));
    }
    for (can, name) in [(abilities.sampling, "sampling"), (abilities.roots, "roots")] {
        if can {
            all.insert(name.to_owned(), json!({}));
        }
    }
    all
}

fn masked(mut said: Heard, mask: &Mask) -> Heard {
    match &mut said {
        Heard::Progress(params) | Heard::Log(params) | Heard::Asks { params, .. } => {
            mask.members(params);
        }
        Heard::GoesOn | Heard::Told { .. } => {}
    }
    said
}

fn tell_progress(call: &CallContext, params: &Map<String, Value>) {
    let Some(progress) = params.get("progress").and_then(Value::as_f64) else { return };
    let message = params.get("message").and_then(Value::as_str).map(tame);
    call.progress(Progress {
        progress,
        total: params.get("total").and_then(Value::as_f64),
        message: message.map(Into::into),
    });
}

fn tell_log(call: &CallContext, mut params: Map<String, Value>) {
    let level = params.shift_remove("level").and_then(|level| serde_json::from_value(level).ok());
    let logger = params.get("logger").and_then(Value::as_str).map(tame);
    let mut data = params.shift_remove("data").unwrap_or_default();
    tame_all(&mut data);
    call.log(level.unwrap_or(Level::Info), logger.as_deref(), data);
}

/// Whoever reads it may be a terminal.
fn tame(text: &str) -> String {
    let mut text = text.to_owned();
    execution::tame(&mut text);
    text
}

fn tame_all(value: &mut Value) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => execution::tame(text),
        Value::Array(values) => values.iter_mut().for_each(tame_all),
        Value::Object(members) => members.values_mut().for_each(tame_all),
    }
}

/// What it says about a server that it gave no answer. A program that ends is started again after a rest, which is rest
/// enough; one that answers more than is read may answer less to others.
pub(crate) fn verdict(error: &McpError) -> Verdict {
    match error {
        McpError::Http(error) => match **error {
            HttpError::Connect { .. }
            | HttpError::Timeout { .. }
            | HttpError::Stalled { .. }
            | HttpError::Broken { .. } => Verdict::Fails,
            HttpError::TooLarge { .. } | HttpError::Encoded | HttpError::Redirected { .. } => {
                Verdict::Answers
            }
            _ => Verdict::Nothing,
        },
        McpError::Unauthorized { .. }
        | McpError::TooMuch { .. }
        | McpError::Status { status: 400..500, .. } => Verdict::Answers,
        McpError::Status { .. }
        | McpError::Timeout { .. }
        | McpError::Broken { .. }
        | McpError::Unreadable { .. }
        | McpError::NotReading => Verdict::Fails,
        _ => Verdict::Nothing,
    }
}

/// Whether there was no connection, or it was lost, or whoever stands before the server has not reached it.
fn is_lost(error: &McpError) -> bool {
    match error {
        McpError::Http(error) => {
            matches!(**error, HttpError::Connect { .. } | HttpError::Broken { .. })
        }
        McpError::Status { status, .. } => matches!(status, 502..=504),
        McpError::Broken { .. } => true,
        _ => false,
    }
}

/// Whether whoever was asked has done nothing, and says when to come again.
fn is_put_off(error: &McpError) -> bool {
    matches!(error, McpError::Status { status: 429, retry_after: Some(_), .. })
}

/// Why a server gave no answer.
pub(crate) fn failure(error: &McpError) -> Failure {
    let (code, retryable) = match error {
        McpError::Http(error) => execution::code_of(error),
        // It may have been done.
        McpError::Timeout { .. } => (ErrorCode::UpstreamTimeout, false),
        McpError::Ended { .. } | McpError::Broken { .. } | McpError::Closed => {
            (ErrorCode::UpstreamConnectionError, false)
        }
        McpError::Start { .. } | McpError::Resting { .. } => {
            (ErrorCode::UpstreamConnectionError, true)
        }
        McpError::Busy { .. } => (ErrorCode::RateLimited, true),
        // Nobody knows here whether the call does no harm twice.
        McpError::Status { status, .. } => {
            (ErrorCode::UpstreamError, execution::is_retryable("POST", *status))
        }
        _ => (ErrorCode::UpstreamError, false),
    };
    let retry_after = match error {
        // Calls end all the time.
        McpError::Busy { .. } => Some(1),
        McpError::Status { retry_after, .. } => *retry_after,
        _ => None,
    };
    Failure { retry_after, ..Failure::new(code, model::sentence(error), retryable) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_said_on_the_way_steers_no_terminal() {
        use crate::call::{NewCall, Said};
        let members = |value: Value| value.as_object().unwrap().clone();
        let (call, mut said) =
            NewCall::default().wanting_progress().logging(Some(Level::Info)).heard();
        tell_progress(&call, &members(json!({"progress": 1, "message": "\u{1b}[2Jhalf"})));
        let data = json!({"text": ["\u{7}", 1]});
        tell_log(&call, members(json!({"level": "info", "logger": "\u{9b}x", "data": data})));
        let Some(Said::Progress(progress)) = said.recv().await else { panic!("no progress") };
        assert_eq!(progress.message.as_deref(), Some("\\u{1b}[2Jhalf"));
        let Some(Said::Log { logger, data, .. }) = said.recv().await else { panic!("no log") };
        assert_eq!(logger.as_deref(), Some("\\u{9b}x"));
        assert_eq!(data, json!({"text": ["\\u{7}", 1]}));
    }

    #[test]
    fn a_server_that_answers_too_much_is_not_broken() {
        let (method, what) = ("tools/call".into(), "bytes");
        let http = |error| McpError::Http(Arc::new(error));
        for (error, says) in [
            (McpError::TooMuch { method, what, limit: 7 }, Verdict::Answers),
            (http(HttpError::TooLarge { limit: 7, announced: None }), Verdict::Answers),
            (http(HttpError::Encoded), Verdict::Answers),
            (McpError::NotReading, Verdict::Fails),
        ] {
            assert_eq!(verdict(&error), says, "{error}");
        }
    }

    #[test]
    fn where_too_much_is_under_way_it_is_said_when_to_come_again() {
        assert_eq!(failure(&McpError::Busy { limit: 7 }).retry_after, Some(1));
        assert_eq!(failure(&McpError::Closed).retry_after, None);
    }
}
