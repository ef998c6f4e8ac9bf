//! Searches the prompts and resources of an agent, each kind separately.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use catalog::tool_set::ToolSet;
use model::McpPrimitive;
use provider::OfferListing;
use search::{SearchDocument, SearchField, SearchHit, SearchIndex};
use serde_json::Value;

use super::{ExtraIndex, MAX_HITS, round_score};
use crate::view::AgentView;

/// A prompt or a resource that matches a search.
#[derive(Clone, Debug)]
pub struct OfferHit {
    /// The offer as a list shows it.
    pub offer: Arc<OfferListing>,
    /// Relevance from 0 to 1.
    pub score: f64,
}

impl AgentView {
    /// The prompts, or the resources and templates, that match, best first. An empty query matches all.
    pub async fn search_offers(
        &self,
        kind: McpPrimitive,
        query: &str,
        limit: usize,
    ) -> Vec<OfferHit> {
        let (query, limit) = (query.trim(), limit.min(MAX_HITS));
        let all = self.offers_of_kind(kind);
        if query.is_empty() {
            let all = all.into_iter().take(limit);
            return all.map(|(_, offer)| OfferHit { offer, score: 0.0 }).collect();
        }
        let (mut mine, mut provided) = (HashMap::new(), Vec::new());
        for (slot, offer) in all {
            match slot {
                Some(slot) => drop(mine.insert(slot, offer)),
                None => provided.push(offer),
            }
        }
        let slots: ToolSet = mine.keys().copied().collect();
        let others = ExtraIndex::for_this_search(index_offers(&provided), provided.len());
        let others = if provided.is_empty() { Vec::new() } else { vec![others] };
        let found = self.rank_documents(&slots, &others, query, limit).await;
        let hits = found.into_iter().filter_map(|SearchHit { index_number: part, slot, score }| {
            let offer = match part {
                0 => mine.get(&slot)?,
                _ => provided.get(slot as usize)?,
            };
            Some(OfferHit { offer: Arc::clone(offer), score: round_score(score.into()) })
        });
        hits.collect()
    }
}

fn index_offers(offers: &[Arc<OfferListing>]) -> SearchIndex {
    let mut index = SearchIndex::default();
    index.put_tools((0..).zip(offers.iter().map(|offer| Cow::Owned(offer_document(offer)))));
    index
}

fn offer_document(offer: &OfferListing) -> SearchDocument {
    let text = |member: &str| offer.fields.get(member).and_then(Value::as_str);
    let mut document = SearchDocument::new(&offer.key, text("name").unwrap_or(&offer.key));
    document.add_text(SearchField::Title, text("title").unwrap_or_default());
    document.add_text(SearchField::Description, text("description").unwrap_or_default());
    document.add_text(SearchField::Keyword, &offer.key);
    document
}
