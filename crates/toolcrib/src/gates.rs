//! Admission of calls to sources: rate and concurrency limits by agent, by tool and in all, and a circuit breaker for
//! sources that fail. One source in trouble does not affect the others (requirement E5).

mod breaker;
mod jobs;
mod places;
mod quota;
mod retries;
mod stay;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use model::{Cache, ErrorCode, Failure, Limit, SourceId, SourceLimits, ToolId};
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub(crate) use self::breaker::Verdict;
use self::breaker::{Breaker, Call, Standing};
use self::jobs::{Followed, Jobs};
use self::places::{Asked, Place, Places};
pub(crate) use self::quota::Counted;
use self::quota::{Exceeded, Quota};
use self::retries::Retries;
pub(crate) use self::stay::Stay;
use crate::ready::LONG_ANSWERS;
use crate::telemetry::Telemetry;

/// The most calls to one source that run, and that wait for a permit. One agent gets at most half of either. For its
/// status polls it gets a quarter of the first and an eighth of the second, so that other agents always get some.
const CALLS: usize = 64;
const WAITING: usize = 128;
/// The queue is longer by this factor while the machine is overloaded: an upstream on the same machine pauses as well,
/// and a call that already waited for its turn here should not fail at the next queue.
const WAITING_IN_A_CROWD: usize = 16;
/// The most sources with a gate in memory.
const SOURCES: u64 = 10_000;

/// The most agents and tools to count, and how long to count them after their last call. That is longer than the
/// longest call, or the permits of a running call would be forgotten; and forgetting never refills a used-up burst
/// early.
const COUNTED: u64 = 100_000;
const COUNTED_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The gates of all sources.
pub(crate) struct Gates {
    gates: Cache<SourceId, Arc<Gate>>,
    quotas: Cache<(SourceId, Whose), Arc<Quota>>,
    telemetry: Arc<Telemetry>,
    /// Permits of each agent at each source, with separate ones for status polls (`true`).
    shares: Cache<(SourceId, u64, bool), Arc<Places>>,
    retries: Cache<(SourceId, u64), Arc<Mutex<Retries>>>,
    long_answers: Cache<(SourceId, u64), Arc<Semaphore>>,
    turns: Cache<u64, Arc<Semaphore>>,
    jobs: Arc<Jobs>,
    is_crowded: Arc<AtomicBool>,
    /// How many calls each agent may make over all sources.
    per_agent: Limit,
    agents: Cache<u64, Arc<Quota>>,
}

/// What a quota counts at a source.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Whose {
    All,
    Agent(u64),
    Tool(ToolId),
}

/// The gate of one source.
struct Gate {
    id: SourceId,
    breaker: Mutex<Breaker>,
    places: Places,
    retries: Mutex<Retries>,
}

/// Who wants to call which tool of which source, and until when the caller waits.
#[derive(Clone, Copy)]
pub(crate) struct Wish<'a> {
    pub(crate) source: &'a SourceId,
    pub(crate) limits: &'a SourceLimits,
    pub(crate) tool: Option<&'a ToolId>,
    /// The tool's own limit; it replaces the source's limit per tool.
    pub(crate) of_tool: Option<Limit>,
    pub(crate) agent: u64,
    /// Hash of the subject behind the agent, regardless of its client: the breaker counts failures per subject.
    pub(crate) subject: u64,
    pub(crate) until: Option<Instant>,
    /// Whether this is a status poll of a call that was already admitted and counted.
    pub(crate) is_a_look: bool,
    /// Whether the caller's deadline is earlier than the source's own timeout.
    pub(crate) is_hurried: bool,
}

/// The state of a source's gate, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateState {
    /// The breaker for all known callers together: `closed`, `open` or `half_open`.
    pub breaker: &'static str,
    /// How many agents are blocked individually because only they see failures.
    pub agents_left_out: usize,
    /// The time until no agent is blocked any more; `None` if none is.
    pub left_out_for: Option<Duration>,
    /// Calls that run.
    pub calls: usize,
    /// Calls that wait for a permit.
    pub waiting: usize,
    /// How many calls were retried.
    pub retries: u64,
}

