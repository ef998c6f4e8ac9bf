//! Admission of calls to sources: rate and concurrency limits by agent, by tool and in all, and a circuit breaker for
//! sources that fail. One source in trouble does not affect the others (requirement E5).

mod call_permit;
mod call_quota;
mod circuit_breaker;
mod concurrency_permits;
mod job_limit;
mod retry_budget;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use limits::LruCache;
use model::{CallFailure, CallLimit, ErrorCode, SourceId, SourceLimits, ToolId};
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub use self::call_permit::CallPermit;
pub use self::call_quota::QuotaCharge;
use self::call_quota::{CallQuota, QuotaExceeded};
pub use self::circuit_breaker::SourceVerdict;
use self::circuit_breaker::{BreakerCall, BreakerStatus, CircuitBreaker};
use self::concurrency_permits::{CallPermitPool, ConcurrencyPermit, PermitRequest};
use self::job_limit::{JobCounts, JobPermit};
use self::retry_budget::RetryBudget;
use crate::telemetry::ToolcribTelemetry;

/// Maximum number of long answers of one source that are read at the same time.
pub const LONG_ANSWERS_PER_SOURCE: usize = 8;

/// The most calls to one source that run, and that wait for a permit. One agent gets at most half of either. For its
/// status polls it gets a quarter of the first and an eighth of the second, so that other agents always get some.
const MAX_RUNNING_CALLS: usize = 64;
const MAX_WAITING_CALLS: usize = 128;
/// The queue is longer by this factor while the machine is overloaded: an upstream on the same machine pauses as well,
/// and a call that already waited for its turn here should not fail at the next queue.
const OVERLOAD_QUEUE_FACTOR: usize = 16;
/// The most sources with a gate in memory.
const MAX_GATES: u64 = 10_000;

/// The most agents and tools to count, and how long to count them after their last call. That is longer than the
/// longest call, or the permits of a running call would be forgotten; and forgetting never refills a used-up burst
/// early.
const MAX_COUNTED_AGENTS: u64 = 100_000;
const IDLE_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// The gates of all sources.
pub struct SourceGates {
    gates: LruCache<SourceId, Arc<SourceGate>>,
    quotas: LruCache<(SourceId, QuotaKey), Arc<CallQuota>>,
    telemetry: Arc<ToolcribTelemetry>,
    /// Permits of each agent at each source, with separate ones for status polls (`true`).
    agent_permits: LruCache<(SourceId, u64, bool), Arc<CallPermitPool>>,
    retries: LruCache<(SourceId, u64), Arc<Mutex<RetryBudget>>>,
    long_answers: LruCache<(SourceId, u64), Arc<Semaphore>>,
    agent_turns: LruCache<u64, Arc<Semaphore>>,
    jobs: Arc<JobCounts>,
    is_overloaded: Arc<AtomicBool>,
    /// How many calls each agent may make over all sources.
    agent_limit: CallLimit,
    agent_quotas: LruCache<u64, Arc<CallQuota>>,
}

/// What a quota counts at a source.
#[derive(Clone, PartialEq, Eq, Hash)]
enum QuotaKey {
    All,
    Agent(u64),
    Tool(ToolId),
}

/// The gate of one source.
struct SourceGate {
    id: SourceId,
    breaker: Mutex<CircuitBreaker>,
    permits: CallPermitPool,
    retries: Mutex<RetryBudget>,
}

/// Who wants to call which tool of which source, and until when the caller waits.
#[derive(Clone, Copy)]
pub struct AdmissionRequest<'a> {
    pub source: &'a SourceId,
    pub limits: &'a SourceLimits,
    pub tool: Option<&'a ToolId>,
    /// The tool's own limit; it replaces the source's limit per tool.
    pub tool_limit: Option<CallLimit>,
    pub agent: u64,
    /// Hash of the subject behind the agent, regardless of its client: the breaker counts failures per subject.
    pub subject: u64,
    pub deadline: Option<Instant>,
    /// Whether this is a status poll of a call that was already admitted and counted.
    pub is_status_poll: bool,
    /// Whether the caller's deadline is earlier than the source's own timeout.
    pub has_short_deadline: bool,
}

/// The state of a source's gate, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateState {
    /// The breaker for all known callers together: `closed`, `open` or `half_open`.
    pub breaker: &'static str,
    /// How many agents are blocked individually because only they see failures.
    pub blocked_agents: usize,
    /// The time until no agent is blocked any more; `None` if none is.
    pub blocked_for: Option<Duration>,
    /// Calls that run.
    pub running_calls: usize,
    /// Calls that wait for a permit.
    pub waiting_calls: usize,
    /// How many calls were retried.
    pub retries: u64,
}

