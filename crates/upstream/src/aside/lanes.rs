//! Who does what is lined up: threads that run when nobody else wants to, and one like all others for what they are late with.
//!
//! Where every core is always busy, the first get next to nothing: what they began would be done after seconds, and with it
//! all that waits for it. So whichever of them sees that it was kept waiting leaves the work to the other.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::{Turn, UNDER_WAY};

/// One that is at something long does not stop all others.
const FEWEST: usize = 2;
/// A thread that has nothing to do begins sooner than that, unless it is kept from the processor.
const SOON: Duration = Duration::from_millis(20);

/// What is lined up, the oldest first.
pub(super) struct Lanes {
    line: Mutex<VecDeque<(Instant, Turn)>>,
    /// For those that go last.
    there_is_work: Condvar,
    /// For the one that does not.
    may_be_late: Condvar,
}

/// Those of this process; the first who asks starts the threads.
pub(super) fn all() -> &'static Lanes {
    static LANES: Lanes = Lanes::new();
    static START: Once = Once::new();
    START.call_once(|| {
        let cores = thread::available_parallelism().map_or(FEWEST, usize::from);
        for _ in 0..FEWEST.max(cores / 2) {
            start("aside", || LANES.go_last());
        }
        start("aside, late", || LANES.help_out());
    });
    &LANES
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(work).expect("a thread can be started");
}

impl Lanes {
    const fn new() -> Self {
        Self {
            line: Mutex::new(VecDeque::new()),
            there_is_work: Condvar::new(),
            may_be_late: Condvar::new(),
        }
    }

    pub(super) fn line_up(&self, turn: Turn) {
        self.line().push_back((Instant::now(), turn));
        self.there_is_work.notify_one();
        self.may_be_late.notify_one();
    }

    fn line(&self) -> MutexGuard<'_, VecDeque<(Instant, Turn)>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn go_last(&self) {
        #[cfg(target_os = "linux")]
        let_all_others_go_first();
        let mut is_held_up = false;
        loop {
            let turn = self.next(is_held_up);
            let (start, before) = (Instant::now(), time_of_this_thread());
            work(&turn);
            is_held_up = SOON + 2 * (time_of_this_thread() - before) < start.elapsed();
        }
    }

    /// The oldest; for one that is held up, the oldest that need not be left to the other.
    fn next(&self, is_held_up: bool) -> Turn {
        let (mut line, mut is_held_up) = (self.line(), is_held_up);
        loop {
            let is_ours = |(since, _): &(Instant, Turn)| !is_held_up || since.elapsed() < SOON;
            if let Some((_, turn)) = line.iter().position(is_ours).and_then(|at| line.remove(at)) {
                return turn;
            }
            line = self.there_is_work.wait(line).unwrap_or_else(PoisonError::into_inner);
            // It had nothing to do: what is late now has waited for nothing but this thread.
            is_held_up = true;
        }
    }

    fn help_out(&self) {
        loop {
            work(&self.next_late());
        }
    }

    fn next_late(&self) -> Turn {
        let mut line = self.line();
        loop {
            let left = line.front().map(|(since, _)| SOON.saturating_sub(since.elapsed()));
            line = match left {
                None => self.may_be_late.wait(line).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => match line.pop_front() {
                    Some((_, turn)) => return turn,
                    None => line,
                },
                Some(left) => {
                    let waited = self.may_be_late.wait_timeout(line, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

fn work(turn: &Turn) {
    if let Some(work) = turn.take() {
        work();
    }
    UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
}

/// How long it had the processor so far.
fn time_of_this_thread() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// On Linux a thread has a priority of its own. Elsewhere the whole process would be slower.
#[cfg(target_os = "linux")]
fn let_all_others_go_first() {
    use thread_priority::{
        NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
        set_thread_priority_and_policy, thread_native_id,
    };
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let gone = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
    if let Err(error) = gone {
        // As it is where a container forbids it. To be nice is better than nothing.
        let is_nice = rustix::process::setpriority_process(None, 15).is_ok();
        tracing::debug!(?error, is_nice, "a thread cannot let all others go first");
    }
}

#[cfg(test)]
mod tests {
    use std::iter;
    use std::sync::Arc;

    use super::*;

    fn turn() -> Turn {
        Turn(Arc::new(Mutex::new(None)))
    }

    /// Those that are late, and then those that never will be.
    fn lined_up(late: usize, fresh: usize) -> Lanes {
        let (lanes, now) = (Lanes::new(), Instant::now());
        let late = iter::repeat_n(now.checked_sub(SOON).unwrap(), late);
        let all = late.chain(iter::repeat_n(now + Duration::from_secs(3600), fresh));
        lanes.line().extend(all.map(|since| (since, turn())));
        lanes
    }

    fn late(lanes: &Lanes) -> Vec<bool> {
        lanes.line().iter().map(|(since, _)| SOON <= since.elapsed()).collect()
    }

    #[test]
    fn what_has_waited_long_is_left_to_another_by_whoever_is_held_up() {
        let lanes = lined_up(1, 1);
        drop(lanes.next(true));
        assert_eq!(late(&lanes), [true]);
        drop(lanes.next_late());
        assert_eq!(late(&lanes), [false; 0]);
        let lanes = lined_up(1, 1);
        drop(lanes.next(false));
        assert_eq!(late(&lanes), [false], "who is not held up takes the oldest");
    }

    #[test]
    fn what_nobody_takes_is_late_in_the_end() {
        let (lanes, start) = (Lanes::new(), Instant::now());
        lanes.line_up(turn());
        drop(lanes.next_late());
        assert!(SOON <= start.elapsed() && lanes.line().is_empty());
    }
}