/// An admitted call. If it is dropped without a verdict, the breaker learns nothing from it.
pub(crate) struct Pass {
    gate: Arc<Gate>,
    telemetry: Arc<Telemetry>,
    call: Call,
    verdict: Verdict,
    /// `None` while the call has released its permits.
    taken: Option<Taken>,
}

/// The quota charges and permits that an admitted call holds.
struct Taken {
    counted: [Option<Counted>; 3],
    /// One permit of the agent's own, and one of the whole source.
    _places: [Place; 2],
}

impl Gates {
    pub(crate) fn new(telemetry: Arc<Telemetry>, per_agent: Limit) -> Self {
        let quotas = Cache::new(COUNTED).lasting_unused(COUNTED_FOR);
        let shares = Cache::new(COUNTED).lasting_unused(COUNTED_FOR);
        let retries = Cache::new(COUNTED).lasting_unused(COUNTED_FOR);
        let long_answers = Cache::new(COUNTED).lasting_unused(COUNTED_FOR);
        let turns = Cache::new(COUNTED).lasting_unused(COUNTED_FOR);
        let agents = Cache::new(COUNTED).lasting_unused(COUNTED_FOR);
        let (gates, jobs) = (Cache::new(SOURCES), Arc::default());
        Self {
            gates,
            quotas,
            telemetry,
            shares,
            retries,
            long_answers,
            turns,
            jobs,
            is_crowded: Arc::default(),
            per_agent,
            agents,
        }
    }

