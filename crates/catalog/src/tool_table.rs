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
    pub fn promised_output(&self) -> Option<&Schema> {
        self.output_schema.as_ref().filter(|_| self.tool.overridden.projection.is_none())
    }
}

const SHELF: usize = 256;
const DRAWERS: usize = 512;

/// The table of all tools, cheap to clone.
#[derive(Clone)]
pub(crate) struct ToolTable {
    shelves: Vec<Arc<Vec<Option<Arc<CataloguedTool>>>>>,
    drawers: Vec<Arc<HashMap<ToolId, Slot>>>,
    hasher: RandomState,
    free: Arc<BTreeSet<Slot>>,
    len: usize,
}

impl Default for ToolTable {
    fn default() -> Self {
        let (drawers, hasher) = (vec![Arc::default(); DRAWERS], RandomState::new());
        Self { shelves: Vec::new(), drawers, hasher, free: Arc::default(), len: 0 }
    }
}

impl ToolTable {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn drawer(&self, id: &ToolId) -> usize {
        // The remainder is below BUCKETS, so the cast loses nothing.
        (self.hasher.hash_one(id) % DRAWERS as u64) as usize
    }

    pub(crate) fn slot(&self, id: &ToolId) -> Option<Slot> {
        self.drawers[self.drawer(id)].get(id).copied()
    }

    pub(crate) fn at(&self, slot: Slot) -> Option<&Arc<CataloguedTool>> {
        self.shelves.get(slot as usize / SHELF)?.get(slot as usize % SHELF)?.as_ref()
    }

    pub(crate) fn get(&self, id: &ToolId) -> Option<&Arc<CataloguedTool>> {
        self.at(self.slot(id)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<CataloguedTool>> {
        self.shelves.iter().flat_map(|shelf| shelf.iter().flatten())
    }

    /// The slot of a tool; a new tool gets the lowest free slot.
    pub(crate) fn slot_for(&mut self, id: &ToolId) -> Slot {
        if let Some(slot) = self.slot(id) {
            return slot;
        }
        let slot = match self.free.first() {
            Some(slot) => {
                let slot = *slot;
                Arc::make_mut(&mut self.free).remove(&slot);
                slot
            }
            None => {
                let full = self.shelves.last().is_none_or(|shelf| shelf.len() == SHELF);
                if full {
                    self.shelves.push(Arc::new(Vec::with_capacity(SHELF)));
                }
                let shelves = self.shelves.len();
                let shelf = Arc::make_mut(self.shelves.last_mut().expect("there is a shelf"));
                shelf.push(None);
                Slot::try_from((shelves - 1) * SHELF + shelf.len() - 1)
                    .expect("fewer than four billion tools")
            }
        };
        let drawer = self.drawer(id);
        Arc::make_mut(&mut self.drawers[drawer]).insert(id.clone(), slot);
        self.len += 1;
        slot
    }

    /// The slots whose tools differ. Shared chunks are skipped.
    pub(crate) fn differing(&self, other: &Self) -> Vec<Slot> {
        let mut slots = Vec::new();
        for number in 0..self.shelves.len().max(other.shelves.len()) {
            let both = (self.shelves.get(number), other.shelves.get(number));
            if matches!(both, (Some(one), Some(two)) if Arc::ptr_eq(one, two)) {
                continue;
            }
            let first = (number * SHELF) as Slot;
            slots.extend((first..first + SHELF as Slot).filter(|slot| {
                match (self.at(*slot), other.at(*slot)) {
                    (Some(one), Some(two)) => !Arc::ptr_eq(one, two),
                    (one, two) => one.is_some() != two.is_some(),
                }
            }));
        }
        slots
    }

    pub(crate) fn put(&mut self, tool: CataloguedTool) {
        let slot = tool.slot as usize;
        Arc::make_mut(&mut self.shelves[slot / SHELF])[slot % SHELF] = Some(Arc::new(tool));
    }

    pub(crate) fn remove(&mut self, id: &ToolId) -> Option<Slot> {
        let drawer = self.drawer(id);
        let slot = Arc::make_mut(&mut self.drawers[drawer]).remove(id)?;
        Arc::make_mut(&mut self.shelves[slot as usize / SHELF])[slot as usize % SHELF] = None;
        Arc::make_mut(&mut self.free).insert(slot);
        self.len -= 1;
        Some(slot)
    }
}
