//! The methods that both eras share: lists, calls, prompts, resources, completion.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::http::HeaderMap;
use futures_util::FutureExt as _;
use model::ToolResult;
use model::json_size::about_members;
use serde_json::{Map, Value};
use toolcrib::{
    Abilities, AgentView, CallContext, Called, Clock as _, Done, Got, Level, NewCall, NotFollowed,
    Question, SystemClock, ToolAnswer, Unfinished, UnfinishedOf,
};
use upstream::LONG;

use super::answer::Sent;
use super::era::{self, Era};
use super::error::RpcError;
use super::listen::{Listen, URI};
use super::message::{Id, Request};
use super::pages::{ListOf, Place};
use super::peer::Peer;
use super::sessions::Gathered;
use super::state::Kept;
use super::talk::{Running, Talk};
use super::{Mcp, capabilities, headers, state, tasks};
use crate::body::long::in_turn;

/// An authenticated request in one era of the protocol.
pub(crate) struct Asking {
    pub(crate) mcp: Arc<Mcp>,
    pub(crate) peer: Peer,
    pub(crate) principal: Arc<str>,
    pub(crate) era: Era,
    pub(crate) abilities: Abilities,
    /// Minimum level of the log messages that the client wants.
    pub(crate) log_from: Option<Level>,
    /// The token for progress notifications, if the client wants them.
    pub(crate) progress_token: Option<Value>,
    /// The namespace of the request id, if the call can be cancelled by its id.
    pub(crate) stoppable_by: Option<Box<str>>,
    /// Whether an HTTP challenge makes the client get a wider token.
    pub(crate) is_challenged: bool,
}

/// The reply to a request: a message, a running call or a stream.
pub(crate) enum Answer {
    Sent(Sent),
    Talk(Box<Talk>),
    Listen(Box<Listen>),
}

impl Answer {
    /// The request id of a running call.
    pub(crate) fn id(&self) -> Option<&Id> {
        match self {
            Self::Talk(talk) => Some(&talk.id),
            Self::Sent(_) | Self::Listen(_) => None,
        }
    }

    /// The next message; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Sent> {
        match self {
            Self::Sent(sent) if sent.pieces.is_empty() => None,
            Self::Sent(sent) => Some(std::mem::replace(sent, Sent::nothing())),
            Self::Talk(talk) => talk.next().await,
            Self::Listen(listen) => listen.next().await,
        }
    }
}

impl Asking {
    /// Answers a method that both eras share. `headers` are given if they must match the arguments of a call.
    pub(crate) fn answer(
        self,
        request: Request,
        headers: Option<&HeaderMap>,
    ) -> Result<Answer, RpcError> {
        let Request { id, method, params, .. } = request;
        match (ListOf::named(&method), method.as_str()) {
            (Some(list), _) => self.list(&id, list, &params).map(Answer::Sent),
            (None, "tools/call") => self.call(&id, params, headers),
            (None, "prompts/get") => self.prompt(&id, params),
            (None, "resources/read") => self.read(&id, params),
            (None, "completion/complete") => self.complete(&id, &params),
            (None, method) => Err(RpcError::method_not_found(method)),
        }
    }

    pub(crate) fn view(&self) -> Result<AgentView, RpcError> {
        self.peer.view()
    }

    fn list(&self, id: &Id, of: ListOf, params: &Map<String, Value>) -> Result<Sent, RpcError> {
        let (view, purpose) = (self.view()?, of.member());
        if !capabilities::has(&view, of) {
            return Err(RpcError::method_not_found(of.method()));
        }
        let after = match params.get("cursor") {
            None | Some(Value::Null) => None,
            Some(cursor) => {
                let text = cursor.as_str().unwrap_or_default();
                let place = self.mcp.seal.open(purpose, &self.principal, text);
                let place = place.and_then(|place| serde_json::from_slice::<Place>(&place).ok());
                let why = "the cursor is none of ours: begin without one";
                Some(place.ok_or_else(|| RpcError::invalid_params(why))?)
            }
        };
        let page = self.mcp.pages.page(&view, self.era, of, after);
        let next = page.next.map(|place| {
            let place = serde_json::to_vec(&place).expect("a place is JSON");
            self.mcp.seal.close(purpose, &self.principal, &place)
        });
        let end = next.map(|next| format!("{}}}", self.era.end_of_list(Some(&next))));
        Ok(Sent::list(id, purpose, page.bytes, end))
    }

