//! What every handler can reach: the crib, and what the table of routes says.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;
use tokio::task::JoinSet;
use toolcrib::{Seal, Snapshot, Toolcrib};

use crate::health::Health;
use crate::mcp::Mcp;
use crate::names::Names;
use crate::prepared::PreparedLists;
use crate::protected_resource::ProtectedResource;
use crate::router::Published;
use crate::schemas::Schemas;

/// What every handler can reach; cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) crib: Toolcrib,
    pub(crate) options: Arc<Options>,
    /// Of everything that routes take: bodies are held against them.
    pub(crate) schemas: Arc<Schemas>,
    pub(crate) published: Arc<Published>,
    /// Lists of agents that are written already.
    pub(crate) prepared: Arc<PreparedLists>,
    pub(crate) mcp: Arc<Mcp>,
    background: Arc<Mutex<JoinSet<()>>>,
    draining: watch::Sender<bool>,
    pub(crate) health: Arc<Health>,
}

/// How the server behaves.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Callers without a credential are let in only because nobody else can reach this machine.
    pub anonymous_is_local: bool,
    /// Whether sources may be registered that start a child process.
    pub allow_stdio: bool,
    /// Seals what clients keep for us; without it, with a key of this process alone.
    pub seal: Option<Seal>,
    /// Which names it answers to.
    pub names: Names,
    /// What tokens are for, and who issues them.
    pub resource: ProtectedResource,
}

impl App {
    pub(crate) fn new(
        crib: Toolcrib,
        options: Options,
        schemas: Schemas,
        published: Published,
    ) -> Self {
        let mcp = Arc::new(Mcp::new(options.seal.clone().unwrap_or_else(Seal::random)));
        let (options, schemas, published) =
            (Arc::new(options), Arc::new(schemas), Arc::new(published));
        let (prepared, background, health) = (Arc::default(), Arc::default(), Arc::default());
        let draining = watch::Sender::new(false);
        Self { crib, options, schemas, published, prepared, mcp, background, draining, health }
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

    /// Says to all that the server is about to stop.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Whether the server is about to stop.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Ends when the server is about to stop: then a stream says its last word.
    pub async fn draining(&self) {
        let mut draining = self.draining.subscribe();
        draining.wait_for(|draining| *draining).await.expect("the sender is held here");
    }

    /// Drops what still goes on.
    pub async fn stop(&self) {
        let mut work = std::mem::take(&mut *self.work());
        work.shutdown().await;
    }
}
