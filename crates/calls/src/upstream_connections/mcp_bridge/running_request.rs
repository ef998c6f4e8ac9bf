//! A running request at an MCP server: the server's messages and questions go to the caller, until the server has
//! answered or the caller has to return later.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use execution::CredentialMask;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mcp_client::{
    CallNotification, DeadlinePauses, McpAnswer, McpCallOptions, McpError, QuestionReply, RpcError,
    ToolTaskOptions,
};
use model::{CallFailure, TraceContext};
use provider::{CallContext, CallProgress, CallerCapabilities, InputError, InputRequest, LogLevel};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{BridgeRequest, DEFAULT_DEADLINE, RequestTarget, remaining_until, upstream_failure};
use crate::source_gates::CallPermit;
use crate::upstream_connections::UpstreamConnection;

/// The time limit of a request, including the time in which people are asked.
const DEADLINE_WITH_QUESTIONS: Duration = Duration::from_secs(15 * 60);
/// The time limit of a server's task if the caller has a task of ours.
const TASK_DEADLINE: Duration = Duration::from_secs(60 * 60);
/// The most messages of the server that wait to be processed.
const MESSAGE_QUEUE: usize = 64;

/// A running request.
pub(super) struct RunningRequest {
    answer: PendingAnswer,
    messages: mpsc::Receiver<CallNotification>,
    /// How many questions there were.
    asked: usize,
    /// Questions that wait for the caller to return.
    waiting: Vec<UpstreamQuestion>,
    /// Pauses the server's deadline while the caller is asked.
    pub(super) pauses: DeadlinePauses,
    /// Whether it continues as a task of the server.
    is_task: bool,
    /// Keeps the connection open.
    pub(super) upstream: Arc<UpstreamConnection>,
    /// Secrets of the request that the server must not repeat.
    pub(super) mask: CredentialMask,
}

enum PendingAnswer {
    /// Polled by the waiting call.
    Polled(Pin<Box<dyn Future<Output = Result<McpAnswer, McpError>> + Send>>),
    /// Runs in a task of its own.
    Detached(DetachedRequest),
}

/// Runs by itself until it is dropped.
struct DetachedRequest(JoinHandle<Result<McpAnswer, McpError>>);

struct UpstreamQuestion {
    key: Box<str>,
    question: InputRequest,
    reply: oneshot::Sender<QuestionReply>,
}

pub(super) enum RunningStep {
    Answered(Result<McpAnswer, McpError>),
    /// The caller answers when it returns.
    CallerMustReturn,
    /// It exceeds its limits.
    TooLong(CallFailure),
}

impl RunningRequest {
    /// Whether the server has accepted the call: it asked a question, or started a task.
    pub(super) fn has_begun(&self) -> bool {
        self.is_task || 0 < self.asked
    }

    pub(super) fn begin_request(
        upstream: &Arc<UpstreamConnection>,
        (wanted, due): (&BridgeRequest, Option<Instant>),
        again: Option<Map<String, Value>>,
        call: &CallContext,
        owner: u64,
    ) -> Self {
        let (say, heard) = mpsc::channel(MESSAGE_QUEUE);
        let mut abilities = call.capabilities();
        abilities.roots &= upstream.may_see_roots();
        let can_be_asked = abilities.elicitation
            || abilities.elicitation_by_url
            || abilities.sampling
            || abilities.roots;
        let time = upstream.call_timeout().unwrap_or(DEFAULT_DEADLINE);
        let deadline = due.map_or(time, |due| time.min(remaining_until(due)));
        let most = if can_be_asked { deadline.max(DEADLINE_WITH_QUESTIONS) } else { deadline };
        // A caller that returns for the result gets more time than one that waits; one that can be asked does not.
        let as_task = if call.capabilities().tasks { TASK_DEADLINE } else { deadline };
        let left =
            wanted.caller_deadline.map(|until| until.saturating_duration_since(Instant::now()));
        let within = |time: Duration| left.map_or(time, |left| left.min(time));
        let (deadline, patience) = (within(deadline), Some(within(as_task)));
        let pauses = DeadlinePauses::with_max(within(most));
        let schema = match &wanted.target {
            RequestTarget::Tool { schema, .. } => Some(Arc::clone(schema)),
            RequestTarget::Other(_) => None,
        };
        let mut headers = upstream.request_auth.headers.clone();
        for (name, value) in call.trace().into_iter().flat_map(trace_headers) {
            if let Ok(value) = value.try_into() {
                headers.insert(name, value);
            }
        }
        let how = McpCallOptions {
            deadline: Some(deadline),
            pauses: Some(pauses.clone()),
            capabilities: Some(to_capabilities(abilities)),
            log_level: call.min_log_level().map(|level| level.as_str().into()),
            schema,
            owner,
            notifications: Some(say),
            headers,
            trace: call.trace().cloned(),
        };
        let (what, mut params) = (wanted.target.clone(), wanted.params.clone());
        params.extend(again.into_iter().flatten());
        let connection = upstream.connection.clone();
        let answer = Box::pin(async move {
            match what {
                RequestTarget::Tool { must_be_a_task: is_needed, .. } => {
                    connection
                        .call_tool(
                            params,
                            ToolTaskOptions { is_required: is_needed, max_wait: patience },
                            how,
                        )
                        .await
                }
                RequestTarget::Other(method) => connection.call_method(method, params, how).await,
            }
        });
        let (waiting, mask, upstream) =
            (Vec::new(), upstream.credential_mask(), Arc::clone(upstream));
        let (answer, asked, is_task) = (PendingAnswer::Polled(answer), 0, false);
        Self { answer, messages: heard, asked, waiting, pauses, is_task, upstream, mask }
    }

