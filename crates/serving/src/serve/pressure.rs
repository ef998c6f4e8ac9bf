//! Load shedding: limits concurrent calls to the capacity of the processors. Further calls wait in order of arrival.
//! Rejecting a call costs almost as much as executing it, and a rejected client retries, which would leave little
//! capacity for admitted calls; a waiting call costs nothing. A call that would wait for too long is rejected at once,
//! before any work is done for it.
//!
//! Costly calls start one at a time, each after all other tasks have been polled. A call that never waits runs to its
//! end in one poll, and new clients must soon learn that they have to retry.
//!
//! The limit always exists and is somewhat above the recent demand, so that a burst is not admitted as a whole. While
//! calls wait, the idle time of the worker threads controls the limit: with idle time it grows, without it shrinks. A
//! call takes a slot only after its whole body has arrived (`call_admission.rs`).

mod cost;
mod others;
mod refusal;
mod turn;
mod workers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::http::{Method, Request};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use toolcrib::telemetry::Counter;

use self::cost::{Cost, measured};
use self::others::others_first;
pub(super) use self::refusal::Refusal;
pub(super) use self::turn::Turn;
use self::workers::{Look, Workers};

/// Interval between two samples of the workers.
const LOOK: Duration = Duration::from_millis(10);
/// Worker utilisation above this counts as saturated.
const BUSY: f64 = 0.95;
/// Saturated samples in a row before a warning is logged, and samples without waiting calls before recovery is logged.
const AGAIN: usize = 3;
const WELL: usize = 50;
/// Lower bounds of the limit, per worker thread. The minimum is always admitted; a burst is admitted if it ends within
/// the burst duration. Without a sample, only a burst is admitted: the gates of sources reject calls above their own
/// limits, unless the calls have waited here.
const FEW: usize = 16;
const SOME: usize = 64;
const SOON: Duration = Duration::from_millis(10);
/// Growth of the limit per sample while the workers are idle and calls wait.
const MORE: f64 = 0.25;
/// Maximum expected wait of an accepted call, and maximum actual wait if the estimate was wrong.
const PATIENCE: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(5);
/// Maximum number of waiting calls, about the maximum number of connections.
const MAY_WAIT: usize = 16_384;
/// More slots than there can be connections.
const ALL: usize = Semaphore::MAX_PERMITS / 2;

/// The state of load shedding, shared by all connections.
pub(crate) struct Pressure {
    /// The call slots; calls without a slot wait in order.
    places: Arc<Semaphore>,
    /// Number of existing slots.
    there_are: AtomicUsize,
    /// Target number of slots; excess slots are removed when their calls end.
    wanted: AtomicUsize,
    waiting: AtomicUsize,
    may_wait: AtomicUsize,
    cost: Cost,
    /// Start permits: per worker thread, one costly call may start before all other tasks are polled again.
    begins: Semaphore,
    /// Number of calls that have ended.
    ended: AtomicUsize,
    refused: Counter,
    /// Whether calls have recently waited for processor time. Calls then also wait at the gates of sources.
    is_crowded: Arc<AtomicBool>,
}

/// The slot of an admitted call, held while this value lives.
struct UnderWay {
    place: Option<OwnedSemaphorePermit>,
    pressure: Arc<Pressure>,
}

/// Counts a waiting call while this value lives.
struct Waits<'a>(&'a AtomicUsize);

impl Default for Pressure {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(ALL)),
            there_are: AtomicUsize::new(ALL),
            wanted: AtomicUsize::new(ALL),
            waiting: AtomicUsize::new(0),
            may_wait: AtomicUsize::new(MAY_WAIT),
            cost: Cost::default(),
            begins: Semaphore::new(1),
            ended: AtomicUsize::new(0),
            refused: Counter::default(),
            is_crowded: Arc::default(),
        }
    }
}

impl Pressure {
    /// A load shedder that reports in this flag whether calls wait for processor time.
    pub(crate) fn telling(is_crowded: Arc<AtomicBool>) -> Self {
        Self { is_crowded, ..Self::default() }
    }

