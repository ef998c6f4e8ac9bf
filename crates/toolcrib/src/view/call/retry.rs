//! Retries a call where that helps and is safe (requirement E5). Each attempt stays within the deadline of the call and
//! the retry budget of its source, and passes the same gate as any other call.

use std::time::Duration;

use calls::compiled_tool::CompiledHttpTool;
use calls::principal::{principal_hash, subject_hash};
use calls::source_gates::{
    AdmissionRequest, AdmittedCall, CallPermit, SourceVerdict, http_verdict,
};
use calls::upstream_connections::mcp_bridge;
use calls::upstream_connections::mcp_bridge::{
    BridgeFailure, BridgeOutcome, BridgeRequest, RetryAdvice,
};
use calls::upstream_credentials::{CredentialScope, OnBehalfOf};
use catalog::source::Source;
use execution::{RenderedRequest, RetrySafety, UpstreamReply};
use model::{CallFailure, ErrorCode, ToolId, TraceContext, UpstreamAuth};
use provider::CallContext;
use tokio::time::{Instant, sleep_until, timeout_at};
use upstream::http::ExchangeLimits;

use super::with_trace_headers;
use crate::view::AgentView;

/// Maximum backoff before the first retry. It doubles with each retry, up to `MAX_BACKOFF`.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// The attempts of one call.
struct CallAttempts<'a> {
    view: &'a AgentView,
    admission: AdmissionRequest<'a>,
    /// Deadline of all attempts, and the time limit it was computed from.
    deadline: Instant,
    time_limit: Duration,
    attempts: u32,
    /// Start of the wait for admission, if the wait used up more than half of the time limit.
    short_since: Option<Instant>,
}

impl<'a> CallAttempts<'a> {
    fn new(view: &'a AgentView, source: &'a Source, tool: &'a ToolId, time: Duration) -> Self {
        let limits = &source.profile.limits;
        let (agent, subject) = (principal_hash(&view.agent), subject_hash(&view.agent));
        let is_hurried = view.client_timeout.is_some_and(|patience| patience < time);
        let until = view.deadline_after(time);
        let of_tool = view.snapshot.tool(tool).and_then(|entry| entry.tool.overridden.limit);
        let source = &source.id;
        let wish = AdmissionRequest {
            source,
            limits,
            tool: Some(tool),
            tool_limit: of_tool,
            agent,
            subject,
            deadline: Some(until),
            is_status_poll: false,
            has_short_deadline: is_hurried,
        };
        Self {
            view,
            admission: wish,
            deadline: until,
            time_limit: time,
            attempts: 1,
            short_since: None,
        }
    }

    fn to_call_permit(&self, pass: AdmittedCall) -> CallPermit<'a> {
        CallPermit::new(self.view.crib.gates(), self.admission, pass)
    }

    async fn admit_first(&mut self) -> Result<AdmittedCall, CallFailure> {
        let asked = Instant::now();
        let pass = self.view.crib.gates().admit(self.admission).await?;
        let left = self.deadline.saturating_duration_since(Instant::now());
        self.short_since = (left < self.time_limit / 2).then_some(asked);
        Ok(pass)
    }

    /// Waits for the backoff, at least `Retry-After`, and admits the next attempt. `None` if no retry is possible or
    /// allowed.
    async fn admit_next(&mut self, wished: Option<u64>) -> Option<AdmittedCall> {
        if u32::from(self.admission.limits.retries()) < self.attempts {
            return None;
        }
        let wished = Duration::from_secs(wished.unwrap_or_default());
        let rest = wished.saturating_add(random_jitter(backoff_limit(self.attempts)));
        let at = Instant::now().checked_add(rest).filter(|at| *at < self.deadline)?;
        let gates = self.view.crib.gates();
        if !gates.may_retry(self.admission) {
            return None;
        }
        sleep_until(at).await;
        let pass = gates.admit_retry(self.admission).await.ok()?;
        self.attempts += 1;
        Some(pass)
    }

    /// Time left until the deadline.
    fn time_left(&self) -> Duration {
        mcp_bridge::remaining_until(self.deadline)
    }

    /// Adjusts the verdict for the breaker. A timeout does not count against the source if the client's own timeout was
    /// shorter. It does not count either if admission took most of the time while the source answered others: the
    /// source is just busy.
    fn breaker_verdict(
        &self,
        verdict: SourceVerdict,
        failure: Option<&CallFailure>,
    ) -> SourceVerdict {
        let is_late = failure.is_some_and(|failure| failure.code == ErrorCode::UpstreamTimeout);
        let is_busy =
            |since| self.view.crib.gates().has_answered_since(self.admission.source, since);
        let is_hurried = self.admission.has_short_deadline || self.short_since.is_some_and(is_busy);
        if is_late && is_hurried { SourceVerdict::Inconclusive } else { verdict }
    }

    fn note_attempts(&self, failure: &mut CallFailure) {
        if 1 < self.attempts {
            failure.message = format!("{} (tried {} times)", failure.message, self.attempts);
        }
    }
}

