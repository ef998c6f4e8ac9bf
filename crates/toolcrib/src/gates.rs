//! What stands before every source: how many calls there may be, by agent, by tool and in all, and a breaker that leaves
//! a source alone which does not work. One source in trouble is no trouble for the others (requirement E5).

mod breaker;
mod jobs;
mod places;
mod quota;
mod retries;
mod stay;

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
use crate::telemetry::Telemetry;

/// Calls to one source that are under way, and that wait to be. One agent has at most half of either, so that there is
/// always something left for the others.
const CALLS: usize = 64;
const WAITING: usize = 128;
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
    shares: Cache<(SourceId, u64), Arc<Places>>,
    turns: Cache<u64, Arc<Semaphore>>,
    jobs: Arc<Jobs>,
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
        let turns = Cache::new(COUNTED).lasting_unused(COUNTED_FOR);
        let agents = Cache::new(COUNTED).lasting_unused(COUNTED_FOR);
        let (gates, jobs) = (Cache::new(SOURCES), Arc::default());
        Self { gates, quotas, shares, turns, jobs, per_agent, agents, telemetry }
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

    /// An agent's turn at what takes long here: one at a time.
    pub(crate) fn turn_of(&self, agent: u64) -> Arc<Semaphore> {
        self.turns.get_with(agent, || Arc::new(Semaphore::new(1)))
    }

    /// Lets a call through, if the source is not left alone, nobody has had too many and not too many wait already.
    pub(crate) async fn enter(&self, wish: Wish<'_>) -> Result<Pass, Failure> {
        let pass = self.enter_again(wish).await?;
        // Whoever is refused has earned nothing: it costs the source nothing either.
        pass.gate.retries().earn();
        Ok(pass)
    }

    /// Whether a call may be tried once more.
    pub(crate) fn may_try_again(&self, source: &SourceId) -> bool {
        self.gate(source).retries().spend()
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
        let share = self.shares.get_with((id.clone(), agent), Arc::default);
        let asked = [
            Asked { of: &share, most: own.unwrap_or(most.div_ceil(2)), waiting: WAITING / 2 },
            Asked { of: &gate.places, most, waiting: WAITING },
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
        self.retries.lock().expect("no one panics while holding it")
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().expect("no one panics while holding it")
    }
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
mod tests {
    use serde_json::json;
    use tokio::task::JoinHandle;

    use super::*;

    fn id(name: &str) -> SourceId {
        name.parse().unwrap()
    }

    async fn enter(gates: &Gates, name: &str, agent: u64) -> Result<Pass, Failure> {
        gates.enter(wish(&id(name), &SourceLimits::default(), None, agent)).await
    }

    fn wish<'a>(
        source: &'a SourceId,
        limits: &'a SourceLimits,
        tool: Option<&'a ToolId>,
        agent: u64,
    ) -> Wish<'a> {
        let (of_tool, subject, until) = (None, agent, None);
        let (is_a_look, is_hurried) = (false, false);
        Wish { source, limits, tool, of_tool, agent, subject, until, is_a_look, is_hurried }
    }

    /// Has an agent take all it can: those that are through, and those that wait.
    async fn taken(
        gates: &Arc<Gates>,
        agent: u64,
    ) -> (Vec<Pass>, Vec<JoinHandle<Result<(), Failure>>>) {
        let mut passes = Vec::new();
        for _ in 0..CALLS / 2 {
            passes.push(enter(gates, "a", agent).await.unwrap());
        }
        let before = gates.state(&id("a")).unwrap().waiting;
        let waiting = (0..WAITING / 2).map(|_| {
            let gates = Arc::clone(gates);
            tokio::spawn(async move { enter(&gates, "a", agent).await.map(drop) })
        });
        let waiting = waiting.collect();
        while gates.state(&id("a")).unwrap().waiting < before + WAITING / 2 {
            tokio::task::yield_now().await;
        }
        (passes, waiting)
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_go_through_and_so_many_wait() {
        let gates = Arc::new(Gates::new(Arc::default(), Limit::default()));
        let (mut passes, mut waiting) = taken(&gates, 1).await;
        let (others, more) = taken(&gates, 2).await;
        waiting.extend(more);
        let state = gates.state(&id("a")).unwrap();
        assert_eq!((state.calls, state.waiting), (CALLS, WAITING));
        let start = Instant::now();
        for agent in [1, 3] {
            let refused = enter(&gates, "a", agent).await.err().unwrap();
            assert_eq!((refused.code, start.elapsed()), (ErrorCode::RateLimited, Duration::ZERO));
        }
        assert!(enter(&gates, "b", 1).await.is_ok(), "others are no concern of it");
        passes.pop();
        drop(others);
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
        let state = gates.state(&id("a")).unwrap();
        assert_eq!((state.calls, state.waiting), (CALLS / 2 - 1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn one_agent_leaves_places_for_the_others() {
        let gates = Arc::new(Gates::new(Arc::default(), Limit::default()));
        let (_passes, _waiting) = taken(&gates, 1).await;
        let start = Instant::now();
        let refused = enter(&gates, "a", 1).await.err().unwrap();
        assert_eq!(refused.code, ErrorCode::RateLimited);
        let others: Vec<_> =
            futures_util::future::join_all((2..34).map(|agent| enter(&gates, "a", agent))).await;
        assert!(others.iter().all(Result::is_ok));
        assert_eq!(start.elapsed(), Duration::ZERO, "each of them at once");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_of_each_agent_counts_instead_of_half() {
        let gates = Gates::new(Arc::default(), Limit::default());
        let (source, mut passes) = (id("a"), Vec::new());
        let limits = json!({"all": {"concurrent": 4}, "per_agent": {"concurrent": 4}});
        let limits = serde_json::from_value(limits).unwrap();
        for _ in 0..4 {
            passes.push(gates.enter(wish(&source, &limits, None, 1)).await.unwrap());
        }
        assert!(gates.enter(wish(&source, &limits, None, 1)).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_people_has_no_place_and_is_counted_as_a_job() {
        let gates = Gates::new(Arc::default(), Limit::default());
        let limits = json!({"all": {"concurrent": 1}, "per_agent": {"per_minute": 1, "burst": 1}});
        let (source, limits) = (id("a"), serde_json::from_value(limits).unwrap());
        let running = || gates.state(&source).unwrap().calls;
        let first = wish(&source, &limits, None, 1);
        let mut stay = Stay::new(&gates, first, gates.enter(first).await.unwrap());
        stay.step_aside().unwrap();
        assert_eq!(running(), 0);
        let other = gates.enter(wish(&source, &limits, None, 2)).await.unwrap();
        // There is no place to come back to, and what has begun goes on all the same.
        stay.come_back().await;
        assert!(stay.aside.is_some());
        drop(other);
        // It is no second call of this minute.
        stay.come_back().await;
        assert_eq!((running(), stay.aside.is_none()), (1, true));
        let jobs: Vec<_> = (0..100).map(|_| gates.follow(&source, 1).ok().unwrap()).collect();
        assert_eq!(stay.step_aside().err().unwrap().code, ErrorCode::RateLimited);
        assert_eq!(running(), 1);
        drop(jobs);
        stay.end(Verdict::Works);
        assert_eq!(running(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_dropped_says_nothing_and_a_reset_forgets() {
        let gates = Gates::new(Arc::default(), Limit::default());
        for _ in 0..breaker::FAILURES {
            drop(enter(&gates, "a", 1).await.unwrap());
        }
        for _ in 0..breaker::FAILURES {
            enter(&gates, "a", 1).await.unwrap().end(Verdict::Fails);
        }
        let refused = enter(&gates, "a", 1).await.err().unwrap();
        assert_eq!((refused.code, refused.retryable), (ErrorCode::CircuitOpen, true));
        let state = gates.state(&id("a")).unwrap();
        assert_eq!((state.breaker, state.agents_left_out), ("open", 1));
        gates.reset(&id("a"));
        assert!(enter(&gates, "a", 2).await.is_ok());
        for _ in 0..breaker::FAILURES {
            enter(&gates, "a", 1).await.unwrap().end(Verdict::Fails);
        }
        tokio::time::sleep(breaker::REST).await;
        enter(&gates, "a", 1).await.unwrap().end(Verdict::Works);
        assert_eq!(gates.state(&id("a")).unwrap().agents_left_out, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn two_clients_of_one_subject_break_it_for_nobody_else() {
        let gates = Gates::new(Arc::default(), Limit::default());
        let (source, limits) = (id("a"), SourceLimits::default());
        for client in 0..u64::from(breaker::FAILURES) {
            let wish = Wish { subject: 1, ..wish(&source, &limits, None, client) };
            gates.enter(wish).await.unwrap().end(Verdict::Fails);
        }
        let other = Wish { subject: 1, ..wish(&source, &limits, None, 7) };
        assert_eq!(gates.enter(other).await.err().unwrap().code, ErrorCode::CircuitOpen);
        assert!(enter(&gates, "a", 2).await.is_ok());
    }

    #[test]
    fn an_upstream_that_answers_too_much_is_not_broken() {
        let told = |code, status| verdict(Some(&Failure::new(code, "", false)), status);
        assert_eq!(told(ErrorCode::UpstreamError, None), Verdict::Answers);
        assert_eq!(told(ErrorCode::UpstreamError, Some(503)), Verdict::Fails);
        assert_eq!(told(ErrorCode::UpstreamTimeout, None), Verdict::Fails);
    }

    #[tokio::test(start_paused = true)]
    async fn hurried_callers_do_not_keep_others_from_finding_out() {
        let gates = Gates::new(Arc::default(), Limit::default());
        for agent in 0..u64::from(breaker::FAILURES) {
            enter(&gates, "a", agent).await.unwrap().end(Verdict::Fails);
        }
        tokio::time::sleep(breaker::REST).await;
        let (source, limits) = (id("a"), SourceLimits::default());
        let hurried =
            |agent| gates.enter(Wish { is_hurried: true, ..wish(&source, &limits, None, agent) });
        drop(hurried(1).await.unwrap());
        assert_eq!(hurried(2).await.err().unwrap().code, ErrorCode::CircuitOpen);
        enter(&gates, "a", 3).await.unwrap().end(Verdict::Works);
        assert!(hurried(2).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn each_agent_and_each_tool_has_its_own_limit_and_the_source_one_for_all() {
        let gates = Gates::new(Arc::default(), Limit::default());
        let limits = json!({"per_agent": {"per_minute": 60, "burst": 2},
            "per_tool": {"concurrent": 1}, "all": {"per_minute": 600, "burst": 4}});
        let limits = serde_json::from_value(limits).unwrap();
        let (source, tool) = (id("a"), "a:t".parse().unwrap());
        let code = async |agent| {
            let entered = gates.enter(wish(&source, &limits, None, agent)).await;
            entered.err().map(|failure| (failure.code, failure.message))
        };
        assert_eq!((code(1).await, code(1).await), (None, None));
        let refused = "there are too many of this agent's calls: try again in 2 s".to_owned();
        assert_eq!(code(1).await, Some((ErrorCode::RateLimited, refused)));
        assert_eq!((code(2).await, code(3).await), (None, None));
        assert!(code(4).await.unwrap().1.contains("the calls to this source"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(code(1).await, None);
        let first = gates.enter(wish(&source, &limits, Some(&tool), 5)).await.unwrap();
        let second = gates.enter(wish(&source, &limits, Some(&tool), 6)).await.err().unwrap();
        assert!(second.message.contains("calls of this tool are under way"), "{}", second.message);
        drop(first);
        assert!(gates.enter(wish(&source, &limits, Some(&tool), 7)).await.is_ok());
        // What is said of one tool counts instead.
        let said = serde_json::from_value(json!({"per_minute": 60, "burst": 2})).unwrap();
        let enter = |agent| {
            gates.enter(Wish { of_tool: Some(said), ..wish(&source, &limits, Some(&tool), agent) })
        };
        tokio::time::sleep(Duration::from_secs(5)).await;
        let _both = (enter(8).await.unwrap(), enter(9).await.unwrap());
        assert!(enter(10).await.err().unwrap().message.contains("the calls of this tool"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_has_a_limit_over_all_sources() {
        let per_agent = json!({"per_minute": 60, "burst": 3, "concurrent": 2});
        let gates = Gates::new(Arc::default(), serde_json::from_value(per_agent).unwrap());
        let (_first, second) = (gates.count_agent(1).unwrap(), gates.count_agent(1).unwrap());
        let refused = gates.count_agent(1).err().unwrap();
        assert!(refused.message.contains("are under way"), "{}", refused.message);
        drop((second, gates.count_agent(2).unwrap()));
        assert!(gates.count_agent(1).is_ok());
        let refused = gates.count_agent(1).err().unwrap();
        assert_eq!((refused.code, refused.retry_after), (ErrorCode::RateLimited, Some(2)));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(gates.count_agent(1).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_refused_for_one_reason_has_used_up_nothing_else() {
        let gates = Gates::new(Arc::default(), Limit::default());
        let limits = json!({"all": {"per_minute": 60, "burst": 5, "concurrent": 1},
            "per_agent": {"per_minute": 60, "burst": 5}, "per_tool": {"concurrent": 1}});
        let (source, tool) = (id("a"), "a:t".parse().unwrap());
        let limits = serde_json::from_value(limits).unwrap();
        let enter = |agent, tool| gates.enter(wish(&source, &limits, tool, agent));
        for _ in 0..breaker::FAILURES {
            enter(1, None).await.unwrap().end(Verdict::Fails);
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        for _ in 0..100 {
            assert_eq!(enter(1, None).await.err().unwrap().code, ErrorCode::CircuitOpen);
        }
        let first = enter(2, Some(&tool)).await.unwrap();
        for _ in 0..100 {
            let refused = enter(2, Some(&tool)).await.err().unwrap();
            assert!(refused.message.contains("calls of this tool"), "{}", refused.message);
        }
        let start = Instant::now();
        let left_out = enter(1, None).await.err().unwrap();
        assert_eq!((left_out.code, start.elapsed()), (ErrorCode::CircuitOpen, Duration::ZERO));
        drop(first);
        for _ in 0..4 {
            enter(2, None).await.unwrap().end(Verdict::Works);
        }
        assert_eq!(enter(2, None).await.err().unwrap().code, ErrorCode::RateLimited);
    }
}
