//! Cache of compiled tools: an entry is valid as long as the tool and its source are unchanged.
//!
//! The cache key is the address of the objects that an entry was compiled from. The entry keeps them alive, so no other
//! object can get the same address, and a changed tool is a different object.

use std::sync::Arc;

use catalog::{CataloguedSource, CataloguedTool};
use execution::{ArgumentValidator, UndeclaredArguments};
use limits::LruCache;
use model::{CallFailure, SourceId};
use provider::ProvidedTool;
use serde_json::Value;
use upstream::LargeBodyLimiter;
use upstream::http::HttpClient;

use crate::compiled_tool::CompiledTool;
use crate::source_gates::LONG_ANSWERS_PER_SOURCE;

/// Maximum total weight of compiled tools: their number, if they are small.
const MAX_COMPILED_WEIGHT: u64 = 2_000;
/// Maximum number of sources whose long answers are limited separately.
const MAX_LIMITED_SOURCES: u64 = 10_000;

type CachedCatalogTool = (Arc<CataloguedTool>, Arc<CataloguedSource>, Arc<CompiledTool>);
type CachedProviderTool = (Arc<ProvidedTool>, Arc<ArgumentValidator>);

pub struct CompiledToolCache {
    catalogued: LruCache<(usize, usize), Arc<CachedCatalogTool>>,
    provided: LruCache<usize, CachedProviderTool>,
    /// Limits the long answers of each source, across all its tools.
    long_answer_limits: LruCache<SourceId, LargeBodyLimiter>,
}

impl CompiledToolCache {
    pub fn empty() -> Self {
        let catalogued =
            LruCache::with_weight(MAX_COMPILED_WEIGHT, |_, kept: &Arc<CachedCatalogTool>| {
                kept.2.weight()
            });
        let provided =
            LruCache::with_weight(MAX_COMPILED_WEIGHT, |_, kept: &CachedProviderTool| {
                kept.1.relative_size()
            });
        Self { catalogued, provided, long_answer_limits: LruCache::new(MAX_LIMITED_SOURCES) }
    }

    pub fn catalog_tool(
        &self,
        entry: &Arc<CataloguedTool>,
        source: &Arc<CataloguedSource>,
        client: &HttpClient,
    ) -> Result<Arc<CompiledTool>, CallFailure> {
        let key = (Arc::as_ptr(entry) as usize, Arc::as_ptr(source) as usize);
        if let Some(kept) = self.catalogued.get(&key) {
            return Ok(Arc::clone(&kept.2));
        }
        let room = self.long_answer_limits.get_with(source.source.id.clone(), || {
            LargeBodyLimiter::with_slots(LONG_ANSWERS_PER_SOURCE)
        });
        let ready = Arc::new(CompiledTool::new(entry, source, (client, room))?);
        let kept = (Arc::clone(entry), Arc::clone(source), Arc::clone(&ready));
        self.catalogued.insert(key, Arc::new(kept));
        Ok(ready)
    }

    pub fn provider_arguments(&self, tool: &Arc<ProvidedTool>) -> Arc<ArgumentValidator> {
        let key = Arc::as_ptr(tool) as usize;
        let compile = || (Arc::clone(tool), compile_arguments(&tool.input_schema));
        self.provided.get_with(key, compile).1
    }
}

/// Compiles a schema without caching it: for small schemas that are rarely needed.
pub(crate) fn compile_arguments(schema: &Value) -> Arc<ArgumentValidator> {
    Arc::new(ArgumentValidator::compile(schema, UndeclaredArguments::Sent))
}