/// An admitted call. If it is dropped without a verdict, the breaker learns nothing from it.
pub struct AdmittedCall {
    gate: Arc<SourceGate>,
    telemetry: Arc<ToolcribTelemetry>,
    call: BreakerCall,
    verdict: SourceVerdict,
    /// `None` while the call has released its permits.
    permits: Option<HeldPermits>,
}

/// The quota charges and permits that an admitted call holds.
struct HeldPermits {
    charges: [Option<QuotaCharge>; 3],
    /// One permit of the agent's own, and one of the whole source.
    _permits: [ConcurrencyPermit; 2],
}

impl SourceGates {
    pub fn new(telemetry: Arc<ToolcribTelemetry>, per_agent: CallLimit) -> Self {
        let quotas = LruCache::new(MAX_COUNTED_AGENTS).with_idle_timeout(IDLE_RETENTION);
        let shares = LruCache::new(MAX_COUNTED_AGENTS).with_idle_timeout(IDLE_RETENTION);
        let retries = LruCache::new(MAX_COUNTED_AGENTS).with_idle_timeout(IDLE_RETENTION);
        let long_answers = LruCache::new(MAX_COUNTED_AGENTS).with_idle_timeout(IDLE_RETENTION);
        let turns = LruCache::new(MAX_COUNTED_AGENTS).with_idle_timeout(IDLE_RETENTION);
        let agents = LruCache::new(MAX_COUNTED_AGENTS).with_idle_timeout(IDLE_RETENTION);
        let (gates, jobs) = (LruCache::new(MAX_GATES), Arc::default());
        Self {
            gates,
            quotas,
            telemetry,
            agent_permits: shares,
            retries,
            long_answers,
            agent_turns: turns,
            jobs,
            is_overloaded: Arc::default(),
            agent_limit: per_agent,
            agent_quotas: agents,
        }
    }

