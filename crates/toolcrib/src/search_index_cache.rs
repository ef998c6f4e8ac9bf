//! Cache of the search index over all catalog tools.
//!
//! A search names its snapshot and gets an index of exactly that snapshot. The first search after a small change
//! updates the index inline; a larger update runs on the blocking pool. Other searches wait for it without blocking a
//! thread. A search in an indexed snapshot waits for nothing.

use std::sync::Arc;

use arc_swap::ArcSwap;
use catalog::tool_set::ToolSet;
use catalog::{Catalog, Snapshot};
use search::{SearchIndex, changed_tools, search_text_bytes};
use tokio::sync::Mutex;
use tokio::task::JoinError;

/// Maximum number of changed tools that are indexed inline.
const MAX_INLINE_CHANGES: usize = 32;
/// Maximum size of their text, in bytes.
const MAX_INLINE_TEXT: usize = 64 * 1024;

/// Keeps the newest search index.
pub(crate) struct SearchIndexCache {
    newest: Arc<ArcSwap<IndexedSnapshot>>,
    /// Held while indexing, so that no work is done twice. The work holds it, and not the waiter, which may be dropped.
    indexing_lock: Arc<Mutex<()>>,
}

/// A search index with its snapshot.
#[derive(Default)]
pub(crate) struct IndexedSnapshot {
    snapshot: Arc<Snapshot>,
    pub(crate) index: SearchIndex,
}

impl Default for SearchIndexCache {
    fn default() -> Self {
        Self {
            newest: Arc::new(ArcSwap::from_pointee(IndexedSnapshot::default())),
            indexing_lock: Arc::default(),
        }
    }
}

impl SearchIndexCache {
    /// The index of a snapshot, usually the newest. Panics if indexing panicked, because empty results would look
    /// correct.
    pub(crate) async fn index_for(&self, snapshot: &Arc<Snapshot>) -> Arc<IndexedSnapshot> {
        match self.try_index_for(snapshot).await {
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

    async fn try_index_for(
        &self,
        snapshot: &Arc<Snapshot>,
    ) -> Result<Arc<IndexedSnapshot>, JoinError> {
        if let Some(indexed) = self.newest_if_current(snapshot) {
            return Ok(indexed);
        }
        let turn = Arc::clone(&self.indexing_lock).lock_owned().await;
        // Another search may have indexed it while this one waited.
        if let Some(indexed) = self.newest_if_current(snapshot) {
            return Ok(indexed);
        }
        let newest = self.newest.load_full();
        let slots = changed_tools(&newest.snapshot, snapshot);
        let is_little = slots.len() <= MAX_INLINE_CHANGES
            && search_text_bytes(snapshot, &slots) <= MAX_INLINE_TEXT;
        let (kept, wanted) = (Arc::clone(&self.newest), Arc::clone(snapshot));
        let work = move || {
            let indexed = newest.reindex(&slots, &wanted);
            store_if_newer(&kept, &indexed);
            drop(turn);
            indexed
        };
        match is_little {
            true => Ok(work()),
            false => tokio::task::spawn_blocking(work).await,
        }
    }

    fn newest_if_current(&self, snapshot: &Arc<Snapshot>) -> Option<Arc<IndexedSnapshot>> {
        let newest = self.newest.load_full();
        Arc::ptr_eq(&newest.snapshot, snapshot).then_some(newest)
    }

    /// Keeps the index up to date with a catalog, for as long as the future is polled.
    pub(crate) async fn follow_catalog(&self, catalog: &Catalog) {
        let mut changes = catalog.subscribe();
        loop {
            changes.mark_unchanged();
            if let Err(error) = self.try_index_for(&catalog.snapshot()).await {
                tracing::error!(%error, "tools could not be indexed: {error}");
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Stores an index for later searches, unless a newer one is stored.
fn store_if_newer(newest: &ArcSwap<IndexedSnapshot>, indexed: &Arc<IndexedSnapshot>) {
    newest.rcu(|other| match other.snapshot.position() <= indexed.snapshot.position() {
        true => Arc::clone(indexed),
        false => Arc::clone(other),
    });
}

impl IndexedSnapshot {
    /// The index of another snapshot, newer or older, whose tools differ in these slots.
    fn reindex(&self, slots: &ToolSet, snapshot: &Arc<Snapshot>) -> Arc<Self> {
        let mut index = self.index.clone();
        index.update_slots(slots.iter(), snapshot);
        Arc::new(Self { snapshot: Arc::clone(snapshot), index })
    }
}
