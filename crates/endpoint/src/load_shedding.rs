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

mod call_admission;
mod call_cost;
mod overload_response;
mod runtime_workers;
mod yield_to_others;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use axum::http::{Method, Request};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use toolcrib::telemetry::Counter;

pub use self::call_admission::CallAdmission;
use self::call_cost::{CallCost, measure_poll_time};
pub use self::overload_response::OverloadResponse;
use self::runtime_workers::{RuntimeWorkers, WorkerSample};
use self::yield_to_others::yield_to_others;

/// Interval between two samples of the workers.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Worker utilisation above this counts as saturated.
const SATURATED_SHARE: f64 = 0.95;
/// Saturated samples in a row before a warning is logged, and samples without waiting calls before recovery is logged.
const SAMPLES_UNTIL_WARNING: usize = 3;
const SAMPLES_UNTIL_RECOVERED: usize = 50;
/// Lower bounds of the limit, per worker thread. The minimum is always admitted; a burst is admitted if it ends within
/// the burst duration. Without a sample, only a burst is admitted: the gates of sources reject calls above their own
/// limits, unless the calls have waited here.
const MIN_CALLS_PER_WORKER: usize = 16;
const BURST_CALLS_PER_WORKER: usize = 64;
const BURST_DURATION: Duration = Duration::from_millis(10);
/// Growth of the limit per sample while the workers are idle and calls wait.
const GROWTH_PER_SAMPLE: f64 = 0.25;
/// Maximum expected wait of an accepted call, and maximum actual wait if the estimate was wrong.
const MAX_EXPECTED_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Maximum number of waiting calls, about the maximum number of connections.
const MAX_WAITING_CALLS: usize = 16_384;
/// More slots than there can be connections.
const UNLIMITED_SLOTS: usize = Semaphore::MAX_PERMITS / 2;

/// The state of load shedding, shared by all connections.
pub struct LoadShedder {
    /// The call slots; calls without a slot wait in order.
    slots: Arc<Semaphore>,
    /// Number of existing slots.
    slot_count: AtomicUsize,
    /// Target number of slots; excess slots are removed when their calls end.
    target_slots: AtomicUsize,
    waiting: AtomicUsize,
    max_waiting: AtomicUsize,
    cost: CallCost,
    /// Start permits: per worker thread, one costly call may start before all other tasks are polled again.
    start_permits: Semaphore,
    /// Number of calls that have ended.
    ended_calls: AtomicUsize,
    rejected_calls: Counter,
    /// Whether calls have recently waited for processor time. Calls then also wait at the gates of sources.
    is_overloaded: Arc<AtomicBool>,
}

/// The slot of an admitted call, held while this value lives.
struct CallSlot {
    place: Option<OwnedSemaphorePermit>,
    pressure: Arc<LoadShedder>,
}

/// Counts a waiting call while this value lives.
struct WaitingCall<'a>(&'a AtomicUsize);

impl Default for LoadShedder {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(UNLIMITED_SLOTS)),
            slot_count: AtomicUsize::new(UNLIMITED_SLOTS),
            target_slots: AtomicUsize::new(UNLIMITED_SLOTS),
            waiting: AtomicUsize::new(0),
            max_waiting: AtomicUsize::new(MAX_WAITING_CALLS),
            cost: CallCost::default(),
            start_permits: Semaphore::new(1),
            ended_calls: AtomicUsize::new(0),
            rejected_calls: Counter::default(),
            is_overloaded: Arc::default(),
        }
    }
}

impl LoadShedder {
    /// A load shedder that reports in this flag whether calls wait for processor time.
    pub(crate) fn reporting_overload_to(is_crowded: Arc<AtomicBool>) -> Self {
        Self { is_overloaded: is_crowded, ..Self::default() }
    }

