//! All tools, by slot and by id, in shared chunks: changing one of 100,000 tools copies about a thousand pointers and
//! no tool.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use model::{Schema, ToolId};

use crate::tool::Tool;
use crate::tool_set::Slot;

/// A tool in the snapshot, with its schemas.
#[derive(Clone, Debug)]
pub struct CataloguedTool {
    pub slot: Slot,
    pub tool: Tool,
    /// Input schema that agents get. `None` while a document is missing; then the tool is not served.
    pub input_schema: Option<Schema>,
    /// Output schema that agents get.
    pub output_schema: Option<Schema>,
}

impl CataloguedTool {
    /// True if no document of the served version is missing.
    pub fn is_complete(&self) -> bool {
        self.tool.served_manifest().is_none_or(|manifest| {
            let has_output = manifest.output_schema.is_some() == self.output_schema.is_some();
            self.input_schema.is_some() && has_output
        })
    }

    /// Output schema if agents are promised one; a projection changes the shape of results, so none is promised then.
    pub fn promised_output_schema(&self) -> Option<&Schema> {
        self.output_schema.as_ref().filter(|_| self.tool.overridden.projection.is_none())
    }
}

const CHUNK_SLOTS: usize = 256;
const BUCKETS: usize = 512;

/// The table of all tools, cheap to clone.
#[derive(Clone)]
pub struct ToolTable {
    chunks: Vec<Arc<Vec<Option<Arc<CataloguedTool>>>>>,
    buckets: Vec<Arc<HashMap<ToolId, Slot>>>,
    hasher: RandomState,
    free: Arc<BTreeSet<Slot>>,
    len: usize,
}

impl Default for ToolTable {
    fn default() -> Self {
        let (drawers, hasher) = (vec![Arc::default(); BUCKETS], RandomState::new());
        Self { chunks: Vec::new(), buckets: drawers, hasher, free: Arc::default(), len: 0 }
    }
}

impl ToolTable {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn bucket_index(&self, id: &ToolId) -> usize {
        // The remainder is below BUCKETS, so the cast loses nothing.
        (self.hasher.hash_one(id) % BUCKETS as u64) as usize
    }

    pub(crate) fn find_slot(&self, id: &ToolId) -> Option<Slot> {
        self.buckets[self.bucket_index(id)].get(id).copied()
    }

    pub(crate) fn tool_at(&self, slot: Slot) -> Option<&Arc<CataloguedTool>> {
        self.chunks.get(slot as usize / CHUNK_SLOTS)?.get(slot as usize % CHUNK_SLOTS)?.as_ref()
    }

    pub(crate) fn get(&self, id: &ToolId) -> Option<&Arc<CataloguedTool>> {
        self.tool_at(self.find_slot(id)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<CataloguedTool>> {
        self.chunks.iter().flat_map(|shelf| shelf.iter().flatten())
    }

    /// The slot of a tool; a new tool gets the lowest free slot.
    pub(crate) fn slot_for(&mut self, id: &ToolId) -> Slot {
        if let Some(slot) = self.find_slot(id) {
            return slot;
        }
        let slot = match self.free.first() {
            Some(slot) => {
                let slot = *slot;
                Arc::make_mut(&mut self.free).remove(&slot);
                slot
            }
            None => {
                let full = self.chunks.last().is_none_or(|shelf| shelf.len() == CHUNK_SLOTS);
                if full {
                    self.chunks.push(Arc::new(Vec::with_capacity(CHUNK_SLOTS)));
                }
                let shelves = self.chunks.len();
                let shelf = Arc::make_mut(self.chunks.last_mut().expect("there is a shelf"));
                shelf.push(None);
                Slot::try_from((shelves - 1) * CHUNK_SLOTS + shelf.len() - 1)
                    .expect("fewer than four billion tools")
            }
        };
        let drawer = self.bucket_index(id);
        Arc::make_mut(&mut self.buckets[drawer]).insert(id.clone(), slot);
        self.len += 1;
        slot
    }

    /// The slots whose tools differ. Shared chunks are skipped.
    pub fn changed_slots(&self, other: &Self) -> Vec<Slot> {
        let mut slots = Vec::new();
        for number in 0..self.chunks.len().max(other.chunks.len()) {
            let both = (self.chunks.get(number), other.chunks.get(number));
            if matches!(both, (Some(one), Some(two)) if Arc::ptr_eq(one, two)) {
                continue;
            }
            let first = (number * CHUNK_SLOTS) as Slot;
            slots.extend((first..first + CHUNK_SLOTS as Slot).filter(|slot| {
                match (self.tool_at(*slot), other.tool_at(*slot)) {
                    (Some(one), Some(two)) => !Arc::ptr_eq(one, two),
                    (one, two) => one.is_some() != two.is_some(),
                }
            }));
        }
        slots
    }

    pub(crate) fn put_tool(&mut self, tool: CataloguedTool) {
        let slot = tool.slot as usize;
        Arc::make_mut(&mut self.chunks[slot / CHUNK_SLOTS])[slot % CHUNK_SLOTS] =
            Some(Arc::new(tool));
    }

    pub(crate) fn remove_tool(&mut self, id: &ToolId) -> Option<Slot> {
        let drawer = self.bucket_index(id);
        let slot = Arc::make_mut(&mut self.buckets[drawer]).remove(id)?;
        Arc::make_mut(&mut self.chunks[slot as usize / CHUNK_SLOTS])[slot as usize % CHUNK_SLOTS] =
            None;
        Arc::make_mut(&mut self.free).insert(slot);
        self.len -= 1;
        Some(slot)
    }
}
