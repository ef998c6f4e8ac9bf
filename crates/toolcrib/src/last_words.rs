//! What upstreams are told after a call is gone: that its work is not wanted any more. Nobody waits for that but whoever
//! is about to stop.

use std::sync::{Mutex, MutexGuard};

use tokio::runtime::Handle;
use tokio::task::JoinSet;

#[derive(Default)]
pub(crate) struct LastWords(Mutex<JoinSet<()>>);

impl LastWords {
    fn all(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().expect("no one panics while holding it")
    }

    /// Begins to say it. Whoever has no runtime left says nothing.
    pub(crate) fn say(&self, word: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut all = self.all();
        while all.try_join_next().is_some() {}
        all.spawn_on(word, &runtime);
    }

    /// Waits until all is said. Each word has a deadline of its own.
    pub(crate) async fn said(&self) {
        loop {
            let mut all = std::mem::take(&mut *self.all());
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

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_of_them_are_waited_for_and_those_that_come_of_them() {
        let (words, said) = (Arc::new(LastWords::default()), Arc::new(AtomicUsize::new(0)));
        let (more, count) = (Arc::clone(&words), Arc::clone(&said));
        words.say(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let again = Arc::clone(&count);
            more.say(async move {
                tokio::task::yield_now().await;
                again.fetch_add(1, Ordering::Relaxed);
            });
            count.fetch_add(1, Ordering::Relaxed);
        });
        words.said().await;
        assert_eq!(said.load(Ordering::Relaxed), 2);
        words.said().await;
    }
}
