//! Searches the prompts and resources of an agent, each kind separately.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use catalog::search::{Document, Field, Found, SearchIndex};
use catalog::tool_set::ToolSet;
use model::Primitive;
use serde_json::Value;

use super::{MOST, Other, rounded};
use crate::provider::Listed;
use crate::view::AgentView;

/// A prompt or a resource that matches a search.
#[derive(Clone, Debug)]
pub struct OfferHit {
    /// The offer as a list shows it.
    pub offer: Arc<Listed>,
    /// Relevance from 0 to 1.
    pub score: f64,
}

impl AgentView {
    /// The prompts, or the resources and templates, that match, best first. An empty query matches all.
    pub async fn search_offers(&self, kind: Primitive, query: &str, limit: usize) -> Vec<OfferHit> {
        let (query, limit) = (query.trim(), limit.min(MOST));
        let all = self.offers_of(kind);
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
        let others = Other::made(index_of(&provided), provided.len());
        let others = if provided.is_empty() { Vec::new() } else { vec![others] };
        let found = self.ranked(&slots, &others, query, limit).await;
        let hits = found.into_iter().filter_map(|Found { part, slot, score }| {
            let offer = match part {
                0 => mine.get(&slot)?,
                _ => provided.get(slot as usize)?,
            };
            Some(OfferHit { offer: Arc::clone(offer), score: rounded(score.into()) })
        });
        hits.collect()
    }
}

fn index_of(offers: &[Arc<Listed>]) -> SearchIndex {
    let mut index = SearchIndex::default();
    index.put_all((0..).zip(offers.iter().map(|offer| Cow::Owned(document(offer)))));
    index
}

fn document(offer: &Listed) -> Document {
    let text = |member: &str| offer.shown.get(member).and_then(Value::as_str);
    let mut document = Document::new(&offer.key, text("name").unwrap_or(&offer.key));
    document.text(Field::Title, text("title").unwrap_or_default());
    document.text(Field::Description, text("description").unwrap_or_default());
    document.text(Field::Keyword, &offer.key);
    document
}
