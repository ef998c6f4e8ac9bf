//! Runs a long-running call: starts the upstream job, then polls its status until it ends (requirement E2).
//!
//! Each status request passes the gate and carries credentials. It belongs to its call, which was already counted, so
//! it uses up no rate limit of the agent or the tool. It occupies a slot at the source only while it runs; between two
//! status requests the call occupies only its job slot. Dropping the call stops everything at once.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::CataloguedSource;
use execution::{Begun, JOB_DEADLINE, Job, Looked, Reply, Request};
use model::{ErrorCode, Failure, Outcome, ToolId, TraceContext};
use serde_json::{Map, Value};
use tokio::time::{sleep, timeout, timeout_at};
use upstream::Large;

use super::request;
use crate::call::{CallContext, Progress};
use crate::upstreams::number;
use crate::view::AgentView;
use crate::view::ready::{HttpReady, goes_the_same_way};

/// How often to check that an agent still has the tool that runs for it.
const LOOK: Duration = Duration::from_secs(5);

impl AgentView {
    pub(super) async fn do_job(
        &self,
        source: &Arc<CataloguedSource>,
        http: &Arc<HttpReady>,
        arguments: &Map<String, Value>,
        call: &CallContext,
    ) -> Result<(Outcome, Option<Large>), Failure> {
        let first = request(http, arguments)?;
        // Check the job limit first: do not start a job that could not be polled.
        let _followed = self.crib.gates().follow(&source.source.id, number(&self.agent))?;
        let (start, until) = (Instant::now(), self.until(JOB_DEADLINE));
        let reply = self.send(&source.source, http, first, call.trace()).await?;
        let mut job = match http.tool.begun(start, arguments, reply) {
            Begun::Over(outcome, large) => return Ok((*outcome, large)),
            Begun::Goes(job) => job,
        };
        let mut unwanted = Unwanted(job.cancel().map(|request| {
            let (source, http) = (Arc::clone(source), Arc::clone(http));
            let trace = call.trace().cloned();
            // The client's timeout may be used up already; it does not apply to the cancellation.
            let view = self.clone().within(None);
            Box::new(Notice { view, source, http, request, trace })
        }));
        call.go_on();
        match timeout_at(until, self.look_until_it_ends(source, http, &mut job, call)).await {
            Ok(Some(Looked::Over(outcome, large))) => {
                unwanted.0 = None;
                Ok((*outcome, large))
            }
            Ok(Some(Looked::GivenUp(outcome))) => Ok((*outcome, None)),
            Ok(_) if !self.still_has(http.tool.id()) => Ok((job.taken_away(), None)),
            Ok(_) | Err(_) => Ok((job.out_of_time(), None)),
        }
    }

    /// Whether the agent still has the tool, and its key if it came with one. A token may have expired since: it was
    /// valid at the start of the job, and the agent can return with a new one.
    fn still_has(&self, tool: &ToolId) -> bool {
        let now = self.crib.view(&self.agent);
        self.came_with.has_good_key(&now.snapshot, self.crib.now()) && now.find_id(tool).is_ok()
    }

    /// Awaits work that is not polled in between, and drops it once the agent loses the tool.
    pub(super) async fn while_it_has<T>(
        &self,
        tool: &ToolId,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let mut work = pin!(work);
        loop {
            match timeout(LOOK, work.as_mut()).await {
                Ok(done) => return Ok(done),
                Err(_) if self.still_has(tool) => {}
                Err(_) => {
                    let message = "the tool was taken away while it worked: it is not waited for";
                    return Err(Failure::new(ErrorCode::NotGranted, message, false));
                }
            }
        }
    }

    /// Polls the job until it ends. `None` after the last allowed status request, or if the agent lost the tool.
    async fn look_until_it_ends(
        &self,
        source: &CataloguedSource,
        http: &HttpReady,
        job: &mut Job<'_>,
        call: &CallContext,
    ) -> Option<Looked> {
        while let Some(wait) = job.wait() {
            sleep(wait).await;
            // A job may run for an hour: use the current catalog.
            let snapshot = self.crib.catalog().snapshot();
            let now =
                snapshot.source(&source.source.id).filter(|_| self.still_has(http.tool.id()))?;
            // The source now points elsewhere: its new credentials must not go to the previous upstream.
            if !goes_the_same_way(&source.source.profile, &now.source.profile) {
                return Some(Looked::GivenUp(Box::new(job.left_behind())));
            }
            let reply = self.look(&now.source, http, job.status(), call.trace()).await;
            let reply =
                reply.unwrap_or_else(|failure| Reply::unsent(http.tool.id().clone(), failure));
            match job.heard(reply) {
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
}

/// Cancels the upstream job when dropped, unless the request was taken out: once, and within a deadline.
struct Unwanted(Option<Box<Notice>>);

struct Notice {
    view: AgentView,
    source: Arc<CataloguedSource>,
    http: Arc<HttpReady>,
    request: Request,
    /// The trace of the call.
    trace: Option<TraceContext>,
}

impl Drop for Unwanted {
    fn drop(&mut self) {
        let Some(notice) = self.0.take() else { return };
        let crib = notice.view.crib.clone();
        let to = notice.source.source.id.clone();
        crib.last_words().say(&to, async move {
            let Notice { view, source, http, request, trace } = *notice;
            let snapshot = view.crib.catalog().snapshot();
            let now = snapshot.source(&source.source.id).unwrap_or(&source);
            if !goes_the_same_way(&source.source.profile, &now.source.profile) {
                return;
            }
            let said = view.send_now(&now.source, &http, (request, trace.as_ref())).await;
            let is_heard = said.is_ok_and(|it| it.outcome.error.is_none());
            let tool = http.tool.id();
            tracing::debug!(%tool, is_heard, "work of `{tool}` is not wanted any more");
        });
    }
}
