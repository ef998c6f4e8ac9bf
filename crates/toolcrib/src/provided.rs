//! The shared providers with their tools, cached until one of them reports a change.

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
    /// Unique per instance, as part of cache keys.
    pub(crate) serial: u64,
    pub(crate) providers: Providers,
    /// The tools with their providers; of several with one name, the first.
    pub(crate) tools: Vec<(Arc<ProvidedTool>, Arc<dyn ToolProvider>)>,
    /// Whether some of the tools are found by search only.
    pub(crate) is_searched: bool,
    changes: Vec<watch::Receiver<Changes>>,
    so_far: u64,
    /// Built by the first search.
    index: OnceLock<SearchIndex>,
}

static SERIAL: AtomicU64 = AtomicU64::new(1);

impl Provided {
    pub(crate) fn of(providers: Providers) -> Self {
        // Subscribe before listing: a change during the listing makes this snapshot stale.
        let changes: Vec<_> = providers.iter().flat_map(|provider| provider.changes()).collect();
        let so_far = count(&changes);
        let tools = offers(&providers);
        let is_searched = tools.iter().any(|(tool, _)| tool.visibility == Visibility::Searchable);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let index = OnceLock::new();
        Self { serial, providers, tools, is_searched, changes, so_far, index }
    }

    /// Search index of the tools, each under its position.
    pub(crate) fn index(&self) -> &SearchIndex {
        let tools = || (0..).map_while(|slot| self.viewed(slot)).collect::<Vec<_>>();
        self.index.get_or_init(|| index_of(&tools()))
    }

    /// The tool at a position.
    pub(crate) fn viewed(&self, slot: Slot) -> Option<ViewedTool> {
        let (tool, by) = self.tools.get(slot as usize)?;
        Some(ViewedTool::provided(Arc::clone(tool), Arc::clone(by)))
    }

    /// Whether the snapshot still matches the providers.
    pub(crate) fn is_all_of(&self, providers: &Providers) -> bool {
        Arc::ptr_eq(&self.providers, providers) && self.so_far == count(&self.changes)
    }
}

/// How often the tools of the providers changed.
fn count(changes: &[watch::Receiver<Changes>]) -> u64 {
    changes.iter().map(|changes| changes.borrow().tools).sum()
}
