//! What upstreams are told after a call is gone: that its work is not wanted any more. Nobody waits for that but whoever
//! is about to stop.
//!
//! No gate counts it, so it has bounds of its own: whoever begins and gives up work without end leaves no more than these.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How many an upstream is told at once.
const AT_ONCE: usize = 32;
/// How many there are for one upstream, as many as jobs are followed of one, and for all together. What finds no room is
/// not said.
const OF_ONE: usize = 1_000;
const IN_ALL: usize = 4_000;

/// Last words to upstreams, each of which has a name.
pub struct LastWords<To> {
    words: Mutex<Words<To>>,
    /// How long one may take, with the waiting.
    deadline: Duration,
}

struct Words<To> {
    all: JoinSet<()>,
    /// Each word holds those of its upstream.
    turns: HashMap<To, Arc<Semaphore>>,
}

impl<To: Clone + Debug + Eq + Hash> LastWords<To> {
    /// Each of them is said within so long.
    pub fn within(deadline: Duration) -> Self {
        let words = Words { all: JoinSet::new(), turns: HashMap::new() };
        Self { words: Mutex::new(words), deadline }
    }

    fn words(&self) -> MutexGuard<'_, Words<To>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to say it, as soon as it is its turn. Whoever has no runtime left says nothing.
    pub fn say(&self, to: &To, word: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut words = self.words();
        while words.all.try_join_next().is_some() {}
        words.turns.retain(|_, turns| 1 < Arc::strong_count(turns));
        let turns = words.turns.entry(to.clone());
        let turns = Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))));
        // One is that of the map, and one is ours.
        if OF_ONE + 2 <= Arc::strong_count(&turns) || IN_ALL <= words.all.len() {
            tracing::debug!(?to, "{to:?} is not told what is not wanted any more");
            return;
        }
        let word = async move {
            let _turn = turns.acquire().await;
            word.await;
        };
        let deadline = self.deadline;
        words.all.spawn_on(async move { drop(timeout(deadline, word).await) }, &runtime);
    }

    /// Waits until all is said. Each word has a deadline of its own.
    pub async fn said(&self) {
        loop {
            let mut all = std::mem::take(&mut self.words().all);
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

    fn words() -> LastWords<String> {
        LastWords::within(DEADLINE)
    }

    #[tokio::test(start_paused = true)]
    async fn all_of_them_are_waited_for_and_those_that_come_of_them() {
        let (words, said) = (Arc::new(words()), Arc::new(AtomicUsize::new(0)));
        let (more, count) = (Arc::clone(&words), Arc::clone(&said));
        words.say(&"pets".to_owned(), async move {
            sleep(Duration::from_secs(5)).await;
            let again = Arc::clone(&count);
            more.say(&"pets".to_owned(), async move {
                tokio::task::yield_now().await;
                again.fetch_add(1, Ordering::Relaxed);
            });
            count.fetch_add(1, Ordering::Relaxed);
        });
        words.said().await;
        assert_eq!(said.load(Ordering::Relaxed), 2);
        words.said().await;
    }

    #[tokio::test(start_paused = true)]
    async fn one_hears_a_few_at_once_and_whoever_gives_up_without_end_leaves_a_bounded_number() {
        let words = words();
        let [now, most, said] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        for _ in 0..2 * OF_ONE {
            let (now, most, said) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&said));
            words.say(&"pets".to_owned(), async move {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                sleep(Duration::from_millis(10)).await;
                now.fetch_sub(1, Ordering::Relaxed);
                said.fetch_add(1, Ordering::Relaxed);
            });
        }
        let (began, heard) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let other = Arc::clone(&heard);
        words.say(&"shops".to_owned(), async move {
            other.fetch_add(1, Ordering::Relaxed);
        });
        sleep(Duration::from_millis(1)).await;
        assert_eq!(heard.load(Ordering::Relaxed), 1, "another is told at once");
        words.said().await;
        let told = (most.load(Ordering::Relaxed), said.load(Ordering::Relaxed));
        assert_eq!(told, (AT_ONCE, OF_ONE));
        assert!(began.elapsed() < DEADLINE);
        words.say(&"pets".to_owned(), async move {
            heard.fetch_add(1, Ordering::Relaxed);
        });
        words.said().await;
        assert_eq!(words.words().turns.len(), 1, "who heard all is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn all_together_are_bounded_and_one_that_hangs_is_given_up() {
        let words = words();
        for number in 0..10 {
            for _ in 0..OF_ONE {
                words.say(&format!("s{number}"), std::future::pending());
            }
        }
        assert_eq!(words.words().all.len(), IN_ALL);
        let began = Instant::now();
        words.said().await;
        assert_eq!(began.elapsed(), DEADLINE);
    }
}