impl AgentView {
    /// Sends a request of a tool, with retries.
    pub(in crate::view) async fn send_tool_request(
        &self,
        source: &Source,
        http: &CompiledHttpTool,
        request: RenderedRequest,
        trace: Option<&TraceContext>,
    ) -> Result<UpstreamReply, CallFailure> {
        self.send_with_retries(self.new_attempts(source, http), source, http, (request, trace))
            .await
    }

    /// Sends a status request. It belongs to its call, which was already counted.
    pub(super) async fn send_status_request(
        &self,
        source: &Source,
        http: &CompiledHttpTool,
        request: RenderedRequest,
        trace: Option<&TraceContext>,
    ) -> Result<UpstreamReply, CallFailure> {
        let mut tries = self.new_attempts(source, http);
        tries.admission.is_status_poll = true;
        self.send_with_retries(tries, source, http, (request, trace)).await
    }

    fn new_attempts<'a>(
        &'a self,
        source: &'a Source,
        http: &'a CompiledHttpTool,
    ) -> CallAttempts<'a> {
        let time = source.profile.limits.timeout().unwrap_or(ExchangeLimits::default().deadline);
        CallAttempts::new(self, source, http.tool.id(), time)
    }

    async fn send_with_retries(
        &self,
        mut tries: CallAttempts<'_>,
        source: &Source,
        http: &CompiledHttpTool,
        (mut request, trace): (RenderedRequest, Option<&TraceContext>),
    ) -> Result<UpstreamReply, CallFailure> {
        let mut pass = tries.admit_first().await?;
        let start = Instant::now();
        loop {
            let spare = RetrySafety::NotExecuted.allows_retry(&request).then(|| request.clone());
            let mut reply = self.send_attempt(source, http, (request, trace), &tries).await?;
            let outcome = &mut reply.outcome;
            let error = outcome.error.as_ref();
            pass.finish(tries.breaker_verdict(http_verdict(error, outcome.upstream_status), error));
            if let Some(failure) = &mut outcome.error {
                if let Some(spare) =
                    spare.filter(|request| reply.retry_safety.allows_retry(request))
                    && let Some(next) = tries.admit_next(failure.retry_after).await
                {
                    (pass, request) = (next, spare);
                    continue;
                }
                tries.note_attempts(failure);
            }
            if 1 < tries.attempts {
                outcome.execution_time_ms =
                    start.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
            }
            return Ok(reply);
        }
    }

    /// Sends one attempt. If the upstream rejects a cached token, the request is sent once more with a new token. This
    /// happens only if repeating is harmless, or the response says that the token was the reason. A 401 alone does not
    /// prove that: some APIs relay the 401 of another service.
    async fn send_attempt(
        &self,
        source: &Source,
        http: &CompiledHttpTool,
        (request, trace): (RenderedRequest, Option<&TraceContext>),
        tries: &CallAttempts<'_>,
    ) -> Result<UpstreamReply, CallFailure> {
        let (keyring, secrets) = (self.crib.keyring(), self.crib.secrets());
        let whose = OnBehalfOf::Agent(&self.agent, &self.request_credentials);
        let at = (&source.id, &source.profile);
        let late = |_| credential_timeout(&source.profile.auth);
        let client =
            keyring.client_with_certificate(&http.client, at, http.origin.clone(), secrets);
        let client = timeout_at(tries.deadline, client).await.map_err(late)??;
        let client = client.with_caller_slots(
            self.crib.gates().long_answer_permits(&source.id, tries.admission.agent),
        );
        let wanted = CredentialScope::for_tool(source, http.audience.as_ref());
        let send = async |request| {
            let given = keyring.http_credentials(&wanted, whose, secrets);
            let (given, held) = timeout_at(tries.deadline, given).await.map_err(late)??;
            let given = with_trace_headers(given, trace);
            let max_bytes = source.profile.limits.max_answer_bytes();
            let max_bytes = max_bytes.unwrap_or(ExchangeLimits::default().max_bytes);
            let limits = ExchangeLimits { deadline: tries.time_left(), max_bytes };
            let reply =
                http.tool.call(&client, limits, request, &given, http.origin.as_ref()).await;
            let refused = held.filter(|_| reply.outcome.upstream_status == Some(401));
            let is_stale = match refused {
                Some(held) => keyring.invalidate_token(&held).await,
                None => false,
            };
            Ok::<_, CallFailure>((reply, is_stale))
        };
        let spare = source.profile.auth.uses_fetched_token().then(|| request.clone());
        let (reply, is_stale) = send(request).await?;
        let does_no_harm = |request: &RenderedRequest| {
            reply.token_rejected || RetrySafety::MayExecuteTwice.allows_retry(request)
        };
        match spare.filter(|request| is_stale && does_no_harm(request)) {
            Some(request) => Ok(send(request).await?.0),
            None => Ok(reply),
        }
    }

    /// Sends a request once without admission: a cancellation reduces load.
    pub(super) async fn send_unadmitted(
        &self,
        source: &Source,
        http: &CompiledHttpTool,
        traced_request: (RenderedRequest, Option<&TraceContext>),
    ) -> Result<UpstreamReply, CallFailure> {
        let tries =
            CallAttempts::new(self, source, http.tool.id(), ExchangeLimits::default().deadline);
        self.send_attempt(source, http, traced_request, &tries).await
    }

    /// The deadline of something with this time limit, or of the client if that is sooner.
    pub(super) fn deadline_after(&self, time: Duration) -> Instant {
        Instant::now() + self.client_timeout.map_or(time, |patience| patience.min(time))
    }

    /// The deadline of a request to the MCP server of a source.
    pub(in crate::view) fn mcp_deadline(&self, source: &Source) -> Instant {
        self.deadline_after(source.profile.limits.timeout().unwrap_or(mcp_bridge::DEFAULT_DEADLINE))
    }

    /// Admits a request that is sent only once; `usual` is its time limit unless the source sets one.
    pub(in crate::view) async fn admit_once<'a>(
        &'a self,
        source: &'a Source,
        tool: &'a ToolId,
        usual: Duration,
    ) -> Result<CallPermit<'a>, CallFailure> {
        let time = source.profile.limits.timeout().unwrap_or(usual);
        let mut tries = CallAttempts::new(self, source, tool, time);
        let pass = tries.admit_first().await?;
        Ok(tries.to_call_permit(pass))
    }

    /// Sends a request to the MCP server of a source for this agent, with retries.
    pub(in crate::view) async fn call_mcp_server(
        &self,
        source: &Source,
        tool: &ToolId,
        mut wanted: BridgeRequest,
        call: &CallContext,
    ) -> BridgeOutcome {
        let time = source.profile.limits.timeout().unwrap_or(mcp_bridge::DEFAULT_DEADLINE);
        let mut tries = CallAttempts::new(self, source, tool, time);
        let mut stay = match tries.admit_first().await {
            Ok(pass) => tries.to_call_permit(pass),
            Err(failure) => return failure.into(),
        };
        wanted.own_deadline = Some(tries.deadline);
        // Without a client timeout, the time in which the caller is asked for input does not count.
        wanted.caller_deadline = tries.admission.has_short_deadline.then_some(tries.deadline);
        loop {
            let asked =
                self.call_mcp_with_token(source, wanted.clone(), (tries.deadline, &mut stay), call);
            let mut bridged = asked.await.unwrap_or_else(|failed| failed);
            stay.finish(tries.breaker_verdict(bridged.verdict(), bridged.failure()));
            if let BridgeOutcome::Failed(BridgeFailure {
                failure,
                retry: RetryAdvice::IfIdempotent,
                ..
            }) = &mut bridged
            {
                failure.retryable |= wanted.is_idempotent;
                if wanted.is_idempotent
                    && let Some(next) = tries.admit_next(failure.retry_after).await
                {
                    stay = tries.to_call_permit(next);
                    wanted.caller_deadline = Some(tries.deadline);
                    continue;
                }
                tries.note_attempts(failure);
            }
            return bridged;
        }
    }
}

