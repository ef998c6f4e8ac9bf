//! The tools that are called most, for lists that have room for only a few (requirement A6).
//!
//! Counted over all callers, looked up now and then: a list that changed with every call would be read again with every call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use catalog::record::{UsageOf, UsagePage};
use model::ToolId;

use crate::record::Recorder;

/// How many are known: as many as a catalog usually has, since an agent's own may be far behind those of others.
const MOST: usize = 100_000;
/// How often they are looked up.
const EVERY: Duration = Duration::from_secs(10 * 60);

/// The tools that are called most.
#[derive(Default)]
pub(crate) struct MostUsed(ArcSwap<Ranking>);

/// Their order at one time.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    /// Another number, another order.
    pub(crate) number: u64,
    /// The place of each, the most used first.
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
