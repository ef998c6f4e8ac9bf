//! Pinned tools: the most used tools, listed next to `tool_search` and `execute_tool` where the full list would be too
//! long (requirement A6).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use catalog::tool_set::{Slot, ToolSet};

use super::{AgentView, ViewedTool};

/// Maximum number of tools that are tried: if one does not fit, smaller ones still may.
const MAX_CANDIDATES: usize = 200;

/// A subset of one agent's tools that stays in the list.
#[derive(Debug)]
pub struct PinnedTools {
    /// Unique per instance, as part of cache keys.
    serial: u64,
    slots: ToolSet,
}

impl PinnedTools {
    fn new(slots: ToolSet) -> Arc<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self { serial: NUMBER.fetch_add(1, Ordering::Relaxed), slots })
    }

    /// No pinned tools.
    pub fn empty() -> Arc<Self> {
        static NOTHING: LazyLock<Arc<PinnedTools>> =
            LazyLock::new(|| PinnedTools::new(ToolSet::default()));
        Arc::clone(&NOTHING)
    }

    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    pub(super) fn contains(&self, slot: Slot) -> bool {
        self.slots.contains(slot)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

impl AgentView {
    /// Version of the usage ranking: a selection made from one ranking can be cached under it.
    pub fn usage_ranking_version(&self) -> u64 {
        self.crib.most_used().version
    }

    /// The most used listed tools whose sizes sum up to at most `room`; `size` returns the size of one tool.
    pub fn most_used_tools(
        &self,
        room: u64,
        size: impl Fn(&ViewedTool) -> u64,
    ) -> Arc<PinnedTools> {
        let (ranking, mut left, mut slots) = (self.crib.most_used(), room, ToolSet::default());
        let mine = self.toolset.listed().iter().filter_map(|slot| self.snapshot.tool_at(slot));
        let mut mine: Vec<_> =
            mine.filter_map(|entry| Some((*ranking.ranks.get(&entry.tool.id)?, entry))).collect();
        mine.sort_unstable_by_key(|(place, _)| *place);
        for (_, entry) in mine.into_iter().take(MAX_CANDIDATES) {
            let size = size(&self.to_viewed_tool(entry));
            if size <= left {
                left -= size;
                slots.set_member(entry.slot, true);
            }
        }
        if slots.is_empty() { PinnedTools::empty() } else { PinnedTools::new(slots) }
    }
}
