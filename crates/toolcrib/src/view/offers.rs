//! Prompts and resources of the catalog, as one agent sees them: what MCP servers have and what admins wrote
//! down, under the same grants as tools.
//!
//! A prompt goes by its own name, a resource by its own address, unless another of the agent's does too: then a prompt is
//! shown as `source__name` and a resource as `source+address`, all of those that meet.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::CataloguedTool;
use model::{
    Manifest, Name, Primitive, SchemaRef, is_seen, show_json, shown_description, shown_text,
};
use serde_json::{Map, Value};

use super::AgentView;
use crate::provider::Listed;

/// What is listed in a list of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OfferKind {
    Prompt,
    Resource,
    Template,
}

/// One of them, as this agent sees it.
pub(super) struct Offer {
    pub(super) entry: Arc<CataloguedTool>,
    /// What the agent calls it.
    pub(super) key: Box<str>,
    /// What its source calls it.
    pub(super) own: Box<str>,
}

impl Offer {
    /// For whom the token is that its server is asked with, if it is another than the source says.
    pub(super) fn audience(&self) -> Option<&Name> {
        self.entry.tool.overridden.audience.as_ref()
    }
}

impl AgentView {
    /// All of a kind, in the order of their ids.
    pub(super) fn offers(&self, kind: OfferKind) -> Vec<Offer> {
        let entries = self.toolset.others().iter().filter_map(|slot| self.snapshot.tool_at(slot));
        let mut offers: Vec<(Arc<CataloguedTool>, Box<str>)> = entries
            .filter_map(|entry| {
                Some((Arc::clone(entry), own(entry.tool.served_manifest()?, kind)?))
            })
            .collect();
        offers.sort_unstable_by(|(one, _), (two, _)| one.tool.id.cmp(&two.tool.id));
        let mut count: HashMap<Box<str>, usize> = HashMap::new();
        for (_, own) in &offers {
            *count.entry(own.clone()).or_default() += 1;
        }
        let offers = offers.into_iter().map(|(entry, own)| {
            let is_alone = count.get(&own).is_none_or(|count| *count == 1);
            let key = match (is_alone, kind) {
                (_, OfferKind::Prompt) if !is_seen(&own) => entry.tool.unique_name().into(),
                (true, _) => own.clone(),
                (false, OfferKind::Prompt) => entry.tool.qualified_name().into(),
                (false, OfferKind::Resource | OfferKind::Template) => {
                    format!("{}+{own}", entry.tool.source).into()
                }
            };
            Offer { entry, key, own }
        });
        offers.collect()
    }

    pub(super) fn listed_offers(&self, kind: OfferKind) -> impl Iterator<Item = Arc<Listed>> {
        let offers = self.offers(kind).into_iter();
        offers.filter_map(move |offer| {
            let shown = shown(offer.entry.tool.served_manifest()?, kind, &offer.key);
            Some(Arc::new(Listed { key: offer.key, shown }))
        })
    }
}

fn own(manifest: &Manifest<SchemaRef>, kind: OfferKind) -> Option<Box<str>> {
    let execution = &manifest.execution;
    match kind {
        OfferKind::Prompt if execution.primitive() == Primitive::Prompt => {
            Some(manifest.name.clone())
        }
        OfferKind::Prompt => None,
        OfferKind::Resource => execution.resource_uri().map(Into::into),
        OfferKind::Template => execution.resource_template().map(Into::into),
    }
}

/// As its server lists it, under the agent's key.
fn shown(manifest: &Manifest<SchemaRef>, kind: OfferKind, key: &str) -> Map<String, Value> {
    let mut shown = Map::new();
    let (member, name) = match kind {
        OfferKind::Prompt => ("name", None),
        OfferKind::Resource => ("uri", Some(&manifest.name)),
        OfferKind::Template => ("uriTemplate", Some(&manifest.name)),
    };
    shown.insert(member.to_owned(), key.into());
    shown.extend(name.map(|name| ("name".to_owned(), Value::from(shown_text(name)))));
    let title = manifest.title.as_ref();
    shown.extend(title.map(|title| ("title".to_owned(), Value::from(shown_text(title)))));
    if !manifest.description.is_empty() {
        shown.insert(
            "description".to_owned(),
            Value::from(shown_description(&manifest.description)),
        );
    }
    let extra = manifest.extra.iter();
    shown.extend(extra.map(|(name, value)| (name.to_string(), show_json(value.to_value()))));
    shown
}
