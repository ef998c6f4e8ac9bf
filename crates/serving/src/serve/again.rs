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
const IN_A_ROW: usize = 4;

const ASLEEP: u8 = 0;
const POLLED: u8 = 1;
const WOKEN: u8 = 2;

pub(super) struct Again<F> {
    pub(super) future: Pin<Box<F>>,
    bell: Arc<Bell>,
    waker: Waker,
}

#[derive(Default)]
struct Bell {
    state: AtomicU8,
    task: AtomicWaker,
}

impl<F> Again<F> {
    pub(super) fn new(future: F) -> Self {
        let bell = Arc::<Bell>::default();
        let waker = Waker::from(Arc::clone(&bell));
        Self { future: Box::pin(future), bell, waker }
    }
}

impl<F: Future> Future for Again<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, bell, waker } = &mut *self;
        bell.task.register(context.waker());
        for _ in 0..IN_A_ROW {
            bell.state.swap(POLLED, AcqRel);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            let slept = bell.state.compare_exchange(POLLED, ASLEEP, AcqRel, Acquire);
            if slept.is_ok() {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, AcqRel) == ASLEEP {
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
        let mut again = Again::new(restless(IN_A_ROW - 1));
        let polled = Pin::new(&mut again).poll(&mut Context::from_waker(&waker));
        assert_eq!(polled, Poll::Ready(IN_A_ROW));
        assert_eq!(task.0.load(Acquire), 0);
    }

    #[test]
    fn a_future_that_keeps_waking_itself_yields_to_the_queue() {
        let task = Arc::<Task>::default();
        let waker = Waker::from(Arc::clone(&task));
        let mut again = Again::new(restless(10 * IN_A_ROW));
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
        let mut again = Again::new(poll_fn(|context| {
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
