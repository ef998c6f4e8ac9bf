//! A limit on how much a source may change in an hour. The journal keeps every change of a tool permanently, so a
//! source whose tools differ at each refresh would fill it.
//!
//! The first inventory is free, and the first change of an hour may have any size: a new version of an API is one. Each
//! node counts for itself, and starts from zero after a restart.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use catalog::Snapshot;
use catalog::source::SyncError;
use catalog::tool::ToolStatus;
use jiff::{SignedDuration, Timestamp};
use json::json_size::serialized_size;
use model::{Inventory, SourceId};

const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// The most tools that may change in an hour, and the most bytes for them, after the first change.
const TOOLS: usize = 1_000;
const BYTES: u64 = 16 * 1024 * 1024;

/// How much a source has changed within an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceChanges {
    /// When that hour began.
    pub since: Timestamp,
    /// Tools that were new, different or gone.
    pub tools: usize,
    /// The approximate size of the stored changes.
    pub bytes: u64,
    /// Refreshes whose changes were rejected.
    pub held_back: u64,
}

/// The size of the changes of one refresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InventoryChange {
    tools: usize,
    bytes: u64,
}

#[derive(Default)]
pub(super) struct ChangeLimits(Mutex<HashMap<SourceId, SourceChanges>>);

impl ChangeLimits {
    /// Counts a change, or rejects it if the source has changed too much.
    pub(super) fn count_change(
        &self,
        source: &SourceId,
        change: InventoryChange,
        force: bool,
        now: Timestamp,
    ) -> Result<(), SyncError> {
        if change == InventoryChange::default() {
            return Ok(());
        }
        let mut all = self.lock_counts();
        all.retain(|_, known| !has_ended(known, now));
        let unchanged = SourceChanges { since: now, tools: 0, bytes: 0, held_back: 0 };
        let known = all.entry(source.clone()).or_insert(unchanged);
        let (tools, bytes) = (known.tools + change.tools, known.bytes + change.bytes);
        let is_first = (known.tools, known.bytes) == (0, 0);
        if !(force || is_first || (tools <= TOOLS && bytes <= BYTES)) {
            known.held_back += 1;
            return Err(too_many_changes(known, change));
        }
        (known.tools, known.bytes) = (tools, bytes);
        Ok(())
    }

    /// The changes of a source within its current hour.
    pub(super) fn changes_of_source(
        &self,
        source: &SourceId,
        now: Timestamp,
    ) -> Option<SourceChanges> {
        self.lock_counts().get(source).filter(|known| !has_ended(known, now)).copied()
    }

    fn lock_counts(&self) -> MutexGuard<'_, HashMap<SourceId, SourceChanges>> {
        self.0.lock().expect("no one panics while counting")
    }
}

impl InventoryChange {
    /// The size of ingesting an inventory; zero for the first one of a source.
    pub(super) fn from_inventory(snapshot: &Snapshot, inventory: &Inventory) -> Self {
        let Some(entry) = snapshot.source(&inventory.source) else { return Self::default() };
        let Some(known) = &entry.source.inventory else { return Self::default() };
        let mut change = Self::default();
        if known.warnings != inventory.warnings {
            change.bytes += serialized_size(&inventory.warnings);
        }
        if known.fingerprint == inventory.fingerprint {
            return change;
        }
        // A definition that several tools share is stored once.
        let mut documents = HashSet::new();
        for (id, found) in &inventory.tools {
            let known = snapshot.tool(id).map(|entry| &entry.tool);
            let is_same = |tool: &catalog::tool::Tool| {
                tool.fingerprint == found.fingerprint && tool.status == ToolStatus::Active
            };
            if known.is_some_and(is_same) {
                continue;
            }
            change.tools += 1;
            change.bytes += serialized_size(&*found.manifest);
            for document in &found.documents {
                if documents.insert(document.digest) {
                    change.bytes += document.text.as_str().len() as u64;
                }
            }
        }
        let known = entry.tools.iter().filter_map(|slot| snapshot.tool_at(slot));
        let is_gone = |tool: &catalog::tool::Tool| {
            tool.status == ToolStatus::Active && !inventory.tools.contains_key(&tool.id)
        };
        change.tools += known.filter(|entry| is_gone(&entry.tool)).count();
        change
    }
}

fn has_ended(known: &SourceChanges, now: Timestamp) -> bool {
    HOUR <= now.duration_since(known.since)
}

fn too_many_changes(known: &SourceChanges, change: InventoryChange) -> SyncError {
    let (SourceChanges { tools, bytes, .. }, more) = (known, change);
    let message = format!(
        "the source changes too much: {tools} tools ({bytes} bytes) within an hour, and now {} more ({} bytes), where \
         {TOOLS} tools or {BYTES} bytes are the most; look why its tools are others at each refresh, then refresh it with \
         `force`, or wait: after the hour it is refreshed as usual",
        more.tools, more.bytes
    );
    SyncError { code: "changes_too_much".into(), message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_change_of_an_hour_may_be_large_and_later_ones_are_counted() {
        let (changes, source) = (ChangeLimits::default(), "pets".parse().unwrap());
        let start = Timestamp::from_second(1_800_000_000).unwrap();
        let allow = |tools, bytes, force, minutes| {
            let now = start + SignedDuration::from_mins(minutes);
            changes.count_change(&source, InventoryChange { tools, bytes }, force, now).is_ok()
        };
        assert!(allow(0, 0, false, 0) && changes.changes_of_source(&source, start).is_none());
        assert!(allow(9_000, 1, false, 0), "a new version of an API");
        assert!(!allow(1, 1, false, 59));
        assert!(allow(1, 1, true, 59), "whoever forces it has looked");
        assert!(allow(TOOLS, 1, false, 60) && !allow(1, 1, false, 61));
        assert_eq!(changes.changes_of_source(&source, start + HOUR).unwrap().held_back, 1);
        assert!(allow(1, BYTES, false, 120) && !allow(0, 1, false, 121));
        assert_eq!(changes.changes_of_source(&source, start + HOUR * 4), None);
    }
}
