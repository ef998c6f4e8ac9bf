//! One operation of a specification: its tool, and the requests that execute a call.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use execution::{
    Answers, Arguments, Begun, CANCEL_DEADLINE, Given, HttpTool, JOB_DEADLINE, Job, Looked, Others,
    Reply, Request, tool_result,
};
use model::{
    Discovered, ErrorCode, Execution, Failure, Outcome, ToolId, ToolResult, TraceContext,
    Visibility, show_json, shown_description, shown_text,
};
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use upstream::Room;
use upstream::http::{HttpClient, Limits, Origin};

use super::OpenApiOptions;
use crate::call::{CallContext, Progress};
use crate::provider::ProvidedTool;
use crate::ready::LONG_ANSWERS;
use crate::upstreams::bridge::trace_headers;

/// An operation with its tool.
pub(super) struct Operation {
    pub(super) tool: Arc<ProvidedTool>,
    id: ToolId,
    discovered: Discovered,
    /// Compiled on the first call: most operations of a large specification are never called.
    compiled: OnceLock<Result<Arc<Compiled>, Failure>>,
}

/// Everything that a call needs and that does not change between calls.
struct Compiled {
    http: HttpTool,
    output: Option<Arguments>,
}

/// The HTTP client, limits and credentials of all operations of a specification.
pub(super) struct Wire {
    client: HttpClient,
    limits: Limits,
    given: Given,
    origin: Option<Origin>,
}

impl Wire {
    pub(super) fn new(options: OpenApiOptions, origin: Option<Origin>) -> Self {
        let OpenApiOptions { credentials, own, egress, limits, .. } = options;
        let given = Given { credentials, own, ..Given::default() };
        let client =
            HttpClient::new(egress).within(Room::of(LONG_ANSWERS), Limits::default().deadline);
        Self { client, limits, given, origin }
    }
}

impl Operation {
    pub(super) fn new(id: ToolId, discovered: Discovered, visibility: Visibility) -> Self {
        let manifest = &discovered.manifest;
        let schema = |reference| show_json(discovered.schema(reference).to_served());
        let title = manifest.title.as_ref().map(|title| ("title", shown_text(title).into()));
        let output = manifest.output_schema.as_ref().map(|it| ("outputSchema", schema(it)));
        let ours = title.into_iter().chain(output).map(|(name, value)| (name.to_owned(), value));
        let extra = manifest.extra.iter();
        let extra = extra.map(|(name, value)| (name.to_string(), show_json(value.to_value())));
        let tool = ProvidedTool {
            name: manifest.name.clone(),
            description: shown_description(&manifest.description).into(),
            input_schema: schema(&manifest.input_schema),
            keywords: manifest.tags.clone(),
            visibility,
            more: extra.chain(ours).collect(),
            may_go_on: matches!(manifest.execution, Execution::AsyncPoll { .. }),
        };
        Self { tool: Arc::new(tool), id, discovered, compiled: OnceLock::new() }
    }

