//! What every handler can reach: the crib, and what the table of routes says.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::task::JoinSet;
use toolcrib::{Snapshot, Toolcrib};

use crate::prepared::PreparedLists;
use crate::router::Published;
use crate::schemas::Schemas;

/// What every handler can reach; cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) crib: Toolcrib,
    pub(crate) options: Options,
    /// Of everything that routes take: bodies are held against them.
    pub(crate) schemas: Arc<Schemas>,
    pub(crate) published: Arc<Published>,
    /// Lists of agents that are written already.
    pub(crate) prepared: Arc<PreparedLists>,
    background: Arc<Mutex<JoinSet<()>>>,
}

/// How the server behaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Callers without a credential are let in only because nobody else can reach this machine.
    pub anonymous_is_local: bool,
    /// Whether sources may be registered that start a child process.
    pub allow_stdio: bool,
}

impl App {
    pub(crate) fn new(
        crib: Toolcrib,
        options: Options,
        schemas: Schemas,
        published: Published,
    ) -> Self {
        let (schemas, published) = (Arc::new(schemas), Arc::new(published));
        let (prepared, background) = (Arc::default(), Arc::default());
        Self { crib, options, schemas, published, prepared, background }
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.crib.catalog().snapshot()
    }

    /// Goes on with something after the answer, until the server stops.
    pub(crate) fn later(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut background = self.work();
        while background.try_join_next().is_some() {}
        background.spawn(work);
    }

    fn work(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.background.lock().expect("no one panics while holding the work")
    }

    /// Drops what still goes on.
    pub async fn stop(&self) {
        let mut work = std::mem::take(&mut *self.work());
        work.shutdown().await;
    }
}
