//! One operation of a specification: its tool, and the requests that execute a call.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use calls::source_gates::LONG_ANSWERS_PER_SOURCE;
use calls::upstream_connections::mcp_bridge::trace_headers;
use execution::{
    ArgumentValidator, CANCEL_DEADLINE, CallCredentials, HttpTool, HttpToolResponse, JOB_DEADLINE,
    JobStart, PollResult, PolledJob, RenderedRequest, UndeclaredArguments, UpstreamReply,
    to_tool_result,
};
use model::{
    CallFailure, DiscoveredTool, ErrorCode, Execution, Outcome, ToolId, ToolResult, TraceContext,
    Visibility, sanitize_description, sanitize_json, sanitize_text,
};
use provider::{CallContext, CallProgress, ProvidedTool};
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use upstream::LargeBodyLimiter;
use upstream::http::{ExchangeLimits, HttpClient, Origin};

use super::OpenApiOptions;

/// An operation with its tool.
pub(super) struct ProvidedOperation {
    pub(super) tool: Arc<ProvidedTool>,
    id: ToolId,
    discovered: DiscoveredTool,
    /// Compiled on the first call: most operations of a large specification are never called.
    compiled: OnceLock<Result<Arc<CompiledOperation>, CallFailure>>,
}

/// Everything that a call needs and that does not change between calls.
struct CompiledOperation {
    http: HttpTool,
    output: Option<ArgumentValidator>,
}

/// The HTTP client, limits and credentials of all operations of a specification.
pub(super) struct OperationClient {
    client: HttpClient,
    limits: ExchangeLimits,
    given: CallCredentials,
    origin: Option<Origin>,
}

impl OperationClient {
    pub(super) fn new(options: OpenApiOptions, origin: Option<Origin>) -> Self {
        let OpenApiOptions { credentials, own, egress, limits, .. } = options;
        let given = CallCredentials { credentials, own, ..CallCredentials::default() };
        let client = HttpClient::new(egress).with_body_limiter(
            LargeBodyLimiter::with_slots(LONG_ANSWERS_PER_SOURCE),
            ExchangeLimits::default().deadline,
        );
        Self { client, limits, given, origin }
    }
}

impl ProvidedOperation {
    pub(super) fn new(id: ToolId, discovered: DiscoveredTool, visibility: Visibility) -> Self {
        let manifest = &discovered.manifest;
        let schema = |reference| sanitize_json(discovered.schema(reference).to_served());
        let title = manifest.title.as_ref().map(|title| ("title", sanitize_text(title).into()));
        let output = manifest.output_schema.as_ref().map(|it| ("outputSchema", schema(it)));
        let ours = title.into_iter().chain(output).map(|(name, value)| (name.to_owned(), value));
        let extra = manifest.extra.iter();
        let extra = extra.map(|(name, value)| (name.to_string(), sanitize_json(value.to_value())));
        let tool = ProvidedTool {
            name: manifest.name.clone(),
            description: sanitize_description(&manifest.description).into(),
            input_schema: schema(&manifest.input_schema),
            keywords: manifest.tags.clone(),
            visibility,
            more: extra.chain(ours).collect(),
            may_outlive_request: matches!(manifest.execution, Execution::AsyncPoll { .. }),
        };
        Self { tool: Arc::new(tool), id, discovered, compiled: OnceLock::new() }
    }

