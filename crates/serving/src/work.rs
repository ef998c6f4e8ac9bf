//! Background tasks that outlive their request, until they finish or the server stops.

use std::sync::{Mutex, MutexGuard};

use tokio::task::{AbortHandle, JoinSet};

#[derive(Default)]
pub(crate) struct Work(Mutex<JoinSet<()>>);

impl Work {
    fn all(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().expect("no one panics while holding the work")
    }

    pub(crate) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut all = self.all();
        while all.try_join_next().is_some() {}
        all.spawn(work)
    }

    /// Aborts all running tasks.
    pub(crate) async fn stop(&self) {
        let mut all = std::mem::take(&mut *self.all());
        all.shutdown().await;
    }
}
