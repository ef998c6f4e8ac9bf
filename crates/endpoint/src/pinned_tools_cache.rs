//! Cache of the tools that stay in a list too long to be sent whole.

use std::sync::Arc;

use limits::LruCache;
use toolcrib::{AgentView, PinnedTools, ViewStamp};

use crate::tool_format::ToolFormat;

/// Maximum number of cached selections.
const MAX_CACHED_SELECTIONS: u64 = 4_096;

/// Cache of the pinned tools of `auto` lists. The key covers every input of the selection, so an entry is never stale.
pub(crate) struct PinnedToolsCache(LruCache<PinnedToolsKey, Arc<PinnedTools>>);

/// Cache key: stamp of the view, usage statistics, format and budget in bytes.
type PinnedToolsKey = (ViewStamp, u64, ToolFormat, u64);

impl Default for PinnedToolsCache {
    fn default() -> Self {
        Self(LruCache::new(MAX_CACHED_SELECTIONS))
    }
}

impl PinnedToolsCache {
    pub(crate) fn get_or_select(
        &self,
        view: &AgentView,
        format: ToolFormat,
        room: u64,
        choose: impl FnOnce() -> Arc<PinnedTools>,
    ) -> Arc<PinnedTools> {
        match view.stamp() {
            Some(stamp) => {
                self.0.get_with((stamp, view.usage_ranking_version(), format, room), choose)
            }
            None => choose(),
        }
    }
}
