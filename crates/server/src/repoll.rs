//! A future wrapper that polls its future again at once if it was woken while it was being polled. The runtime would
//! put the task at the end of a queue and wake another thread, which takes longer than most responses. Connections wake
//! themselves with every request: after the body was read, and when a call that could have been cancelled has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Consecutive polls before the task yields to other tasks.
const MAX_CONSECUTIVE_POLLS: usize = 4;

const STATE_IDLE: u8 = 0;
const STATE_POLLING: u8 = 1;
const STATE_WOKEN: u8 = 2;

pub(super) struct RepollFuture<F> {
    pub(super) future: Pin<Box<F>>,
    wake_state: Arc<RepollWaker>,
    waker: Waker,
}

#[derive(Default)]
struct RepollWaker {
    state: AtomicU8,
    task: AtomicWaker,
}

impl<F> RepollFuture<F> {
    pub(super) fn new(future: F) -> Self {
        let bell = Arc::<RepollWaker>::default();
        let waker = Waker::from(Arc::clone(&bell));
        Self { future: Box::pin(future), wake_state: bell, waker }
    }
}

impl<F: Future> Future for RepollFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, wake_state: bell, waker } = &mut *self;
        bell.task.register(context.waker());
        for _ in 0..MAX_CONSECUTIVE_POLLS {
            bell.state.swap(STATE_POLLING, AcqRel);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            let slept = bell.state.compare_exchange(STATE_POLLING, STATE_IDLE, AcqRel, Acquire);
            if slept.is_ok() {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for RepollWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(STATE_WOKEN, AcqRel) == STATE_IDLE {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts its wake-ups.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, AcqRel);
        }
    }

    /// A future that wakes itself `times` times and is ready after that.
    fn restless(times: usize) -> impl Future<Output = usize> {
        let mut polls = 0;
        poll_fn(move |context| {
            polls += 1;
            if times < polls {
                return Poll::Ready(polls);
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    #[test]
    fn a_self_waking_future_is_polled_again_without_waking_its_task() {
        let task = Arc::<Task>::default();
        let waker = Waker::from(Arc::clone(&task));
        let mut again = RepollFuture::new(restless(MAX_CONSECUTIVE_POLLS - 1));
        let polled = Pin::new(&mut again).poll(&mut Context::from_waker(&waker));
        assert_eq!(polled, Poll::Ready(MAX_CONSECUTIVE_POLLS));
        assert_eq!(task.0.load(Acquire), 0);
    }

    #[test]
    fn a_future_that_keeps_waking_itself_yields_to_the_queue() {
        let task = Arc::<Task>::default();
        let waker = Waker::from(Arc::clone(&task));
        let mut again = RepollFuture::new(restless(10 * MAX_CONSECUTIVE_POLLS));
        for round in 1..=10 {
            assert!(Pin::new(&mut again).poll(&mut Context::from_waker(&waker)).is_pending());
            assert_eq!(task.0.load(Acquire), round);
        }
        assert!(Pin::new(&mut again).poll(&mut Context::from_waker(&waker)).is_ready());
    }

    #[test]
    fn a_wake_up_from_outside_wakes_the_task_once() {
        let task = Arc::<Task>::default();
        let waker = Waker::from(Arc::clone(&task));
        let kept = Arc::<Mutex<Option<Waker>>>::default();
        let mut again = RepollFuture::new(poll_fn(|context| {
            *kept.lock().unwrap() = Some(context.waker().clone());
            Poll::<()>::Pending
        }));
        for round in 1..=3 {
            assert!(Pin::new(&mut again).poll(&mut Context::from_waker(&waker)).is_pending());
            let inner = kept.lock().unwrap().take().unwrap();
            inner.wake_by_ref();
            inner.wake();
            assert_eq!(task.0.load(Acquire), round);
        }
    }
}