    /// A flag that the server sets while it is overloaded.
    pub(crate) fn crowd(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_crowded)
    }

    /// Whether agents have a limit over all sources.
    pub(crate) fn counts_agents(&self) -> bool {
        !self.per_agent.is_none()
    }

    /// Charges a running call to the agent's limit over all sources, whatever its outcome.
    pub(crate) fn count_agent(&self, agent: u64) -> Result<Counted, Failure> {
        let quota = self.agents.get_with(agent, Arc::default);
        let counted = quota.enter(&self.per_agent, Instant::now());
        let mut counted = counted.map_err(|exceeded| too_many("this agent's calls", exceeded))?;
        counted.spend();
        Ok(counted)
    }

    /// Permits for long answers of a source to one agent: half of the source's permits.
    pub(crate) fn long_answers_of(&self, source: &SourceId, agent: u64) -> Arc<Semaphore> {
        let places = || Arc::new(Semaphore::new(LONG_ANSWERS.div_ceil(2)));
        self.long_answers.get_with((source.clone(), agent), places)
    }

    /// One permit for an agent's slow local work: one task at a time.
    pub(crate) fn turn_of(&self, agent: u64) -> Arc<Semaphore> {
        self.turns.get_with(agent, || Arc::new(Semaphore::new(1)))
    }

    /// Admits a call, if the breaker is closed, no limit is exceeded and the queue is not full.
    pub(crate) async fn enter(&self, wish: Wish<'_>) -> Result<Pass, Failure> {
        let pass = self.enter_again(wish).await?;
        // Only an admitted call earns a retry: a rejected one never reached the source.
        pass.gate.retries().earn();
        locked(&self.retries_of(wish)).earn();
        Ok(pass)
    }

    /// Whether a call may be retried. An agent spends only the retries that its own calls earned.
    pub(crate) fn may_try_again(&self, wish: Wish<'_>) -> bool {
        let (gate, own) = (self.gate(wish.source), self.retries_of(wish));
        let (mut of_all, mut own) = (gate.retries(), locked(&own));
        of_all.is_enough() && own.spend() && of_all.spend()
    }

    fn retries_of(&self, wish: Wish<'_>) -> Arc<Mutex<Retries>> {
        self.retries.get_with((wish.source.clone(), wish.agent), Arc::default)
    }

    /// Admits a retry of a call. It counts as a call everywhere except in the retry budget.
    pub(crate) async fn enter_again(&self, wish: Wish<'_>) -> Result<Pass, Failure> {
        let of = || self.telemetry.sources.of(wish.source.as_str());
        self.pass(wish).await.inspect_err(|failure| of().refused(failure.code))
    }

    async fn pass(&self, wish: Wish<'_>) -> Result<Pass, Failure> {
        let (gate, whose) = (self.gate(wish.source), wish.subject);
        let wait = gate.breaker().wait(whose, wish.is_hurried, Instant::now());
        if let Some(wait) = wait {
            return Err(left_alone(wait));
        }
        let counting = |limit| if wish.is_a_look { Limit::default() } else { limit };
        let mut taken = self.take(&gate, wish, counting).await?;
        // Check the breaker again after the wait: other calls may have opened it meanwhile.
        let call = Call { whose, since: Instant::now() };
        let entered = match wish.is_hurried {
            true => gate.breaker().enter_briefly(whose, call.since),
            false => gate.breaker().enter(whose, call.since),
        };
        entered.map_err(left_alone)?;
        taken.counted.iter_mut().flatten().for_each(Counted::spend);
        let (telemetry, verdict) = (Arc::clone(&self.telemetry), Verdict::Nothing);
        Ok(Pass { gate, telemetry, call, verdict, taken: Some(taken) })
    }

    /// Takes permits for an admitted call that had released them. It does not count as another call.
    async fn take_again(&self, wish: Wish<'_>) -> Result<Taken, Failure> {
        let gate = self.gate(wish.source);
        let unrated = |limit| Limit { per_minute: None, burst: None, ..limit };
        self.take(&gate, Wish { until: None, ..wish }, unrated).await
    }

    async fn take(
        &self,
        gate: &Gate,
        wish: Wish<'_>,
        counting: impl Fn(Limit) -> Limit,
    ) -> Result<Taken, Failure> {
        let Wish { source: id, limits, tool, agent, until, .. } = wish;
        let (of_tool, per_tool) = (tool.cloned().map(Whose::Tool), wish.of_tool);
        let per_tool = per_tool.unwrap_or(limits.per_tool);
        let (of_agent, of_all) = (Some(Whose::Agent(agent)), Some(Whose::All));
        // The permits enforce the concurrency limit, so the quota must not.
        let all = Limit { concurrent: None, ..counting(limits.all) };
        let counted = [
            self.count(id, of_agent, &counting(limits.per_agent), "this agent's calls")?,
            self.count(id, of_tool, &counting(per_tool), "the calls of this tool")?,
            self.count(id, of_all, &all, "the calls to this source")?,
        ];
        let most = limits.all.concurrent.map_or(CALLS, |most| most.get() as usize);
        let own = limits.per_agent.concurrent.map(|most| most.get() as usize);
        let share = self.shares.get_with((id.clone(), agent, wish.is_a_look), Arc::default);
        let (own, waiting) = match wish.is_a_look {
            true => (most.div_ceil(4), WAITING / 8),
            false => (own.unwrap_or(most.div_ceil(2)), WAITING / 2),
        };
        let crowd = if self.is_crowded.load(Relaxed) { WAITING_IN_A_CROWD } else { 1 };
        let asked = [
            Asked { of: &share, most: own, waiting: crowd * waiting },
            Asked { of: &gate.places, most, waiting: crowd * WAITING },
        ];
        let places = places::of_both(asked, until).await.ok_or_else(full)?;
        Ok(Taken { counted, _places: places })
    }

    fn gate(&self, source: &SourceId) -> Arc<Gate> {
        self.gates.get_with(source.clone(), || Arc::new(Gate::new(source)))
    }

    /// Admits a long-running job, unless too many run already. A job holds a call permit only while it sends a request.
    pub(crate) fn follow(&self, id: &SourceId, agent: u64) -> Result<Followed, Failure> {
        self.jobs.begin(id, agent).map_err(|whose| {
            let message =
                format!("too many jobs of this {whose} are under way: wait for some to end");
            later(ErrorCode::RateLimited, message, 10)
        })
    }

    fn count(
        &self,
        source: &SourceId,
        whose: Option<Whose>,
        limit: &Limit,
        what: &str,
    ) -> Result<Option<Counted>, Failure> {
        let Some(whose) = whose.filter(|_| !limit.is_none()) else { return Ok(None) };
        let quota = self.quotas.get_with((source.clone(), whose), Arc::default);
        let counted = quota.enter(limit, Instant::now());
        counted.map(Some).map_err(|exceeded| too_many(what, exceeded))
    }

    /// The state of a source's gate; `None` before the first call.
    pub(crate) fn state(&self, source: &SourceId) -> Option<GateState> {
        let gate = self.gates.get(source)?;
        let (calls, waiting) = gate.places.taken();
        let Standing { word: breaker, alone: agents_left_out, left: left_out_for } =
            gate.breaker().standing(Instant::now());
        let retries = gate.retries().made();
        Some(GateState { breaker, agents_left_out, left_out_for, calls, waiting, retries })
    }

    /// Whether a source has answered any caller since then.
    pub(crate) fn has_answered_since(&self, source: &SourceId, then: Instant) -> bool {
        self.gates.get(source).is_some_and(|gate| gate.breaker().has_answered_since(then))
    }

    /// Closes the breaker at once: an admin who repaired the source need not wait for the cooldown.
    pub(crate) fn reset(&self, source: &SourceId) {
        if let Some(gate) = self.gates.get(source) {
            *gate.breaker() = Breaker::new(Instant::now());
        }
    }
}

