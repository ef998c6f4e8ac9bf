//! What stands before every source: how many calls there may be, by agent, by tool and in all, and a breaker that leaves
//! a source alone which does not work. One source in trouble is no trouble for the others (requirement E5).

mod breaker;
mod jobs;
mod quota;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use model::{ErrorCode, Failure, Limit, SourceId, SourceLimits, ToolId};
use moka::sync::Cache;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use self::breaker::Breaker;
pub(crate) use self::breaker::Verdict;
use self::jobs::{Followed, Jobs};
use self::quota::{Counted, Exceeded, Quota};

/// Calls to one source that are under way, and that wait to be.
const CALLS: usize = 64;
const WAITING: usize = 128;
/// How long one waits.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of how many sources something is remembered.
const SOURCES: u64 = 10_000;

/// How many agents and tools are counted, and for how long after their last call: a minute says it all.
const COUNTED: u64 = 100_000;
const COUNTED_FOR: Duration = Duration::from_secs(120);

/// The gates of all sources.
pub(crate) struct Gates {
    gates: Cache<SourceId, Arc<Gate>>,
    quotas: Cache<(SourceId, Whose), Arc<Quota>>,
    jobs: Arc<Jobs>,
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
    breaker: Mutex<Breaker>,
    /// So many, as long as the source says the same.
    places: Mutex<(usize, Arc<Semaphore>)>,
    waiting: AtomicUsize,
}

/// How a source is doing, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateState {
    /// `closed`, `open` or `half_open`.
    pub breaker: &'static str,
    /// Calls under way.
    pub calls: usize,
    /// Calls that wait.
    pub waiting: usize,
}

/// A call under way. One that is dropped without a verdict says nothing.
pub(crate) struct Pass {
    gate: Arc<Gate>,
    agent: u64,
    verdict: Verdict,
    _counted: [Option<Counted>; 3],
    _place: OwnedSemaphorePermit,
}

impl Gates {
    pub(crate) fn new() -> Self {
        let quotas = Cache::builder().max_capacity(COUNTED).time_to_idle(COUNTED_FOR).build();
        Self { gates: Cache::new(SOURCES), quotas, jobs: Arc::default() }
    }

    /// Lets a call through, if the source is not left alone, nobody has had too many and not too many wait already.
    pub(crate) async fn enter(
        &self,
        id: &SourceId,
        limits: &SourceLimits,
        tool: Option<&ToolId>,
        agent: u64,
    ) -> Result<Pass, Failure> {
        let gate = match self.gates.get(id) {
            Some(gate) => gate,
            None => self.gates.get_with_by_ref(id, || Arc::new(Gate::new())),
        };
        let of_tool = tool.map(|tool| Whose::Tool(tool.clone()));
        // How many are under way is what the places are for.
        let all = Limit { concurrent: None, ..limits.all };
        let counted = [
            self.count(id, Some(Whose::Agent(agent)), &limits.per_agent, "this agent's calls")?,
            self.count(id, of_tool, &limits.per_tool, "calls of this tool")?,
            self.count(id, Some(Whose::All), &all, "calls to this source")?,
        ];
        let places = gate.places(limits.all.concurrent.map_or(CALLS, |most| most.get() as usize));
        let place = match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => gate.wait(places).await?,
        };
        // After the wait: what came of the others decides.
        gate.breaker().enter(agent, Instant::now()).map_err(left_alone)?;
        Ok(Pass { gate, agent, verdict: Verdict::Nothing, _counted: counted, _place: place })
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
        let (most, places) = &*gate.places.lock().expect("no one panics while holding it");
        Some(GateState {
            breaker: gate.breaker().word(Instant::now()),
            calls: most - places.available_permits(),
            waiting: gate.waiting.load(Ordering::Relaxed),
        })
    }

    /// Whoever mended a source need not wait.
    pub(crate) fn reset(&self, source: &SourceId) {
        if let Some(gate) = self.gates.get(source) {
            *gate.breaker() = Breaker::new(Instant::now());
        }
    }
}

impl Gate {
    fn new() -> Self {
        let breaker = Mutex::new(Breaker::new(Instant::now()));
        let places = Mutex::new((CALLS, Arc::new(Semaphore::new(CALLS))));
        Self { breaker, places, waiting: AtomicUsize::new(0) }
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().expect("no one panics while holding it")
    }

    /// Those who are through under another limit come to their end beside it.
    fn places(&self, most: usize) -> Arc<Semaphore> {
        let mut places = self.places.lock().expect("no one panics while holding it");
        if places.0 != most {
            *places = (most, Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))));
        }
        Arc::clone(&places.1)
    }

    async fn wait(&self, places: Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Failure> {
        let _waits = Waits::new(&self.waiting);
        if WAITING < self.waiting.load(Ordering::Relaxed) {
            return Err(full());
        }
        match timeout(PATIENCE, places.acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(full()),
        }
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
        self.gate.breaker().end(self.verdict, self.agent, Instant::now());
    }
}

struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What came of a call over HTTP, by its code and status.
pub(crate) fn verdict(error: Option<&Failure>, status: Option<u16>) -> Verdict {
    let Some(failure) = error else { return Verdict::Works };
    match (failure.code, status) {
        (ErrorCode::UpstreamTimeout | ErrorCode::UpstreamConnectionError, _) => Verdict::Fails,
        (ErrorCode::UpstreamError, None | Some(500..)) => Verdict::Fails,
        // Who is refused says nothing about whether it works for others.
        (ErrorCode::UpstreamError, Some(400..500)) => Verdict::Nothing,
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

    use super::*;

    fn id(name: &str) -> SourceId {
        name.parse().unwrap()
    }

    async fn enter(gates: &Gates, name: &str, agent: u64) -> Result<Pass, Failure> {
        gates.enter(&id(name), &SourceLimits::default(), None, agent).await
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_go_through_and_so_many_wait() {
        let gates = Arc::new(Gates::new());
        let mut passes = Vec::new();
        for _ in 0..CALLS {
            passes.push(enter(&gates, "a", 1).await.unwrap());
        }
        let waiting: Vec<_> = (0..WAITING)
            .map(|_| {
                let gates = Arc::clone(&gates);
                tokio::spawn(async move { enter(&gates, "a", 1).await.map(drop) })
            })
            .collect();
        while gates.state(&id("a")).unwrap().waiting < WAITING {
            tokio::task::yield_now().await;
        }
        assert_eq!(gates.state(&id("a")).unwrap().calls, CALLS);
        let start = Instant::now();
        let refused = enter(&gates, "a", 1).await.err().unwrap();
        assert_eq!((refused.code, start.elapsed()), (ErrorCode::RateLimited, Duration::ZERO));
        assert!(enter(&gates, "b", 1).await.is_ok(), "others are no concern of it");
        passes.truncate(CALLS - 1);
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
        assert_eq!(gates.state(&id("a")).unwrap().calls, CALLS - 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_dropped_says_nothing_and_a_reset_forgets() {
        let gates = Gates::new();
        for _ in 0..breaker::FAILURES {
            drop(enter(&gates, "a", 1).await.unwrap());
        }
        for _ in 0..breaker::FAILURES {
            enter(&gates, "a", 1).await.unwrap().end(Verdict::Fails);
        }
        let refused = enter(&gates, "a", 1).await.err().unwrap();
        assert_eq!((refused.code, refused.retryable), (ErrorCode::CircuitOpen, true));
        assert_eq!(gates.state(&id("a")).unwrap().breaker, "open");
        gates.reset(&id("a"));
        assert!(enter(&gates, "a", 2).await.is_ok());
        for _ in 0..breaker::FAILURES {
            enter(&gates, "a", 1).await.unwrap().end(Verdict::Fails);
        }
        tokio::time::sleep(breaker::REST).await;
        enter(&gates, "a", 1).await.unwrap().end(Verdict::Works);
        assert_eq!(gates.state(&id("a")).unwrap().breaker, "closed");
    }

    #[tokio::test(start_paused = true)]
    async fn each_agent_and_each_tool_has_its_own_limit_and_the_source_one_for_all() {
        let gates = Gates::new();
        let limits = json!({"per_agent": {"per_minute": 60, "burst": 2},
            "per_tool": {"concurrent": 1}, "all": {"per_minute": 600, "burst": 4}});
        let limits = serde_json::from_value(limits).unwrap();
        let (source, tool) = (id("a"), "a:t".parse().unwrap());
        let code = async |agent| {
            let entered = gates.enter(&source, &limits, None, agent).await;
            entered.err().map(|failure| (failure.code, failure.message))
        };
        assert_eq!((code(1).await, code(1).await), (None, None));
        let refused = "there are too many of this agent's calls: try again in 2 s".to_owned();
        assert_eq!(code(1).await, Some((ErrorCode::RateLimited, refused)));
        assert_eq!((code(2).await, code(3).await), (None, None));
        assert!(code(4).await.unwrap().1.contains("calls to this source"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(code(1).await, None);
        let first = gates.enter(&source, &limits, Some(&tool), 5).await.unwrap();
        let second = gates.enter(&source, &limits, Some(&tool), 6).await.err().unwrap();
        assert!(second.message.contains("calls of this tool are under way"), "{}", second.message);
        drop(first);
        assert!(gates.enter(&source, &limits, Some(&tool), 7).await.is_ok());
    }
}
