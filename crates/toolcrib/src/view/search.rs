//! Searches the tools, prompts and resources of an agent.
//!
//! Only the toolset counts: hits, order and scores are the same as if nothing else existed (the crate `search`), so they
//! reveal nothing about other tools.

mod offer_search;

use std::sync::Arc;
use std::time::Instant;

use calls::identity::CallerIdentity;
use catalog::tool_set::{Slot, ToolSet};
use model::{Agent, Claims};
use search::{RankingWeights, SearchHit, SearchIndex, fuse_hits, search_tools};

use super::{AgentView, ViewedTool};
use crate::crib::Toolcrib;
use crate::provider_snapshot::{ProviderSnapshot, index_tools};
use crate::search_hit::{ToolHit, round_score};
use crate::toolset::Toolset;

pub use offer_search::OfferHit;

/// Maximum number of hits of one search.
const MAX_HITS: usize = 100;
/// A search among this many tools takes less than a millisecond and runs inline.
const MAX_INLINE_TOOLS: usize = 512;

impl AgentView {
    /// The listed and searchable tools that match, best first. An empty query matches all.
    pub async fn search(&self, query: &str, limit: usize) -> Vec<ToolHit> {
        let start = Instant::now();
        let (query, limit) = (query.trim(), limit.min(MAX_HITS));
        let hints = self.crib.hints().filter(|_| !query.is_empty());
        // A hint may raise a hit from below the limit.
        let wanted = if hints.is_some() { MAX_HITS } else { limit };
        let mut found = self.search_tools(query, wanted).await;
        if let Some(hints) = hints {
            hints.boost_hits(&self.agent, query, &mut found);
            found.truncate(limit);
        }
        self.crib.telemetry().record_search(found.len(), start.elapsed());
        found
    }

    /// The same search for an admin's trial: not counted, and without the hints from earlier calls.
    async fn search_for_trial(&self, query: &str, limit: usize) -> Vec<ToolHit> {
        self.search_tools(query.trim(), limit.min(MAX_HITS)).await
    }

    async fn search_tools(&self, query: &str, limit: usize) -> Vec<ToolHit> {
        let mine = self.toolset.listed().union(self.toolset.searchable());
        if query.is_empty() {
            return self
                .all_tools_in(&mine)
                .take(limit)
                .map(|tool| ToolHit { tool, score: 0.0 })
                .collect();
        }
        let slots: ToolSet = self.shared_provided_slots().collect();
        // Few tools, and different ones for each request: index them now.
        let own: Vec<ViewedTool> = self.request_provided_tools().collect();
        let provided = (!slots.is_empty()).then(|| ExtraIndex::of_providers(&self.provided, slots));
        let of_request =
            (!own.is_empty()).then(|| ExtraIndex::for_this_search(index_tools(&own), own.len()));
        let is_provided_first = provided.is_some();
        let others: Vec<ExtraIndex> = provided.into_iter().chain(of_request).collect();
        let found = match self.crib.meaning() {
            None => self.rank_documents(&mine, &others, query, limit).await,
            Some(meaning) => {
                let by_words = self.rank_documents(&mine, &others, query, MAX_HITS).await;
                let near = meaning.find_nearest(query, &self.snapshot, &mine, MAX_HITS).await;
                fuse_hits(by_words, &near, query, limit, &RankingWeights::default())
            }
        };
        let hits = found.into_iter().filter_map(|SearchHit { index_number: part, slot, score }| {
            let tool = match part {
                0 => self.to_viewed_tool(self.snapshot.tool_at(slot)?),
                1 if is_provided_first => self.provided.viewed_tool_at(slot)?,
                _ => own.get(slot as usize)?.clone(),
            };
            Some(ToolHit { tool, score: round_score(score.into()) })
        });
        self.put_exact_names_first(query, &mine, hits.collect(), limit)
    }

