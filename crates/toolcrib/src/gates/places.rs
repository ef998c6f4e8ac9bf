//! Places for calls under way, and who waits for one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// How long one waits.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Places {
    /// So many, as long as everybody says the same.
    free: Mutex<Option<(usize, Arc<Semaphore>)>>,
    waiting: AtomicUsize,
}

/// A place of these, of which there are so many, and so many may wait.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) of: &'a Places,
    pub(super) most: usize,
    pub(super) waiting: usize,
}

/// A place of each; none if too many wait, or it takes too long. Who waits for the first has none of the second.
pub(super) async fn of_both(
    asked: [Asked<'_>; 2],
    until: Option<Instant>,
) -> Option<[OwnedSemaphorePermit; 2]> {
    let [one, two] = asked.map(Asked::free);
    if let Ok(first) = Arc::clone(&one).try_acquire_owned()
        && let Ok(second) = Arc::clone(&two).try_acquire_owned()
    {
        return Some([first, second]);
    }
    let waits = asked.map(|asked| Waits::new(&asked.of.waiting));
    if asked.iter().zip(&waits).any(|(asked, waits)| asked.waiting < waits.number) {
        return None;
    }
    let patience = Instant::now() + PATIENCE;
    let patience = until.map_or(patience, |until| until.min(patience));
    let both = async { Some([one.acquire_owned().await.ok()?, two.acquire_owned().await.ok()?]) };
    timeout_at(patience, both).await.ok().flatten()
}

impl Asked<'_> {
    /// Those who are through under another limit come to their end beside it.
    fn free(self) -> Arc<Semaphore> {
        let mut free = self.of.free.lock().expect("no one panics while holding it");
        match &*free {
            Some((most, free)) if *most == self.most => Arc::clone(free),
            _ => {
                let new = Arc::new(Semaphore::new(self.most.min(Semaphore::MAX_PERMITS)));
                *free = Some((self.most, Arc::clone(&new)));
                new
            }
        }
    }
}

impl Places {
    /// How many are taken, and how many wait.
    pub(super) fn taken(&self) -> (usize, usize) {
        let free = self.free.lock().expect("no one panics while holding it");
        let taken = free.as_ref().map_or(0, |(most, free)| most - free.available_permits());
        (taken, self.waiting.load(Ordering::Relaxed))
    }
}

/// One who waits.
struct Waits<'a> {
    waiting: &'a AtomicUsize,
    /// The how manieth.
    number: usize,
}

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        Self { waiting, number: waiting.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
