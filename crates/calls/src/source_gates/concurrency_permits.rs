//! Concurrency permits with a limit that may change, and a bounded queue for them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The longest wait for a permit.
const MAX_PERMIT_WAIT: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct CallPermitPool {
    counts: Arc<Mutex<PermitCounts>>,
    waiting: AtomicUsize,
}

/// How many permits exist, and which of them are free.
struct PermitCounts {
    limit: usize,
    /// Permits above the current limit that are still in use; they are destroyed when they are released.
    excess: usize,
    semaphore: Arc<Semaphore>,
}

impl Default for PermitCounts {
    fn default() -> Self {
        Self { limit: 0, excess: 0, semaphore: Arc::new(Semaphore::new(0)) }
    }
}

impl PermitCounts {
    fn set_limit(&mut self, most: usize) {
        let most = most.min(Semaphore::MAX_PERMITS);
        match most.checked_sub(self.limit) {
            Some(more) => {
                let paid = more.min(self.excess);
                self.excess -= paid;
                self.semaphore.add_permits(more - paid);
            }
            None => self.excess += self.limit - most,
        }
        self.limit = most;
        self.excess -= self.semaphore.forget_permits(self.excess);
    }

    fn in_use(&self) -> usize {
        self.limit + self.excess - self.semaphore.available_permits()
    }
}

/// An acquired permit. If the limit was lowered meanwhile, its release destroys it, even if a call waits for it.
pub(super) struct ConcurrencyPermit {
    permit: Option<OwnedSemaphorePermit>,
    counts: Arc<Mutex<PermitCounts>>,
}

impl ConcurrencyPermit {
    fn from_semaphore(permit: OwnedSemaphorePermit, of: &Arc<Mutex<PermitCounts>>) -> Self {
        Self { permit: Some(permit), counts: Arc::clone(of) }
    }
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        let mut free = self.counts.lock().expect("no one panics while holding it");
        if let Some(owed) = free.excess.checked_sub(1)
            && let Some(permit) = self.permit.take()
        {
            free.excess = owed;
            permit.forget();
        }
    }
}

/// A request for a permit of a pool, with the pool's limit and the length of its queue.
#[derive(Clone, Copy)]
pub(super) struct PermitRequest<'a> {
    pub(super) pool: &'a CallPermitPool,
    pub(super) limit: usize,
    pub(super) queue_length: usize,
}

/// Acquires one permit of each pool; `None` if a queue is full or the wait is too long. A call that waits for the first
/// permit does not hold the second.
pub(super) async fn acquire_both(
    asked: [PermitRequest<'_>; 2],
    until: Option<Instant>,
) -> Option<[ConcurrencyPermit; 2]> {
    let [one, two] = asked.map(PermitRequest::semaphore);
    if let Ok(first) = Arc::clone(&one).try_acquire_owned()
        && let Ok(second) = Arc::clone(&two).try_acquire_owned()
    {
        return Some([
            ConcurrencyPermit::from_semaphore(first, &asked[0].pool.counts),
            ConcurrencyPermit::from_semaphore(second, &asked[1].pool.counts),
        ]);
    }
    let waits = asked.map(|asked| QueueEntry::new(&asked.pool.waiting));
    if asked.iter().zip(&waits).any(|(asked, waits)| asked.queue_length < waits.position) {
        return None;
    }
    let patience = Instant::now() + MAX_PERMIT_WAIT;
    let patience = until.map_or(patience, |until| until.min(patience));
    let both = async {
        let first = ConcurrencyPermit::from_semaphore(
            one.acquire_owned().await.ok()?,
            &asked[0].pool.counts,
        );
        Some([
            first,
            ConcurrencyPermit::from_semaphore(
                two.acquire_owned().await.ok()?,
                &asked[1].pool.counts,
            ),
        ])
    };
    timeout_at(patience, both).await.ok().flatten()
}

impl PermitRequest<'_> {
    fn semaphore(self) -> Arc<Semaphore> {
        let mut free = self.pool.counts.lock().expect("no one panics while holding it");
        free.set_limit(self.limit);
        Arc::clone(&free.semaphore)
    }
}

impl CallPermitPool {
    /// How many permits are in use, and how many calls wait.
    pub(super) fn usage(&self) -> (usize, usize) {
        let free = self.counts.lock().expect("no one panics while holding it");
        (free.in_use(), self.waiting.load(Ordering::Relaxed))
    }
}

/// An entry in the queue.
struct QueueEntry<'a> {
    waiting: &'a AtomicUsize,
    /// 1-based position in the queue.
    position: usize,
}

impl<'a> QueueEntry<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        Self { waiting, position: waiting.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lowered_limit_counts_permits_that_are_in_use() {
        let mut free = PermitCounts::default();
        free.set_limit(4);
        let mut through: Vec<_> =
            (0..4).map(|_| Arc::clone(&free.semaphore).try_acquire_owned().unwrap()).collect();
        // A caller that still uses the old limit does not create new permits.
        for most in [1, 4, 1, 4, 1] {
            free.set_limit(most);
            assert!(free.semaphore.try_acquire().is_err());
            assert_eq!(free.in_use(), 4);
        }
        through.truncate(1);
        free.set_limit(1);
        assert!(free.semaphore.try_acquire().is_err());
        through.clear();
        free.set_limit(1);
        assert!(free.semaphore.try_acquire().is_ok());
        assert_eq!((free.in_use(), free.excess), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_call_gets_no_permit_that_was_destroyed() {
        let (all, own) = (CallPermitPool::default(), CallPermitPool::default());
        let ask = |most| {
            let asked = |of| PermitRequest { pool: of, limit: most, queue_length: 8 };
            acquire_both([asked(&all), asked(&own)], None)
        };
        let mut through = Vec::new();
        for _ in 0..4 {
            through.push(ask(4).await.unwrap());
        }
        let mut waiting = std::pin::pin!(ask(1));
        let soon = Duration::from_secs(1);
        for left in (1..4).rev() {
            through.truncate(left);
            assert!(tokio::time::timeout(soon, waiting.as_mut()).await.is_err());
            assert_eq!((all.usage(), own.usage()), ((left, 1), (left, 1)));
        }
        through.clear();
        assert!(waiting.await.is_some());
        assert_eq!((all.usage(), own.usage()), ((0, 0), (0, 0)));
    }
}
