//! What is ready to be called: compiled once, kept as long as the tool and its source are as they are.
//!
//! Everything is kept under the very objects it was made from, and keeps them: no other can come to lie at their place,
//! and what changes is another object.

use std::sync::Arc;

use catalog::{CataloguedSource, CataloguedTool};
use execution::{Arguments, Others};
use model::{Cache, Failure, SourceId};
use serde_json::Value;
use upstream::Room;
use upstream::http::HttpClient;

use crate::provider::ProvidedTool;
use crate::view::Ready;

/// How many tools stay compiled, if they are small.
const KEPT: u64 = 2_000;
/// Of how many sources it is known which of their long answers are read.
const SOURCES: u64 = 10_000;
/// How many long answers of a source are read at the same time.
pub(crate) const LONG_ANSWERS: usize = 8;

type Catalogued = (Arc<CataloguedTool>, Arc<CataloguedSource>, Arc<Ready>);
type Provided = (Arc<ProvidedTool>, Arc<Arguments>);

pub(crate) struct ReadyTools {
    catalogued: Cache<(usize, usize), Arc<Catalogued>>,
    provided: Cache<usize, Provided>,
    /// For the long answers of each source, whichever tool they are of.
    rooms: Cache<SourceId, Room>,
}

impl ReadyTools {
    pub(crate) fn new() -> Self {
        let catalogued = Cache::weighing(KEPT, |_, kept: &Arc<Catalogued>| kept.2.weight());
        let provided = Cache::weighing(KEPT, |_, kept: &Provided| kept.1.weight());
        Self { catalogued, provided, rooms: Cache::new(SOURCES) }
    }

    pub(crate) fn catalogued(
        &self,
        entry: &Arc<CataloguedTool>,
        source: &Arc<CataloguedSource>,
        client: &HttpClient,
    ) -> Result<Arc<Ready>, Failure> {
        let key = (Arc::as_ptr(entry) as usize, Arc::as_ptr(source) as usize);
        if let Some(kept) = self.catalogued.get(&key) {
            return Ok(Arc::clone(&kept.2));
        }
        let room = self.rooms.get_with(source.source.id.clone(), || Room::of(LONG_ANSWERS));
        let ready = Arc::new(Ready::new(entry, source, (client, room))?);
        let kept = (Arc::clone(entry), Arc::clone(source), Arc::clone(&ready));
        self.catalogued.insert(key, Arc::new(kept));
        Ok(ready)
    }

    pub(crate) fn provided(&self, tool: &Arc<ProvidedTool>) -> Arc<Arguments> {
        let key = Arc::as_ptr(tool) as usize;
        let compile = || (Arc::clone(tool), arguments(&tool.input_schema));
        self.provided.get_with(key, compile).1
    }
}

/// Compiled anew: for schemas that are small and seldom asked for.
pub(crate) fn arguments(schema: &Value) -> Arc<Arguments> {
    Arc::new(Arguments::compile(schema, Others::Sent))
}
