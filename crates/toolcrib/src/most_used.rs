//! Ranking of the most used tools, for lists that have space for only a few (requirement A6).
//!
//! It counts the calls of all callers and is refreshed periodically: if it changed with every call, clients would
//! reload their lists with every call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use catalog::record::{UsageOf, UsagePage};
use model::ToolId;

use crate::record::Recorder;

/// Maximum length of the ranking: as many tools as a catalog usually has, since an agent's own tools may rank low.
const MOST: usize = 100_000;
/// Interval between refreshes.
const EVERY: Duration = Duration::from_secs(10 * 60);

/// The current ranking of the most used tools.
#[derive(Default)]
pub(crate) struct MostUsed(ArcSwap<Ranking>);

/// A ranking of tools by use at one time.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    /// Increases whenever the order changes.
    pub(crate) number: u64,
    /// The rank of each tool, starting with the most used.
    pub(crate) places: HashMap<ToolId, usize>,
}

impl MostUsed {
    pub(crate) fn now(&self) -> Arc<Ranking> {
        self.0.load_full()
    }

    pub(crate) async fn look_up(&self, recorder: &Recorder) {
        let most = UsagePage::first(UsageOf::Tool, MOST);
        let used = match recorder.records().most_used(most).await {
            Ok(used) => used,
            Err(error) => {
                return tracing::warn!(%error, "the most used tools stay as they were: {error}");
            }
        };
        let ids = used.iter().filter_map(|(name, _)| name.parse().ok());
        let places: HashMap<ToolId, usize> = ids.zip(0..).collect();
        let before = self.now();
        if before.places != places {
            self.0.store(Arc::new(Ranking { number: before.number + 1, places }));
        }
    }

    pub(crate) async fn keep_up(&self, recorder: &Recorder) {
        loop {
            self.look_up(recorder).await;
            tokio::time::sleep(EVERY).await;
        }
    }
}
