//! The threads of the low-priority pool: several at idle priority and one at normal priority for late tasks.
//!
//! If every core is busy, idle-priority threads get almost no processor time: a task they begin would finish seconds
//! later, and so would everything that waits for it. A worker that notices that it was starved therefore leaves the
//! task to the late thread. Callers share no queue with the workers, because a starved worker may hold the queue's
//! lock: a dispatcher thread hands tasks on. One priority inversion remains: a worker that finishes a task wakes its
//! caller and releases permits under short locks.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::QueuedTask;

/// At least two workers, so that one long task does not stop all others.
const MIN_WORKERS: usize = 2;
/// An idle worker starts a task within this time unless it is starved of processor time.
const START_DEADLINE: Duration = Duration::from_millis(20);

#[derive(Clone)]
struct EnqueuedTask {
    since: Instant,
    turn: QueuedTask,
}

/// Queues a task. The first call starts the threads.
pub(super) fn enqueue_task(turn: QueuedTask) {
    static LINE: OnceLock<Sender<EnqueuedTask>> = OnceLock::new();
    let waiting = EnqueuedTask { since: Instant::now(), turn };
    LINE.get_or_init(start_threads).send(waiting).expect("the thread that hands on never ends");
}

fn start_threads() -> Sender<EnqueuedTask> {
    let (line, lined_up) = channel();
    let (hand, handed) = channel();
    let (leave, left) = channel();
    spawn_thread("aside, hand on", move || dispatch_tasks(&lined_up, &hand, &leave));
    spawn_thread("aside, late", move || left.iter().for_each(|late: QueuedTask| late.run_task()));
    let handed = Arc::new(Mutex::new(handed));
    let cores = thread::available_parallelism().map_or(MIN_WORKERS, usize::from);
    for _ in 0..MIN_WORKERS.max(cores / 2) {
        let handed = Arc::clone(&handed);
        spawn_thread("aside", move || run_idle_worker(&handed));
    }
    line
}

fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(work).expect("a thread can be started");
}

/// Passes each task to the workers, and to the late thread as well if it may not have started within `START_DEADLINE`.
fn dispatch_tasks(
    lined_up: &Receiver<EnqueuedTask>,
    hand: &Sender<EnqueuedTask>,
    leave: &Sender<QueuedTask>,
) {
    let mut handed: VecDeque<EnqueuedTask> = VecDeque::new();
    loop {
        let next = match handed.front() {
            None => lined_up.recv().map_err(RecvTimeoutError::from),
            Some(first) => {
                lined_up.recv_timeout(START_DEADLINE.saturating_sub(first.since.elapsed()))
            }
        };
        match next {
            Ok(waiting) => {
                handed.push_back(waiting.clone());
                hand.send(waiting).expect("threads that go last never end");
            }
            Err(RecvTimeoutError::Timeout) => {
                let late = handed.pop_front().expect("it was waited for");
                leave.send(late.turn).expect("the thread for what is late never ends");
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn run_idle_worker(handed: &Mutex<Receiver<EnqueuedTask>>) {
    #[cfg(target_os = "linux")]
    set_idle_priority();
    let mut held_up = StarvationDetector(false);
    loop {
        let free_since = Instant::now();
        let next = handed.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(EnqueuedTask { since, turn }) = next else { return };
        if held_up.should_defer(since, free_since, since.elapsed()) {
            continue;
        }
        let (start, before) = (Instant::now(), thread_cpu_time());
        turn.run_task();
        held_up =
            StarvationDetector(START_DEADLINE + 2 * (thread_cpu_time() - before) < start.elapsed());
    }
}

/// Whether a worker appears to be starved of processor time.
struct StarvationDetector(bool);

impl StarvationDetector {
    /// Returns true if the worker should leave a task that has waited for `waited` to the late thread.
    fn should_defer(&mut self, since: Instant, free_since: Instant, waited: Duration) -> bool {
        let is_late = START_DEADLINE <= waited;
        // The worker was idle when the task arrived, so it waited for the processor.
        self.0 |= is_late && free_since <= since;
        self.0 && is_late
    }
}

/// The processor time that this thread has used.
fn thread_cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Only on Linux, where each thread has its own priority. Elsewhere this would slow down the whole process.
#[cfg(target_os = "linux")]
fn set_idle_priority() {
    use thread_priority::{
        NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
        set_thread_priority_and_policy, thread_native_id,
    };
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let gone = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
    if let Err(error) = gone {
        // Containers may forbid the scheduling policy. A high nice value is better than nothing.
        let is_nice = rustix::process::setpriority_process(None, 15).is_ok();
        tracing::debug!(?error, is_nice, "a thread cannot let all others go first");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starved_worker_defers_late_tasks_until_one_starts_in_time() {
        let (now, before) = (Instant::now(), Instant::now().checked_sub(START_DEADLINE).unwrap());
        let mut held_up = StarvationDetector(false);
        assert!(
            !held_up.should_defer(before, now, 10 * START_DEADLINE),
            "it was at something else"
        );
        assert!(!held_up.should_defer(now, before, Duration::ZERO), "it came at once");
        assert!(held_up.should_defer(now, before, START_DEADLINE));
        assert!(held_up.should_defer(before, now, START_DEADLINE), "so it goes on");
        assert!(
            !held_up.should_defer(before, now, Duration::ZERO),
            "and finds out with what is not late"
        );
    }

    #[test]
    fn a_task_that_no_worker_starts_in_time_runs_once_on_the_late_thread() {
        let ((line, lined_up), (hand, handed), (leave, left)) = (channel(), channel(), channel());
        let hands_on = thread::spawn(move || dispatch_tasks(&lined_up, &hand, &leave));
        let (tell, told) = channel();
        let start = Instant::now();
        let said = QueuedTask::new(move || tell.send(()).unwrap());
        line.send(EnqueuedTask { since: start, turn: said }).unwrap();
        let late: QueuedTask = left.recv().unwrap();
        assert!(START_DEADLINE <= start.elapsed());
        // The dispatcher does not wait for the late task to finish.
        line.send(EnqueuedTask { since: Instant::now(), turn: QueuedTask::new(|| ()) }).unwrap();
        let both: [EnqueuedTask; 2] = [(); 2].map(|()| handed.recv().unwrap());
        late.run_task();
        both.iter().for_each(|it| it.turn.run_task());
        assert_eq!((told.recv(), told.recv().is_err()), (Ok(()), true));
        drop(line);
        hands_on.join().unwrap();
    }
}