    fn call(
        self,
        id: &Id,
        mut params: Map<String, Value>,
        headers: Option<&HeaderMap>,
    ) -> Result<Answer, RpcError> {
        let view = self.view()?;
        let name = params.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| RpcError::invalid_params("`name` must be a text"))?;
        let tool = view.find(name).inspect_err(|missing| view.record_missing(missing));
        let tool = tool.map_err(|missing| RpcError::invalid_params(missing.to_string()))?;
        let (may_speak, is_promised) = (tool.may_speak(), tool.promises_output());
        // A call that may ask the client is sent again; its fingerprint needs the original parameters.
        let arguments = match may_speak {
            true => arguments(&params)?,
            false => taken_arguments(&mut params)?,
        };
        if let Some(headers) = headers {
            headers::check_parameters(headers, &tool.mirrored(), &arguments)?;
        }
        let called = view.id_of_call(&tool, &arguments);
        let mut answer = self.talk(id, "tools/call", params, may_speak, |context, waiting| {
            Box::pin(async move {
                match view.call_with(&tool, arguments, &context).await {
                    // Serializing a long result would block the request thread.
                    Called::Done(done) if done.is_long() => {
                        in_turn(move || waiting.ended(*done, is_promised)).await
                    }
                    Called::Done(done) => waiting.ended(*done, is_promised),
                    Called::Asks(questions) => waiting.asks(questions, context.take_memory()),
                    Called::Unable(ability) => Err(RpcError::unable(ability)),
                    Called::Error { code, message, data, .. } => {
                        Err(RpcError { data, ..RpcError::of_tool(code, message) })
                    }
                }
            })
        })?;
        if let Answer::Talk(talk) = &mut answer {
            talk.tool = called;
        }
        Ok(answer)
    }

    fn prompt(self, id: &Id, params: Map<String, Value>) -> Result<Answer, RpcError> {
        let name = text(&params, "name")?;
        if NAME < name.len() {
            return Err(RpcError::invalid_params("the name of the prompt is too long"));
        }
        let arguments = arguments(&params)?;
        let view = self.view()?;
        self.talk(id, "prompts/get", params, true, |context, waiting| {
            Box::pin(async move {
                let missing = || RpcError::no_such_prompt(&name);
                match view.prompt(&name, arguments, &context).await {
                    Got::Result(result) => {
                        let era = waiting.era;
                        Ok(written(result, move |result| era.complete(result)).await)
                    }
                    other => waiting.not_got(other, &context, missing),
                }
            })
        })
    }

    fn read(self, id: &Id, params: Map<String, Value>) -> Result<Answer, RpcError> {
        let uri = text(&params, "uri")?;
        if URI < uri.len() {
            return Err(RpcError::invalid_params("the address of the resource is too long"));
        }
        let view = self.view()?;
        self.talk(id, "resources/read", params, true, |context, waiting| {
            Box::pin(async move {
                let missing = || match waiting.era {
                    Era::Modern => RpcError::no_such_resource(&uri),
                    Era::Legacy => RpcError { code: -32002, ..RpcError::no_such_resource(&uri) },
                };
                match view.read(&uri, &context).await {
                    Got::Result(result) => {
                        let era = waiting.era;
                        Ok(written(result, move |result| era.uncached(result)).await)
                    }
                    other => waiting.not_got(other, &context, missing),
                }
            })
        })
    }

    fn complete(self, id: &Id, params: &Map<String, Value>) -> Result<Answer, RpcError> {
        let invalid = |why: &str| RpcError::invalid_params(why);
        let of = params.get("ref").and_then(Value::as_object);
        let of = of.ok_or_else(|| invalid("`ref` must be an object"))?;
        let member = |name: &str| of.get(name).and_then(Value::as_str);
        let of = match (member("type"), member("name"), member("uri")) {
            (Some("ref/prompt"), Some(name), _) if name.len() <= NAME => {
                UnfinishedOf::Prompt(name.into())
            }
            (Some("ref/resource"), _, Some(uri)) if uri.len() <= URI => {
                UnfinishedOf::Template(uri.into())
            }
            (Some("ref/prompt"), Some(_), _) | (Some("ref/resource"), _, Some(_)) => {
                return Err(invalid("what `ref` names has too long a name"));
            }
            _ => {
                return Err(invalid(
                    "`ref` is a `ref/prompt` with a name or a `ref/resource` with a uri",
                ));
            }
        };
        let argument = params.get("argument").unwrap_or(&Value::Null);
        let member = |name: &str| argument.get(name).and_then(Value::as_str);
        let (Some(name), Some(value)) = (member("name"), member("value")) else {
            return Err(invalid("`argument` has a `name` and a `value`"));
        };
        let known = params.get("context").and_then(|context| context.get("arguments"));
        let known = known.and_then(Value::as_object).cloned().unwrap_or_default();
        let unfinished = Unfinished { of, argument: name.into(), value: value.into(), known };
        let view = self.view()?;
        // A completion is never resumed and sends no other messages.
        self.talk(id, "completion/complete", Map::new(), false, |context, waiting| {
            Box::pin(async move {
                let missing = || match &unfinished.of {
                    UnfinishedOf::Prompt(name) => RpcError::no_such_prompt(name),
                    UnfinishedOf::Template(uri) => RpcError::no_such_resource(uri),
                };
                let got = view.complete(&unfinished, &context).await;
                waiting.not_got(got, &context, missing)
            })
        })
    }

    /// Answers `resources/subscribe`. `gathered` is `None` without a session, which has no stream for notifications.
    pub(crate) fn subscribe(
        self,
        id: &Id,
        params: &Map<String, Value>,
        gathered: Option<Arc<Gathered>>,
    ) -> Result<Answer, RpcError> {
        let uri = text(params, "uri")?;
        if URI < uri.len() {
            return Err(RpcError::invalid_params("the address of the resource is too long"));
        }
        let view = self.view()?;
        self.talk(id, "resources/subscribe", Map::new(), false, |_, _| {
            Box::pin(async move {
                let Some(gathered) = gathered else { return Ok("{}".to_owned()) };
                if !gathered.subscribe(&uri) {
                    return Err(not_followed(&uri, NotFollowed::TooMany));
                }
                let followed = view.follow(&uri, gathered.following()).await;
                followed.map(|()| "{}".to_owned()).map_err(|why| {
                    gathered.unsubscribe(&uri);
                    not_followed(&uri, why)
                })
            })
        })
    }

    /// Starts a call that may send messages, ask the client and become a task.
    fn talk(
        self,
        id: &Id,
        method: &'static str,
        params: Map<String, Value>,
        may_speak: bool,
        work: impl FnOnce(CallContext, Waiting) -> Running,
    ) -> Result<Answer, RpcError> {
        let mut call = match may_speak {
            true => NewCall::by(self.abilities).logging(self.log_from),
            false => NewCall::default(),
        };
        let progress_token = self.progress_token.filter(|token| Id::of(token).is_some());
        if progress_token.is_some() {
            call = call.wanting_progress();
        }
        let mut waiting = Waiting {
            mcp: Arc::clone(&self.mcp),
            principal: Arc::clone(&self.principal),
            era: self.era,
            is_challenged: self.is_challenged,
            method,
            params: Map::new(),
            answers: Map::new(),
        };
        if self.era == Era::Modern {
            let mut remembered = None;
            let asked_before =
                params.contains_key("requestState") || params.contains_key("inputResponses");
            if asked_before {
                let request = state::fingerprint(method, &params);
                let (seal, now) = (&self.mcp.seal, SystemClock.now());
                let kept = state::answers(seal, &self.principal, &request, &params, now)?;
                (waiting.answers, remembered) = (kept.answers, kept.memory);
            }
            call = call.answering(waiting.answers.clone()).remembering(remembered);
            waiting.params = params;
        }
        let (context, heard) = match may_speak {
            true => {
                let (context, heard) = call.heard();
                (context, Some(heard))
            }
            false => (call.unheard(), None),
        };
        let stoppable_by = self.stoppable_by;
        let stopped = stoppable_by.as_ref().map(|whose| self.mcp.stoppable.begin(whose, id));
        Ok(Answer::Talk(Box::new(Talk {
            running: Some(safe(work(context, waiting))),
            tool: None,
            mcp: self.mcp,
            era: self.era,
            id: id.clone(),
            principal: self.principal,
            stoppable_by,
            stopped,
            progress_token,
            heard,
            ready: VecDeque::new(),
            open: Vec::new(),
        })))
    }
}

