//! What the providers of a crib offer, until one of them says that it offers something else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use catalog::search::SearchIndex;
use catalog::tool_set::Slot;
use model::Visibility;
use tokio::sync::watch;

use crate::provider::{Changes, ProvidedTool, ToolProvider};
use crate::registry::{Providers, offers};
use crate::view::{ViewedTool, index_of};

pub(crate) struct Provided {
    /// A number that nothing else has that was offered: what is made from it can be kept under it.
    pub(crate) serial: u64,
    pub(crate) providers: Providers,
    /// The first of each name.
    pub(crate) tools: Vec<(Arc<ProvidedTool>, Arc<dyn ToolProvider>)>,
    /// Whether some of them are found only by search.
    pub(crate) is_searched: bool,
    changes: Vec<watch::Receiver<Changes>>,
    so_far: u64,
    /// Made when it is first searched.
    index: OnceLock<SearchIndex>,
}

static SERIAL: AtomicU64 = AtomicU64::new(1);

impl Provided {
    pub(crate) fn of(providers: Providers) -> Self {
        // Before they are asked: what is said meanwhile is asked for again.
        let changes: Vec<_> = providers.iter().flat_map(|provider| provider.changes()).collect();
        let so_far = count(&changes);
        let tools = offers(&providers);
        let is_searched = tools.iter().any(|(tool, _)| tool.visibility == Visibility::Searchable);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let index = OnceLock::new();
        Self { serial, providers, tools, is_searched, changes, so_far, index }
    }

    /// Its tools by words, each under its place.
    pub(crate) fn index(&self) -> &SearchIndex {
        let tools = || (0..).map_while(|slot| self.viewed(slot)).collect::<Vec<_>>();
        self.index.get_or_init(|| index_of(&tools()))
    }

    /// The tool at a place.
    pub(crate) fn viewed(&self, slot: Slot) -> Option<ViewedTool> {
        let (tool, by) = self.tools.get(slot as usize)?;
        Some(ViewedTool::provided(Arc::clone(tool), Arc::clone(by)))
    }

    /// Whether it still is what they offer.
    pub(crate) fn is_all_of(&self, providers: &Providers) -> bool {
        Arc::ptr_eq(&self.providers, providers) && self.so_far == count(&self.changes)
    }
}

/// How often their tools have changed.
fn count(changes: &[watch::Receiver<Changes>]) -> u64 {
    changes.iter().map(|changes| changes.borrow().tools).sum()
}
