//! A call: found among the agent's own tools, then executed. There is no other way to call for an agent.

mod budget;
mod builtin;
mod custom;
mod job;
mod promise;
mod recorded;
mod shaped;
mod tries;
mod workflow;

use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;

use catalog::CataloguedTool;
use catalog::source::Source;
use execution::{Arguments, Given, Request};
use model::{
    CallStatus, Content, ErrorCode, Failure, Name, Outcome, Primitive, ToolId, ToolResult,
    TraceContext,
};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};
use upstream::mcp::McpError;

use super::ready::{HttpReady, Ready};
use super::tool::Origin;
use super::{AgentView, MetaTool, NotFound, ViewedTool, meta};
use crate::call::{Ability, CallContext, NoAnswer, Question};
use crate::credentials::{Carried, For, Whose};
use crate::gates::{Counted, Stay};
use crate::provider::{ProvidedTool, ProviderError, ToolProvider, caught};
use crate::telemetry;
use crate::telemetry::CallOutcome;
use crate::upstreams::bridge::{self, Begun, Bridged, Wanted};
use crate::upstreams::{Upstream, UpstreamError, number};

pub use self::budget::ReadsOn;
pub(super) use self::shaped::{offer_of_server, without_our_words};
pub(super) use self::workflow::Nested;

/// What came of a call.
#[derive(Debug)]
pub enum Called {
    /// It was carried out, or failed.
    Done(Box<Done>),
    /// Questions to the caller; with the answers it is called again.
    Asks(Vec<(Box<str>, Question)>),
    /// The caller cannot do what the tool needs.
    Unable(Ability),
    /// The tool failed in the words of JSON-RPC.
    Error {
        /// A number of JSON-RPC or MCP.
        code: i64,
        /// For people.
        message: String,
        /// Whatever else there is to say.
        data: Option<Box<Value>>,
        /// What that is among our own codes.
        as_ours: ErrorCode,
    },
}

/// A call that was carried out, or failed.
#[derive(Debug)]
pub struct Done {
    tool_id: ToolId,
    start: Instant,
    by: DoneBy,
}

#[derive(Debug)]
enum DoneBy {
    /// An upstream, with what the tool promised of its results.
    Upstream(Outcome, Option<Arc<Ready>>),
    /// Code of ours or of whoever embeds us.
    Here(ToolResult),
    /// An MCP server, in its own words, or in the first of them.
    Mcp { result: Map<String, Value>, is_cut: bool },
    /// Nobody: something stood in the way.
    Nobody(Failure),
}

/// What came of a call, in the shape of MCP.
#[derive(Debug)]
pub enum ToolAnswer {
    /// Written by us.
    Ours(ToolResult),
    /// The result of an MCP server, as it came, and whose it is.
    Theirs(Map<String, Value>),
}

/// Why nothing was carried out.
enum Stopped {
    By(Failure),
    With(Called),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::By(failure)
    }
}

impl AgentView {
    /// Calls a tool by name, for a caller that hears nothing on the way and cannot be asked.
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, NotFound> {
        let tool = self.find(name).inspect_err(|missing| self.record_missing(missing))?;
        Ok(self.outcome_of(&tool, arguments, &CallContext::silent()).await)
    }

