//! Yields to other tasks. A task that yields is woken after the runtime has polled its sockets. A connection may be
//! polled before that for other reasons, and must not mistake such a poll for its turn.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

/// The waker of a yielding task, and whether the runtime has woken it.
struct Called {
    is: AtomicBool,
    who: Waker,
}

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        self.is.store(true, Relaxed);
        self.who.wake_by_ref();
    }
}

/// Continues after every task that was ready before has been polled.
pub(super) async fn others_first() {
    let mut called: Option<Arc<Called>> = None;
    poll_fn(|context| match &called {
        Some(called) if called.is.load(Relaxed) => Poll::Ready(()),
        Some(_) => Poll::Pending,
        None => {
            let who = context.waker().clone();
            let new = called.insert(Arc::new(Called { is: AtomicBool::new(false), who }));
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
            let mut first = Box::pin(others_first());
            let at_once: Vec<_> = (0..4).map(|_| first.as_mut().now_or_never()).collect();
            assert_eq!(at_once, [None; 4]);
        });
        waits.await.unwrap();
        tokio::spawn(others_first()).await.unwrap();
    }
}