    /// Samples the workers and adjusts the limit; never returns.
    pub async fn adjust_limit_forever(self: Arc<Self>) {
        let mut workers = RuntimeWorkers::of_current_runtime();
        let (few, some) = (
            MIN_CALLS_PER_WORKER * workers.worker_count(),
            BURST_CALLS_PER_WORKER * workers.worker_count(),
        );
        self.set_slot_target(some);
        self.start_permits.add_permits(workers.worker_count() - 1);
        self.cost.assume_costly();
        let (mut crowd, mut ended) = (OverloadDetector::default(), self.ended_calls.load(Relaxed));
        loop {
            sleep(SAMPLE_INTERVAL).await;
            let Some(WorkerSample { busy, time }) = workers.take_sample() else { continue };
            let (waiting, under_way) = (self.waiting.load(Relaxed), self.calls_in_progress());
            let before = std::mem::replace(&mut ended, self.ended_calls.load(Relaxed));
            let pace = ended.wrapping_sub(before) as f64 / time.as_secs_f64();
            crowd.record_sample(waiting, busy, pace);
            self.is_overloaded.store(crowd.is_overloaded(), Relaxed);
            let at_most = workers.worker_count() as f64 / self.cost.average().as_secs_f64();
            self.max_waiting.store(crowd.max_waiting(few, at_most), Relaxed);
            let soon =
                completions_within(BURST_DURATION, crowd.completions_per_second.unwrap_or(pace));
            let wanted = self.target_slots.load(Relaxed);
            self.set_slot_target(match waiting {
                _ if SATURATED_SHARE <= busy => {
                    (wanted.min(under_way) / 4 * 3).max(soon.clamp(few, some))
                }
                0 => (2 * under_way).max(some),
                _ => (wanted as f64 * (1.0 + (1.0 - busy) * GROWTH_PER_SAMPLE)).ceil() as usize,
            });
        }
    }

    /// Waits for a slot; `None` if the call is rejected.
    async fn admit(self: Arc<Self>) -> Option<CallSlot> {
        let under_way = match self.try_admit() {
            Some(at_once) => at_once,
            None => self.wait_for_slot().await?,
        };
        if self.cost.is_high() {
            // Acquiring fails only if the semaphore is closed, and it is never closed.
            let _begins = self.start_permits.acquire().await;
            yield_to_others().await;
        }
        Some(under_way)
    }

    /// A slot, if one is free now.
    fn try_admit(self: &Arc<Self>) -> Option<CallSlot> {
        let place = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        Some(CallSlot { place: Some(place), pressure: Arc::clone(self) })
    }

    async fn wait_for_slot(self: &Arc<Self>) -> Option<CallSlot> {
        let _waits = WaitingCall::new(&self.waiting);
        if self.max_waiting.load(Relaxed) < self.waiting.load(Relaxed) {
            return None;
        }
        // The outer error is the time-out; the semaphore itself is never closed.
        let place = timeout(MAX_WAIT, Arc::clone(&self.slots).acquire_owned()).await.ok()?.ok()?;
        Some(CallSlot { place: Some(place), pressure: Arc::clone(self) })
    }

    /// Runs an admitted call and records its cost.
    pub async fn run_and_measure<F: Future>(&self, turn: &CallAdmission, call: F) -> F::Output {
        let (output, took) = measure_poll_time(call).await;
        if !turn.is_refused() {
            self.cost.record_call(took);
        }
        output
    }

    /// A load shedder without slots that accepts no waiting call.
    pub fn saturated() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(0)),
            max_waiting: AtomicUsize::new(0),
            ..Self::default()
        }
    }

    /// Counts a rejected call.
    pub fn count_rejected(&self) {
        self.rejected_calls.increment();
    }

    /// The numbers of waiting and of rejected calls.
    pub fn waiting_and_rejected(&self) -> (usize, u64) {
        (self.waiting.load(Relaxed), self.rejected_calls.read())
    }

    fn calls_in_progress(&self) -> usize {
        self.slot_count.load(Relaxed).saturating_sub(self.slots.available_permits())
    }

    /// Sets the number of slots; only [`adjust_limit_forever`](Self::adjust_limit_forever) calls this.
    fn set_slot_target(&self, wanted: usize) {
        self.target_slots.store(wanted, Relaxed);
        let there_are = self.slot_count.load(Relaxed);
        if there_are < wanted {
            self.slot_count.fetch_add(wanted - there_are, Relaxed);
            self.slots.add_permits(wanted - there_are);
        } else {
            let gone = self.slots.forget_permits(there_are - wanted);
            self.slot_count.fetch_sub(gone, Relaxed);
        }
    }

    /// Whether there are more slots than wanted; if so, counts one as removed.
    fn retire_slot(&self) -> bool {
        let wanted = self.target_slots.load(Relaxed);
        let one_less = |there_are| (wanted < there_are).then(|| there_are - 1);
        wanted < self.slot_count.load(Relaxed)
            && self.slot_count.fetch_update(Relaxed, Relaxed, one_less).is_ok()
    }
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        self.pressure.ended_calls.fetch_add(1, Relaxed);
        if let Some(place) = self.place.take()
            && self.pressure.retire_slot()
        {
            place.forget();
        }
    }
}

/// Detects overload, logs its beginning and end once, and measures the completion rate meanwhile.
#[derive(Default)]
struct OverloadDetector {
    saturated_samples: usize,
    /// Remaining samples for which the server still counts as overloaded.
    overloaded_for: usize,
    calm_samples: usize,
    is_logged: bool,
    completions_per_second: Option<f64>,
}