    /// Samples the workers and adjusts the limit; never returns.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut workers = Workers::here();
        let (few, some) = (FEW * workers.number(), SOME * workers.number());
        self.limit(some);
        self.begins.add_permits(workers.number() - 1);
        self.cost.forget();
        let (mut crowd, mut ended) = (Crowd::default(), self.ended.load(Relaxed));
        loop {
            sleep(LOOK).await;
            let Some(Look { busy, time }) = workers.look() else { continue };
            let (waiting, under_way) = (self.waiting.load(Relaxed), self.under_way());
            let before = std::mem::replace(&mut ended, self.ended.load(Relaxed));
            let pace = ended.wrapping_sub(before) as f64 / time.as_secs_f64();
            crowd.look(waiting, busy, pace);
            self.is_crowded.store(crowd.is_crowded(), Relaxed);
            let at_most = workers.number() as f64 / self.cost.of_one().as_secs_f64();
            self.may_wait.store(crowd.may_wait(few, at_most), Relaxed);
            let soon = within(SOON, crowd.pace.unwrap_or(pace));
            let wanted = self.wanted.load(Relaxed);
            self.limit(match waiting {
                _ if BUSY <= busy => (wanted.min(under_way) / 4 * 3).max(soon.clamp(few, some)),
                0 => (2 * under_way).max(some),
                _ => (wanted as f64 * (1.0 + (1.0 - busy) * MORE)).ceil() as usize,
            });
        }
    }

    /// Waits for a slot; `None` if the call is rejected.
    async fn enter(self: Arc<Self>) -> Option<UnderWay> {
        let under_way = match self.try_enter() {
            Some(at_once) => at_once,
            None => self.wait().await?,
        };
        if self.cost.is_high() {
            // Acquiring fails only if the semaphore is closed, and it is never closed.
            let _begins = self.begins.acquire().await;
            others_first().await;
        }
        Some(under_way)
    }

    /// A slot, if one is free now.
    fn try_enter(self: &Arc<Self>) -> Option<UnderWay> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(UnderWay { place: Some(place), pressure: Arc::clone(self) })
    }

    async fn wait(self: &Arc<Self>) -> Option<UnderWay> {
        let _waits = Waits::new(&self.waiting);
        if self.may_wait.load(Relaxed) < self.waiting.load(Relaxed) {
            return None;
        }
        // The outer error is the time-out; the semaphore itself is never closed.
        let place = timeout(LONGEST, Arc::clone(&self.places).acquire_owned()).await.ok()?.ok()?;
        Some(UnderWay { place: Some(place), pressure: Arc::clone(self) })
    }

    /// Runs an admitted call and records its cost.
    pub(super) async fn carry_out<F: Future>(&self, turn: &Turn, call: F) -> F::Output {
        let (output, took) = measured(call).await;
        if !turn.is_refused() {
            self.cost.learn(took);
        }
        output
    }

    /// A load shedder without slots that accepts no waiting call.
    #[cfg(test)]
    pub(super) fn full() -> Self {
        Self {
            places: Arc::new(Semaphore::new(0)),
            may_wait: AtomicUsize::new(0),
            ..Self::default()
        }
    }

    /// Counts a rejected call.
    pub(super) fn count_refused(&self) {
        self.refused.one();
    }

    /// The numbers of waiting and of rejected calls.
    pub(crate) fn read(&self) -> (usize, u64) {
        (self.waiting.load(Relaxed), self.refused.read())
    }

    fn under_way(&self) -> usize {
        self.there_are.load(Relaxed).saturating_sub(self.places.available_permits())
    }

    /// Sets the number of slots; only [`watch`](Self::watch) calls this.
    fn limit(&self, wanted: usize) {
        self.wanted.store(wanted, Relaxed);
        let there_are = self.there_are.load(Relaxed);
        if there_are < wanted {
            self.there_are.fetch_add(wanted - there_are, Relaxed);
            self.places.add_permits(wanted - there_are);
        } else {
            let gone = self.places.forget_permits(there_are - wanted);
            self.there_are.fetch_sub(gone, Relaxed);
        }
    }

    /// Whether there are more slots than wanted; if so, counts one as removed.
    fn is_too_many(&self) -> bool {
        let wanted = self.wanted.load(Relaxed);
        let one_less = |there_are| (wanted < there_are).then(|| there_are - 1);
        wanted < self.there_are.load(Relaxed)
            && self.there_are.fetch_update(Relaxed, Relaxed, one_less).is_ok()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.pressure.ended.fetch_add(1, Relaxed);
        if let Some(place) = self.place.take()
            && self.pressure.is_too_many()
        {
            place.forget();
        }
    }
}

/// Detects overload, logs its beginning and end once, and measures the completion rate meanwhile.
#[derive(Default)]
struct Crowd {
    busy: usize,
    /// Remaining samples for which the server still counts as overloaded.
    lately: usize,
    well: usize,
    is_told: bool,
    pace: Option<f64>,
}

