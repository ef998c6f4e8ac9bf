//! Notices sent to upstreams after a call is gone: that its work is no longer needed. Only a shutdown waits for them.
//!
//! The concurrency limits on calls do not cover these notices, so they have limits of their own: a caller that starts
//! and abandons calls without end cannot queue more than that.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Notices sent to one upstream concurrently.
const CONCURRENT_PER_UPSTREAM: usize = 32;
/// Notices pending for one upstream (as many as it may have long-running jobs) and in total. Notices beyond these
/// limits are dropped.
const PENDING_PER_UPSTREAM: usize = 1_000;
const PENDING_TOTAL: usize = 4_000;

/// Sends cancellation notices in the background. Each upstream is identified by a key.
pub struct CancelNotices<To> {
    queue: Mutex<NoticeQueue<To>>,
    /// The deadline of one notice, including its time in the queue.
    deadline: Duration,
}

struct NoticeQueue<To> {
    tasks: JoinSet<()>,
    /// The permits of each upstream; every pending notice holds a reference to those of its upstream.
    permits: HashMap<To, Arc<Semaphore>>,
}

impl<To: Clone + Debug + Eq + Hash> CancelNotices<To> {
    /// Each notice gets this deadline.
    pub fn with_deadline(deadline: Duration) -> Self {
        let words = NoticeQueue { tasks: JoinSet::new(), permits: HashMap::new() };
        Self { queue: Mutex::new(words), deadline }
    }

    fn lock_queue(&self) -> MutexGuard<'_, NoticeQueue<To>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a notice. Without a Tokio runtime nothing is sent.
    pub fn send_notice(&self, to: &To, word: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut words = self.lock_queue();
        while words.tasks.try_join_next().is_some() {}
        words.permits.retain(|_, turns| 1 < Arc::strong_count(turns));
        let turns = words.permits.entry(to.clone());
        let turns =
            Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(CONCURRENT_PER_UPSTREAM))));
        // Two of the references are the map's and this function's own.
        if PENDING_PER_UPSTREAM + 2 <= Arc::strong_count(&turns)
            || PENDING_TOTAL <= words.tasks.len()
        {
            tracing::debug!(?to, "{to:?} is not told what is not wanted any more");
            return;
        }
        let word = async move {
            let _turn = turns.acquire().await;
            word.await;
        };
        let deadline = self.deadline;
        words.tasks.spawn_on(async move { drop(timeout(deadline, word).await) }, &runtime);
    }

    /// Waits until all notices are sent or have reached their deadlines.
    pub async fn wait_until_sent(&self) {
        loop {
            let mut all = std::mem::take(&mut self.lock_queue().tasks);
            if all.is_empty() {
                return;
            }
            while all.join_next().await.is_some() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(10);

    fn words() -> CancelNotices<String> {
        CancelNotices::with_deadline(DEADLINE)
    }

    #[tokio::test(start_paused = true)]
    async fn all_notices_are_waited_for_including_those_sent_by_notices() {
        let (words, said) = (Arc::new(words()), Arc::new(AtomicUsize::new(0)));
        let (more, count) = (Arc::clone(&words), Arc::clone(&said));
        words.send_notice(&"pets".to_owned(), async move {
            sleep(Duration::from_secs(5)).await;
            let again = Arc::clone(&count);
            more.send_notice(&"pets".to_owned(), async move {
                tokio::task::yield_now().await;
                again.fetch_add(1, Ordering::Relaxed);
            });
            count.fetch_add(1, Ordering::Relaxed);
        });
        words.wait_until_sent().await;
        assert_eq!(said.load(Ordering::Relaxed), 2);
        words.wait_until_sent().await;
    }

    #[tokio::test(start_paused = true)]
    async fn one_upstream_gets_a_few_notices_at_a_time_and_a_bounded_number_in_total() {
        let words = words();
        let [now, most, said] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        for _ in 0..2 * PENDING_PER_UPSTREAM {
            let (now, most, said) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&said));
            words.send_notice(&"pets".to_owned(), async move {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                sleep(Duration::from_millis(10)).await;
                now.fetch_sub(1, Ordering::Relaxed);
                said.fetch_add(1, Ordering::Relaxed);
            });
        }
        let (began, heard) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let other = Arc::clone(&heard);
        words.send_notice(&"shops".to_owned(), async move {
            other.fetch_add(1, Ordering::Relaxed);
        });
        sleep(Duration::from_millis(1)).await;
        assert_eq!(heard.load(Ordering::Relaxed), 1, "another is told at once");
        words.wait_until_sent().await;
        let told = (most.load(Ordering::Relaxed), said.load(Ordering::Relaxed));
        assert_eq!(told, (CONCURRENT_PER_UPSTREAM, PENDING_PER_UPSTREAM));
        assert!(began.elapsed() < DEADLINE);
        words.send_notice(&"pets".to_owned(), async move {
            heard.fetch_add(1, Ordering::Relaxed);
        });
        words.wait_until_sent().await;
        assert_eq!(words.lock_queue().permits.len(), 1, "who heard all is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn the_total_is_bounded_and_a_notice_that_hangs_is_dropped() {
        let words = words();
        for number in 0..10 {
            for _ in 0..PENDING_PER_UPSTREAM {
                words.send_notice(&format!("s{number}"), std::future::pending());
            }
        }
        assert_eq!(words.lock_queue().tasks.len(), PENDING_TOTAL);
        let began = Instant::now();
        words.wait_until_sent().await;
        assert_eq!(began.elapsed(), DEADLINE);
    }
}
