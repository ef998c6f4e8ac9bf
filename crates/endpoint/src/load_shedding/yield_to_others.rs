//! Yields to other tasks. A task that yields is woken after the runtime has polled its sockets. A connection may be
//! polled before that for other reasons, and must not mistake such a poll for its turn.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Wake, Waker};

/// The waker of a yielding task, and whether the runtime has woken it.
struct YieldWaker {
    is_woken: AtomicBool,
    waker: Waker,
}

impl Wake for YieldWaker {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Relaxed);
        self.waker.wake_by_ref();
    }
}

/// Continues after every task that was ready before has been polled.
pub(super) async fn yield_to_others() {
    let mut called: Option<Arc<YieldWaker>> = None;
    poll_fn(|context| match &called {
        Some(called) if called.is_woken.load(Relaxed) => Poll::Ready(()),
        Some(_) => Poll::Pending,
        None => {
            let who = context.waker().clone();
            let new = called
                .insert(Arc::new(YieldWaker { is_woken: AtomicBool::new(false), waker: who }));
            let waker = Waker::from(Arc::clone(new));
            pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(&waker))
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_poll_for_other_reasons_does_not_end_the_yield() {
        let waits = tokio::spawn(async {
            let mut first = Box::pin(yield_to_others());
            let at_once: Vec<_> = (0..4).map(|_| first.as_mut().now_or_never()).collect();
            assert_eq!(at_once, [None; 4]);
        });
        waits.await.unwrap();
        tokio::spawn(yield_to_others()).await.unwrap();
    }
}