    /// Calls the operation. The result also reports failures, with a code.
    pub(super) async fn call(
        &self,
        wire: &Arc<Wire>,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> ToolResult {
        match self.compiled() {
            Ok(compiled) => {
                let outcome = compiled.outcome(wire, arguments, call).await;
                let outcome = outcome
                    .unwrap_or_else(|failure| Reply::unsent(self.id.clone(), failure).outcome);
                tool_result(outcome, compiled.output.as_ref())
            }
            Err(failure) => tool_result(Reply::unsent(self.id.clone(), failure).outcome, None),
        }
    }

    fn compiled(&self) -> Result<Arc<Compiled>, Failure> {
        self.compiled.get_or_init(|| self.compile().map(Arc::new)).clone()
    }

    fn compile(&self) -> Result<Compiled, Failure> {
        let manifest = &self.discovered.manifest;
        let schema = self.discovered.schema(&manifest.input_schema).to_value();
        let http = HttpTool::compile(self.id.clone(), manifest, &schema, Answers::Api);
        let http = http.map_err(|error| {
            let id = &self.id;
            tracing::error!(%id, %error, "`{id}` cannot be called: {error}");
            Failure::new(ErrorCode::InternalError, "the tool cannot be called", false)
        })?;
        let output = manifest.output_schema.as_ref().map(|reference| {
            Arguments::compile(&self.discovered.schema(reference).to_value(), Others::Sent)
        });
        Ok(Compiled { http, output })
    }
}

impl Compiled {
    /// Sends the request; if it starts a job, polls its status until it ends (requirement E2).
    async fn outcome(
        self: &Arc<Self>,
        wire: &Arc<Wire>,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Result<Outcome, Failure> {
        let arguments = self.http.checked(arguments)?;
        let request = self.http.request(&arguments);
        let request =
            request.map_err(|error| Failure::new(error.code(), error.to_string(), false))?;
        let start = Instant::now();
        let reply = self.send(wire, request, call.trace()).await;
        let mut job = match self.http.begun(start, &arguments, reply) {
            Begun::Over(outcome, _) => return Ok(*outcome),
            Begun::Goes(job) => job,
        };
        let (compiled, wire_of_notice) = (Arc::clone(self), Arc::clone(wire));
        let mut unwanted = Unwanted(job.cancel().map(|request| Notice {
            compiled,
            wire: wire_of_notice,
            request,
            trace: call.trace().cloned(),
        }));
        call.go_on();
        let left = JOB_DEADLINE.saturating_sub(start.elapsed());
        match timeout(left, self.look_until_it_ends(wire, &mut job, call)).await {
            Ok(Some(Looked::Over(outcome, _))) => {
                unwanted.0 = None;
                Ok(*outcome)
            }
            Ok(Some(Looked::GivenUp(outcome))) => Ok(*outcome),
            Ok(_) | Err(_) => Ok(job.out_of_time()),
        }
    }

    /// Polls the job until it ends; `None` after the last allowed status request.
    async fn look_until_it_ends(
        &self,
        wire: &Wire,
        job: &mut Job<'_>,
        call: &CallContext,
    ) -> Option<Looked> {
        while let Some(wait) = job.wait() {
            sleep(wait).await;
            match job.heard(self.send(wire, job.status(), call.trace()).await) {
                looked @ (Looked::Over(..) | Looked::GivenUp(_)) => return Some(looked),
                Looked::SentOn => {}
                Looked::Goes(word) => call.progress(Progress {
                    progress: job.looks().into(),
                    total: None,
                    message: (!word.is_empty()).then(|| word.into()),
                }),
            }
        }
        None
    }

    async fn send(&self, wire: &Wire, request: Request, trace: Option<&TraceContext>) -> Reply {
        let mut given = wire.given.clone();
        let headers = trace.into_iter().flat_map(trace_headers);
        given.trace.extend(headers.map(|(name, value)| (name.to_owned(), value)));
        self.http.call(&wire.client, wire.limits, request, &given, wire.origin.as_ref()).await
    }
}

/// Cancels the job of the API when dropped, unless the request was taken out.
struct Unwanted(Option<Notice>);

struct Notice {
    compiled: Arc<Compiled>,
    wire: Arc<Wire>,
    request: Request,
    trace: Option<TraceContext>,
}

impl Drop for Unwanted {
    fn drop(&mut self) {
        // Without a runtime, nothing can be sent.
        if let (Some(notice), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move {
                let Notice { compiled, wire, request, trace } = notice;
                let said = compiled.send(&wire, request, trace.as_ref());
                let said = timeout(CANCEL_DEADLINE, said).await;
                let is_heard = said.is_ok_and(|reply| reply.outcome.error.is_none());
                tracing::debug!(is_heard, "work of an API is not wanted any more");
            });
        }
    }
}
