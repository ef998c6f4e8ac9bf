//! The methods that both eras share: lists, calls, prompts, resources, completion.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::http::HeaderMap;
use endpoint::json_body::large_json::run_one_at_a_time;
use futures_util::FutureExt as _;
use json::json_size::estimate_object_size;
use limits::MAX_INLINE_BYTES;
use model::ToolResult;
use serde_json::{Map, Value};
use toolcrib::{
    AgentView, CallBuilder, CallContext, CallResult, CallerCapabilities, Clock as _, CompletedCall,
    CompletionRequest, CompletionTarget, InputRequest, LogLevel, OfferResult, SubscribeError,
    SystemClock, ToolAnswer,
};

use super::call_state::ResumableCallState;
use super::error_response::RpcErrorResponse;
use super::incoming_message::{IncomingRequest, JsonRpcId};
use super::list_pages::{McpListCursor, McpListKind};
use super::listen::{ListenStream, MAX_URI_BYTES};
use super::mcp_peer::McpPeer;
use super::mcp_sessions::McpSessionState;
use super::outgoing_message::OutgoingMessage;
use super::protocol_era::ProtocolEra;
use super::running_call::{CallFuture, RunningCall};
use super::{McpEndpoint, call_state, header_checks, mcp_tasks, protocol_era, server_capabilities};

/// An authenticated request in one era of the protocol.
pub(crate) struct McpRequest {
    pub(crate) mcp: Arc<McpEndpoint>,
    pub(crate) peer: McpPeer,
    pub(crate) principal: Arc<str>,
    pub(crate) era: ProtocolEra,
    pub(crate) abilities: CallerCapabilities,
    /// Minimum level of the log messages that the client wants.
    pub(crate) log_from: Option<LogLevel>,
    /// The token for progress notifications, if the client wants them.
    pub(crate) progress_token: Option<Value>,
    /// The namespace of the request id, if the call can be cancelled by its id.
    pub(crate) stoppable_by: Option<Box<str>>,
    /// Whether an HTTP challenge makes the client get a wider token.
    pub(crate) is_challenged: bool,
}

/// The reply to a request: a message, a running call or a stream.
pub(crate) enum McpReply {
    Ready(OutgoingMessage),
    Call(Box<RunningCall>),
    Stream(Box<ListenStream>),
}

impl McpReply {
    /// The request id of a running call.
    pub(crate) fn id(&self) -> Option<&JsonRpcId> {
        match self {
            Self::Call(talk) => Some(&talk.id),
            Self::Ready(_) | Self::Stream(_) => None,
        }
    }

    /// The next message; `None` after the last.
    pub(crate) async fn next_message(&mut self) -> Option<OutgoingMessage> {
        match self {
            Self::Ready(sent) if sent.segments.is_empty() => None,
            Self::Ready(sent) => Some(std::mem::replace(sent, OutgoingMessage::empty_message())),
            Self::Call(talk) => talk.next_message().await,
            Self::Stream(listen) => listen.next_message().await,
        }
    }
}

impl McpRequest {
    /// Answers a method that both eras share. `headers` are given if they must match the arguments of a call.
    pub(crate) fn answer_shared_method(
        self,
        request: IncomingRequest,
        headers: Option<&HeaderMap>,
    ) -> Result<McpReply, RpcErrorResponse> {
        let IncomingRequest { id, method, params, .. } = request;
        match (McpListKind::from_method(&method), method.as_str()) {
            (Some(list), _) => self.list_page(&id, list, &params).map(McpReply::Ready),
            (None, "tools/call") => self.call_tool(&id, params, headers),
            (None, "prompts/get") => self.get_prompt(&id, params),
            (None, "resources/read") => self.read_resource(&id, params),
            (None, "completion/complete") => self.complete_argument(&id, &params),
            (None, method) => Err(RpcErrorResponse::method_not_found(method)),
        }
    }

    pub(crate) fn view(&self) -> Result<AgentView, RpcErrorResponse> {
        self.peer.view()
    }

