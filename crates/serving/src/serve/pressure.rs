//! How many calls are under way at once: as many as the processors have time for. The others wait for their turn, in the
//! order in which they came. To refuse one costs a good part of what a call costs, and whoever is refused asks again, so
//! that little of the processor would be left for those who are let in; who waits asks for nothing else meanwhile. But
//! nobody is let wait who would wait for long: whoever would is refused at once, before anything was done for them.
//!
//! Where calls are costly, they begin one after the other, each after everybody else was looked at: a call that waits for nobody
//! is done in one go, and those who come meanwhile are to be told soon that they have to come again.
//!
//! There is always a limit, somewhat above what was needed last, so that those who come all at once are not let in all at
//! once. While some wait, what tells is how long the threads of the runtime were idle: if they were, more are let in, and
//! if they never are, fewer do as well. A call takes its place when the whole of it is there (`turn.rs`).

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

/// How often is looked.
const LOOK: Duration = Duration::from_millis(10);
/// Whoever is busy for this share of the time has no time left.
const BUSY: f64 = 0.95;
/// So often in a row, it is worth a word; and after so many looks at which nobody waited, all is well again.
const AGAIN: usize = 3;
const WELL: usize = 50;
/// For each thread, fewer than the first are never too many. The second are not, if they end within this time; so many are
/// let in without a look, and no more, as the gates of sources refuse what is beyond their own places, unless it has waited here.
const FEW: usize = 16;
const SOME: usize = 64;
const SOON: Duration = Duration::from_millis(10);
/// By so much more are let in at a look that finds nothing to do, while others wait.
const MORE: f64 = 0.25;
/// For how long one may expect to wait; and for how long at most, if it was expected wrongly.
const PATIENCE: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(5);
/// More than this never wait, about as many as there may be connections.
const MAY_WAIT: usize = 16_384;
/// More than there can be connections.
const ALL: usize = Semaphore::MAX_PERMITS / 2;

/// What is known of it by everybody who answers.
pub(crate) struct Pressure {
    /// Whoever has none waits, one after the other.
    places: Arc<Semaphore>,
    /// How many places there are.
    there_are: AtomicUsize,
    /// How many there should be: those that are too many go when their calls end.
    wanted: AtomicUsize,
    waiting: AtomicUsize,
    may_wait: AtomicUsize,
    cost: Cost,
    /// For each thread one call that is costly may begin after the next look at everybody else.
    begins: Semaphore,
    /// How many calls have ended.
    ended: AtomicUsize,
    refused: Counter,
    /// Whether calls have waited here for want of time, a moment ago: then they wait before sources, too.
    is_crowded: Arc<AtomicBool>,
}

/// A call under way, for as long as this lives.
struct UnderWay {
    place: Option<OwnedSemaphorePermit>,
    pressure: Arc<Pressure>,
}

/// Somebody who waits, for as long as this lives.
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
    /// One that says there whether calls wait for want of time.
    pub(crate) fn telling(is_crowded: Arc<AtomicBool>) -> Self {
        Self { is_crowded, ..Self::default() }
    }

    /// Looks for as long as it is polled.
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

    /// A place for a call, when it is its turn. None if it is refused.
    async fn enter(self: Arc<Self>) -> Option<UnderWay> {
        let under_way = match self.try_enter() {
            Some(at_once) => at_once,
            None => self.wait().await?,
        };
        if self.cost.is_high() {
            // An error if nobody could begin any more, which nobody says.
            let _begins = self.begins.acquire().await;
            others_first().await;
        }
        Some(under_way)
    }

    /// A place for a call, if there is one now.
    fn try_enter(self: &Arc<Self>) -> Option<UnderWay> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(UnderWay { place: Some(place), pressure: Arc::clone(self) })
    }

    async fn wait(self: &Arc<Self>) -> Option<UnderWay> {
        let _waits = Waits::new(&self.waiting);
        if self.may_wait.load(Relaxed) < self.waiting.load(Relaxed) {
            return None;
        }
        // An error if it took too long; the places are never closed.
        let place = timeout(LONGEST, Arc::clone(&self.places).acquire_owned()).await.ok()?.ok()?;
        Some(UnderWay { place: Some(place), pressure: Arc::clone(self) })
    }

    /// Does what a call is let in for.
    pub(super) async fn carry_out<F: Future>(&self, turn: &Turn, call: F) -> F::Output {
        let (output, took) = measured(call).await;
        if !turn.is_refused() {
            self.cost.learn(took);
        }
        output
    }

    /// Of which there is no place, and for which nobody may wait.
    #[cfg(test)]
    pub(super) fn full() -> Self {
        Self {
            places: Arc::new(Semaphore::new(0)),
            may_wait: AtomicUsize::new(0),
            ..Self::default()
        }
    }

    /// Counts a call that did not get its turn.
    pub(super) fn count_refused(&self) {
        self.refused.one();
    }

    /// How many calls wait, and how many were refused.
    pub(crate) fn read(&self) -> (usize, u64) {
        (self.waiting.load(Relaxed), self.refused.read())
    }

    fn under_way(&self) -> usize {
        self.there_are.load(Relaxed).saturating_sub(self.places.available_permits())
    }

    /// So many may be under way from now on; only [`watch`](Self::watch) says so.
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

    /// Whether a place is one too many; then it is counted as gone.
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

