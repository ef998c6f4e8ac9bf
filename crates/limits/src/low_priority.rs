//! A pool of low-priority threads that parses and writes long inputs and results without delaying other work.
//!
//! The threads run at idle priority: long inputs are parsed when a processor is free, and calls go first. Tokio's
//! blocking pool does not fit: it starts many threads, which get as much processor time as all others. A high nice
//! value is not enough either: Linux takes milliseconds to preempt a nice thread for one that wakes up, but preempts
//! an idle-priority thread at once. On a machine that is always busy, a normal-priority thread takes over tasks that
//! have waited too long (see the `pool` module). All callers share the threads, so one caller's long inputs must be
//! parsed one after the other (see the `large_bodies` module).

mod pool;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Inputs up to this size, in bytes, are parsed on the calling thread; parsing more takes too long there.
pub const MAX_INLINE_BYTES: usize = 64 * 1024;

type BoxedTask = Box<dyn FnOnce() + Send>;

/// A queued task: a pool thread takes it to run it, or its owner takes it back.
#[derive(Clone)]
struct QueuedTask(Arc<Mutex<Option<BoxedTask>>>);

impl QueuedTask {
    fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(work)))))
    }

    fn take_task(&self) -> Option<BoxedTask> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn run_task(&self) {
        if let Some(work) = self.take_task() {
            work();
        }
    }
}

/// Drops the queued task when its caller stops waiting, because the task may own a large input.
struct CancelOnDrop(QueuedTask);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        // If the lock is held, a pool thread is taking the task. It may run at idle priority, so do not wait for it.
        let work = self.0.0.try_lock().ok().and_then(|mut work| work.take());
        drop(work);
    }
}

static PENDING_TASKS: AtomicUsize = AtomicUsize::new(0);

/// Counts one task as pending until the task has run or was taken back.
struct PendingTaskGuard;

impl PendingTaskGuard {
    fn count_task() -> Self {
        PENDING_TASKS.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for PendingTaskGuard {
    fn drop(&mut self) {
        PENDING_TASKS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The number of tasks that wait in the pool or run there.
pub fn pending_low_priority_tasks() -> usize {
    PENDING_TASKS.load(Ordering::Relaxed)
}

/// Runs the task on a pool thread. If the future is dropped before the task has started, the task never runs.
pub async fn run_low_priority<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = oneshot::channel();
    let under_way = PendingTaskGuard::count_task();
    let turn = QueuedTask::new(move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        drop(under_way);
        // The send fails if the caller has stopped waiting; the result is not needed then.
        drop(done.send(result));
    });
    let _unless_done = CancelOnDrop(turn.clone());
    pool::enqueue_task(turn);
    match result.await.expect("work is always done") {
        Ok(result) => result,
        Err(panic) => resume_unwind(panic),
    }
}

/// Runs the task inline if its input has at most `MAX_INLINE_BYTES`, otherwise on the low-priority pool.
pub async fn run_low_priority_if_long<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes <= MAX_INLINE_BYTES { work() } else { run_low_priority(work).await }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn work_is_done_on_another_thread() {
        let here = thread::current().id();
        assert_ne!(here, run_low_priority(|| thread::current().id()).await);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn pool_threads_run_at_idle_priority() {
        use thread_priority::{
            NormalThreadSchedulePolicy, ThreadSchedulePolicy, thread_schedule_policy,
        };
        let normal = ThreadSchedulePolicy::Normal;
        // On a busy machine the normal-priority thread for late tasks may run it first.
        let begun = std::time::Instant::now();
        while run_low_priority(|| thread_schedule_policy().unwrap()).await
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
    async fn abandoned_tasks_do_not_block_the_pool() {
        for _ in 0..100 {
            let slow = run_low_priority(|| thread::sleep(std::time::Duration::from_millis(1)));
            drop(tokio::time::timeout(std::time::Duration::ZERO, slow).await);
        }
        assert_eq!(run_low_priority(|| 1).await, 1);
    }

    #[tokio::test]
    async fn the_input_of_an_abandoned_task_is_dropped_with_its_caller() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let busy: Vec<_> = (0..64)
            .map(|_| {
                let wait = Arc::clone(&wait);
                tokio::spawn(run_low_priority(move || drop(wait.lock().map(|wait| wait.recv()))))
            })
            .collect();
        tokio::task::yield_now().await;
        let much = Arc::new(vec![0; MAX_INLINE_BYTES]);
        let reads = Arc::clone(&much);
        let given_up = run_low_priority(move || reads.len());
        drop(tokio::time::timeout(std::time::Duration::ZERO, given_up).await);
        assert_eq!(Arc::strong_count(&much), 1);
        drop(go);
        for one in busy {
            one.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_panic_reaches_only_the_caller_of_the_task() {
        let asked =
            tokio::spawn(run_low_priority(|| assert!(std::hint::black_box(false), "it is wrong")));
        assert!(asked.await.unwrap_err().is_panic());
        for _ in 0..10 {
            assert_eq!(run_low_priority(|| 2).await, 2);
        }
    }
}