impl Gate {
    fn new(id: &SourceId) -> Self {
        let breaker = Mutex::new(Breaker::new(Instant::now()));
        let (places, retries) = (Places::default(), Mutex::default());
        Self { id: id.clone(), breaker, places, retries }
    }

    fn retries(&self) -> MutexGuard<'_, Retries> {
        locked(&self.retries)
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        locked(&self.breaker)
    }
}

fn locked<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().expect("no one panics while holding it")
}

impl Pass {
    /// Ends the call with its verdict on the source.
    pub(crate) fn end(mut self, verdict: Verdict) {
        self.verdict = verdict;
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.gate.breaker().end(self.verdict, self.call, Instant::now()) {
            self.telemetry.sources.of(self.gate.id.as_str()).broke();
        }
    }
}

/// The verdict on a source from the error code and HTTP status of a call.
pub(crate) fn verdict(error: Option<&Failure>, status: Option<u16>) -> Verdict {
    let Some(failure) = error else { return Verdict::Works };
    match (failure.code, status) {
        (ErrorCode::UpstreamTimeout | ErrorCode::UpstreamConnectionError, _) => Verdict::Fails,
        (ErrorCode::UpstreamError, Some(500..)) => Verdict::Fails,
        // The source answered with too many bytes or an unsupported encoding: other callers may request less.
        (ErrorCode::UpstreamError, None | Some(400..500)) => Verdict::Answers,
        (ErrorCode::UpstreamError, Some(_)) => Verdict::Works,
        _ => Verdict::Nothing,
    }
}

fn left_alone(wait: Duration) -> Failure {
    let seconds = wait.as_secs() + 1;
    let message =
        format!("the source failed again and again and is left alone: try again in {seconds} s");
    later(ErrorCode::CircuitOpen, message, seconds)
}

fn too_many(what: &str, exceeded: Exceeded) -> Failure {
    match exceeded {
        Exceeded::Rate(wait) => {
            let seconds = wait.as_secs() + 1;
            let message = format!("there are too many of {what}: try again in {seconds} s");
            later(ErrorCode::RateLimited, message, seconds)
        }
        Exceeded::Concurrent => {
            let message = format!("too many of {what} are under way: try again in a moment");
            later(ErrorCode::RateLimited, message, 1)
        }
    }
}

fn full() -> Failure {
    let message = "too many calls to the source are under way: try again in a moment";
    later(ErrorCode::RateLimited, message.to_owned(), 1)
}

fn later(code: ErrorCode, message: String, seconds: u64) -> Failure {
    Failure { retry_after: Some(seconds), ..Failure::new(code, message, true) }
}

#[cfg(test)]
mod tests;
