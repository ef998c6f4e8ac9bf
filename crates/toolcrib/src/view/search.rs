//! Searches the tools, prompts and resources of an agent.
//!
//! Only the toolset counts: hits, order and scores are the same as if nothing else existed (`catalog::search`), so they
//! reveal nothing about other tools.

mod offers;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use catalog::search::{Document, Field, Found, SearchIndex, Weights, fused, search};
use catalog::tool_set::{Slot, ToolSet};
use model::{Agent, Claims};

use super::{AgentView, ViewedTool};
use crate::crib::Toolcrib;
use crate::identity::Identity;
use crate::provided::Provided;
use crate::toolset::Toolset;

pub use offers::OfferHit;

/// Maximum number of hits of one search.
const MOST: usize = 100;
/// A search among this many tools takes less than a millisecond and runs inline.
const QUICK: usize = 512;

/// A tool that matches a search.
#[derive(Clone)]
pub struct Hit {
    /// The matching tool.
    pub tool: ViewedTool,
    /// Relevance from 0 to 1.
    pub score: f64,
}

impl AgentView {
    /// The listed and searchable tools that match, best first. An empty query matches all.
    pub async fn search(&self, query: &str, limit: usize) -> Vec<Hit> {
        let start = Instant::now();
        let (query, limit) = (query.trim(), limit.min(MOST));
        let hints = self.crib.hints().filter(|_| !query.is_empty());
        // A hint may raise a hit from below the limit.
        let wanted = if hints.is_some() { MOST } else { limit };
        let mut found = self.hits(query, wanted).await;
        if let Some(hints) = hints {
            hints.apply(&self.agent, query, &mut found);
            found.truncate(limit);
        }
        self.crib.telemetry().searched(found.len(), start.elapsed());
        found
    }

    /// The same search for an admin's trial: not counted, and without the hints from earlier calls.
    async fn tried(&self, query: &str, limit: usize) -> Vec<Hit> {
        self.hits(query.trim(), limit.min(MOST)).await
    }

    async fn hits(&self, query: &str, limit: usize) -> Vec<Hit> {
        let mine = self.toolset.listed().union(self.toolset.searchable());
        if query.is_empty() {
            return self.all_of(&mine).take(limit).map(|tool| Hit { tool, score: 0.0 }).collect();
        }
        let slots: ToolSet = self.provided_for_all().collect();
        // Few tools, and different ones for each request: index them now.
        let own: Vec<ViewedTool> = self.provided_for_request().collect();
        let provided = (!slots.is_empty()).then(|| Other::provided(&self.provided, slots));
        let of_request = (!own.is_empty()).then(|| Other::made(index_of(&own), own.len()));
        let is_provided_first = provided.is_some();
        let others: Vec<Other> = provided.into_iter().chain(of_request).collect();
        let found = match self.crib.meaning() {
            None => self.ranked(&mine, &others, query, limit).await,
            Some(meaning) => {
                let by_words = self.ranked(&mine, &others, query, MOST).await;
                let near = meaning.near(query, &self.snapshot, &mine, MOST).await;
                fused(by_words, &near, query, limit, &Weights::default())
            }
        };
        let hits = found.into_iter().filter_map(|Found { part, slot, score }| {
            let tool = match part {
                0 => self.viewed(self.snapshot.tool_at(slot)?),
                1 if is_provided_first => self.provided.viewed(slot)?,
                _ => own.get(slot as usize)?.clone(),
            };
            Some(Hit { tool, score: rounded(score.into()) })
        });
        self.called(query, &mine, hits.collect(), limit)
    }