/// Serializes a result; off the request thread if it is long, because other requests would have to wait.
async fn written(
    result: Map<String, Value>,
    write: impl FnOnce(Map<String, Value>) -> String + Send + 'static,
) -> String {
    match about_members(&result) <= LONG {
        true => write(result),
        false => in_turn(move || write(result)).await,
    }
}

/// The legacy error for a failed subscription; the modern era has none.
fn not_followed(uri: &str, why: NotFollowed) -> RpcError {
    match why {
        NotFollowed::Missing => RpcError { code: -32002, ..RpcError::no_such_resource(uri) },
        NotFollowed::Silent | NotFollowed::TooMany => RpcError::invalid_params(why.to_string()),
        NotFollowed::Failed(why) => RpcError::internal(why),
    }
}

/// Turns a panic of a tool into an error.
fn safe(running: Running) -> Running {
    Box::pin(AssertUnwindSafe(running).catch_unwind().map(|ended| {
        ended.unwrap_or_else(|_| {
            tracing::error!("a tool panicked");
            Err(RpcError::internal("the tool failed inside"))
        })
    }))
}

/// Maximum length of a prompt name, in bytes.
const NAME: usize = 1 << 10;

/// Builds the answer of a call from its outcome.
pub(crate) struct Waiting {
    mcp: Arc<Mcp>,
    principal: Arc<str>,
    era: Era,
    is_challenged: bool,
    /// The original request: its fingerprint binds `requestState` to the call.
    method: &'static str,
    params: Map<String, Value>,
    answers: Map<String, Value>,
}

