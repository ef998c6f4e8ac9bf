//! Cache of the search index over all catalog tools.
//!
//! A search names its snapshot and gets an index of exactly that snapshot. The first search after a small change
//! updates the index inline; a larger update runs on the blocking pool. Other searches wait for it without blocking a
//! thread. A search in an indexed snapshot waits for nothing.

use std::sync::Arc;

use arc_swap::ArcSwap;
use catalog::search::{SearchIndex, differing, text_length};
use catalog::tool_set::ToolSet;
use catalog::{Catalog, Snapshot};
use tokio::sync::Mutex;
use tokio::task::JoinError;

/// Maximum number of changed tools that are indexed inline.
const FEW: usize = 32;
/// Maximum size of their text, in bytes.
const LITTLE_TEXT: usize = 64 * 1024;

/// Keeps the newest search index.
pub(crate) struct Finder {
    newest: Arc<ArcSwap<Indexed>>,
    /// Held while indexing, so that no work is done twice. The work holds it, and not the waiter, which may be dropped.
    turn: Arc<Mutex<()>>,
}

/// A search index with its snapshot.
#[derive(Default)]
pub(crate) struct Indexed {
    snapshot: Arc<Snapshot>,
    pub(crate) index: SearchIndex,
}

impl Default for Finder {
    fn default() -> Self {
        Self { newest: Arc::new(ArcSwap::from_pointee(Indexed::default())), turn: Arc::default() }
    }
}

impl Finder {
    /// The index of a snapshot, usually the newest. Panics if indexing panicked, because empty results would look
    /// correct.
    pub(crate) async fn at(&self, snapshot: &Arc<Snapshot>) -> Arc<Indexed> {
        match self.try_at(snapshot).await {
            Ok(indexed) => indexed,
            Err(error) => {
                tracing::error!(%error, "tools could not be indexed: {error}");
                match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The task was cancelled, because the process is shutting down.
                    Err(_) => Arc::default(),
                }
            }
        }
    }

    async fn try_at(&self, snapshot: &Arc<Snapshot>) -> Result<Arc<Indexed>, JoinError> {
        if let Some(indexed) = self.known(snapshot) {
            return Ok(indexed);
        }
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // Another search may have indexed it while this one waited.
        if let Some(indexed) = self.known(snapshot) {
            return Ok(indexed);
        }
        let newest = self.newest.load_full();
        let slots = differing(&newest.snapshot, snapshot);
        let is_little = slots.len() <= FEW && text_length(snapshot, &slots) <= LITTLE_TEXT;
        let (kept, wanted) = (Arc::clone(&self.newest), Arc::clone(snapshot));
        let work = move || {
            let indexed = newest.moved(&slots, &wanted);
            keep(&kept, &indexed);
            drop(turn);
            indexed
        };
        match is_little {
            true => Ok(work()),
            false => tokio::task::spawn_blocking(work).await,
        }
    }

    fn known(&self, snapshot: &Arc<Snapshot>) -> Option<Arc<Indexed>> {
        let newest = self.newest.load_full();
        Arc::ptr_eq(&newest.snapshot, snapshot).then_some(newest)
    }

    /// Keeps the index up to date with a catalog, for as long as the future is polled.
    pub(crate) async fn keep_up(&self, catalog: &Catalog) {
        let mut changes = catalog.changes();
        loop {
            changes.mark_unchanged();
            if let Err(error) = self.try_at(&catalog.snapshot()).await {
                tracing::error!(%error, "tools could not be indexed: {error}");
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Stores an index for later searches, unless a newer one is stored.
fn keep(newest: &ArcSwap<Indexed>, indexed: &Arc<Indexed>) {
    newest.rcu(|other| match other.snapshot.position() <= indexed.snapshot.position() {
        true => Arc::clone(indexed),
        false => Arc::clone(other),
    });
}

impl Indexed {
    /// The index of another snapshot, newer or older, whose tools differ in these slots.
    fn moved(&self, slots: &ToolSet, snapshot: &Arc<Snapshot>) -> Arc<Self> {
        let mut index = self.index.clone();
        index.follow(slots.iter(), snapshot);
        Arc::new(Self { snapshot: Arc::clone(snapshot), index })
    }
}