impl Crowd {
    fn look(&mut self, waiting: usize, busy: f64, ended_in_a_second: f64) {
        let is_crowded = waiting != 0 && BUSY <= busy;
        self.well = if waiting == 0 { self.well + 1 } else { 0 };
        self.busy = if is_crowded { self.busy + 1 } else { 0 };
        self.lately = if is_crowded { WELL } else { self.lately.saturating_sub(1) };
        if is_crowded {
            // Weight the new rate by a quarter: one sample is short.
            let before = self.pace.unwrap_or(ended_in_a_second);
            self.pace = Some(before + (ended_in_a_second - before) / 4.0);
        }
        if !self.is_told && AGAIN <= self.busy {
            tracing::warn!("more calls come than can be done: some have to wait");
            self.is_told = true;
        }
        if WELL <= self.well {
            self.pace = None;
            if std::mem::take(&mut self.is_told) {
                tracing::info!("no call has to wait any more");
            }
        }
    }

    /// Whether calls have recently waited for processor time.
    fn is_crowded(&self) -> bool {
        self.lately != 0
    }

    /// How many calls may wait so that each gets its slot in time. Before the rate is known, it is estimated as
    /// `at_most` per second.
    fn may_wait(&self, at_least: usize, at_most: f64) -> usize {
        let soon = within(PATIENCE, self.pace.unwrap_or(at_most));
        soon.clamp(at_least.min(MAY_WAIT), MAY_WAIT)
    }
}