    /// Calls a tool of the catalog by id, for a caller that hears nothing on the way and cannot be asked.
    pub async fn call_id(
        &self,
        id: &ToolId,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, NotFound> {
        let tool = self.find_id(id).inspect_err(|missing| self.record_missing(missing))?;
        Ok(self.outcome_of(&tool, arguments, &CallContext::silent()).await)
    }

    /// Calls a tool that was found in this view.
    pub async fn call_with(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Called {
        self.execute(tool, arguments, call).await
    }

    /// What comes of a call of a tool that was found in this view, for a caller that cannot be asked.
    pub async fn outcome_of(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Outcome {
        let start = Instant::now();
        let failure = match self.execute(tool, arguments, call).await {
            Called::Done(done) => return done.into_outcome(),
            Called::Unable(ability) => failure_of_tool(NoAnswer::Unable(ability).to_string()),
            Called::Asks(_) => failure_of_tool(NoAnswer::Later.to_string()),
            Called::Error { message, as_ours, .. } => Failure::new(as_ours, message, false),
        };
        failed(tool.known_as(), start, failure)
    }

    /// The request that a call of a tool would send first, without credentials; none if it sends no such request. Nothing
    /// is sent, measured or recorded.
    pub fn request_of(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
    ) -> Result<Option<Request>, Failure> {
        let Origin::Catalog(entry) = tool.origin() else { return Ok(None) };
        let Some(source) = self.snapshot.source(&entry.tool.source) else { return Ok(None) };
        match &*self.crib.ready(entry, source)? {
            Ready::Http(http) => request(http, &http.tool.checked(arguments)?).map(Some),
            Ready::Builtin(_) | Ready::Custom(_) | Ready::Workflow(_) | Ready::Mcp(_) => Ok(None),
        }
    }

    /// The tool of the catalog that a call is of, by way of `execute_tool` too; none if it is of no source.
    pub fn id_of_call(&self, tool: &ViewedTool, arguments: &Map<String, Value>) -> Option<ToolId> {
        self.meant(tool, arguments).as_ref().unwrap_or(tool).id().cloned()
    }

    /// Carries out a call, measures and records it.
    async fn execute(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Called {
        // What it calls is recorded, and not the way to it.
        if let Some(inner) = self.meant(tool, &arguments) {
            let (_, arguments) = meta::execution(arguments);
            return Box::pin(self.execute(&inner, arguments, call)).await;
        }
        let (source, trace) = (source_of(tool), self.via.trace.as_ref());
        let measured = self.crib.telemetry().call(source, Primitive::Tool, trace);
        call.within(measured.trace().or_else(|| trace.cloned()));
        let called = match self.counted() {
            Ok(_counted) => self.execute_recorded(tool, arguments, call).await,
            // It may come again and again: there is no row of it.
            Err(failure) => {
                let (tool_id, start) = (tool.known_as(), Instant::now());
                Called::Done(Box::new(Done { tool_id, start, by: DoneBy::Nobody(failure) }))
            }
        };
        let outcome = recorded::outcome(&called);
        if let (Some(hints), CallOutcome::Completed) = (self.crib.hints(), outcome) {
            hints.used(&self.agent, &tool.known_as());
        }
        measured.end(outcome);
        called
    }

    /// Counts a call among all of this agent. The steps of a workflow are part of its call.
    pub(super) fn counted(&self) -> Result<Option<Counted>, Failure> {
        let gates = self.crib.gates();
        match self.within.is_none() && gates.counts_agents() {
            true => gates.count_agent(number(&self.agent)).map(Some),
            false => Ok(None),
        }
    }

    async fn execute_recorded(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Called {
        let Some(recording) = self.recording(tool, &arguments) else {
            return self.carry_out(tool, arguments, call).await;
        };
        if self.crib.refuses_calls() {
            recording.forget();
            let (tool_id, start) = (tool.known_as(), Instant::now());
            let by = DoneBy::Nobody(recorded::unrecordable());
            return Called::Done(Box::new(Done { tool_id, start, by }));
        }
        self.made_again(call);
        let start = Instant::now();
        let called = self.carry_out(tool, arguments, call).await;
        self.ended((tool, start), recording, called, call).await
    }

    /// The tool that `execute_tool` is to call, if that can be said.
    fn meant(&self, tool: &ViewedTool, arguments: &Map<String, Value>) -> Option<ViewedTool> {
        let Origin::Meta(MetaTool::Execute) = tool.origin() else { return None };
        check(MetaTool::Execute.arguments(), arguments).ok()?;
        let name = arguments.get("name").and_then(Value::as_str)?;
        self.find(name).ok().filter(|tool| !matches!(tool.origin(), Origin::Meta(_)))
    }

    async fn carry_out(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Called {
        let (start, tool_id) = (Instant::now(), tool.known_as());
        let by = match tool.origin() {
            // Large: a call of anything else would carry it about.
            Origin::Catalog(entry) => {
                match Box::pin(self.execute_catalogued(entry, arguments, call)).await {
                    Ok(by) => by,
                    Err(Stopped::By(failure)) => DoneBy::Nobody(failure),
                    Err(Stopped::With(called)) => return called,
                }
            }
            Origin::Provider(tool, provider) => {
                match self.provided_call(tool, provider.as_ref(), arguments, call).await {
                    Ok(by) => by,
                    Err(called) => return called,
                }
            }
            Origin::Meta(tool) => {
                if let Err(failure) = check(tool.arguments(), &arguments) {
                    DoneBy::Nobody(failure)
                } else if *tool == MetaTool::Search {
                    DoneBy::Here(meta::search(self, &arguments).await)
                } else {
                    let (name, _) = meta::execution(arguments);
                    match self.find(&name) {
                        Ok(_) => DoneBy::Nobody(failure_of_tool(format!(
                            "`{name}` is not called by way of execute_tool"
                        ))),
                        Err(missing) => DoneBy::Nobody(Failure::new(
                            ErrorCode::NotGranted,
                            missing.to_string(),
                            false,
                        )),
                    }
                }
            }
        };
        Called::Done(Box::new(Done { tool_id, start, by }))
    }

    async fn execute_catalogued(
        &self,
        entry: &Arc<CataloguedTool>,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<DoneBy, Stopped> {
        let source = self.snapshot.source(&entry.tool.source);
        let is_served = self.snapshot.served().contains(entry.slot);
        let Some(source) = source.filter(|_| is_served) else {
            return Err(refused("the tool is not served").into());
        };
        let ready = self.crib.ready(entry, source)?;
        let may = || self.check_scopes(&source.source, Some(&entry.tool));
        let arguments = match ready.arguments() {
            Some(schema) => {
                let arguments = checked(schema, arguments)?;
                may()?;
                arguments
            }
            None => arguments,
        };
        // Other long answers of the source wait until this one is as short as it is handed out.
        let mut large = None;
        let outcome = match &*ready {
            Ready::Http(http) => {
                let arguments = http.tool.checked(arguments)?;
                may()?;
                if http.tool.is_job() {
                    let (outcome, places) = self.do_job(source, http, &arguments, call).await?;
                    large = places;
                    outcome
                } else {
                    let request = request(http, &arguments)?;
                    let reply = self.send(&source.source, http, request, call.trace()).await?;
                    large = reply.large;
                    reply.outcome
                }
            }
            Ready::Builtin(it) => self.do_builtin(source, entry, it, arguments).await?,
            Ready::Custom(it) => self.do_custom(source, entry, it, arguments).await?,
            Ready::Workflow(it) => {
                self.run_workflow(&source.source, &entry.tool.id, it, arguments, call).await?
            }
            Ready::Mcp(it) => {
                let (id, wanted) = (&entry.tool.id, it.wanted(arguments));
                let asked = self.ask_server(&source.source, id, wanted, call);
                let bridged = self.while_it_has(id, asked).await?;
                let result = result_of_server(bridged, call)?;
                let result =
                    shaped::of_server(&entry.tool.source, result, ready.projection()).await?;
                let (result, is_cut) = self.result_within_budget(&entry.tool, result).await;
                return Ok(DoneBy::Mcp { result, is_cut });
            }
        };
        let outcome = shaped::outcome(outcome, ready.projection()).await?;
        let outcome = self.within_budget(&entry.tool, outcome).await;
        drop(large);
        let promised = ready.output().is_some().then(|| Arc::clone(&ready));
        Ok(DoneBy::Upstream(outcome, promised))
    }

    /// Asks again, once, if the server refuses a token from earlier.
    async fn ask_with_token(
        &self,
        source: &Source,
        wanted: Wanted,
        (until, stay): (Instant, &mut Stay<'_>),
        call: &CallContext,
    ) -> Result<Bridged, Bridged> {
        let parked = &self.crib.upstreams().parked;
        if let Some(waited) = parked.take(&self.agent, &wanted, call) {
            let begun = Begun::Before(Box::new(waited?));
            return Ok(bridge::bridge(parked, begun, &self.agent, wanted, call, stay).await);
        }
        let upstream = self.upstream(source, wanted.audience.as_ref(), until).await?;
        let held = upstream.carried.token.clone();
        let bridged = self.ask(upstream, wanted.clone(), call, stay).await;
        match held {
            Some(held) if matches!(bridged, Bridged::Refused(_)) => {
                if !self.crib.keyring().refused(&held).await {
                    return Ok(bridged);
                }
                let upstream = self.upstream(source, wanted.audience.as_ref(), until).await?;
                Ok(self.ask(upstream, wanted, call, stay).await)
            }
            _ => Ok(bridged),
        }
    }

    pub(super) async fn ask(
        &self,
        upstream: Upstream,
        wanted: Wanted,
        call: &CallContext,
        stay: &mut Stay<'_>,
    ) -> Bridged {
        let parked = &self.crib.upstreams().parked;
        let begun = Begun::With(Box::new(upstream));
        bridge::bridge(parked, begun, &self.agent, wanted, call, stay).await
    }

    /// A connection to the MCP server of a source, for this agent; or why there is none by then.
    pub(super) async fn upstream(
        &self,
        source: &Source,
        audience: Option<&Name>,
        until: Instant,
    ) -> Result<Upstream, Bridged> {
        let carried = self.carried(source, audience, until).await?;
        let held = carried.token.clone();
        let opened = self.open(source, carried, until).await?;
        let opened = match (opened, held) {
            (Err(UpstreamError::Mcp(McpError::Unauthorized { status: 401, .. })), Some(held))
                if self.crib.keyring().refused(&held).await =>
            {
                self.open(source, self.carried(source, audience, until).await?, until).await?
            }
            (opened, _) => opened,
        };
        opened.map_err(|error| match error {
            UpstreamError::Mcp(error) => Bridged::after(&error),
            UpstreamError::Busy | UpstreamError::Full => {
                let failure = Failure::new(ErrorCode::RateLimited, error.to_string(), true);
                Bridged::Failed(Failure { retry_after: Some(1), ..failure })
            }
            error => Bridged::Failed(unusable(&source.id, &error, "the source cannot be reached")),
        })
    }

    async fn carried(
        &self,
        source: &Source,
        audience: Option<&Name>,
        until: Instant,
    ) -> Result<Carried, Bridged> {
        let (keyring, secrets) = (self.crib.keyring(), self.crib.secrets());
        let whose = Whose::Agent(&self.agent, &self.came_with);
        let wanted = For::tool(source, audience);
        let carried = keyring.carried(&wanted, whose, secrets);
        let carried = timeout_at(until, carried).await;
        let late = |_| Err(tries::late(&source.profile.auth));
        carried.unwrap_or_else(late).map_err(Bridged::Failed)
    }

    async fn open(
        &self,
        source: &Source,
        carried: Carried,
        until: Instant,
    ) -> Result<Result<Upstream, UpstreamError>, Bridged> {
        let (upstreams, secrets) = (self.crib.upstreams(), self.crib.secrets());
        let opened = upstreams.for_agent(source, &self.agent, secrets, carried);
        // Nothing was asked of it yet.
        timeout_at(until, opened).await.map_err(|_| {
            let message = "the server of the source could not be connected to in time";
            Bridged::Broken(Failure::new(ErrorCode::UpstreamTimeout, message, true))
        })
    }

    async fn provided_call(
        &self,
        tool: &Arc<ProvidedTool>,
        provider: &dyn ToolProvider,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<DoneBy, Called> {
        let arguments = match checked(&self.crib.arguments_of_provided(tool), arguments) {
            Ok(arguments) => arguments,
            Err(failure) => return Ok(DoneBy::Nobody(failure)),
        };
        let _awaited = call.awaited();
        let called = caught(&tool.name, || provider.call_tool(&tool.name, arguments, call)).await;
        let error = match called {
            Ok(result) => return Ok(DoneBy::Here(result)),
            Err(error) => error,
        };
        match error {
            ProviderError::NoAnswer(NoAnswer::Later) => Err(Called::Asks(call.take_open())),
            ProviderError::NoAnswer(NoAnswer::Unable(ability)) => Err(Called::Unable(ability)),
            ProviderError::Protocol { code, message } => {
                let as_ours = ErrorCode::BuiltinError;
                Err(Called::Error { code, message, data: None, as_ours })
            }
            error @ (ProviderError::NoAnswer(NoAnswer::Refused(_))
            | ProviderError::Failed(_)
            | ProviderError::Invalid(_)
            | ProviderError::ToolNotFound { .. }) => {
                Ok(DoneBy::Nobody(failure_of_tool(error.told())))
            }
        }
    }
}

impl Done {
    /// Why nothing was called, if the agent's token does not allow it.
    pub fn lacks_scopes(&self) -> Option<&Failure> {
        match &self.by {
            DoneBy::Nobody(failure) if !failure.scopes.is_empty() => Some(failure),
            DoneBy::Nobody(_) | DoneBy::Upstream(..) | DoneBy::Here(_) | DoneBy::Mcp { .. } => None,
        }
    }

    /// For programs (requirement E3).
    pub fn into_outcome(self) -> Outcome {
        let (tool_id, start) = (self.tool_id, self.start);
        match self.by {
            DoneBy::Upstream(outcome, _) => outcome,
            DoneBy::Nobody(failure) => failed(tool_id, start, failure),
            DoneBy::Here(result) => {
                let text = result.content.iter().find_map(|content| match content {
                    Content::Text { text } => Some(text.clone()),
                    _ => None,
                });
                let error = code_of(&result).map(|code| Failure::new(code, said(text), false));
                let structured = result.structured_content.map(Value::Object);
                told(tool_id, start, structured, result.content, error)
            }
            DoneBy::Mcp { result, .. } => {
                execution::outcome_of_server(tool_id, Ok(result), start.elapsed())
            }
        }
    }

    /// For agents, in the shape of MCP.
    pub fn into_answer(self) -> ToolAnswer {
        ToolAnswer::Ours(match self.by {
            DoneBy::Mcp { result, .. } => return ToolAnswer::Theirs(result),
            DoneBy::Upstream(outcome, promised) => {
                let output = promised.as_ref().and_then(|ready| ready.output());
                execution::tool_result(outcome, output)
            }
            DoneBy::Here(mut result) => {
                if result.is_error && result.code().is_none() {
                    result.meta.extend(failure_of_tool(String::new()).for_programs());
                }
                result
            }
            DoneBy::Nobody(failure) => {
                execution::tool_result(failed(self.tool_id, self.start, failure), None)
            }
        })
    }
}

impl ToolAnswer {
    /// As JSON.
    pub fn into_map(self) -> Map<String, Value> {
        match self {
            Self::Theirs(result) => result,
            Self::Ours(result) => match serde_json::to_value(result) {
                Ok(Value::Object(result)) => result,
                _ => Map::new(),
            },
        }
    }
}

/// With the trace that the call is part of.
fn traced(mut given: Given, trace: Option<&TraceContext>) -> Given {
    let headers = trace.into_iter().flat_map(bridge::trace_headers);
    given.trace.extend(headers.map(|(name, value)| (name.to_owned(), value)));
    given
}

/// What a server answered, unless that is no result.
fn result_of_server(bridged: Bridged, call: &CallContext) -> Result<Map<String, Value>, Stopped> {
    match bridged {
        Bridged::Result(result) => Ok(result),
        Bridged::Failed(failure)
        | Bridged::Denied(failure)
        | Bridged::Refused(failure)
        | Bridged::Lost(failure)
        | Bridged::Later(failure)
        | Bridged::Broken(failure) => Err(failure.into()),
        Bridged::Asks => Err(Stopped::With(Called::Asks(call.take_open()))),
        Bridged::Unable(ability) => Err(Stopped::With(Called::Unable(ability))),
        Bridged::Error(mut error) => {
            let mut data = error.raw.shift_remove("data").map(Box::new);
            match data.as_deref_mut() {
                Some(Value::Object(data)) => {
                    data.retain(|name, _| !name.starts_with("toolcrib/"));
                    without_our_words(data);
                }
                Some(Value::String(text)) => execution::tame(text),
                _ => {}
            }
            let (code, mut message) = (error.code, error.message().to_owned());
            execution::tame(&mut message);
            let as_ours = ErrorCode::UpstreamError;
            Err(Stopped::With(Called::Error { code, message, data, as_ours }))
        }
    }
}

fn check(schema: &Arguments, arguments: &Map<String, Value>) -> Result<(), Failure> {
    schema.check(arguments).map_err(execution::wrong_arguments)
}

/// The same, as they are sent.
fn checked(
    schema: &Arguments,
    arguments: Map<String, Value>,
) -> Result<Map<String, Value>, Failure> {
    schema.checked(arguments).map_err(execution::wrong_arguments)
}

fn request(http: &HttpReady, arguments: &Map<String, Value>) -> Result<Request, Failure> {
    let request = http.tool.request(arguments);
    request.map_err(|error| Failure::new(error.code(), error.to_string(), false))
}

/// What a tool is of, where calls are recorded and counted.
fn source_of(tool: &ViewedTool) -> &str {
    match tool.origin() {
        Origin::Catalog(entry) => entry.tool.source.as_str(),
        Origin::Provider(..) => telemetry::PROVIDER,
        Origin::Meta(_) => telemetry::OURS,
    }
}

impl ViewedTool {
    /// The id that outcomes and the record have for it, also if it is not in the catalog.
    pub fn known_as(&self) -> ToolId {
        if let Origin::Catalog(entry) = self.origin() {
            return entry.tool.id.clone();
        }
        let named = |name: &str| format!("{}:{name}", source_of(self)).parse();
        named(self.name()).unwrap_or_else(|_| named("unnamed").expect("it is an id"))
    }
}

fn failed(tool_id: ToolId, start: Instant, failure: Failure) -> Outcome {
    told(tool_id, start, None, Vec::new(), Some(failure))
}

fn told(
    tool_id: ToolId,
    start: Instant,
    result: Option<Value>,
    content: Vec<Content>,
    error: Option<Failure>,
) -> Outcome {
    let status = if error.is_some() { CallStatus::Failed } else { CallStatus::Completed };
    let execution_time_ms = elapsed(start);
    Outcome { tool_id, status, result, content, error, execution_time_ms, upstream_status: None }
}

/// Why a tool that was done here failed, if it did. Code that calls an API for it knows better than we do.
fn code_of(result: &ToolResult) -> Option<ErrorCode> {
    result.is_error.then(|| result.code().unwrap_or(ErrorCode::BuiltinError))
}

fn said(text: Option<String>) -> String {
    text.unwrap_or_else(|| "the tool says that it failed".into())
}

fn elapsed(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn failure_of_tool(message: String) -> Failure {
    Failure::new(ErrorCode::BuiltinError, message, false)
}

pub(super) fn refused(message: &str) -> Failure {
    Failure::new(ErrorCode::InternalError, message.to_owned(), false)
}

/// The cause is for our log: it may name files, variables and addresses that are nothing for an agent.
pub(super) fn unusable(what: &impl Display, cause: &dyn Error, message: &str) -> Failure {
    tracing::error!(%what, %cause, "`{what}` cannot be used: {cause}");
    refused(message)
}