    /// Ranks catalog documents and extra ones. A search that may take long runs on the blocking pool.
    async fn ranked(
        &self,
        mine: &ToolSet,
        others: &[Other],
        query: &str,
        limit: usize,
    ) -> Vec<Found> {
        let indexed = self.crib.finder().at(&self.snapshot).await;
        let (mine, others, query) = (mine.clone(), others.to_vec(), query.to_owned());
        let all = mine.len() + others.iter().map(|other| other.slots.len()).sum::<usize>();
        let work = move || {
            let others = others.iter().map(|other| (other.of.index(), &*other.slots));
            let parts: Vec<_> = [(&indexed.index, &mine)].into_iter().chain(others).collect();
            search(&parts, &query, limit)
        };
        if all <= QUICK {
            return work();
        }
        let found = tokio::task::spawn_blocking(work).await;
        found.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    /// Puts tools with exactly this name, in any of its forms, first.
    fn called(&self, query: &str, mine: &ToolSet, mut hits: Vec<Hit>, limit: usize) -> Vec<Hit> {
        let called = self.snapshot.tools_called_in(query, mine);
        let mut called: Vec<Hit> =
            called.map(|entry| Hit { tool: self.viewed(entry), score: 1.0 }).collect();
        called.sort_by(|one, two| one.tool.id().cmp(&two.tool.id()));
        for (place, hit) in called.into_iter().enumerate() {
            hits.retain(|other| other.tool.id().is_none() || other.tool.id() != hit.tool.id());
            hits.insert(place.min(hits.len()), hit);
        }
        hits.truncate(limit);
        hits
    }

    /// All tools ordered by id, those of providers last.
    fn all_of(&self, mine: &ToolSet) -> impl Iterator<Item = ViewedTool> {
        let mut tools: Vec<_> =
            mine.iter().filter_map(|slot| self.snapshot.tool_at(slot)).collect();
        tools.sort_unstable_by(|one, two| one.tool.id.cmp(&two.tool.id));
        tools.into_iter().map(|entry| self.viewed(entry)).chain(self.provided())
    }
}

impl Toolcrib {
    /// The hits for these claims; without claims, among all catalog tools, served or not. For admins.
    pub async fn try_search(&self, claims: Option<Claims>, query: &str, limit: usize) -> Vec<Hit> {
        let nobody = Identity::anonymous().agent;
        let view = match claims {
            Some(claims) => self.fresh_view(&Agent { claims: Arc::new(claims), ..nobody }),
            None => {
                let snapshot = self.catalog().snapshot();
                let toolset = Arc::new(Toolset::everything(&snapshot));
                AgentView::new(self.clone(), snapshot, nobody, toolset)
            }
        };
        view.tried(query, limit).await
    }
}

/// An index that is searched in addition to the catalog's.
#[derive(Clone)]
struct Other {
    of: Arc<dyn Indexed>,
    slots: Arc<ToolSet>,
}

/// Something that has a search index. The first access may build it and take a moment.
trait Indexed: Send + Sync {
    fn index(&self) -> &SearchIndex;
}

impl Indexed for SearchIndex {
    fn index(&self) -> &SearchIndex {
        self
    }
}

impl Indexed for Provided {
    fn index(&self) -> &SearchIndex {
        self.index()
    }
}

impl Other {
    fn provided(provided: &Arc<Provided>, slots: ToolSet) -> Self {
        Self { of: Arc::<Provided>::clone(provided), slots: Arc::new(slots) }
    }

    /// All of an index that was built for this search.
    fn made(index: SearchIndex, length: usize) -> Self {
        Self { of: Arc::new(index), slots: Arc::new((0..length as Slot).collect()) }
    }
}

/// Builds a search index of tools, each under its position.
pub(crate) fn index_of(tools: &[ViewedTool]) -> SearchIndex {
    let mut index = SearchIndex::default();
    index.put_all((0..).zip(tools.iter().map(|tool| Cow::Owned(document(tool)))));
    index
}

fn document(tool: &ViewedTool) -> Document {
    let mut document = Document::new(tool.name(), tool.name());
    document.text(Field::Description, &tool.description());
    tool.keywords().iter().for_each(|keyword| document.keyword(keyword));
    document.arguments(&tool.input_schema());
    document
}

/// Rounds a score to four decimals, so that 0.9 prints as 0.9.
pub(crate) fn rounded(score: f64) -> f64 {
    (score * 1e4).round() / 1e4
}