    fn list_page(
        &self,
        id: &JsonRpcId,
        of: McpListKind,
        params: &Map<String, Value>,
    ) -> Result<OutgoingMessage, RpcErrorResponse> {
        let (view, purpose) = (self.view()?, of.result_field());
        if !server_capabilities::offers_list(&view, of) {
            return Err(RpcErrorResponse::method_not_found(of.method()));
        }
        let after = match params.get("cursor") {
            None | Some(Value::Null) => None,
            Some(cursor) => {
                let text = cursor.as_str().unwrap_or_default();
                let place = self.mcp.seal.decrypt(purpose, &self.principal, text);
                let place =
                    place.and_then(|place| serde_json::from_slice::<McpListCursor>(&place).ok());
                let why = "the cursor is none of ours: begin without one";
                Some(place.ok_or_else(|| RpcErrorResponse::invalid_params(why))?)
            }
        };
        let page = self.mcp.pages.list_page(&view, self.era, of, after);
        let next = page.next.map(|place| {
            let place = serde_json::to_vec(&place).expect("a place is JSON");
            self.mcp.seal.encrypt(purpose, &self.principal, &place)
        });
        let end = next.map(|next| format!("{}}}", self.era.end_of_list(Some(&next))));
        Ok(OutgoingMessage::list_response(id, purpose, page.bytes, end))
    }