    /// Processes the server's messages until it has answered or the caller has to return later.
    pub(super) async fn next_step(
        &mut self,
        call: &CallContext,
        stay: &mut CallPermit<'_>,
    ) -> RunningStep {
        let Self { answer, messages: heard, asked, waiting, pauses, is_task, upstream, mask } =
            self;
        let roots = upstream.may_see_roots();
        if *is_task && let Err(failure) = stay.release() {
            return RunningStep::TooLong(upstream_failure(failure.message, false));
        }
        let mut asking: FuturesUnordered<_> =
            waiting.drain(..).map(|asked| asked.ask_caller(call)).collect();
        loop {
            tokio::select! {
                biased;
                Some(said) = heard.recv() => match mask_message(said, mask) {
                    CallNotification::Progress(params) => tell_progress(call, &params),
                    CallNotification::Log(params) => tell_log(call, params),
                    CallNotification::BecameTask => {
                        *is_task = true;
                        if let Err(failure) = stay.release() {
                            return RunningStep::TooLong(upstream_failure(failure.message, false));
                        }
                        // A caller that can return for the result need not wait.
                        call.detach();
                    }
                    CallNotification::Other { .. } => {}
                    CallNotification::Question { method, params, reply } => match parse_question(&method, params, roots) {
                        Some(question) => {
                            *asked += 1;
                            let key = format!("question-{asked}").into();
                            let cannot = call.input_error(&question);
                            let asked = UpstreamQuestion { key, question, reply };
                            // A caller that answers by returning later must be released first.
                            if let Some(why) = cannot {
                                asked.deliver_answer(Err(why));
                            } else if call.waits_for_answers() && let Err(failure) = stay.release() {
                                asked.send_error(-32000, &failure.message);
                            } else {
                                pauses.begin_pause();
                                asking.push(asked.ask_caller(call));
                            }
                        }
                        None => drop(reply.send(Err(RpcError::new(-32601, "there is no such method")))),
                    },
                },
                Some((asked, given)) = asking.next() => {
                    if let Err(InputError::Pending) = given {
                        waiting.push(asked);
                        // All questions are answered in the same way, so none of them waits.
                        while let Some((asked, _)) = asking.next().await {
                            waiting.push(asked);
                        }
                        return RunningStep::CallerMustReturn;
                    }
                    if asking.is_empty() {
                        if !*is_task {
                            // The server may give up while the call waits for a permit.
                            tokio::select! {
                                () = stay.reacquire() => {}
                                answer = answer.wait_for_answer() => return RunningStep::Answered(answer),
                            }
                        }
                        pauses.end_pause();
                    }
                    asked.deliver_answer(given);
                }
                answer = answer.wait_for_answer() => return RunningStep::Answered(answer),
            }
        }
    }

    pub(super) fn detach(self) -> Self {
        let answer = match self.answer {
            PendingAnswer::Polled(answer) => {
                PendingAnswer::Detached(DetachedRequest(tokio::spawn(answer)))
            }
            aside @ PendingAnswer::Detached(_) => aside,
        };
        Self { answer, ..self }
    }
}

impl PendingAnswer {
    async fn wait_for_answer(&mut self) -> Result<McpAnswer, McpError> {
        match self {
            Self::Polled(answer) => answer.await,
            Self::Detached(DetachedRequest(handle)) => {
                handle.await.unwrap_or(Err(McpError::Closed))
            }
        }
    }
}

