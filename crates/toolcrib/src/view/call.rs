//! Calls a tool for an agent: finds it in the agent's view, executes it, measures it and records it.
//!
//! There is no other way to call a tool for an agent.

mod async_job;
mod builtin_call;
mod call_recording;
mod call_result;
mod custom_call;
mod mcp_call;
mod missing_output;
mod result_budget;
mod result_shaping;
mod retry;
mod workflow_call;

use std::sync::Arc;

use calls::call_failures::internal_failure;
use calls::compiled_tool::{CompiledHttpTool, CompiledTool};
use calls::principal::principal_hash;
use calls::source_gates::QuotaCharge;
use calls::telemetry;
use calls::telemetry::CallOutcome;
use calls::upstream_connections::mcp_bridge::trace_headers;
use catalog::CataloguedTool;
use execution::{ArgumentValidator, CallCredentials, RenderedRequest};
use model::{CallFailure, ErrorCode, McpPrimitive, Outcome, ToolId, TraceContext};
use provider::{
    CallContext, InputError, ProvidedTool, ProviderError, ToolProvider, catch_provider_panic,
};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{AgentView, MetaTool, ToolLookupError, ViewedTool, meta_tools};
use crate::viewed_tool::ToolOrigin;

pub use self::call_result::{CallResult, CompletedCall, ToolAnswer};
use self::call_result::{RawCallResult, failed_outcome};
use self::mcp_call::into_mcp_result;
pub use self::result_budget::ContinuationSupport;
pub(super) use self::result_shaping::{remove_reserved_fields, shape_mcp_offer};
pub(super) use self::workflow_call::WorkflowNesting;

/// Why a call ended before it had an outcome.
enum CallStop {
    Failed(CallFailure),
    Ended(CallResult),
}

impl From<CallFailure> for CallStop {
    fn from(failure: CallFailure) -> Self {
        Self::Failed(failure)
    }
}

impl AgentView {
    /// Calls a tool by name, for a caller that receives no progress and cannot be asked.
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, ToolLookupError> {
        let tool = self.find(name).inspect_err(|missing| self.record_missing_tool(missing))?;
        Ok(self.call_for_outcome(&tool, arguments, &CallContext::silent()).await)
    }