/// Whether calls wait for want of time, to be said once, and how many end in a second then.
#[derive(Default)]
struct Crowd {
    busy: usize,
    /// For so many more looks it counts that some waited for want of time.
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
            // A quarter of what is new: one look is short.
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

    /// Whether some waited for want of time, a moment ago.
    fn is_crowded(&self) -> bool {
        self.lately != 0
    }

    /// As many as come to their turn in time, as far as that is known; `at_most` so many can end in a second.
    fn may_wait(&self, at_least: usize, at_most: f64) -> usize {
        let soon = within(PATIENCE, self.pace.unwrap_or(at_most));
        soon.clamp(at_least.min(MAY_WAIT), MAY_WAIT)
    }
}

/// How many end within this time, if so many do in a second.
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

/// What is asked of tools, and not of the server: whoever wants to know how it is doing is told.
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
    fn only_what_is_asked_of_tools_has_to_wait() {
        for path in
            ["/mcp", "/api/tools/a:b/execute", "/api/agents/tools/call", "/tools/a", "/mcp/a"]
        {
            assert!(is_call(&request(Method::POST, path)), "{path}");
        }
        assert!(!is_call(&request(Method::GET, "/health")));
        assert!(!is_call(&request(Method::POST, "/api/sources/a/reset")));
    }

    #[tokio::test]
    async fn calls_wait_when_there_are_many_and_go_on_one_after_the_other() {
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
    async fn when_very_many_wait_others_are_refused_at_once() {
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
    async fn nobody_waits_for_ever() {
        let pressure = Arc::new(Pressure::default());
        pressure.limit(SOME);
        let under_way: Vec<_> = (0..SOME).map(|_| pressure.try_enter()).collect();
        assert!(Arc::clone(&pressure).enter().await.is_none());
        drop(under_way);
    }

    #[tokio::test]
    async fn whoever_would_wait_for_long_is_refused_at_once() {
        let pressure = Arc::new(Pressure::default());
        pressure.limit(SOME);
        pressure.may_wait.store(1, Relaxed);
        let _under_way: Vec<_> = (0..SOME).map(|_| pressure.try_enter()).collect();
        let mut waits = Box::pin(Arc::clone(&pressure).enter());
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(matches!(Arc::clone(&pressure).enter().now_or_never(), Some(None)));
    }

    #[test]
    fn so_many_wait_as_are_done_soon() {
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

    /// A server with one thread, on which so many calls are under way and wait for others.
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
    fn whoever_is_never_idle_lets_fewer_in_and_more_again_when_there_is_time() {
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
    fn who_comes_when_all_places_wait_for_others_is_let_in_soon() {
        let (runtime, pressure, _under_way) = watched(0);
        becomes("there is a limit", || pressure.wanted.load(Relaxed) == SOME);
        let _all: Vec<_> = (0..SOME).map(|_| pressure.try_enter().unwrap()).collect();
        assert!(pressure.try_enter().is_none());
        assert!(runtime.block_on(Arc::clone(&pressure).enter()).is_some());
    }

    #[test]
    fn calls_that_are_costly_begin_one_at_a_time_and_others_are_looked_at_in_between() {
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