impl OverloadDetector {
    fn record_sample(&mut self, waiting: usize, busy: f64, ended_in_a_second: f64) {
        let is_crowded = waiting != 0 && SATURATED_SHARE <= busy;
        self.calm_samples = if waiting == 0 { self.calm_samples + 1 } else { 0 };
        self.saturated_samples = if is_crowded { self.saturated_samples + 1 } else { 0 };
        self.overloaded_for = if is_crowded {
            SAMPLES_UNTIL_RECOVERED
        } else {
            self.overloaded_for.saturating_sub(1)
        };
        if is_crowded {
            // Weight the new rate by a quarter: one sample is short.
            let before = self.completions_per_second.unwrap_or(ended_in_a_second);
            self.completions_per_second = Some(before + (ended_in_a_second - before) / 4.0);
        }
        if !self.is_logged && SAMPLES_UNTIL_WARNING <= self.saturated_samples {
            tracing::warn!("more calls come than can be done: some have to wait");
            self.is_logged = true;
        }
        if SAMPLES_UNTIL_RECOVERED <= self.calm_samples {
            self.completions_per_second = None;
            if std::mem::take(&mut self.is_logged) {
                tracing::info!("no call has to wait any more");
            }
        }
    }

    /// Whether calls have recently waited for processor time.
    fn is_overloaded(&self) -> bool {
        self.overloaded_for != 0
    }

    /// How many calls may wait so that each gets its slot in time. Before the rate is known, it is estimated as
    /// `at_most` per second.
    fn max_waiting(&self, at_least: usize, at_most: f64) -> usize {
        let soon =
            completions_within(MAX_EXPECTED_WAIT, self.completions_per_second.unwrap_or(at_most));
        soon.clamp(at_least.min(MAX_WAITING_CALLS), MAX_WAITING_CALLS)
    }
}

/// How many calls end within `time` at `pace` calls per second.
fn completions_within(time: Duration, pace: f64) -> usize {
    (pace * time.as_secs_f64()) as usize
}

