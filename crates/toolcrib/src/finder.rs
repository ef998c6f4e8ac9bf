//! The finder: an index of all tools by their texts, beside the catalog and never behind what is asked of it.
//!
//! A search names the snapshot that it is about and gets an index of exactly that. What little has changed since the last
//! one is put in at once, by whoever asks; more than that is done aside, by one at a time, while others wait without a
//! thread. Nobody who searches what is indexed already waits for anything.

use std::sync::Arc;

use arc_swap::ArcSwap;
use catalog::search::{SearchIndex, differing};
use catalog::tool_set::ToolSet;
use catalog::{Catalog, Snapshot};
use tokio::sync::Mutex;

/// As many tools are indexed in the time of an answer; more than that, aside.
const FEW: usize = 32;

/// Keeps the newest index.
pub(crate) struct Finder {
    newest: Arc<ArcSwap<Indexed>>,
    /// Whoever holds it indexes many tools. It is held by the work, not by who waits for it.
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
    /// The index of a snapshot, usually the newest.
    pub(crate) async fn at(&self, snapshot: &Arc<Snapshot>) -> Arc<Indexed> {
        if let Ok(indexed) = self.soon(snapshot) {
            return indexed;
        }
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // Somebody may have done it meanwhile.
        let (newest, slots) = match self.soon(snapshot) {
            Ok(indexed) => return indexed,
            Err(work) => work,
        };
        let (kept, wanted) = (Arc::clone(&self.newest), Arc::clone(snapshot));
        let work = move || {
            let indexed = newest.moved(&slots, &wanted);
            keep(&kept, &indexed);
            drop(turn);
            indexed
        };
        // Nothing is found if the process ends, or a bug has made a panic, which was told where it happened.
        tokio::task::spawn_blocking(work).await.unwrap_or_default()
    }

    /// The same if there is little to do; otherwise what there is to do.
    fn soon(&self, snapshot: &Arc<Snapshot>) -> Result<Arc<Indexed>, (Arc<Indexed>, ToolSet)> {
        let newest = self.newest.load_full();
        if Arc::ptr_eq(&newest.snapshot, snapshot) {
            return Ok(newest);
        }
        let slots = differing(&newest.snapshot, snapshot);
        if FEW < slots.len() {
            return Err((newest, slots));
        }
        let indexed = newest.moved(&slots, snapshot);
        keep(&self.newest, &indexed);
        Ok(indexed)
    }

    /// Follows a catalog for as long as it is polled.
    pub(crate) async fn keep_up(&self, catalog: &Catalog) {
        let mut changes = catalog.changes();
        loop {
            changes.mark_unchanged();
            self.at(&catalog.snapshot()).await;
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
