//! Runs a long-running call: starts the upstream job, then polls its status until it ends (requirement E2).
//!
//! Each status request passes the gate and carries credentials. It belongs to its call, which was already counted, so
//! it uses up no rate limit of the agent or the tool. It occupies a slot at the source only while it runs; between two
//! status requests the call occupies only its job slot. Dropping the call stops everything at once.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use calls::compiled_tool::{CompiledHttpTool, has_same_destination};
use calls::principal::principal_hash;
use catalog::CataloguedSource;
use execution::{JOB_DEADLINE, JobStart, PollResult, PolledJob, RenderedRequest, UpstreamReply};
use model::{CallFailure, ErrorCode, Outcome, ToolId, TraceContext};
use provider::{CallContext, CallProgress};
use serde_json::{Map, Value};
use tokio::time::{sleep, timeout, timeout_at};
use upstream::LargeBodyLease;

use super::render_request;
use crate::view::AgentView;

/// How often to check that an agent still has the tool that runs for it.
const GRANT_CHECK_INTERVAL: Duration = Duration::from_secs(5);

impl AgentView {
    pub(super) async fn run_job(
        &self,
        source: &Arc<CataloguedSource>,
        http: &Arc<CompiledHttpTool>,
        arguments: &Map<String, Value>,
        call: &CallContext,
    ) -> Result<(Outcome, Option<LargeBodyLease>), CallFailure> {
        let first = render_request(http, arguments)?;
        // Check the job limit first: do not start a job that could not be polled.
        let _followed =
            self.crib.gates().begin_job(&source.source.id, principal_hash(&self.agent))?;
        let (start, until) = (Instant::now(), self.deadline_after(JOB_DEADLINE));
        let reply = self.send_tool_request(&source.source, http, first, call.trace()).await?;
        let mut job = match http.tool.start_job(start, arguments, reply) {
            JobStart::Finished(outcome, large) => return Ok((*outcome, large)),
            JobStart::Running(job) => job,
        };
        let mut unwanted = JobCancelGuard(job.cancel_request().map(|request| {
            let (source, http) = (Arc::clone(source), Arc::clone(http));
            let trace = call.trace().cloned();
            // The client's timeout may be used up already; it does not apply to the cancellation.
            let view = self.clone().with_client_timeout(None);
            Box::new(JobCancelRequest { view, source, http, request, trace })
        }));
        call.detach();
        match timeout_at(until, self.poll_until_done(source, http, &mut job, call)).await {
            Ok(Some(PollResult::Finished(outcome, large))) => {
                unwanted.0 = None;
                Ok((*outcome, large))
            }
            Ok(Some(PollResult::Abandoned(outcome))) => Ok((*outcome, None)),
            Ok(_) if !self.still_has_tool(http.tool.id()) => Ok((job.revoked_outcome(), None)),
            Ok(_) | Err(_) => Ok((job.timeout_outcome(), None)),
        }
    }

    /// Whether the agent still has the tool, and its key if it came with one. A token may have expired since: it was
    /// valid at the start of the job, and the agent can return with a new one.
    fn still_has_tool(&self, tool: &ToolId) -> bool {
        let now = self.crib.view(&self.agent);
        self.request_credentials.has_valid_key(&now.snapshot, self.crib.now())
            && now.find_by_id(tool).is_ok()
    }

    /// Awaits work that is not polled in between, and drops it once the agent loses the tool.
    pub(super) async fn run_while_granted<T>(
        &self,
        tool: &ToolId,
        work: impl Future<Output = T>,
    ) -> Result<T, CallFailure> {
        let mut work = pin!(work);
        loop {
            match timeout(GRANT_CHECK_INTERVAL, work.as_mut()).await {
                Ok(done) => return Ok(done),
                Err(_) if self.still_has_tool(tool) => {}
                Err(_) => {
                    let message = "the tool was taken away while it worked: it is not waited for";
                    return Err(CallFailure::new(ErrorCode::NotGranted, message, false));
                }
            }
        }
    }

    /// Polls the job until it ends. `None` after the last allowed status request, or if the agent lost the tool.
    async fn poll_until_done(
        &self,
        source: &CataloguedSource,
        http: &CompiledHttpTool,
        job: &mut PolledJob<'_>,
        call: &CallContext,
    ) -> Option<PollResult> {
        while let Some(wait) = job.next_wait() {
            sleep(wait).await;
            // A job may run for an hour: use the current catalog.
            let snapshot = self.crib.catalog().snapshot();
            let now = snapshot
                .source(&source.source.id)
                .filter(|_| self.still_has_tool(http.tool.id()))?;
            // The source now points elsewhere: its new credentials must not go to the previous upstream.
            if !has_same_destination(&source.source.profile, &now.source.profile) {
                return Some(PollResult::Abandoned(Box::new(job.source_changed_outcome())));
            }
            let reply = self
                .send_status_request(&now.source, http, job.status_request(), call.trace())
                .await;
            let reply = reply
                .unwrap_or_else(|failure| UpstreamReply::unsent(http.tool.id().clone(), failure));
            match job.handle_reply(reply) {
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
}

/// Cancels the upstream job when dropped, unless the request was taken out: once, and within a deadline.
struct JobCancelGuard(Option<Box<JobCancelRequest>>);

struct JobCancelRequest {
    view: AgentView,
    source: Arc<CataloguedSource>,
    http: Arc<CompiledHttpTool>,
    request: RenderedRequest,
    /// The trace of the call.
    trace: Option<TraceContext>,
}

impl Drop for JobCancelGuard {
    fn drop(&mut self) {
        let Some(notice) = self.0.take() else { return };
        let crib = notice.view.crib.clone();
        let to = notice.source.source.id.clone();
        crib.cancel_notices().send_notice(&to, async move {
            let JobCancelRequest { view, source, http, request, trace } = *notice;
            let snapshot = view.crib.catalog().snapshot();
            let now = snapshot.source(&source.source.id).unwrap_or(&source);
            if !has_same_destination(&source.source.profile, &now.source.profile) {
                return;
            }
            let said = view.send_unadmitted(&now.source, &http, (request, trace.as_ref())).await;
            let is_heard = said.is_ok_and(|it| it.outcome.error.is_none());
            let tool = http.tool.id();
            tracing::debug!(%tool, is_heard, "work of `{tool}` is not wanted any more");
        });
    }
}
