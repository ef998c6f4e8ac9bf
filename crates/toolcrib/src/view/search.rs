//! Search among an agent's own tools, prompts and resources.
//!
//! Nothing outside the toolset counts: what is found, in which order and with which score is the same as if nothing else
//! existed (`catalog::search`).

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

/// The most that is found at once.
const MOST: usize = 100;
/// So many tools are searched in less than a millisecond.
const QUICK: usize = 512;

/// A tool that was found.
#[derive(Clone)]
pub struct Hit {
    /// Which.
    pub tool: ViewedTool,
    /// How well it fits, from 0 to 1.
    pub score: f64,
}

impl AgentView {
    /// The listed and the searchable tools that fit, best first. An empty query finds them all.
    pub async fn search(&self, query: &str, limit: usize) -> Vec<Hit> {
        let start = Instant::now();
        let (query, limit) = (query.trim(), limit.min(MOST));
        let hints = self.crib.hints().filter(|_| !query.is_empty());
        // What is raised may come from further down.
        let wanted = if hints.is_some() { MOST } else { limit };
        let mut found = self.hits(query, wanted).await;
        if let Some(hints) = hints {
            hints.apply(&self.agent, query, &mut found);
            found.truncate(limit);
        }
        self.crib.telemetry().searched(found.len(), start.elapsed());
        found
    }

    /// The same for an admin who tries it: it is not counted, and nothing that was executed before raises a tool.
    async fn tried(&self, query: &str, limit: usize) -> Vec<Hit> {
        self.hits(query.trim(), limit.min(MOST)).await
    }

    async fn hits(&self, query: &str, limit: usize) -> Vec<Hit> {
        let mine = self.toolset.listed().union(self.toolset.searchable());
        if query.is_empty() {
            return self.all_of(&mine).take(limit).map(|tool| Hit { tool, score: 0.0 }).collect();
        }
        let slots: ToolSet = self.provided_for_all().collect();
        // Few, and others for every request.
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

    /// The best of some that the catalog has, and of others; aside, where that may take more than a moment.
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

    /// A tool that goes by exactly this name, in any of its forms, comes first.
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

    /// In the order of their ids, those of providers last.
    fn all_of(&self, mine: &ToolSet) -> impl Iterator<Item = ViewedTool> {
        let mut tools: Vec<_> =
            mine.iter().filter_map(|slot| self.snapshot.tool_at(slot)).collect();
        tools.sort_unstable_by(|one, two| one.tool.id.cmp(&two.tool.id));
        tools.into_iter().map(|entry| self.viewed(entry)).chain(self.provided())
    }
}

impl Toolcrib {
    /// What a search finds for these claims; without any, among all tools of the catalog, served or not. For admins.
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

/// What is searched beside the catalog.
#[derive(Clone)]
struct Other {
    of: Arc<dyn Indexed>,
    slots: Arc<ToolSet>,
}

/// Something whose words are known. It may take a moment when it is first asked.
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

    /// All of an index that was made for this search.
    fn made(index: SearchIndex, length: usize) -> Self {
        Self { of: Arc::new(index), slots: Arc::new((0..length as Slot).collect()) }
    }
}

/// Tools by words, each under its place.
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

/// Four digits are enough to compare, and 0.9 is written as it is.
pub(crate) fn rounded(score: f64) -> f64 {
    (score * 1e4).round() / 1e4
}