    /// Calls a catalog tool by id, for a caller that receives no progress and cannot be asked.
    pub async fn call_by_id(
        &self,
        id: &ToolId,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, ToolLookupError> {
        let tool = self.find_by_id(id).inspect_err(|missing| self.record_missing_tool(missing))?;
        Ok(self.call_for_outcome(&tool, arguments, &CallContext::silent()).await)
    }

    /// Calls a tool that was found in this view.
    pub async fn call_found_tool(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> CallResult {
        self.measure_call(tool, arguments, call).await
    }

    /// Calls a tool that was found in this view, for a caller that cannot be asked, and returns the outcome.
    pub async fn call_for_outcome(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Outcome {
        let start = Instant::now();
        let failure = match self.measure_call(tool, arguments, call).await {
            CallResult::Completed(done) => return done.into_outcome(),
            CallResult::MissingCapability(ability) => {
                tool_failure(InputError::Unsupported(ability).to_string())
            }
            CallResult::InputRequired(_) => tool_failure(InputError::Pending.to_string()),
            CallResult::ProtocolError { message, error_code: as_ours, .. } => {
                CallFailure::new(as_ours, message, false)
            }
        };
        failed_outcome(tool.reported_id(), start, failure)
    }

    /// The first HTTP request that a call would send, without credentials; `None` if the tool sends none. Nothing is
    /// sent, measured or recorded.
    pub fn preview_request(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
    ) -> Result<Option<RenderedRequest>, CallFailure> {
        let ToolOrigin::Catalog(entry) = tool.origin() else { return Ok(None) };
        let Some(source) = self.snapshot.source(&entry.tool.source) else { return Ok(None) };
        match &*self.crib.ready_tool(entry, source)? {
            CompiledTool::Http(http) => {
                render_request(http, &http.tool.validate_arguments(arguments)?).map(Some)
            }
            CompiledTool::Builtin(_)
            | CompiledTool::Custom(_)
            | CompiledTool::Workflow(_)
            | CompiledTool::Mcp(_) => Ok(None),
        }
    }

    /// The id of the catalog tool that a call targets, also through `execute_tool`; `None` for tools of no source.
    pub fn called_tool_id(
        &self,
        tool: &ViewedTool,
        arguments: &Map<String, Value>,
    ) -> Option<ToolId> {
        self.resolve_execute_target(tool, arguments).as_ref().unwrap_or(tool).id().cloned()
    }

    /// Measures a call and runs it.
    async fn measure_call(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> CallResult {
        // A call through `execute_tool` is recorded as a call of the inner tool only.
        if let Some(inner) = self.resolve_execute_target(tool, &arguments) {
            let (_, arguments) = meta_tools::parse_execute_arguments(arguments);
            return Box::pin(self.measure_call(&inner, arguments, call)).await;
        }
        let (source, trace) = (source_label(tool), self.via.trace.as_ref());
        let measured = self.crib.telemetry().start_call(source, McpPrimitive::Tool, trace);
        call.set_trace(measured.trace_context().or_else(|| trace.cloned()));
        let called = match self.count_call() {
            Ok(_counted) => self.record_call(tool, arguments, call).await,
            // A caller over its limit may repeat this often, so it gets no row in the call log.
            Err(failure) => {
                let (tool_id, start) = (tool.reported_id(), Instant::now());
                CallResult::Completed(Box::new(CompletedCall {
                    tool_id,
                    start,
                    raw: RawCallResult::Failed(failure),
                }))
            }
        };
        let outcome = call_recording::telemetry_outcome(&called);
        if let (Some(hints), CallOutcome::Completed) = (self.crib.hints(), outcome) {
            hints.record_use(&self.agent, &tool.reported_id());
        }
        measured.finish(outcome);
        called
    }

    /// Counts a call against the agent's overall limit. Steps of a workflow belong to the call of the workflow.
    pub(super) fn count_call(&self) -> Result<Option<QuotaCharge>, CallFailure> {
        let gates = self.crib.gates();
        match self.parent_workflow.is_none() && gates.has_agent_limit() {
            true => gates.charge_agent(principal_hash(&self.agent)).map(Some),
            false => Ok(None),
        }
    }

    async fn record_call(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> CallResult {
        let Some(recording) = self.begin_tool_recording(tool, &arguments) else {
            return self.dispatch_call(tool, arguments, call).await;
        };
        if self.crib.refuses_calls() {
            recording.discard();
            let (tool_id, start) = (tool.reported_id(), Instant::now());
            let by = RawCallResult::Failed(call_recording::recording_unavailable());
            return CallResult::Completed(Box::new(CompletedCall { tool_id, start, raw: by }));
        }
        self.resume_recording(call);
        let start = Instant::now();
        let called = self.dispatch_call(tool, arguments, call).await;
        self.finish_recording((tool, start), recording, called, call).await
    }

    /// The tool that `execute_tool` would call, if its arguments name one.
    fn resolve_execute_target(
        &self,
        tool: &ViewedTool,
        arguments: &Map<String, Value>,
    ) -> Option<ViewedTool> {
        let ToolOrigin::Meta(MetaTool::Execute) = tool.origin() else { return None };
        check_arguments(MetaTool::Execute.argument_schema(), arguments).ok()?;
        let name = arguments.get("name").and_then(Value::as_str)?;
        self.find(name).ok().filter(|tool| !matches!(tool.origin(), ToolOrigin::Meta(_)))
    }

    async fn dispatch_call(
        &self,
        tool: &ViewedTool,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> CallResult {
        let (start, tool_id) = (Instant::now(), tool.reported_id());
        let by = match tool.origin() {
            // Boxed: this future is large, and calls of other tools would carry its size.
            ToolOrigin::Catalog(entry) => {
                match Box::pin(self.run_catalog_tool(entry, arguments, call)).await {
                    Ok(by) => by,
                    Err(CallStop::Failed(failure)) => RawCallResult::Failed(failure),
                    Err(CallStop::Ended(called)) => return called,
                }
            }
            ToolOrigin::Provider(tool, provider) => {
                match self.run_provider_tool(tool, provider.as_ref(), arguments, call).await {
                    Ok(by) => by,
                    Err(called) => return called,
                }
            }
            ToolOrigin::Meta(tool) => {
                if let Err(failure) = check_arguments(tool.argument_schema(), &arguments) {
                    RawCallResult::Failed(failure)
                } else if *tool == MetaTool::Search {
                    RawCallResult::Local(meta_tools::run_tool_search(self, &arguments).await)
                } else {
                    let (name, _) = meta_tools::parse_execute_arguments(arguments);
                    match self.find(&name) {
                        Ok(_) => RawCallResult::Failed(tool_failure(format!(
                            "`{name}` is not called by way of execute_tool"
                        ))),
                        Err(missing) => RawCallResult::Failed(CallFailure::new(
                            ErrorCode::NotGranted,
                            missing.to_string(),
                            false,
                        )),
                    }
                }
            }
        };
        CallResult::Completed(Box::new(CompletedCall { tool_id, start, raw: by }))
    }

    async fn run_catalog_tool(
        &self,
        entry: &Arc<CataloguedTool>,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<RawCallResult, CallStop> {
        let source = self.snapshot.source(&entry.tool.source);
        let is_served = self.snapshot.served().contains(entry.slot);
        let Some(source) = source.filter(|_| is_served) else {
            return Err(internal_failure("the tool is not served").into());
        };
        let ready = self.crib.ready_tool(entry, source)?;
        let may = || self.check_scopes(&source.source, Some(&entry.tool));
        let arguments = match ready.argument_schema() {
            Some(schema) => {
                let arguments = prepare_arguments(schema, arguments)?;
                may()?;
                arguments
            }
            None => arguments,
        };
        // Keeps the permits for long answers of this source until the answer is shortened.
        let mut large = None;
        let outcome = match &*ready {
            CompiledTool::Http(http) => {
                let arguments = http.tool.validate_arguments(arguments)?;
                may()?;
                if http.tool.is_job() {
                    let (outcome, places) = self.run_job(source, http, &arguments, call).await?;
                    large = places;
                    outcome
                } else {
                    let request = render_request(http, &arguments)?;
                    let reply =
                        self.send_tool_request(&source.source, http, request, call.trace()).await?;
                    large = reply.large;
                    reply.outcome
                }
            }
            CompiledTool::Builtin(it) => {
                self.run_builtin_tool(source, entry, it, arguments).await?
            }
            CompiledTool::Custom(it) => self.run_custom_tool(source, entry, it, arguments).await?,
            CompiledTool::Workflow(it) => {
                self.run_workflow(&source.source, &entry.tool.id, it, arguments, call).await?
            }
            CompiledTool::Mcp(it) => {
                let (id, wanted) = (&entry.tool.id, it.to_mcp_request(arguments));
                let asked = self.call_mcp_server(&source.source, id, wanted, call);
                let bridged = self.run_while_granted(id, asked).await?;
                let result = into_mcp_result(bridged, call)?;
                let result = result_shaping::shape_mcp_result(
                    &entry.tool.source,
                    result,
                    ready.projection(),
                )
                .await?;
                let (result, is_cut) = self.truncate_mcp_result(&entry.tool, result).await;
                return Ok(RawCallResult::Mcp { result, is_cut });
            }
        };
        let outcome = result_shaping::project_outcome(outcome, ready.projection()).await?;
        let outcome = self.truncate_outcome(&entry.tool, outcome).await;
        drop(large);
        let promised = ready.output_schema().is_some().then(|| Arc::clone(&ready));
        Ok(RawCallResult::Upstream(outcome, promised))
    }

    async fn run_provider_tool(
        &self,
        tool: &Arc<ProvidedTool>,
        provider: &dyn ToolProvider,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<RawCallResult, CallResult> {
        let arguments = match prepare_arguments(&self.crib.provided_tool_arguments(tool), arguments)
        {
            Ok(arguments) => arguments,
            Err(failure) => return Ok(RawCallResult::Failed(failure)),
        };
        let _awaited = call.guard();
        let called =
            catch_provider_panic(&tool.name, || provider.call_tool(&tool.name, arguments, call))
                .await;
        let error = match called {
            Ok(result) => return Ok(RawCallResult::Local(result)),
            Err(error) => error,
        };
        match error {
            ProviderError::Input(InputError::Pending) => {
                Err(CallResult::InputRequired(call.take_pending_input()))
            }
            ProviderError::Input(InputError::Unsupported(ability)) => {
                Err(CallResult::MissingCapability(ability))
            }
            ProviderError::Protocol { code, message } => {
                let as_ours = ErrorCode::BuiltinError;
                Err(CallResult::ProtocolError { code, message, data: None, error_code: as_ours })
            }
            error @ (ProviderError::Input(InputError::Refused(_))
            | ProviderError::Failed(_)
            | ProviderError::Invalid(_)
            | ProviderError::ToolNotFound { .. }) => {
                Ok(RawCallResult::Failed(tool_failure(error.agent_message())))
            }
        }
    }
}

/// Adds the headers of the trace that the call belongs to.
fn with_trace_headers(mut given: CallCredentials, trace: Option<&TraceContext>) -> CallCredentials {
    let headers = trace.into_iter().flat_map(trace_headers);
    given.trace.extend(headers.map(|(name, value)| (name.to_owned(), value)));
    given
}

fn check_arguments(
    schema: &ArgumentValidator,
    arguments: &Map<String, Value>,
) -> Result<(), CallFailure> {
    schema.check(arguments).map_err(execution::invalid_arguments_failure)
}

/// Checks the arguments and returns them in the form in which they are sent.
fn prepare_arguments(
    schema: &ArgumentValidator,
    arguments: Map<String, Value>,
) -> Result<Map<String, Value>, CallFailure> {
    schema.validate(arguments).map_err(execution::invalid_arguments_failure)
}

fn render_request(
    http: &CompiledHttpTool,
    arguments: &Map<String, Value>,
) -> Result<RenderedRequest, CallFailure> {
    let request = http.tool.render_request(arguments);
    request.map_err(|error| CallFailure::new(error.code(), error.to_string(), false))
}

/// The source under which calls of a tool are recorded and counted.
fn source_label(tool: &ViewedTool) -> &str {
    match tool.origin() {
        ToolOrigin::Catalog(entry) => entry.tool.source.as_str(),
        ToolOrigin::Provider(..) => telemetry::LABEL_PROVIDER,
        ToolOrigin::Meta(_) => telemetry::LABEL_TOOLCRIB,
    }
}

impl ViewedTool {
    /// The id of the tool in outcomes and in the call log, also for tools outside the catalog.
    pub fn reported_id(&self) -> ToolId {
        if let ToolOrigin::Catalog(entry) = self.origin() {
            return entry.tool.id.clone();
        }
        let named = |name: &str| format!("{}:{name}", source_label(self)).parse();
        named(self.name()).unwrap_or_else(|_| named("unnamed").expect("it is an id"))
    }
}

pub(super) fn tool_failure(message: String) -> CallFailure {
    CallFailure::new(ErrorCode::BuiltinError, message, false)
}
