//! Cache of compiled tools: an entry is valid as long as the tool and its source are unchanged.
//!
//! The cache key is the address of the objects that an entry was compiled from. The entry keeps them alive, so no other
//! object can get the same address, and a changed tool is a different object.

use std::sync::Arc;

use catalog::{CataloguedSource, CataloguedTool};
use execution::{Arguments, Others};
use model::{Cache, Failure, SourceId};
use serde_json::Value;
use upstream::Room;
use upstream::http::HttpClient;

use crate::provider::ProvidedTool;
use crate::view::Ready;

/// Maximum total weight of compiled tools: their number, if they are small.
const KEPT: u64 = 2_000;
/// Maximum number of sources whose long answers are limited separately.
const SOURCES: u64 = 10_000;
/// Maximum number of long answers of one source that are read at the same time.
pub(crate) const LONG_ANSWERS: usize = 8;

type Catalogued = (Arc<CataloguedTool>, Arc<CataloguedSource>, Arc<Ready>);
type Provided = (Arc<ProvidedTool>, Arc<Arguments>);

pub(crate) struct ReadyTools {
    catalogued: Cache<(usize, usize), Arc<Catalogued>>,
    provided: Cache<usize, Provided>,
    /// Limits the long answers of each source, across all its tools.
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

/// Compiles a schema without caching it: for small schemas that are rarely needed.
pub(crate) fn arguments(schema: &Value) -> Arc<Arguments> {
    Arc::new(Arguments::compile(schema, Others::Sent))
}
