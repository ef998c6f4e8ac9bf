//! What is long is read and written here, where it keeps nobody waiting: what others send, and what is answered.
//!
//! A few threads of the lowest priority: whoever sends much is read when there is time, and calls go first. Threads for
//! blocking work would not do, as they are as many as are wanted and get as much of the processor as everybody else. To be nice is not
//! enough either: whoever wakes up meanwhile waits for milliseconds until Linux takes the processor away from one that is
//! nice, and not at all if it is idle. On a machine that is never idle, another thread does what has waited too long
//! ([`lanes`]). All share the threads: whoever has much to read has it read one after the other ([`crate::large`]).

mod lanes;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// To read more bytes than this takes long.
pub const LONG: usize = 64 * 1024;

type Work = Box<dyn FnOnce() + Send>;

/// Work that waits for its turn: done by a thread, or taken back.
#[derive(Clone)]
struct Turn(Arc<Mutex<Option<Work>>>);

impl Turn {
    fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(work)))))
    }

    fn take(&self) -> Option<Work> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn work(&self) {
        if let Some(work) = self.take() {
            work();
        }
    }
}

/// Whoever does not wait any more has what was to be read with it taken back: there may be much of it.
struct TakenBack(Turn);

impl Drop for TakenBack {
    fn drop(&mut self) {
        // Who holds it takes it just now. That may be a thread that goes last, so it is not waited for.
        let work = self.0.0.try_lock().ok().and_then(|mut work| work.take());
        drop(work);
    }
}

static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Work that was not taken back, and is not done.
struct UnderWay;

impl UnderWay {
    fn begun() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How much is waiting to be done aside, or being done.
pub fn aside_under_way() -> usize {
    UNDER_WAY.load(Ordering::Relaxed)
}

/// Does the work on one of the threads. What nobody waits for any more is not begun.
pub async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = oneshot::channel();
    let under_way = UnderWay::begun();
    let turn = Turn::new(move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        drop(under_way);
        // Whoever gives up meanwhile does not need it.
        drop(done.send(result));
    });
    let _unless_done = TakenBack(turn.clone());
    lanes::line_up(turn);
    match result.await.expect("work is always done") {
        Ok(result) => result,
        Err(panic) => resume_unwind(panic),
    }
}

/// Does the work here if it is about no more bytes than can be read at once, and aside otherwise.
pub async fn aside_if_long<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes <= LONG { work() } else { aside(work).await }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn work_is_done_on_another_thread() {
        let here = thread::current().id();
        assert_ne!(here, aside(|| thread::current().id()).await);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn whoever_else_has_something_to_do_goes_first() {
        use thread_priority::{
            NormalThreadSchedulePolicy, ThreadSchedulePolicy, thread_schedule_policy,
        };
        let normal = ThreadSchedulePolicy::Normal;
        // On a busy machine the thread for what is late may be first.
        let begun = std::time::Instant::now();
        while aside(|| thread_schedule_policy().unwrap()).await
            != normal(NormalThreadSchedulePolicy::Idle)
        {
            assert!(
                begun.elapsed().as_secs() < 60,
                "none was read while nobody else had anything to do"
            );
        }
        assert_eq!(thread_schedule_policy().unwrap(), normal(NormalThreadSchedulePolicy::Other));
    }

    #[tokio::test]
    async fn work_that_is_given_up_stops_nothing() {
        for _ in 0..100 {
            let slow = aside(|| thread::sleep(std::time::Duration::from_millis(1)));
            drop(tokio::time::timeout(std::time::Duration::ZERO, slow).await);
        }
        assert_eq!(aside(|| 1).await, 1);
    }

    #[tokio::test]
    async fn what_was_to_be_read_is_let_go_with_who_waits_for_it() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let busy: Vec<_> = (0..64)
            .map(|_| {
                let wait = Arc::clone(&wait);
                tokio::spawn(aside(move || drop(wait.lock().map(|wait| wait.recv()))))
            })
            .collect();
        tokio::task::yield_now().await;
        let much = Arc::new(vec![0; LONG]);
        let reads = Arc::clone(&much);
        let given_up = aside(move || reads.len());
        drop(tokio::time::timeout(std::time::Duration::ZERO, given_up).await);
        assert_eq!(Arc::strong_count(&much), 1);
        drop(go);
        for one in busy {
            one.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_panic_reaches_who_asked_and_nobody_else() {
        let asked = tokio::spawn(aside(|| assert!(std::hint::black_box(false), "it is wrong")));
        assert!(asked.await.unwrap_err().is_panic());
        for _ in 0..10 {
            assert_eq!(aside(|| 2).await, 2);
        }
    }
}
