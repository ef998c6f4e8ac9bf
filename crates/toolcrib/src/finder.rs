//! The finder: an index of all tools by their texts, beside the catalog and never behind what is asked of it.
//!
//! A search names the snapshot that it is about and gets an index of exactly that. What little has changed since the last
//! one is put in at once, by who asks first; more than that is done aside. Others wait for it without a thread;
//! nobody who searches what is indexed already waits for anything.

use std::sync::Arc;

use arc_swap::ArcSwap;
use catalog::search::{SearchIndex, differing, text_length};
use catalog::tool_set::ToolSet;
use catalog::{Catalog, Snapshot};
use tokio::sync::Mutex;
use tokio::task::JoinError;

/// As many tools are indexed in the time of an answer; more than that, aside.
const FEW: usize = 32;
/// And with as much text, in bytes.
const LITTLE_TEXT: usize = 64 * 1024;

/// Keeps the newest index.
pub(crate) struct Finder {
    newest: Arc<ArcSwap<Indexed>>,
    /// Whoever holds it indexes: nobody does what another is at. It is held by the work, not by who waits for it.
    turn: Arc<Mutex<()>>,
}

/// An index, and what it is of.
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
    /// The index of a snapshot, usually the newest. Panics if indexing did: a search that finds nothing would look right.
    pub(crate) async fn at(&self, snapshot: &Arc<Snapshot>) -> Arc<Indexed> {
        match self.try_at(snapshot).await {
            Ok(indexed) => indexed,
            Err(error) => {
                tracing::error!(%error, "tools could not be indexed: {error}");
                match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The process ends.
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
        // Somebody may have done it meanwhile.
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

    /// Follows a catalog for as long as it is polled.
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

/// For those who come later, unless somebody has a newer one.
fn keep(newest: &ArcSwap<Indexed>, indexed: &Arc<Indexed>) {
    newest.rcu(|other| match other.snapshot.position() <= indexed.snapshot.position() {
        true => Arc::clone(indexed),
        false => Arc::clone(other),
    });
}

impl Indexed {
    /// The same of another snapshot, newer or older, which has something else at these slots.
    fn moved(&self, slots: &ToolSet, snapshot: &Arc<Snapshot>) -> Arc<Self> {
        let mut index = self.index.clone();
        index.follow(slots.iter(), snapshot);
        Arc::new(Self { snapshot: Arc::clone(snapshot), index })
    }
}
