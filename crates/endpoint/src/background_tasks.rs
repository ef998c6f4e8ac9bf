//! Background tasks that outlive their request, until they finish or the server stops.

use std::sync::{Mutex, MutexGuard};

use tokio::task::{AbortHandle, JoinSet};

#[derive(Default)]
pub struct BackgroundTasks(Mutex<JoinSet<()>>);

impl BackgroundTasks {
    fn lock_tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().expect("no one panics while holding the work")
    }

    pub fn spawn_task(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut all = self.lock_tasks();
        while all.try_join_next().is_some() {}
        all.spawn(work)
    }

    /// Aborts all running tasks.
    pub(crate) async fn abort_all(&self) {
        let mut all = std::mem::take(&mut *self.lock_tasks());
        all.shutdown().await;
    }
}