/// How many calls end within `time` at `pace` calls per second.
fn within(time: Duration, pace: f64) -> usize {
    (pace * time.as_secs_f64()) as usize
}

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Whether the request calls a tool. Only these requests can be rejected, so that health checks are always answered.
pub(super) fn is_call<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    request.method() == Method::POST
        && (path.starts_with("/mcp")
            || path.starts_with("/tools/")
            || path.ends_with("/execute")
            || path == "/api/agents/tools/call")
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    fn request(method: Method, path: &str) -> Request<()> {
        Request::builder().method(method).uri(path).body(()).unwrap()
    }

    #[test]
    fn only_tool_calls_have_to_wait() {
        for path in
            ["/mcp", "/api/tools/a:b/execute", "/api/agents/tools/call", "/tools/a", "/mcp/a"]
        {
            assert!(is_call(&request(Method::POST, path)), "{path}");
        }
        assert!(!is_call(&request(Method::GET, "/health")));
        assert!(!is_call(&request(Method::POST, "/api/sources/a/reset")));
    }

    #[tokio::test]
    async fn calls_above_the_limit_wait_and_are_admitted_one_by_one() {
        let pressure = Arc::new(Pressure::default());
        let mut under_way: Vec<_> = (0..2 * SOME).map(|_| pressure.try_enter()).collect();
        assert!(under_way.iter().all(Option::is_some), "nobody has said that they are too many");
        pressure.limit(SOME);
        assert!(pressure.try_enter().is_none());

        under_way.truncate(SOME);
        let mut waits = pin!(Arc::clone(&pressure).enter());
        assert!(waits.as_mut().now_or_never().is_none(), "those that were too many are gone");
        under_way.pop();
        assert!(waits.now_or_never().flatten().is_some(), "one in for one out");
        pressure.limit(ALL);
        assert!(pressure.try_enter().is_some());
        drop(under_way);
        assert_eq!(pressure.places.available_permits(), ALL, "no place is lost");
        assert_eq!(pressure.waiting.load(Relaxed), 0);
    }

    #[tokio::test]
    async fn calls_are_rejected_at_once_when_the_queue_is_full() {
        let pressure = Arc::new(Pressure::default());
        pressure.limit(SOME);
        let under_way: Vec<_> = (0..SOME).map(|_| pressure.try_enter()).collect();
        let enter = || Box::pin(Arc::clone(&pressure).enter());
        let mut waiting: Vec<_> = (0..MAY_WAIT).map(|_| enter()).collect();
        for waits in &mut waiting {
            assert!(waits.as_mut().now_or_never().is_none());
        }
        assert!(matches!(enter().now_or_never(), Some(None)));
        waiting.pop();
        assert!(enter().now_or_never().is_none(), "somebody did not wait any longer");
        drop(under_way);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_call_times_out() {
        let pressure = Arc::new(Pressure::default());
        pressure.limit(SOME);
        let under_way: Vec<_> = (0..SOME).map(|_| pressure.try_enter()).collect();
        assert!(Arc::clone(&pressure).enter().await.is_none());
        drop(under_way);
    }

    #[tokio::test]
    async fn a_call_with_a_long_expected_wait_is_rejected_at_once() {
        let pressure = Arc::new(Pressure::default());
        pressure.limit(SOME);
        pressure.may_wait.store(1, Relaxed);
        let _under_way: Vec<_> = (0..SOME).map(|_| pressure.try_enter()).collect();
        let mut waits = Box::pin(Arc::clone(&pressure).enter());
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(matches!(Arc::clone(&pressure).enter().now_or_never(), Some(None)));
    }

    #[test]
    fn the_queue_holds_as_many_calls_as_will_end_soon() {
        let mut crowd = Crowd::default();
        crowd.look(0, 1.0, 10.0);
        assert_eq!(crowd.may_wait(SOME, 2_000.0), 2_000, "nobody waited: nobody knows better");
        assert_eq!(crowd.may_wait(SOME, f64::INFINITY), MAY_WAIT, "they seem to cost nothing");
        for _ in 0..50 {
            crowd.look(1, 1.0, 1_000.0);
        }
        assert_eq!(crowd.may_wait(SOME, 2_000.0), 1_000);
        crowd.look(1, 0.5, 1.0);
        assert_eq!(
            crowd.may_wait(SOME, 2_000.0),
            1_000,
            "there was time: more would have been done"
        );
        for _ in 0..50 {
            crowd.look(1, 1.0, 1.0);
        }
        assert_eq!(crowd.may_wait(SOME, 2_000.0), SOME);
        assert!(crowd.is_crowded());
        for _ in 0..WELL {
            crowd.look(0, 0.1, 1.0);
        }
        assert_eq!(crowd.may_wait(SOME, 2_000.0), 2_000, "that is long ago");
        assert!(!crowd.is_crowded());
        crowd.look(1, 0.5, 1.0);
        assert!(!crowd.is_crowded(), "they wait for something else");
    }

    /// A runtime with one thread and a load shedder with this many calls in progress, all of which wait for something
    /// else.
    fn watched(calls: usize) -> (tokio::runtime::Runtime, Arc<Pressure>, Vec<Option<UnderWay>>) {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_time().build().unwrap();
        let pressure = Arc::new(Pressure::default());
        let under_way = (0..calls).map(|_| pressure.try_enter()).collect();
        runtime.spawn(Arc::clone(&pressure).watch());
        (runtime, pressure, under_way)
    }

    fn becomes(what: &str, is_so: impl Fn() -> bool) {
        let by = std::time::Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(std::time::Instant::now() < by, "{what}");
            std::thread::sleep(LOOK);
        }
    }

    #[test]
    fn the_limit_shrinks_under_saturation_and_grows_again_afterwards() {
        let (runtime, pressure, under_way) = watched(4 * SOME);
        let wanted = || pressure.wanted.load(Relaxed);
        becomes("they are many, and there is time for more", || wanted() == 8 * SOME);
        let works = runtime.spawn(async {
            loop {
                std::thread::sleep(Duration::from_millis(1));
                others_first().await;
            }
        });
        becomes("there is no time", || wanted() < 4 * SOME);
        works.abort();
        becomes("there is time again", || wanted() == 8 * SOME);
        drop(under_way);
        becomes("all is as before", || wanted() == SOME);
    }

    #[test]
    fn a_call_is_admitted_soon_when_all_slots_wait_for_something_else() {
        let (runtime, pressure, _under_way) = watched(0);
        becomes("there is a limit", || pressure.wanted.load(Relaxed) == SOME);
        let _all: Vec<_> = (0..SOME).map(|_| pressure.try_enter().unwrap()).collect();
        assert!(pressure.try_enter().is_none());
        assert!(runtime.block_on(Arc::clone(&pressure).enter()).is_some());
    }

    #[test]
    fn costly_calls_start_one_at_a_time_and_other_tasks_run_between_them() {
        let (runtime, pressure, _under_way) = watched(0);
        becomes("nobody knows what they cost", || pressure.cost.is_high());
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let see = |what: &'static str| {
            let seen = Arc::clone(&seen);
            move || seen.lock().unwrap().push(what)
        };
        let (call, other) = (see("call"), see("other"));
        let other = runtime.spawn(async move {
            loop {
                other();
                others_first().await;
            }
        });
        let calls = (0..FEW).map(|_| {
            let (pressure, call) = (Arc::clone(&pressure), call.clone());
            async move { pressure.enter().await.map(|_under_way| call()) }
        });
        let calls: Vec<_> = calls.map(|call| runtime.spawn(call)).collect();
        for call in calls {
            assert!(runtime.block_on(call).unwrap().is_some());
        }
        other.abort();
        let seen = seen.lock().unwrap();
        assert!(!seen.windows(2).any(|two| two == ["call", "call"]), "{seen:?}");
    }
}