impl Drop for DetachedRequest {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl UpstreamQuestion {
    async fn ask_caller(self, call: &CallContext) -> (Self, Result<Value, InputError>) {
        let answer = call.ask(&self.key, self.question.clone()).await;
        (self, answer)
    }

    fn deliver_answer(self, answer: Result<Value, InputError>) {
        match answer {
            Ok(answer) => self.send_reply(answer),
            Err(InputError::Unsupported(_)) => self.send_error(-32601, "the client cannot do that"),
            Err(why @ (InputError::Refused(_) | InputError::Pending)) => {
                self.send_error(-32000, &why.to_string());
            }
        }
    }

    fn send_reply(self, answer: Value) {
        let reply = match answer {
            Value::Object(answer) => Ok(answer),
            _ => Err(RpcError::new(-32603, "the client's answer is no object")),
        };
        // The server may have given up.
        drop(self.reply.send(reply));
    }

    fn send_error(self, code: i64, why: &str) {
        drop(self.reply.send(Err(RpcError::new(code, why))));
    }
}

pub(super) fn parse_question(
    method: &str,
    params: Map<String, Value>,
    roots: bool,
) -> Option<InputRequest> {
    match method {
        "elicitation/create" => Some(InputRequest::Elicit(params)),
        "sampling/createMessage" => Some(InputRequest::Sample(params)),
        "roots/list" if roots => Some(InputRequest::Roots),
        _ => None,
    }
}

fn to_capabilities(abilities: CallerCapabilities) -> Map<String, Value> {
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

fn mask_message(mut said: CallNotification, mask: &CredentialMask) -> CallNotification {
    match &mut said {
        CallNotification::Progress(params)
        | CallNotification::Log(params)
        | CallNotification::Question { params, .. } => {
            mask.mask_fields(params);
        }
        CallNotification::BecameTask | CallNotification::Other { .. } => {}
    }
    said
}

fn tell_progress(call: &CallContext, params: &Map<String, Value>) {
    let Some(progress) = params.get("progress").and_then(Value::as_f64) else { return };
    let message = params.get("message").and_then(Value::as_str).map(escape_text);
    call.report_progress(CallProgress {
        progress,
        total: params.get("total").and_then(Value::as_f64),
        message: message.map(Into::into),
    });
}

fn tell_log(call: &CallContext, mut params: Map<String, Value>) {
    let level = params.shift_remove("level").and_then(|level| serde_json::from_value(level).ok());
    let logger = params.get("logger").and_then(Value::as_str).map(escape_text);
    let mut data = params.shift_remove("data").unwrap_or_default();
    escape_value(&mut data);
    call.log(level.unwrap_or(LogLevel::Info), logger.as_deref(), data);
}

/// Escapes control characters, because a reader may use a terminal.
fn escape_text(text: &str) -> String {
    let mut text = text.to_owned();
    execution::escape_dangerous(&mut text);
    text
}

fn escape_value(value: &mut Value) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => execution::escape_dangerous(text),
        Value::Array(values) => values.iter_mut().for_each(escape_value),
        Value::Object(members) => members.values_mut().for_each(escape_value),
    }
}
/// The trace headers for HTTP upstreams. Other context of the trace (`baggage`) is not passed on.
pub fn trace_headers(trace: &TraceContext) -> impl Iterator<Item = (&'static str, String)> {
    let state = trace.tracestate().map(|state| ("tracestate", state.to_owned()));
    [("traceparent", trace.to_traceparent())].into_iter().chain(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_during_a_request_cannot_control_a_terminal() {
        use provider::{CallBuilder, CallUpdate};
        let members = |value: Value| value.as_object().unwrap().clone();
        let (call, mut said) = CallBuilder::default()
            .with_progress()
            .with_log_level(Some(LogLevel::Info))
            .start_with_updates();
        tell_progress(&call, &members(json!({"progress": 1, "message": "\u{1b}[2Jhalf"})));
        let data = json!({"text": ["\u{7}", 1]});
        tell_log(&call, members(json!({"level": "info", "logger": "\u{9b}x", "data": data})));
        let Some(CallUpdate::Progress(progress)) = said.recv().await else { panic!("no progress") };
        assert_eq!(progress.message.as_deref(), Some("\\u{1b}[2Jhalf"));
        let Some(CallUpdate::Log { logger, data, .. }) = said.recv().await else {
            panic!("no log")
        };
        assert_eq!(logger.as_deref(), Some("\\u{9b}x"));
        assert_eq!(data, json!({"text": ["\\u{7}", 1]}));
    }
}