    /// A flag that the server sets while it is overloaded.
    pub fn overload_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_overloaded)
    }

    /// Whether agents have a limit over all sources.
    pub fn has_agent_limit(&self) -> bool {
        !self.agent_limit.is_none()
    }

    /// Charges a running call to the agent's limit over all sources, whatever its outcome.
    pub fn charge_agent(&self, agent: u64) -> Result<QuotaCharge, CallFailure> {
        let quota = self.agent_quotas.get_with(agent, Arc::default);
        let counted = quota.charge_call(&self.agent_limit, Instant::now());
        let mut counted =
            counted.map_err(|exceeded| limit_exceeded_failure("this agent's calls", exceeded))?;
        counted.commit();
        Ok(counted)
    }

    /// Permits for long answers of a source to one agent: half of the source's permits.
    pub fn long_answer_permits(&self, source: &SourceId, agent: u64) -> Arc<Semaphore> {
        let places = || Arc::new(Semaphore::new(LONG_ANSWERS_PER_SOURCE.div_ceil(2)));
        self.long_answers.get_with((source.clone(), agent), places)
    }

    /// One permit for an agent's slow local work: one task at a time.
    pub fn agent_turn(&self, agent: u64) -> Arc<Semaphore> {
        self.agent_turns.get_with(agent, || Arc::new(Semaphore::new(1)))
    }

    /// Admits a call, if the breaker is closed, no limit is exceeded and the queue is not full.
    pub async fn admit(&self, wish: AdmissionRequest<'_>) -> Result<AdmittedCall, CallFailure> {
        let pass = self.admit_retry(wish).await?;
        // Only an admitted call earns a retry: a rejected one never reached the source.
        pass.gate.lock_retries().earn_from_call();
        lock_mutex(&self.agent_retry_budget(wish)).earn_from_call();
        Ok(pass)
    }

    /// Whether a call may be retried. An agent spends only the retries that its own calls earned.
    pub fn may_retry(&self, wish: AdmissionRequest<'_>) -> bool {
        let (gate, own) = (self.gate_for(wish.source), self.agent_retry_budget(wish));
        let (mut of_all, mut own) = (gate.lock_retries(), lock_mutex(&own));
        of_all.allows_retry() && own.try_spend() && of_all.try_spend()
    }

    fn agent_retry_budget(&self, wish: AdmissionRequest<'_>) -> Arc<Mutex<RetryBudget>> {
        self.retries.get_with((wish.source.clone(), wish.agent), Arc::default)
    }

    /// Admits a retry of a call. It counts as a call everywhere except in the retry budget.
    pub async fn admit_retry(
        &self,
        wish: AdmissionRequest<'_>,
    ) -> Result<AdmittedCall, CallFailure> {
        let of = || self.telemetry.sources.meters_of(wish.source.as_str());
        self.admit_call(wish).await.inspect_err(|failure| of().record_refusal(failure.code))
    }

    async fn admit_call(&self, wish: AdmissionRequest<'_>) -> Result<AdmittedCall, CallFailure> {
        let (gate, whose) = (self.gate_for(wish.source), wish.subject);
        let wait =
            gate.lock_breaker().remaining_wait(whose, wish.has_short_deadline, Instant::now());
        if let Some(wait) = wait {
            return Err(circuit_open_failure(wait));
        }
        let counting = |limit| if wish.is_status_poll { CallLimit::default() } else { limit };
        let mut taken = self.acquire_permits(&gate, wish, counting).await?;
        // Check the breaker again after the wait: other calls may have opened it meanwhile.
        let call = BreakerCall { caller: whose, admitted_at: Instant::now() };
        let entered = match wish.has_short_deadline {
            true => gate.lock_breaker().admit_with_short_deadline(whose, call.admitted_at),
            false => gate.lock_breaker().admit(whose, call.admitted_at),
        };
        entered.map_err(circuit_open_failure)?;
        taken.charges.iter_mut().flatten().for_each(QuotaCharge::commit);
        let (telemetry, verdict) = (Arc::clone(&self.telemetry), SourceVerdict::Inconclusive);
        Ok(AdmittedCall { gate, telemetry, call, verdict, permits: Some(taken) })
    }

    /// Takes permits for an admitted call that had released them. It does not count as another call.
    async fn reacquire_permits(
        &self,
        wish: AdmissionRequest<'_>,
    ) -> Result<HeldPermits, CallFailure> {
        let gate = self.gate_for(wish.source);
        let unrated = |limit| CallLimit { per_minute: None, burst: None, ..limit };
        self.acquire_permits(&gate, AdmissionRequest { deadline: None, ..wish }, unrated).await
    }

    async fn acquire_permits(
        &self,
        gate: &SourceGate,
        wish: AdmissionRequest<'_>,
        counting: impl Fn(CallLimit) -> CallLimit,
    ) -> Result<HeldPermits, CallFailure> {
        let AdmissionRequest { source: id, limits, tool, agent, deadline: until, .. } = wish;
        let (of_tool, per_tool) = (tool.cloned().map(QuotaKey::Tool), wish.tool_limit);
        let per_tool = per_tool.unwrap_or(limits.per_tool);
        let (of_agent, of_all) = (Some(QuotaKey::Agent(agent)), Some(QuotaKey::All));
        // The permits enforce the concurrency limit, so the quota must not.
        let all = CallLimit { concurrent: None, ..counting(limits.all) };
        let counted = [
            self.charge_quota(id, of_agent, &counting(limits.per_agent), "this agent's calls")?,
            self.charge_quota(id, of_tool, &counting(per_tool), "the calls of this tool")?,
            self.charge_quota(id, of_all, &all, "the calls to this source")?,
        ];
        let most = limits.all.concurrent.map_or(MAX_RUNNING_CALLS, |most| most.get() as usize);
        let own = limits.per_agent.concurrent.map(|most| most.get() as usize);
        let share =
            self.agent_permits.get_with((id.clone(), agent, wish.is_status_poll), Arc::default);
        let (own, waiting) = match wish.is_status_poll {
            true => (most.div_ceil(4), MAX_WAITING_CALLS / 8),
            false => (own.unwrap_or(most.div_ceil(2)), MAX_WAITING_CALLS / 2),
        };
        let crowd = if self.is_overloaded.load(Relaxed) { OVERLOAD_QUEUE_FACTOR } else { 1 };
        let asked = [
            PermitRequest { pool: &share, limit: own, queue_length: crowd * waiting },
            PermitRequest {
                pool: &gate.permits,
                limit: most,
                queue_length: crowd * MAX_WAITING_CALLS,
            },
        ];
        let places =
            concurrency_permits::acquire_both(asked, until).await.ok_or_else(queue_full_failure)?;
        Ok(HeldPermits { charges: counted, _permits: places })
    }

    fn gate_for(&self, source: &SourceId) -> Arc<SourceGate> {
        self.gates.get_with(source.clone(), || Arc::new(SourceGate::new(source)))
    }

    /// Admits a long-running job, unless too many run already. A job holds a call permit only while it sends a request.
    pub fn begin_job(&self, id: &SourceId, agent: u64) -> Result<JobPermit, CallFailure> {
        self.jobs.begin_job(id, agent).map_err(|whose| {
            let message =
                format!("too many jobs of this {whose} are under way: wait for some to end");
            retry_later_failure(ErrorCode::RateLimited, message, 10)
        })
    }

    fn charge_quota(
        &self,
        source: &SourceId,
        whose: Option<QuotaKey>,
        limit: &CallLimit,
        what: &str,
    ) -> Result<Option<QuotaCharge>, CallFailure> {
        let Some(whose) = whose.filter(|_| !limit.is_none()) else { return Ok(None) };
        let quota = self.quotas.get_with((source.clone(), whose), Arc::default);
        let counted = quota.charge_call(limit, Instant::now());
        counted.map(Some).map_err(|exceeded| limit_exceeded_failure(what, exceeded))
    }

    /// The state of a source's gate; `None` before the first call.
    pub fn gate_state(&self, source: &SourceId) -> Option<GateState> {
        let gate = self.gates.get(source)?;
        let (calls, waiting) = gate.permits.usage();
        let BreakerStatus {
            label: breaker,
            blocked_callers: agents_left_out,
            blocked_for: left_out_for,
        } = gate.lock_breaker().status(Instant::now());
        let retries = gate.lock_retries().made();
        Some(GateState {
            breaker,
            blocked_agents: agents_left_out,
            blocked_for: left_out_for,
            running_calls: calls,
            waiting_calls: waiting,
            retries,
        })
    }

    /// Whether a source has answered any caller since then.
    pub fn has_answered_since(&self, source: &SourceId, then: Instant) -> bool {
        self.gates.get(source).is_some_and(|gate| gate.lock_breaker().has_answered_since(then))
    }

    /// Closes the breaker at once: an admin who repaired the source need not wait for the cooldown.
    pub fn reset_breaker(&self, source: &SourceId) {
        if let Some(gate) = self.gates.get(source) {
            *gate.lock_breaker() = CircuitBreaker::new(Instant::now());
        }
    }
}

