//! Recent snapshots: a client that reconnects learns what changed meanwhile, without reading the journal.
//!
//! Snapshots share structure, so keeping a few more costs little. The cost grows with their age, as they share less and
//! less.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catalog::Snapshot;
use catalog::journal::Position;

const MAX_SNAPSHOTS: usize = 64;
const MAX_AGE: Duration = Duration::from_secs(600);

#[derive(Default)]
pub(crate) struct RecentSnapshots(Mutex<VecDeque<(Instant, Arc<Snapshot>)>>);

impl RecentSnapshots {
    pub(crate) fn add_snapshot(&self, snapshot: &Arc<Snapshot>) {
        let mut kept = self.0.lock().expect("no one panics while holding it");
        if kept.back().is_some_and(|(_, last)| snapshot.position() <= last.position()) {
            return;
        }
        let now = Instant::now();
        while kept.front().is_some_and(|(at, _)| MAX_SNAPSHOTS <= kept.len() || MAX_AGE < now - *at)
        {
            kept.pop_front();
        }
        kept.push_back((now, Arc::clone(snapshot)));
    }

    /// The latest snapshot that is not newer than this position.
    pub(crate) fn at_or_before(&self, position: Position) -> Option<Arc<Snapshot>> {
        let kept = self.0.lock().expect("no one panics while holding it");
        let found = kept.iter().rev().find(|(_, snapshot)| snapshot.position() <= position);
        found.map(|(_, snapshot)| Arc::clone(snapshot))
    }
}

#[cfg(test)]
mod tests {
    use catalog::journal::ChangeContext;
    use catalog::label::LabelCommand;
    use catalog::{Catalog, Command};

    use super::*;
    use crate::{JournalLocation, SystemClock};

    #[tokio::test]
    async fn the_latest_snapshot_not_newer_than_a_position_is_found() {
        let journal = JournalLocation::Memory.open(SystemClock).await.unwrap();
        let catalog = Catalog::open(journal).await.unwrap();
        let recent = RecentSnapshots::default();
        let mut first = catalog.snapshot();
        recent.add_snapshot(&first);
        for number in 0..70 {
            let profile = serde_json::from_str(r#"{"name": "l"}"#).unwrap();
            let id = format!("l{number}").parse().unwrap();
            let command = Command::Label(id, LabelCommand::Create(profile));
            catalog.execute(command, ChangeContext::by_actor("test"), None).await.unwrap();
            // Add every second snapshot, and an older one again.
            if number % 2 == 1 {
                recent.add_snapshot(&catalog.snapshot());
                recent.add_snapshot(&first);
            }
            first = catalog.snapshot();
        }
        let at = |position| recent.at_or_before(Position(position)).map(|found| found.position().0);
        assert_eq!((at(70), at(99), at(7), at(8)), (Some(70), Some(70), Some(6), Some(8)));
        assert_eq!((at(1), at(0)), (Some(0), Some(0)));
        assert_eq!(recent.0.lock().unwrap().len(), 36);
    }
}
