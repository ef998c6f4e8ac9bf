//! What stands before every source: how many calls there may be, by agent, by tool and in all, and a breaker that leaves
//! a source alone which does not work. One source in trouble is no trouble for the others (requirement E5).

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

/// Calls to one source that are under way, and that wait to be. One agent has at most half of either, and for looks at its work
/// a quarter of the first and an eighth of the second, so that there is always something left for the others.
const CALLS: usize = 64;
const WAITING: usize = 128;
/// So many times as many wait while the machine has no time for all who come: an upstream on it pauses like everybody else,
/// and who has waited for their turn already is not to have waited for nothing.
const WAITING_IN_A_CROWD: usize = 16;
/// Of how many sources something is remembered.
const SOURCES: u64 = 10_000;

/// How many agents and tools are counted, and for how long after their last call: longer than the longest call, or what it
/// holds would be forgotten; and what was used up in a burst comes back no sooner for it.
const COUNTED: u64 = 100_000;
const COUNTED_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The gates of all sources.
pub(crate) struct Gates {
    gates: Cache<SourceId, Arc<Gate>>,
    quotas: Cache<(SourceId, Whose), Arc<Quota>>,
    telemetry: Arc<Telemetry>,
    /// Of each agent at each source: its places, those for looks at its work apart, and its tries after the first.
    shares: Cache<(SourceId, u64, bool), Arc<Places>>,
    retries: Cache<(SourceId, u64), Arc<Mutex<Retries>>>,
    long_answers: Cache<(SourceId, u64), Arc<Semaphore>>,
    turns: Cache<u64, Arc<Semaphore>>,
    jobs: Arc<Jobs>,
    is_crowded: Arc<AtomicBool>,
    /// How many calls each agent may make, whatever they are of.
    per_agent: Limit,
    agents: Cache<u64, Arc<Quota>>,
}

/// Whose calls are counted together.
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

/// Who wants to call what, and until when it is worth the while.
#[derive(Clone, Copy)]
pub(crate) struct Wish<'a> {
    pub(crate) source: &'a SourceId,
    pub(crate) limits: &'a SourceLimits,
    pub(crate) tool: Option<&'a ToolId>,
    /// What is said of this tool alone, instead of what the source says of each.
    pub(crate) of_tool: Option<Limit>,
    pub(crate) agent: u64,
    /// Whom it acts for, with whichever client: of failures each counts once.
    pub(crate) subject: u64,
    pub(crate) until: Option<Instant>,
    /// Whether it is part of a call that was counted, and begun, before.
    pub(crate) is_a_look: bool,
    /// Whether that is sooner than the source may take.
    pub(crate) is_hurried: bool,
}

/// How a source is doing, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateState {
    /// For all who are known to have called: `closed`, `open` or `half_open`.
    pub breaker: &'static str,
    /// How many agents alone are left out, since they alone see failures.
    pub agents_left_out: usize,
    /// Until nobody is left out any more, if anybody is.
    pub left_out_for: Option<Duration>,
    /// Calls under way.
    pub calls: usize,
    /// Calls that wait.
    pub waiting: usize,
    /// How often a call was tried once more.
    pub retries: u64,
}

/// A call under way. One that is dropped without a verdict says nothing.
pub(crate) struct Pass {
    gate: Arc<Gate>,
    telemetry: Arc<Telemetry>,
    call: Call,
    verdict: Verdict,
    /// None while it makes room for others.
    taken: Option<Taken>,
}

/// What a call under way has of what there is only so much of.
struct Taken {
    counted: [Option<Counted>; 3],
    /// One of the agent's own, and one of all.
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

    /// Where it is said whether the machine has time for all who come.
    pub(crate) fn crowd(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_crowded)
    }

    /// Whether there is a limit to what one agent does in all.
    pub(crate) fn counts_agents(&self) -> bool {
        !self.per_agent.is_none()
    }

    /// Counts a call of an agent for as long as it is under way, whatever it is of and whatever comes of it.
    pub(crate) fn count_agent(&self, agent: u64) -> Result<Counted, Failure> {
        let quota = self.agents.get_with(agent, Arc::default);
        let counted = quota.enter(&self.per_agent, Instant::now());
        let mut counted = counted.map_err(|exceeded| too_many("this agent's calls", exceeded))?;
        counted.spend();
        Ok(counted)
    }

    /// Places for the long answers of a source to one agent: half of those there are.
    pub(crate) fn long_answers_of(&self, source: &SourceId, agent: u64) -> Arc<Semaphore> {
        let places = || Arc::new(Semaphore::new(LONG_ANSWERS.div_ceil(2)));
        self.long_answers.get_with((source.clone(), agent), places)
    }

    /// An agent's turn at what takes long here: one at a time.
    pub(crate) fn turn_of(&self, agent: u64) -> Arc<Semaphore> {
        self.turns.get_with(agent, || Arc::new(Semaphore::new(1)))
    }

    /// Lets a call through, if the source is not left alone, nobody has had too many and not too many wait already.
    pub(crate) async fn enter(&self, wish: Wish<'_>) -> Result<Pass, Failure> {
        let pass = self.enter_again(wish).await?;
        // Whoever is refused has earned nothing: it costs the source nothing either.
        pass.gate.retries().earn();
        locked(&self.retries_of(wish)).earn();
        Ok(pass)
    }

    /// Whether a call may be tried once more. Nobody spends what others have earned.
    pub(crate) fn may_try_again(&self, wish: Wish<'_>) -> bool {
        let (gate, own) = (self.gate(wish.source), self.retries_of(wish));
        let (mut of_all, mut own) = (gate.retries(), locked(&own));
        of_all.is_enough() && own.spend() && of_all.spend()
    }

    fn retries_of(&self, wish: Wish<'_>) -> Arc<Mutex<Retries>> {
        self.retries.get_with((wish.source.clone(), wish.agent), Arc::default)
    }

    /// The same for another try of a call, which is one call more to everybody but the budget for those.
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
        // Once more after the wait: what came of the others decides.
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

    /// A place for a call that was let through before and made room for others. It is no other call for that.
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
        // How many are under way is what the places are for.
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

    /// Lets a job begin that is followed for long, if there are not too many of them already. It takes no place of a call
    /// but while something is sent.
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

    /// How a source is doing; none if nobody called it yet.
    pub(crate) fn state(&self, source: &SourceId) -> Option<GateState> {
        let gate = self.gates.get(source)?;
        let (calls, waiting) = gate.places.taken();
        let Standing { word: breaker, alone: agents_left_out, left: left_out_for } =
            gate.breaker().standing(Instant::now());
        let retries = gate.retries().made();
        Some(GateState { breaker, agents_left_out, left_out_for, calls, waiting, retries })
    }

    /// Whether a source has answered anybody since then.
    pub(crate) fn has_answered_since(&self, source: &SourceId, then: Instant) -> bool {
        self.gates.get(source).is_some_and(|gate| gate.breaker().has_answered_since(then))
    }

    /// Whoever mended a source need not wait.
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
    /// What the call says about its source.
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

/// What came of a call over HTTP, by its code and status.
pub(crate) fn verdict(error: Option<&Failure>, status: Option<u16>) -> Verdict {
    let Some(failure) = error else { return Verdict::Works };
    match (failure.code, status) {
        (ErrorCode::UpstreamTimeout | ErrorCode::UpstreamConnectionError, _) => Verdict::Fails,
        (ErrorCode::UpstreamError, Some(500..)) => Verdict::Fails,
        // It answered, and with more than is read or in an encoding that is not: others may ask for less.
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