impl SourceGate {
    fn new(id: &SourceId) -> Self {
        let breaker = Mutex::new(CircuitBreaker::new(Instant::now()));
        let (places, retries) = (CallPermitPool::default(), Mutex::default());
        Self { id: id.clone(), breaker, permits: places, retries }
    }

    fn lock_retries(&self) -> MutexGuard<'_, RetryBudget> {
        lock_mutex(&self.retries)
    }

    fn lock_breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        lock_mutex(&self.breaker)
    }
}

fn lock_mutex<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().expect("no one panics while holding it")
}

impl AdmittedCall {
    /// Ends the call with its verdict on the source.
    pub fn finish(mut self, verdict: SourceVerdict) {
        self.verdict = verdict;
    }
}

impl Drop for AdmittedCall {
    fn drop(&mut self) {
        if self.gate.lock_breaker().record_verdict(self.verdict, self.call, Instant::now()) {
            self.telemetry.sources.meters_of(self.gate.id.as_str()).record_breaker_opened();
        }
    }
}

/// The verdict on a source from the error code and HTTP status of a call.
pub fn http_verdict(error: Option<&CallFailure>, status: Option<u16>) -> SourceVerdict {
    let Some(failure) = error else { return SourceVerdict::Works };
    match (failure.code, status) {
        (ErrorCode::UpstreamTimeout | ErrorCode::UpstreamConnectionError, _) => {
            SourceVerdict::Fails
        }
        (ErrorCode::UpstreamError, Some(500..)) => SourceVerdict::Fails,
        // The source answered with too many bytes or an unsupported encoding: other callers may request less.
        (ErrorCode::UpstreamError, None | Some(400..500)) => SourceVerdict::OnlyAnswers,
        (ErrorCode::UpstreamError, Some(_)) => SourceVerdict::Works,
        _ => SourceVerdict::Inconclusive,
    }
}

fn circuit_open_failure(wait: Duration) -> CallFailure {
    let seconds = wait.as_secs() + 1;
    let message =
        format!("the source failed again and again and is left alone: try again in {seconds} s");
    retry_later_failure(ErrorCode::CircuitOpen, message, seconds)
}

fn limit_exceeded_failure(what: &str, exceeded: QuotaExceeded) -> CallFailure {
    match exceeded {
        QuotaExceeded::Rate(wait) => {
            let seconds = wait.as_secs() + 1;
            let message = format!("there are too many of {what}: try again in {seconds} s");
            retry_later_failure(ErrorCode::RateLimited, message, seconds)
        }
        QuotaExceeded::Concurrent => {
            let message = format!("too many of {what} are under way: try again in a moment");
            retry_later_failure(ErrorCode::RateLimited, message, 1)
        }
    }
}

fn queue_full_failure() -> CallFailure {
    let message = "too many calls to the source are under way: try again in a moment";
    retry_later_failure(ErrorCode::RateLimited, message.to_owned(), 1)
}

fn retry_later_failure(code: ErrorCode, message: String, seconds: u64) -> CallFailure {
    CallFailure { retry_after: Some(seconds), ..CallFailure::new(code, message, true) }
}

#[cfg(test)]
mod tests;