    /// Calls the operation. The result also reports failures, with a code.
    pub(super) async fn call_operation(
        &self,
        wire: &Arc<OperationClient>,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> ToolResult {
        match self.get_or_compile() {
            Ok(compiled) => {
                let outcome = compiled.run_operation(wire, arguments, call).await;
                let outcome = outcome.unwrap_or_else(|failure| {
                    UpstreamReply::unsent(self.id.clone(), failure).outcome
                });
                to_tool_result(outcome, compiled.output.as_ref())
            }
            Err(failure) => {
                to_tool_result(UpstreamReply::unsent(self.id.clone(), failure).outcome, None)
            }
        }
    }

    fn get_or_compile(&self) -> Result<Arc<CompiledOperation>, CallFailure> {
        self.compiled.get_or_init(|| self.compile_operation().map(Arc::new)).clone()
    }

    fn compile_operation(&self) -> Result<CompiledOperation, CallFailure> {
        let manifest = &self.discovered.manifest;
        let schema = self.discovered.schema(&manifest.input_schema).to_value();
        let http = HttpTool::compile(self.id.clone(), manifest, &schema, HttpToolResponse::Api);
        let http = http.map_err(|error| {
            let id = &self.id;
            tracing::error!(%id, %error, "`{id}` cannot be called: {error}");
            CallFailure::new(ErrorCode::InternalError, "the tool cannot be called", false)
        })?;
        let output = manifest.output_schema.as_ref().map(|reference| {
            ArgumentValidator::compile(
                &self.discovered.schema(reference).to_value(),
                UndeclaredArguments::Sent,
            )
        });
        Ok(CompiledOperation { http, output })
    }
}

impl CompiledOperation {
    /// Sends the request; if it starts a job, polls its status until it ends (requirement E2).
    async fn run_operation(
        self: &Arc<Self>,
        wire: &Arc<OperationClient>,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<Outcome, CallFailure> {
        let arguments = self.http.validate_arguments(arguments)?;
        let request = self.http.render_request(&arguments);
        let request =
            request.map_err(|error| CallFailure::new(error.code(), error.to_string(), false))?;
        let start = Instant::now();
        let reply = self.send_operation_request(wire, request, call.trace()).await;
        let mut job = match self.http.start_job(start, &arguments, reply) {
            JobStart::Finished(outcome, _) => return Ok(*outcome),
            JobStart::Running(job) => job,
        };
        let (compiled, wire_of_notice) = (Arc::clone(self), Arc::clone(wire));
        let mut unwanted =
            OperationCancelGuard(job.cancel_request().map(|request| OperationCancelRequest {
                compiled,
                wire: wire_of_notice,
                request,
                trace: call.trace().cloned(),
            }));
        call.detach();
        let left = JOB_DEADLINE.saturating_sub(start.elapsed());
        match timeout(left, self.poll_operation_job(wire, &mut job, call)).await {
            Ok(Some(PollResult::Finished(outcome, _))) => {
                unwanted.0 = None;
                Ok(*outcome)
            }
            Ok(Some(PollResult::Abandoned(outcome))) => Ok(*outcome),
            Ok(_) | Err(_) => Ok(job.timeout_outcome()),
        }
    }

    /// Polls the job until it ends; `None` after the last allowed status request.
    async fn poll_operation_job(
        &self,
        wire: &OperationClient,
        job: &mut PolledJob<'_>,
        call: &CallContext,
    ) -> Option<PollResult> {
        while let Some(wait) = job.next_wait() {
            sleep(wait).await;
            match job.handle_reply(
                self.send_operation_request(wire, job.status_request(), call.trace()).await,
            ) {
                looked @ (PollResult::Finished(..) | PollResult::Abandoned(_)) => {
                    return Some(looked);
                }
                PollResult::Redirected => {}
                PollResult::Running(word) => call.report_progress(CallProgress {
                    progress: job.poll_count().into(),
                    total: None,
                    message: (!word.is_empty()).then(|| word.into()),
                }),
            }
        }
        None
    }

    async fn send_operation_request(
        &self,
        wire: &OperationClient,
        request: RenderedRequest,
        trace: Option<&TraceContext>,
    ) -> UpstreamReply {
        let mut given = wire.given.clone();
        let headers = trace.into_iter().flat_map(trace_headers);
        given.trace.extend(headers.map(|(name, value)| (name.to_owned(), value)));
        self.http.call(&wire.client, wire.limits, request, &given, wire.origin.as_ref()).await
    }
}

/// Cancels the job of the API when dropped, unless the request was taken out.
struct OperationCancelGuard(Option<OperationCancelRequest>);

struct OperationCancelRequest {
    compiled: Arc<CompiledOperation>,
    wire: Arc<OperationClient>,
    request: RenderedRequest,
    trace: Option<TraceContext>,
}

impl Drop for OperationCancelGuard {
    fn drop(&mut self) {
        // Without a runtime, nothing can be sent.
        if let (Some(notice), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move {
                let OperationCancelRequest { compiled, wire, request, trace } = notice;
                let said = compiled.send_operation_request(&wire, request, trace.as_ref());
                let said = timeout(CANCEL_DEADLINE, said).await;
                let is_heard = said.is_ok_and(|reply| reply.outcome.error.is_none());
                tracing::debug!(is_heard, "work of an API is not wanted any more");
            });
        }
    }
}
