//! The shared providers with their tools, cached until one of them reports a change.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use catalog::tool_set::Slot;
use model::Visibility;
use provider::{ProvidedTool, ProviderChanges, ProviderList, ToolProvider, collect_tools};
use search::{SearchDocument, SearchField, SearchIndex};
use tokio::sync::watch;

use crate::viewed_tool::ViewedTool;

pub(crate) struct ProviderSnapshot {
    /// Unique per instance, as part of cache keys.
    pub(crate) serial: u64,
    pub(crate) providers: ProviderList,
    /// The tools with their providers; of several with one name, the first.
    pub(crate) tools: Vec<(Arc<ProvidedTool>, Arc<dyn ToolProvider>)>,
    /// Whether some of the tools are found by search only.
    pub(crate) is_searched: bool,
    changes: Vec<watch::Receiver<ProviderChanges>>,
    change_count: u64,
    /// Built by the first search.
    index: OnceLock<SearchIndex>,
}

static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

impl ProviderSnapshot {
    pub(crate) fn capture(providers: ProviderList) -> Self {
        // Subscribe before listing: a change during the listing makes this snapshot stale.
        let changes: Vec<_> = providers.iter().flat_map(|provider| provider.changes()).collect();
        let so_far = count_tool_changes(&changes);
        let tools = collect_tools(&providers);
        let is_searched = tools.iter().any(|(tool, _)| tool.visibility == Visibility::Searchable);
        let serial = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed);
        let index = OnceLock::new();
        Self { serial, providers, tools, is_searched, changes, change_count: so_far, index }
    }

    /// Search index of the tools, each under its position.
    pub(crate) fn tool_index(&self) -> &SearchIndex {
        let tools = || (0..).map_while(|slot| self.viewed_tool_at(slot)).collect::<Vec<_>>();
        self.index.get_or_init(|| index_tools(&tools()))
    }

    /// The tool at a position.
    pub(crate) fn viewed_tool_at(&self, slot: Slot) -> Option<ViewedTool> {
        let (tool, by) = self.tools.get(slot as usize)?;
        Some(ViewedTool::from_provider(Arc::clone(tool), Arc::clone(by)))
    }

    /// Whether the snapshot still matches the providers.
    pub(crate) fn is_current(&self, providers: &ProviderList) -> bool {
        Arc::ptr_eq(&self.providers, providers)
            && self.change_count == count_tool_changes(&self.changes)
    }
}

/// How often the tools of the providers changed.
fn count_tool_changes(changes: &[watch::Receiver<ProviderChanges>]) -> u64 {
    changes.iter().map(|changes| changes.borrow().tools).sum()
}

/// Builds a search index of tools, each under its position.
pub(crate) fn index_tools(tools: &[ViewedTool]) -> SearchIndex {
    let mut index = SearchIndex::default();
    index.put_tools((0..).zip(tools.iter().map(|tool| Cow::Owned(tool_document(tool)))));
    index
}

fn tool_document(tool: &ViewedTool) -> SearchDocument {
    let mut document = SearchDocument::new(tool.name(), tool.name());
    document.add_text(SearchField::Description, &tool.description());
    tool.keywords().iter().for_each(|keyword| document.add_keyword(keyword));
    document.add_parameters(&tool.input_schema());
    document
}
