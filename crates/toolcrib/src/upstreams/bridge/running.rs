//! A request under way at an MCP server: what it says and asks goes to its caller, until it has answered or the caller
//! has to come again.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use execution::Mask;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use model::{Failure, TraceContext};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use upstream::mcp::{Answer, AsTask, Call, Heard, McpError, Pauses, Reply, RpcError};

use super::{Asking, DEADLINE, Wanted, left_until, of_upstream};
use crate::call::{Abilities, CallContext, Level, NoAnswer, Progress, Question};
use crate::gates::Stay;
use crate::upstreams::Upstream;

/// How long a request may take with the time in which somebody is asked on the way.
const WITH_QUESTIONS: Duration = Duration::from_secs(15 * 60);
/// How long a task of the server may take whose caller has a task of ours.
const AS_TASK: Duration = Duration::from_secs(60 * 60);
/// How much may be said that nobody has taken yet.
const UNHEARD: usize = 64;

/// A request under way.
pub(super) struct Running {
    answer: Coming,
    heard: mpsc::Receiver<Heard>,
    /// How many questions there were.
    asked: usize,
    /// Those that wait for the caller to come again.
    waiting: Vec<Asked>,
    /// The server's time stands still while somebody is asked.
    pub(super) pauses: Pauses,
    /// Whether it goes on as a task of the server.
    is_task: bool,
    /// It is open for as long as somebody keeps it.
    pub(super) upstream: Arc<Upstream>,
    /// What the server must not repeat: with what it was asked.
    pub(super) mask: Mask,
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

pub(super) enum Next {
    Answered(Result<Answer, McpError>),
    /// The caller answers when it comes again.
    Later,
    /// It goes on for longer than it may.
    TooLong(Failure),
}

impl Running {
    /// Whether the server has said on the way that it is at it: it took the call.
    pub(super) fn has_begun(&self) -> bool {
        self.is_task || 0 < self.asked
    }

    pub(super) fn begin(
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
    pub(super) async fn next(&mut self, call: &CallContext, stay: &mut Stay<'_>) -> Next {
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

    pub(super) fn aside(self) -> Self {
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

pub(super) fn question(method: &str, params: Map<String, Value>, roots: bool) -> Option<Question> {
    match method {
        "elicitation/create" => Some(Question::Elicit(params)),
        "sampling/createMessage" => Some(Question::Sample(params)),
        "roots/list" if roots => Some(Question::Roots),
        _ => None,
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
/// How upstreams over HTTP are told of a trace. What else came along with it (`baggage`) is not for them.
pub(crate) fn trace_headers(trace: &TraceContext) -> impl Iterator<Item = (&'static str, String)> {
    let state = trace.state().map(|state| ("tracestate", state.to_owned()));
    [("traceparent", trace.parent())].into_iter().chain(state)
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
}
