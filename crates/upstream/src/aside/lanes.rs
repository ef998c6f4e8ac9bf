//! Who does what is lined up: threads that run when nobody else wants to, and one like all others for what they are late with.
//!
//! Where every core is always busy, the first get next to nothing: what they began would be done after seconds, and with it
//! all that waits for it. So whichever of them sees that it was kept waiting leaves the work to the other. Whoever lines
//! something up shares no queue with those that go last, as they may be kept from the processor while they hold its lock: a
//! thread that does nothing else hands on. When they are done they wake who waits and give places back, with locks that are held for
//! a moment: that much is left.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::Turn;

/// One that is at something long does not stop all others.
const FEWEST: usize = 2;
/// A thread that has nothing to do begins sooner than that, unless it is kept from the processor.
const SOON: Duration = Duration::from_millis(20);

#[derive(Clone)]
struct Waiting {
    since: Instant,
    turn: Turn,
}

/// The first who lines something up starts the threads.
pub(super) fn line_up(turn: Turn) {
    static LINE: OnceLock<Sender<Waiting>> = OnceLock::new();
    let waiting = Waiting { since: Instant::now(), turn };
    LINE.get_or_init(threads).send(waiting).expect("the thread that hands on never ends");
}

fn threads() -> Sender<Waiting> {
    let (line, lined_up) = channel();
    let (hand, handed) = channel();
    let (leave, left) = channel();
    start("aside, hand on", move || hand_on(&lined_up, &hand, &leave));
    start("aside, late", move || left.iter().for_each(|late: Turn| late.work()));
    let handed = Arc::new(Mutex::new(handed));
    let cores = thread::available_parallelism().map_or(FEWEST, usize::from);
    for _ in 0..FEWEST.max(cores / 2) {
        let handed = Arc::clone(&handed);
        start("aside", move || go_last(&handed));
    }
    line
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(work).expect("a thread can be started");
}

/// Hands on what is lined up to those that go last, and what may not have begun soon to the one that does not.
fn hand_on(lined_up: &Receiver<Waiting>, hand: &Sender<Waiting>, leave: &Sender<Turn>) {
    let mut handed: VecDeque<Waiting> = VecDeque::new();
    loop {
        let next = match handed.front() {
            None => lined_up.recv().map_err(RecvTimeoutError::from),
            Some(first) => lined_up.recv_timeout(SOON.saturating_sub(first.since.elapsed())),
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

fn go_last(handed: &Mutex<Receiver<Waiting>>) {
    #[cfg(target_os = "linux")]
    let_all_others_go_first();
    let mut held_up = HeldUp(false);
    loop {
        let free_since = Instant::now();
        let next = handed.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Waiting { since, turn }) = next else { return };
        if held_up.leaves(since, free_since, since.elapsed()) {
            continue;
        }
        let (start, before) = (Instant::now(), time_of_this_thread());
        turn.work();
        held_up = HeldUp(SOON + 2 * (time_of_this_thread() - before) < start.elapsed());
    }
}

/// Whether a thread is kept from the processor, as far as it knows.
struct HeldUp(bool);

impl HeldUp {
    /// Whether work that has waited for so long since then is left to the thread for what is late.
    fn leaves(&mut self, since: Instant, free_since: Instant, waited: Duration) -> bool {
        let is_late = SOON <= waited;
        // It had nothing to do, so it was the processor that was waited for.
        self.0 |= is_late && free_since <= since;
        self.0 && is_late
    }
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
    use super::*;

    #[test]
    fn who_was_free_and_is_late_leaves_what_is_late_until_something_was_done_in_time() {
        let (now, before) = (Instant::now(), Instant::now().checked_sub(SOON).unwrap());
        let mut held_up = HeldUp(false);
        assert!(!held_up.leaves(before, now, 10 * SOON), "it was at something else");
        assert!(!held_up.leaves(now, before, Duration::ZERO), "it came at once");
        assert!(held_up.leaves(now, before, SOON));
        assert!(held_up.leaves(before, now, SOON), "so it goes on");
        assert!(
            !held_up.leaves(before, now, Duration::ZERO),
            "and finds out with what is not late"
        );
    }

    #[test]
    fn what_nobody_begins_soon_is_left_to_another_while_more_is_handed_on_and_done_once() {
        let ((line, lined_up), (hand, handed), (leave, left)) = (channel(), channel(), channel());
        let hands_on = thread::spawn(move || hand_on(&lined_up, &hand, &leave));
        let (tell, told) = channel();
        let start = Instant::now();
        let said = Turn::new(move || tell.send(()).unwrap());
        line.send(Waiting { since: start, turn: said }).unwrap();
        let late: Turn = left.recv().unwrap();
        assert!(SOON <= start.elapsed());
        // It is not waited for what is done with that.
        line.send(Waiting { since: Instant::now(), turn: Turn::new(|| ()) }).unwrap();
        let both: [Waiting; 2] = [(); 2].map(|()| handed.recv().unwrap());
        late.work();
        both.iter().for_each(|it| it.turn.work());
        assert_eq!((told.recv(), told.recv().is_err()), (Ok(()), true));
        drop(line);
        hands_on.join().unwrap();
    }
}
