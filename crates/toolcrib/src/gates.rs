//! What stands before every source: so many calls at a time and no more that wait, and a breaker that leaves a source alone
//! which does not work. One source in trouble is no trouble for the others (requirement E5).

mod breaker;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use model::{ErrorCode, Failure, SourceId};
use moka::sync::Cache;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use self::breaker::Breaker;
pub(crate) use self::breaker::Verdict;

/// Calls to one source that are under way, and that wait to be.
const CALLS: usize = 64;
const WAITING: usize = 128;
/// How long one waits.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of how many sources something is remembered.
const SOURCES: u64 = 10_000;

/// The gates of all sources.
pub(crate) struct Gates(Cache<SourceId, Arc<Gate>>);

/// The gate of one source.
pub(crate) struct Gate {
    breaker: Mutex<Breaker>,
    places: Arc<Semaphore>,
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
    whose: u64,
    verdict: Verdict,
    _place: OwnedSemaphorePermit,
}

impl Gates {
    pub(crate) fn new() -> Self {
        Self(Cache::new(SOURCES))
    }

    /// Lets a call through, if the source is not left alone and not too many wait already.
    pub(crate) async fn enter(&self, source: &SourceId, whose: u64) -> Result<Pass, Failure> {
        let gate = match self.0.get(source) {
            Some(gate) => gate,
            None => self.0.get_with_by_ref(source, || Arc::new(Gate::new())),
        };
        let place = match Arc::clone(&gate.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => gate.wait().await?,
        };
        // After the wait: what came of the others decides.
        gate.breaker().enter(Instant::now()).map_err(left_alone)?;
        Ok(Pass { gate, whose, verdict: Verdict::Nothing, _place: place })
    }

    /// How a source is doing; none if nobody called it yet.
    pub(crate) fn state(&self, source: &SourceId) -> Option<GateState> {
        let gate = self.0.get(source)?;
        Some(GateState {
            breaker: gate.breaker().word(Instant::now()),
            calls: CALLS - gate.places.available_permits(),
            waiting: gate.waiting.load(Ordering::Relaxed),
        })
    }

    /// Whoever mended a source need not wait.
    pub(crate) fn reset(&self, source: &SourceId) {
        if let Some(gate) = self.0.get(source) {
            *gate.breaker() = Breaker::new(Instant::now());
        }
    }
}

impl Gate {
    fn new() -> Self {
        let breaker = Mutex::new(Breaker::new(Instant::now()));
        let places = Arc::new(Semaphore::new(CALLS));
        Self { breaker, places, waiting: AtomicUsize::new(0) }
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().expect("no one panics while holding it")
    }

    async fn wait(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let _waits = Waits::new(&self.waiting);
        if WAITING < self.waiting.load(Ordering::Relaxed) {
            return Err(full());
        }
        match timeout(PATIENCE, Arc::clone(&self.places).acquire_owned()).await {
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
        self.gate.breaker().end(self.verdict, self.whose, Instant::now());
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
    let seconds = wait.as_secs().max(1);
    let message =
        format!("the source failed again and again and is left alone: try again in {seconds} s");
    Failure { code: ErrorCode::CircuitOpen, message, retryable: true }
}

fn full() -> Failure {
    let message = "too many calls to the source are under way: try again in a moment".to_owned();
    Failure { code: ErrorCode::RateLimited, message, retryable: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> SourceId {
        name.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_go_through_and_so_many_wait() {
        let gates = Arc::new(Gates::new());
        let mut passes = Vec::new();
        for _ in 0..CALLS {
            passes.push(gates.enter(&id("a"), 1).await.unwrap());
        }
        let waiting: Vec<_> = (0..WAITING)
            .map(|_| {
                let gates = Arc::clone(&gates);
                tokio::spawn(async move { gates.enter(&id("a"), 1).await.map(drop) })
            })
            .collect();
        while gates.state(&id("a")).unwrap().waiting < WAITING {
            tokio::task::yield_now().await;
        }
        assert_eq!(gates.state(&id("a")).unwrap().calls, CALLS);
        let start = Instant::now();
        let refused = gates.enter(&id("a"), 1).await.err().unwrap();
        assert_eq!((refused.code, start.elapsed()), (ErrorCode::RateLimited, Duration::ZERO));
        assert!(gates.enter(&id("b"), 1).await.is_ok(), "others are no concern of it");
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
            drop(gates.enter(&id("a"), 1).await.unwrap());
        }
        for _ in 0..breaker::FAILURES {
            gates.enter(&id("a"), 1).await.unwrap().end(Verdict::Fails);
        }
        let refused = gates.enter(&id("a"), 2).await.err().unwrap();
        assert_eq!((refused.code, refused.retryable), (ErrorCode::CircuitOpen, true));
        assert_eq!(gates.state(&id("a")).unwrap().breaker, "open");
        gates.reset(&id("a"));
        assert!(gates.enter(&id("a"), 2).await.is_ok());
        for _ in 0..breaker::FAILURES {
            gates.enter(&id("a"), 1).await.unwrap().end(Verdict::Fails);
        }
        tokio::time::sleep(breaker::REST).await;
        gates.enter(&id("a"), 2).await.unwrap().end(Verdict::Works);
        assert_eq!(gates.state(&id("a")).unwrap().breaker, "closed");
    }
}