    /// Ranks catalog documents and extra ones. A search that may take long runs on the blocking pool.
    async fn rank_documents(
        &self,
        mine: &ToolSet,
        others: &[ExtraIndex],
        query: &str,
        limit: usize,
    ) -> Vec<SearchHit> {
        let indexed = self.crib.finder().index_for(&self.snapshot).await;
        let (mine, others, query) = (mine.clone(), others.to_vec(), query.to_owned());
        let all = mine.len() + others.iter().map(|other| other.slots.len()).sum::<usize>();
        let work = move || {
            let others = others.iter().map(|other| (other.of.search_index(), &*other.slots));
            let parts: Vec<_> = [(&indexed.index, &mine)].into_iter().chain(others).collect();
            search_tools(&parts, &query, limit)
        };
        if all <= MAX_INLINE_TOOLS {
            return work();
        }
        let found = tokio::task::spawn_blocking(work).await;
        found.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    /// Puts tools with exactly this name, in any of its forms, first.
    fn put_exact_names_first(
        &self,
        query: &str,
        mine: &ToolSet,
        mut hits: Vec<ToolHit>,
        limit: usize,
    ) -> Vec<ToolHit> {
        let called = self.snapshot.tools_named_within(query, mine);
        let mut called: Vec<ToolHit> =
            called.map(|entry| ToolHit { tool: self.to_viewed_tool(entry), score: 1.0 }).collect();
        called.sort_by(|one, two| one.tool.id().cmp(&two.tool.id()));
        for (place, hit) in called.into_iter().enumerate() {
            hits.retain(|other| other.tool.id().is_none() || other.tool.id() != hit.tool.id());
            hits.insert(place.min(hits.len()), hit);
        }
        hits.truncate(limit);
        hits
    }

    /// All tools ordered by id, those of providers last.
    fn all_tools_in(&self, mine: &ToolSet) -> impl Iterator<Item = ViewedTool> {
        let mut tools: Vec<_> =
            mine.iter().filter_map(|slot| self.snapshot.tool_at(slot)).collect();
        tools.sort_unstable_by(|one, two| one.tool.id.cmp(&two.tool.id));
        tools.into_iter().map(|entry| self.to_viewed_tool(entry)).chain(self.provided_tools())
    }
}

impl Toolcrib {
    /// The hits for these claims; without claims, among all catalog tools, served or not. For admins.
    pub async fn try_search(
        &self,
        claims: Option<Claims>,
        query: &str,
        limit: usize,
    ) -> Vec<ToolHit> {
        let nobody = CallerIdentity::anonymous().agent;
        let view = match claims {
            Some(claims) => self.uncached_view(&Agent { claims: Arc::new(claims), ..nobody }),
            None => {
                let snapshot = self.catalog().snapshot();
                let toolset = Arc::new(Toolset::all_tools(&snapshot));
                AgentView::new(self.clone(), snapshot, nobody, toolset)
            }
        };
        view.search_for_trial(query, limit).await
    }
}

/// An index that is searched in addition to the catalog's.
#[derive(Clone)]
struct ExtraIndex {
    of: Arc<dyn SearchIndexed>,
    slots: Arc<ToolSet>,
}

/// Something that has a search index. The first access may build it and take a moment.
trait SearchIndexed: Send + Sync {
    fn search_index(&self) -> &SearchIndex;
}

impl SearchIndexed for SearchIndex {
    fn search_index(&self) -> &SearchIndex {
        self
    }
}

impl SearchIndexed for ProviderSnapshot {
    fn search_index(&self) -> &SearchIndex {
        self.tool_index()
    }
}

impl ExtraIndex {
    fn of_providers(provided: &Arc<ProviderSnapshot>, slots: ToolSet) -> Self {
        Self { of: Arc::<ProviderSnapshot>::clone(provided), slots: Arc::new(slots) }
    }

    /// All of an index that was built for this search.
    fn for_this_search(index: SearchIndex, length: usize) -> Self {
        Self { of: Arc::new(index), slots: Arc::new((0..length as Slot).collect()) }
    }
}