impl Waiting {
    /// The answer of a finished call. Clients validate it against the tool's output schema, if there is one.
    fn ended(&self, done: Done, is_promised: bool) -> Result<String, RpcError> {
        if self.is_challenged
            && let Some(failure) = done.lacks_scopes()
        {
            return Err(RpcError::scopes_missing(failure));
        }
        let answer = if is_promised { done.into_promised_answer() } else { done.into_answer() };
        Ok(match answer {
            ToolAnswer::Ours(result) => self.done(result),
            ToolAnswer::Theirs(result) => self.done_by_server(result),
        })
    }

    fn done(&self, mut result: ToolResult) -> String {
        if self.era == Era::Legacy {
            return serde_json::to_string(&result).expect("a result is JSON");
        }
        let mut meta = std::mem::take(&mut result.meta);
        meta.shift_remove(era::SERVER);
        let mut text = serde_json::to_string(&result).expect("a result is JSON");
        text.pop();
        text.push_str(&era::SIGNED);
        if !meta.is_empty() {
            let meta = serde_json::to_string(&meta).expect("a map is JSON");
            text.push(',');
            let inside = meta.strip_prefix('{').and_then(|meta| meta.strip_suffix('}'));
            text.push_str(inside.unwrap_or_default());
        }
        text.push_str(r#"},"resultType":"complete"}"#);
        text
    }

    /// The result of an upstream MCP server, unchanged except for the fields that the era requires of a proxy.
    fn done_by_server(&self, mut result: Map<String, Value>) -> String {
        result.shift_remove("resultType");
        self.era.complete(result)
    }

    /// Ends the call with questions; the client sends the call again with the answers.
    fn asks(
        &self,
        questions: Vec<(Box<str>, Question)>,
        memory: Option<String>,
    ) -> Result<String, RpcError> {
        let (seal, now) = (&self.mcp.seal, SystemClock.now());
        let call = state::fingerprint(self.method, &self.params);
        let kept = Kept { answers: self.answers.clone(), memory };
        let state = state::close(seal, &self.principal, &call, kept, now)?;
        let requests: Map<String, Value> = questions
            .iter()
            .map(|(key, question)| (key.to_string(), tasks::asked(question)))
            .collect();
        let result = Map::from_iter([
            ("inputRequests".to_owned(), Value::Object(requests)),
            ("requestState".to_owned(), Value::String(state)),
        ]);
        Ok(self.era.dressed(result, "input_required"))
    }

    fn not_got(
        &self,
        got: Got,
        call: &CallContext,
        missing: impl FnOnce() -> RpcError,
    ) -> Result<String, RpcError> {
        match got {
            Got::Result(result) => Ok(self.era.complete(result)),
            Got::Asks(questions) => self.asks(questions, call.take_memory()),
            Got::Unable(ability) => Err(RpcError::unable(ability)),
            Got::Missing => Err(missing()),
            Got::Invalid(why) => Err(RpcError::invalid_params(why)),
            Got::Failed(failure) if self.is_challenged && !failure.scopes.is_empty() => {
                Err(RpcError::scopes_missing(&failure))
            }
            Got::Failed(failure) => Err(RpcError::failed(&failure)),
        }
    }
}

pub(crate) fn text(params: &Map<String, Value>, name: &str) -> Result<String, RpcError> {
    let value = params.get(name).and_then(Value::as_str);
    value
        .map(str::to_owned)
        .ok_or_else(|| RpcError::invalid_params(format!("`{name}` must be a text")))
}

/// Takes the arguments out of the parameters, which are not read again.
fn taken_arguments(params: &mut Map<String, Value>) -> Result<Map<String, Value>, RpcError> {
    match params.get_mut("arguments") {
        Some(Value::Object(arguments)) => Ok(std::mem::take(arguments)),
        _ => arguments(params),
    }
}

fn arguments(params: &Map<String, Value>) -> Result<Map<String, Value>, RpcError> {
    match params.get("arguments") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(arguments)) => Ok(arguments.clone()),
        Some(_) => Err(RpcError::invalid_params("`arguments` must be an object")),
    }
}