/// Failure for a credential that did not arrive in time. The request was not sent yet.
pub(super) fn credential_timeout(auth: &UpstreamAuth) -> CallFailure {
    let message = "there was no time left to get a credential for the source";
    let code = match auth.uses_fetched_token() {
        true if auth.is_per_agent() => ErrorCode::TokenExchangeFailed,
        true => ErrorCode::ClientCredentialsFailed,
        false => ErrorCode::UpstreamTimeout,
    };
    CallFailure::new(code, message, true)
}

fn backoff_limit(made: u32) -> Duration {
    let doubled = made.saturating_sub(1).min(16);
    (FIRST_BACKOFF * (1 << doubled)).min(MAX_BACKOFF)
}

/// Full jitter: callers that failed together do not retry together.
fn random_jitter(longest: Duration) -> Duration {
    let mut bytes = [0; 4];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has random numbers");
    longest.mul_f64(f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_and_is_jittered() {
        let millis = |made| backoff_limit(made).as_millis();
        assert_eq!([1, 2, 3, 6, 40].map(millis), [200, 400, 800, 5_000, 5_000]);
        let drawn: Vec<_> = (0..200).map(|_| random_jitter(FIRST_BACKOFF)).collect();
        assert!(drawn.iter().all(|rest| *rest <= FIRST_BACKOFF));
        let (short, long) = (FIRST_BACKOFF / 4, FIRST_BACKOFF * 3 / 4);
        assert!(drawn.iter().any(|rest| *rest < short) && drawn.iter().any(|rest| long < *rest));
    }
}
