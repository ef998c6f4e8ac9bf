//! A running request at an MCP server: the server's messages and questions go to the caller, until the server has
//! answered or the caller has to return later.

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

/// The time limit of a request, including the time in which people are asked.
const WITH_QUESTIONS: Duration = Duration::from_secs(15 * 60);
/// The time limit of a server's task if the caller has a task of ours.
const AS_TASK: Duration = Duration::from_secs(60 * 60);
/// The most messages of the server that wait to be processed.
const UNHEARD: usize = 64;

/// A running request.
pub(super) struct Running {
    answer: Coming,
    heard: mpsc::Receiver<Heard>,
    /// How many questions there were.
    asked: usize,
    /// Questions that wait for the caller to return.
    waiting: Vec<Asked>,
    /// Pauses the server's deadline while the caller is asked.
    pub(super) pauses: Pauses,
    /// Whether it continues as a task of the server.
    is_task: bool,
    /// Keeps the connection open.
    pub(super) upstream: Arc<Upstream>,
    /// Secrets of the request that the server must not repeat.
    pub(super) mask: Mask,
}

enum Coming {
    /// Polled by the waiting call.
    Here(Pin<Box<dyn Future<Output = Result<Answer, McpError>> + Send>>),
    /// Runs in a task of its own.
    Aside(Aside),
}

/// Runs by itself until it is dropped.
struct Aside(JoinHandle<Result<Answer, McpError>>);

struct Asked {
    key: Box<str>,
    question: Question,
    reply: oneshot::Sender<Reply>,
}

pub(super) enum Next {
    Answered(Result<Answer, McpError>),
    /// The caller answers when it returns.
    Later,
    /// It exceeds its limits.
    TooLong(Failure),
}

impl Running {
    /// Whether the server has accepted the call: it asked a question, or started a task.
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
        // A caller that returns for the result gets more time than one that waits; one that can be asked does not.
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

    /// Processes the server's messages until it has answered or the caller has to return later.
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
                        // A caller that can return for the result need not wait.
                        call.go_on();
                    }
                    Heard::Told { .. } => {}
                    Heard::Asks { method, params, reply } => match question(&method, params, roots) {
                        Some(question) => {
                            *asked += 1;
                            let key = format!("question-{asked}").into();
                            let cannot = call.cannot_ask(&question);
                            let asked = Asked { key, question, reply };
                            // A caller that answers by returning later must be released first.
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
                        // All questions are answered in the same way, so none of them waits.
                        while let Some((asked, _)) = asking.next().await {
                            waiting.push(asked);
                        }
                        return Next::Later;
                    }
                    if asking.is_empty() {
                        if !*is_task {
                            // The server may give up while the call waits for a permit.
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
        // The server may have given up.
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

/// Escapes control characters, because a reader may use a terminal.
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
/// The trace headers for HTTP upstreams. Other context of the trace (`baggage`) is not passed on.
pub(crate) fn trace_headers(trace: &TraceContext) -> impl Iterator<Item = (&'static str, String)> {
    let state = trace.state().map(|state| ("tracestate", state.to_owned()));
    [("traceparent", trace.parent())].into_iter().chain(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_during_a_request_cannot_control_a_terminal() {
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
