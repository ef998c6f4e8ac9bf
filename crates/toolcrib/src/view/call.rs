//! Calls a tool for an agent: finds it in the agent's view, executes it, measures it and records it.
//!
//! There is no other way to call a tool for an agent.

mod budget;
mod builtin;
mod custom;
mod done;
mod job;
mod promise;
mod recorded;
mod server;
mod shaped;
mod tries;
mod workflow;

use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;

use catalog::CataloguedTool;
use execution::{Arguments, Given, Request};
use model::{ErrorCode, Failure, Outcome, Primitive, ToolId, TraceContext};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::ready::{HttpReady, Ready};
use super::tool::Origin;
use super::{AgentView, MetaTool, NotFound, ViewedTool, meta};
use crate::call::{CallContext, NoAnswer};
use crate::gates::Counted;
use crate::provider::{ProvidedTool, ProviderError, ToolProvider, caught};
use crate::telemetry;
use crate::telemetry::CallOutcome;
use crate::upstreams::bridge::trace_headers;
use crate::upstreams::number;

pub use self::budget::ReadsOn;
pub use self::done::{Called, Done, ToolAnswer};
use self::done::{DoneBy, failed};
use self::server::result_of_server;
pub(super) use self::shaped::{offer_of_server, without_our_words};
pub(super) use self::workflow::Nested;

/// Why a call ended before it had an outcome.
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
    /// Calls a tool by name, for a caller that receives no progress and cannot be asked.
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, NotFound> {
        let tool = self.find(name).inspect_err(|missing| self.record_missing(missing))?;
        Ok(self.outcome_of(&tool, arguments, &CallContext::silent()).await)
    }

    /// Calls a catalog tool by id, for a caller that receives no progress and cannot be asked.
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

    /// Calls a tool that was found in this view, for a caller that cannot be asked, and returns the outcome.
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

    /// The first HTTP request that a call would send, without credentials; `None` if the tool sends none. Nothing is
    /// sent, measured or recorded.
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

    /// The id of the catalog tool that a call targets, also through `execute_tool`; `None` for tools of no source.
    pub fn id_of_call(&self, tool: &ViewedTool, arguments: &Map<String, Value>) -> Option<ToolId> {
        self.meant(tool, arguments).as_ref().unwrap_or(tool).id().cloned()
    }

    /// Measures a call and runs it.
    async fn execute(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Called {
        // A call through `execute_tool` is recorded as a call of the inner tool only.
        if let Some(inner) = self.meant(tool, &arguments) {
            let (_, arguments) = meta::execution(arguments);
            return Box::pin(self.execute(&inner, arguments, call)).await;
        }
        let (source, trace) = (source_of(tool), self.via.trace.as_ref());
        let measured = self.crib.telemetry().call(source, Primitive::Tool, trace);
        call.within(measured.trace().or_else(|| trace.cloned()));
        let called = match self.counted() {
            Ok(_counted) => self.execute_recorded(tool, arguments, call).await,
            // A caller over its limit may repeat this often, so it gets no row in the call log.
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

    /// Counts a call against the agent's overall limit. Steps of a workflow belong to the call of the workflow.
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

    /// The tool that `execute_tool` would call, if its arguments name one.
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
            // Boxed: this future is large, and calls of other tools would carry its size.
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
        // Keeps the permits for long answers of this source until the answer is shortened.
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

/// Adds the headers of the trace that the call belongs to.
fn traced(mut given: Given, trace: Option<&TraceContext>) -> Given {
    let headers = trace.into_iter().flat_map(trace_headers);
    given.trace.extend(headers.map(|(name, value)| (name.to_owned(), value)));
    given
}

fn check(schema: &Arguments, arguments: &Map<String, Value>) -> Result<(), Failure> {
    schema.check(arguments).map_err(execution::wrong_arguments)
}

/// Checks the arguments and returns them in the form in which they are sent.
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

/// The source under which calls of a tool are recorded and counted.
fn source_of(tool: &ViewedTool) -> &str {
    match tool.origin() {
        Origin::Catalog(entry) => entry.tool.source.as_str(),
        Origin::Provider(..) => telemetry::PROVIDER,
        Origin::Meta(_) => telemetry::OURS,
    }
}

impl ViewedTool {
    /// The id of the tool in outcomes and in the call log, also for tools outside the catalog.
    pub fn known_as(&self) -> ToolId {
        if let Origin::Catalog(entry) = self.origin() {
            return entry.tool.id.clone();
        }
        let named = |name: &str| format!("{}:{name}", source_of(self)).parse();
        named(self.name()).unwrap_or_else(|_| named("unnamed").expect("it is an id"))
    }
}

pub(super) fn failure_of_tool(message: String) -> Failure {
    Failure::new(ErrorCode::BuiltinError, message, false)
}

pub(super) fn refused(message: &str) -> Failure {
    Failure::new(ErrorCode::InternalError, message.to_owned(), false)
}

/// Logs the cause and returns a failure without it: the cause may name files, variables and addresses, which are for
/// admins.
pub(super) fn unusable(what: &impl Display, cause: &dyn Error, message: &str) -> Failure {
    tracing::error!(%what, %cause, "`{what}` cannot be used: {cause}");
    refused(message).because(model::sentence(cause))
}