    fn call_tool(
        self,
        id: &JsonRpcId,
        mut params: Map<String, Value>,
        headers: Option<&HeaderMap>,
    ) -> Result<McpReply, RpcErrorResponse> {
        let view = self.view()?;
        let name = params.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| RpcErrorResponse::invalid_params("`name` must be a text"))?;
        let tool = view.find(name).inspect_err(|missing| view.record_missing_tool(missing));
        let tool = tool.map_err(|missing| RpcErrorResponse::invalid_params(missing.to_string()))?;
        let (may_speak, is_promised) = (tool.may_send_updates(), tool.has_output_schema());
        // A call that may ask the client is sent again; its fingerprint needs the original parameters.
        let arguments = match may_speak {
            true => clone_arguments(&params)?,
            false => take_arguments(&mut params)?,
        };
        if let Some(headers) = headers {
            header_checks::check_parameter_headers(headers, &tool.header_arguments(), &arguments)?;
        }
        let called = view.called_tool_id(&tool, &arguments);
        let mut answer =
            self.start_call(id, "tools/call", params, may_speak, |context, waiting| {
                Box::pin(async move {
                    match view.call_found_tool(&tool, arguments, &context).await {
                        // Serializing a long result would block the request thread.
                        CallResult::Completed(done) if done.is_long() => {
                            run_one_at_a_time(move || waiting.respond_to_call(*done, is_promised))
                                .await
                        }
                        CallResult::Completed(done) => waiting.respond_to_call(*done, is_promised),
                        CallResult::InputRequired(questions) => {
                            waiting.input_required(questions, context.take_resume_state())
                        }
                        CallResult::MissingCapability(ability) => {
                            Err(RpcErrorResponse::missing_capability(ability))
                        }
                        CallResult::ProtocolError { code, message, data, .. } => {
                            Err(RpcErrorResponse {
                                data,
                                ..RpcErrorResponse::from_tool(code, message)
                            })
                        }
                    }
                })
            })?;
        if let McpReply::Call(talk) = &mut answer {
            talk.tool = called;
        }
        Ok(answer)
    }

    fn get_prompt(
        self,
        id: &JsonRpcId,
        params: Map<String, Value>,
    ) -> Result<McpReply, RpcErrorResponse> {
        let name = required_text(&params, "name")?;
        if MAX_PROMPT_NAME_BYTES < name.len() {
            return Err(RpcErrorResponse::invalid_params("the name of the prompt is too long"));
        }
        let arguments = clone_arguments(&params)?;
        let view = self.view()?;
        self.start_call(id, "prompts/get", params, true, |context, waiting| {
            Box::pin(async move {
                let missing = || RpcErrorResponse::no_such_prompt(&name);
                match view.render_prompt(&name, arguments, &context).await {
                    OfferResult::Result(result) => {
                        let era = waiting.era;
                        Ok(serialize_result(result, move |result| era.complete_result(result))
                            .await)
                    }
                    other => waiting.respond_to_offer(other, &context, missing),
                }
            })
        })
    }

    fn read_resource(
        self,
        id: &JsonRpcId,
        params: Map<String, Value>,
    ) -> Result<McpReply, RpcErrorResponse> {
        let uri = required_text(&params, "uri")?;
        if MAX_URI_BYTES < uri.len() {
            return Err(RpcErrorResponse::invalid_params(
                "the address of the resource is too long",
            ));
        }
        let view = self.view()?;
        self.start_call(id, "resources/read", params, true, |context, waiting| {
            Box::pin(async move {
                let missing = || match waiting.era {
                    ProtocolEra::Modern => RpcErrorResponse::no_such_resource(&uri),
                    ProtocolEra::Legacy => RpcErrorResponse {
                        code: -32002,
                        ..RpcErrorResponse::no_such_resource(&uri)
                    },
                };
                match view.read_resource_uri(&uri, &context).await {
                    OfferResult::Result(result) => {
                        let era = waiting.era;
                        Ok(serialize_result(result, move |result| era.uncached_result(result))
                            .await)
                    }
                    other => waiting.respond_to_offer(other, &context, missing),
                }
            })
        })
    }

    fn complete_argument(
        self,
        id: &JsonRpcId,
        params: &Map<String, Value>,
    ) -> Result<McpReply, RpcErrorResponse> {
        let invalid = |why: &str| RpcErrorResponse::invalid_params(why);
        let of = params.get("ref").and_then(Value::as_object);
        let of = of.ok_or_else(|| invalid("`ref` must be an object"))?;
        let member = |name: &str| of.get(name).and_then(Value::as_str);
        let of = match (member("type"), member("name"), member("uri")) {
            (Some("ref/prompt"), Some(name), _) if name.len() <= MAX_PROMPT_NAME_BYTES => {
                CompletionTarget::Prompt(name.into())
            }
            (Some("ref/resource"), _, Some(uri)) if uri.len() <= MAX_URI_BYTES => {
                CompletionTarget::Template(uri.into())
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
        let unfinished = CompletionRequest {
            target: of,
            argument: name.into(),
            value: value.into(),
            known_arguments: known,
        };
        let view = self.view()?;
        // A completion is never resumed and sends no other messages.
        self.start_call(id, "completion/complete", Map::new(), false, |context, waiting| {
            Box::pin(async move {
                let missing = || match &unfinished.target {
                    CompletionTarget::Prompt(name) => RpcErrorResponse::no_such_prompt(name),
                    CompletionTarget::Template(uri) => RpcErrorResponse::no_such_resource(uri),
                };
                let got = view.complete(&unfinished, &context).await;
                waiting.respond_to_offer(got, &context, missing)
            })
        })
    }

    /// Answers `resources/subscribe`. `gathered` is `None` without a session, which has no stream for notifications.
    pub(crate) fn subscribe_resource(
        self,
        id: &JsonRpcId,
        params: &Map<String, Value>,
        gathered: Option<Arc<McpSessionState>>,
    ) -> Result<McpReply, RpcErrorResponse> {
        let uri = required_text(params, "uri")?;
        if MAX_URI_BYTES < uri.len() {
            return Err(RpcErrorResponse::invalid_params(
                "the address of the resource is too long",
            ));
        }
        let view = self.view()?;
        self.start_call(id, "resources/subscribe", Map::new(), false, |_, _| {
            Box::pin(async move {
                let Some(gathered) = gathered else { return Ok("{}".to_owned()) };
                if !gathered.add_subscription(&uri) {
                    return Err(subscription_error(&uri, SubscribeError::TooMany));
                }
                let followed =
                    view.subscribe_to_resource(&uri, gathered.upstream_subscriptions()).await;
                followed.map(|()| "{}".to_owned()).map_err(|why| {
                    gathered.remove_subscription(&uri);
                    subscription_error(&uri, why)
                })
            })
        })
    }

    /// Starts a call that may send messages, ask the client and become a task.
    fn start_call(
        self,
        id: &JsonRpcId,
        method: &'static str,
        params: Map<String, Value>,
        may_speak: bool,
        work: impl FnOnce(CallContext, CallResponder) -> CallFuture,
    ) -> Result<McpReply, RpcErrorResponse> {
        let mut call = match may_speak {
            true => CallBuilder::by_caller(self.abilities).with_log_level(self.log_from),
            false => CallBuilder::default(),
        };
        let progress_token =
            self.progress_token.filter(|token| JsonRpcId::from_value(token).is_some());
        if progress_token.is_some() {
            call = call.with_progress();
        }
        let mut waiting = CallResponder {
            mcp: Arc::clone(&self.mcp),
            principal: Arc::clone(&self.principal),
            era: self.era,
            is_challenged: self.is_challenged,
            method,
            params: Map::new(),
            answers: Map::new(),
        };
        if self.era == ProtocolEra::Modern {
            let mut remembered = None;
            let asked_before =
                params.contains_key("requestState") || params.contains_key("inputResponses");
            if asked_before {
                let request = call_state::fingerprint_call(method, &params);
                let (seal, now) = (&self.mcp.seal, SystemClock.now());
                let kept =
                    call_state::restore_call_state(seal, &self.principal, &request, &params, now)?;
                (waiting.answers, remembered) = (kept.answers, kept.memory);
            }
            call = call.with_answers(waiting.answers.clone()).with_resume_state(remembered);
            waiting.params = params;
        }
        let (context, heard) = match may_speak {
            true => {
                let (context, heard) = call.start_with_updates();
                (context, Some(heard))
            }
            false => (call.start_without_updates(), None),
        };
        let stoppable_by = self.stoppable_by;
        let stopped =
            stoppable_by.as_ref().map(|whose| self.mcp.cancellable_calls.register_call(whose, id));
        Ok(McpReply::Call(Box::new(RunningCall {
            running: Some(catch_panic(work(context, waiting))),
            tool: None,
            mcp: self.mcp,
            era: self.era,
            id: id.clone(),
            principal: self.principal,
            stoppable_by,
            stopped,
            progress_token,
            messages: heard,
            ready: VecDeque::new(),
            open: Vec::new(),
        })))
    }
}

/// Serializes a result; off the request thread if it is long, because other requests would have to wait.
async fn serialize_result(
    result: Map<String, Value>,
    write: impl FnOnce(Map<String, Value>) -> String + Send + 'static,
) -> String {
    match estimate_object_size(&result) <= MAX_INLINE_BYTES {
        true => write(result),
        false => run_one_at_a_time(move || write(result)).await,
    }
}

/// The legacy error for a failed subscription; the modern era has none.
fn subscription_error(uri: &str, why: SubscribeError) -> RpcErrorResponse {
    match why {
        SubscribeError::Missing => {
            RpcErrorResponse { code: -32002, ..RpcErrorResponse::no_such_resource(uri) }
        }
        SubscribeError::Unsupported | SubscribeError::TooMany => {
            RpcErrorResponse::invalid_params(why.to_string())
        }
        SubscribeError::Failed(why) => RpcErrorResponse::internal_error(why),
    }
}

/// Turns a panic of a tool into an error.
fn catch_panic(running: CallFuture) -> CallFuture {
    Box::pin(AssertUnwindSafe(running).catch_unwind().map(|ended| {
        ended.unwrap_or_else(|_| {
            tracing::error!("a tool panicked");
            Err(RpcErrorResponse::internal_error("the tool failed inside"))
        })
    }))
}

/// Maximum length of a prompt name, in bytes.
const MAX_PROMPT_NAME_BYTES: usize = 1 << 10;

/// Builds the answer of a call from its outcome.
pub(crate) struct CallResponder {
    mcp: Arc<McpEndpoint>,
    principal: Arc<str>,
    era: ProtocolEra,
    is_challenged: bool,
    /// The original request: its fingerprint binds `requestState` to the call.
    method: &'static str,
    params: Map<String, Value>,
    answers: Map<String, Value>,
}

impl CallResponder {
    /// The answer of a finished call. Clients validate it against the tool's output schema, if there is one.
    fn respond_to_call(
        &self,
        done: CompletedCall,
        is_promised: bool,
    ) -> Result<String, RpcErrorResponse> {
        if self.is_challenged
            && let Some(failure) = done.scope_failure()
        {
            return Err(RpcErrorResponse::scopes_missing(failure));
        }
        let answer = if is_promised { done.into_strict_answer() } else { done.into_tool_answer() };
        Ok(match answer {
            ToolAnswer::Built(result) => self.tool_result_json(result),
            ToolAnswer::Relayed(result) => self.upstream_result_json(result),
        })
    }

    fn tool_result_json(&self, mut result: ToolResult) -> String {
        if self.era == ProtocolEra::Legacy {
            return serde_json::to_string(&result).expect("a result is JSON");
        }
        let mut meta = std::mem::take(&mut result.meta);
        meta.shift_remove(protocol_era::SERVER);
        let mut text = serde_json::to_string(&result).expect("a result is JSON");
        text.pop();
        text.push_str(&protocol_era::SERVER_INFO_META);
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
    fn upstream_result_json(&self, mut result: Map<String, Value>) -> String {
        result.shift_remove("resultType");
        self.era.complete_result(result)
    }

    /// Ends the call with questions; the client sends the call again with the answers.
    fn input_required(
        &self,
        questions: Vec<(Box<str>, InputRequest)>,
        memory: Option<String>,
    ) -> Result<String, RpcErrorResponse> {
        let (seal, now) = (&self.mcp.seal, SystemClock.now());
        let call = call_state::fingerprint_call(self.method, &self.params);
        let kept = ResumableCallState { answers: self.answers.clone(), memory };
        let state = call_state::seal_call_state(seal, &self.principal, &call, kept, now)?;
        let requests: Map<String, Value> = questions
            .iter()
            .map(|(key, question)| (key.to_string(), mcp_tasks::question_to_json(question)))
            .collect();
        let result = Map::from_iter([
            ("inputRequests".to_owned(), Value::Object(requests)),
            ("requestState".to_owned(), Value::String(state)),
        ]);
        Ok(self.era.typed_result(result, "input_required"))
    }

    fn respond_to_offer(
        &self,
        got: OfferResult,
        call: &CallContext,
        missing: impl FnOnce() -> RpcErrorResponse,
    ) -> Result<String, RpcErrorResponse> {
        match got {
            OfferResult::Result(result) => Ok(self.era.complete_result(result)),
            OfferResult::InputRequired(questions) => {
                self.input_required(questions, call.take_resume_state())
            }
            OfferResult::MissingCapability(ability) => {
                Err(RpcErrorResponse::missing_capability(ability))
            }
            OfferResult::Missing => Err(missing()),
            OfferResult::Invalid(why) => Err(RpcErrorResponse::invalid_params(why)),
            OfferResult::Failed(failure) if self.is_challenged && !failure.scopes.is_empty() => {
                Err(RpcErrorResponse::scopes_missing(&failure))
            }
            OfferResult::Failed(failure) => Err(RpcErrorResponse::from_failure(&failure)),
        }
    }
}

pub(crate) fn required_text(
    params: &Map<String, Value>,
    name: &str,
) -> Result<String, RpcErrorResponse> {
    let value = params.get(name).and_then(Value::as_str);
    value
        .map(str::to_owned)
        .ok_or_else(|| RpcErrorResponse::invalid_params(format!("`{name}` must be a text")))
}

/// Takes the arguments out of the parameters, which are not read again.
fn take_arguments(params: &mut Map<String, Value>) -> Result<Map<String, Value>, RpcErrorResponse> {
    match params.get_mut("arguments") {
        Some(Value::Object(arguments)) => Ok(std::mem::take(arguments)),
        _ => clone_arguments(params),
    }
}

fn clone_arguments(params: &Map<String, Value>) -> Result<Map<String, Value>, RpcErrorResponse> {
    match params.get("arguments") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(arguments)) => Ok(arguments.clone()),
        Some(_) => Err(RpcErrorResponse::invalid_params("`arguments` must be an object")),
    }
}