impl<'a> WaitingCall<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Relaxed);
        Self(waiting)
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Whether the request calls a tool. Only these requests can be rejected, so that health checks are always answered.
pub fn is_call_request<B>(request: &Request<B>) -> bool {
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
            assert!(is_call_request(&request(Method::POST, path)), "{path}");
        }
        assert!(!is_call_request(&request(Method::GET, "/health")));
        assert!(!is_call_request(&request(Method::POST, "/api/sources/a/reset")));
    }

    #[tokio::test]
    async fn calls_above_the_limit_wait_and_are_admitted_one_by_one() {
        let pressure = Arc::new(LoadShedder::default());
        let mut under_way: Vec<_> =
            (0..2 * BURST_CALLS_PER_WORKER).map(|_| pressure.try_admit()).collect();
        assert!(under_way.iter().all(Option::is_some), "nobody has said that they are too many");
        pressure.set_slot_target(BURST_CALLS_PER_WORKER);
        assert!(pressure.try_admit().is_none());

        under_way.truncate(BURST_CALLS_PER_WORKER);
        let mut waits = pin!(Arc::clone(&pressure).admit());
        assert!(waits.as_mut().now_or_never().is_none(), "those that were too many are gone");
        under_way.pop();
        assert!(waits.now_or_never().flatten().is_some(), "one in for one out");
        pressure.set_slot_target(UNLIMITED_SLOTS);
        assert!(pressure.try_admit().is_some());
        drop(under_way);
        assert_eq!(pressure.slots.available_permits(), UNLIMITED_SLOTS, "no place is lost");
        assert_eq!(pressure.waiting.load(Relaxed), 0);
    }

    #[tokio::test]
    async fn calls_are_rejected_at_once_when_the_queue_is_full() {
        let pressure = Arc::new(LoadShedder::default());
        pressure.set_slot_target(BURST_CALLS_PER_WORKER);
        let under_way: Vec<_> = (0..BURST_CALLS_PER_WORKER).map(|_| pressure.try_admit()).collect();
        let enter = || Box::pin(Arc::clone(&pressure).admit());
        let mut waiting: Vec<_> = (0..MAX_WAITING_CALLS).map(|_| enter()).collect();
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
        let pressure = Arc::new(LoadShedder::default());
        pressure.set_slot_target(BURST_CALLS_PER_WORKER);
        let under_way: Vec<_> = (0..BURST_CALLS_PER_WORKER).map(|_| pressure.try_admit()).collect();
        assert!(Arc::clone(&pressure).admit().await.is_none());
        drop(under_way);
    }

    #[tokio::test]
    async fn a_call_with_a_long_expected_wait_is_rejected_at_once() {
        let pressure = Arc::new(LoadShedder::default());
        pressure.set_slot_target(BURST_CALLS_PER_WORKER);
        pressure.max_waiting.store(1, Relaxed);
        let _under_way: Vec<_> =
            (0..BURST_CALLS_PER_WORKER).map(|_| pressure.try_admit()).collect();
        let mut waits = Box::pin(Arc::clone(&pressure).admit());
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(matches!(Arc::clone(&pressure).admit().now_or_never(), Some(None)));
    }

    #[test]
    fn the_queue_holds_as_many_calls_as_will_end_soon() {
        let mut crowd = OverloadDetector::default();
        crowd.record_sample(0, 1.0, 10.0);
        assert_eq!(
            crowd.max_waiting(BURST_CALLS_PER_WORKER, 2_000.0),
            2_000,
            "nobody waited: nobody knows better"
        );
        assert_eq!(
            crowd.max_waiting(BURST_CALLS_PER_WORKER, f64::INFINITY),
            MAX_WAITING_CALLS,
            "they seem to cost nothing"
        );
        for _ in 0..50 {
            crowd.record_sample(1, 1.0, 1_000.0);
        }
        assert_eq!(crowd.max_waiting(BURST_CALLS_PER_WORKER, 2_000.0), 1_000);
        crowd.record_sample(1, 0.5, 1.0);
        assert_eq!(
            crowd.max_waiting(BURST_CALLS_PER_WORKER, 2_000.0),
            1_000,
            "there was time: more would have been done"
        );
        for _ in 0..50 {
            crowd.record_sample(1, 1.0, 1.0);
        }
        assert_eq!(crowd.max_waiting(BURST_CALLS_PER_WORKER, 2_000.0), BURST_CALLS_PER_WORKER);
        assert!(crowd.is_overloaded());
        for _ in 0..SAMPLES_UNTIL_RECOVERED {
            crowd.record_sample(0, 0.1, 1.0);
        }
        assert_eq!(crowd.max_waiting(BURST_CALLS_PER_WORKER, 2_000.0), 2_000, "that is long ago");
        assert!(!crowd.is_overloaded());
        crowd.record_sample(1, 0.5, 1.0);
        assert!(!crowd.is_overloaded(), "they wait for something else");
    }

    /// A runtime with one thread and a load shedder with this many calls in progress, all of which wait for something
    /// else.
    fn watched(calls: usize) -> (tokio::runtime::Runtime, Arc<LoadShedder>, Vec<Option<CallSlot>>) {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_time().build().unwrap();
        let pressure = Arc::new(LoadShedder::default());
        let under_way = (0..calls).map(|_| pressure.try_admit()).collect();
        runtime.spawn(Arc::clone(&pressure).adjust_limit_forever());
        (runtime, pressure, under_way)
    }

    fn becomes(what: &str, is_so: impl Fn() -> bool) {
        let by = std::time::Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(std::time::Instant::now() < by, "{what}");
            std::thread::sleep(SAMPLE_INTERVAL);
        }
    }

    #[test]
    fn the_limit_shrinks_under_saturation_and_grows_again_afterwards() {
        let (runtime, pressure, under_way) = watched(4 * BURST_CALLS_PER_WORKER);
        let wanted = || pressure.target_slots.load(Relaxed);
        becomes("they are many, and there is time for more", || {
            wanted() == 8 * BURST_CALLS_PER_WORKER
        });
        let works = runtime.spawn(async {
            loop {
                std::thread::sleep(Duration::from_millis(1));
                yield_to_others().await;
            }
        });
        becomes("there is no time", || wanted() < 4 * BURST_CALLS_PER_WORKER);
        works.abort();
        becomes("there is time again", || wanted() == 8 * BURST_CALLS_PER_WORKER);
        drop(under_way);
        becomes("all is as before", || wanted() == BURST_CALLS_PER_WORKER);
    }

    #[test]
    fn a_call_is_admitted_soon_when_all_slots_wait_for_something_else() {
        let (runtime, pressure, _under_way) = watched(0);
        becomes("there is a limit", || {
            pressure.target_slots.load(Relaxed) == BURST_CALLS_PER_WORKER
        });
        let _all: Vec<_> =
            (0..BURST_CALLS_PER_WORKER).map(|_| pressure.try_admit().unwrap()).collect();
        assert!(pressure.try_admit().is_none());
        assert!(runtime.block_on(Arc::clone(&pressure).admit()).is_some());
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
                yield_to_others().await;
            }
        });
        let calls = (0..MIN_CALLS_PER_WORKER).map(|_| {
            let (pressure, call) = (Arc::clone(&pressure), call.clone());
            async move { pressure.admit().await.map(|_under_way| call()) }
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
