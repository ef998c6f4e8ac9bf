//! Ranking of the most used tools, for lists that have space for only a few (requirement A6).
//!
//! It counts the calls of all callers and is refreshed periodically: if it changed with every call, clients would
//! reload their lists with every call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use call_log::{UsageKind, UsagePage};
use calls::call_recorder::CallRecorder;
use model::ToolId;

/// Maximum length of the ranking: as many tools as a catalog usually has, since an agent's own tools may rank low.
const MAX_RANKED_TOOLS: usize = 100_000;
/// Interval between refreshes.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// The current ranking of the most used tools.
#[derive(Default)]
pub(crate) struct CurrentRanking(ArcSwap<UsageRanking>);

/// A ranking of tools by use at one time.
#[derive(Debug, Default)]
pub(crate) struct UsageRanking {
    /// Increases whenever the order changes.
    pub(crate) version: u64,
    /// The rank of each tool, starting with the most used.
    pub(crate) ranks: HashMap<ToolId, usize>,
}

impl CurrentRanking {
    pub(crate) fn current_ranking(&self) -> Arc<UsageRanking> {
        self.0.load_full()
    }

    pub(crate) async fn refresh_ranking(&self, recorder: &CallRecorder) {
        let most = UsagePage::first_page(UsageKind::Tool, MAX_RANKED_TOOLS);
        let used = match recorder.records().most_used(most).await {
            Ok(used) => used,
            Err(error) => {
                return tracing::warn!(%error, "the most used tools stay as they were: {error}");
            }
        };
        let ids = used.iter().filter_map(|(name, _)| name.parse().ok());
        let places: HashMap<ToolId, usize> = ids.zip(0..).collect();
        let before = self.current_ranking();
        if before.ranks != places {
            self.0.store(Arc::new(UsageRanking { version: before.version + 1, ranks: places }));
        }
    }

    pub(crate) async fn refresh_periodically(&self, recorder: &CallRecorder) {
        loop {
            self.refresh_ranking(recorder).await;
            tokio::time::sleep(REFRESH_INTERVAL).await;
        }
    }
}
