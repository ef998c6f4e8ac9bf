//! Prompts and resources of the catalog as one agent sees them, from MCP servers and from admins, under the same grants
//! as tools.
//!
//! A prompt is listed under its own name, a resource under its own address. If two of the agent's offers collide, each
//! of them is listed with its source: a prompt as `source__name`, a resource as `source+address`.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::CataloguedTool;
use model::{
    DisplayName, Manifest, McpPrimitive, SchemaRef, is_fully_visible, sanitize_description,
    sanitize_json, sanitize_text,
};
use provider::OfferListing;
use serde_json::{Map, Value};

use super::AgentView;

/// The kinds of offers, each with its own list method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OfferKind {
    Prompt,
    Resource,
    Template,
}

/// A prompt, resource or template as this agent sees it.
pub(super) struct CatalogOffer {
    pub(super) entry: Arc<CataloguedTool>,
    /// Its name or address in the agent's list.
    pub(super) key: Box<str>,
    /// Its name or address at the source.
    pub(super) source_key: Box<str>,
}

impl CatalogOffer {
    /// The token audience for its server, if an admin set another than the source's.
    pub(super) fn audience(&self) -> Option<&DisplayName> {
        self.entry.tool.overridden.audience.as_ref()
    }
}

impl AgentView {
    /// All offers of a kind, ordered by id.
    pub(super) fn catalog_offers(&self, kind: OfferKind) -> Vec<CatalogOffer> {
        let entries = self
            .toolset
            .prompts_and_resources()
            .iter()
            .filter_map(|slot| self.snapshot.tool_at(slot));
        let mut offers: Vec<(Arc<CataloguedTool>, Box<str>)> = entries
            .filter_map(|entry| {
                Some((Arc::clone(entry), source_key(entry.tool.served_manifest()?, kind)?))
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
                (_, OfferKind::Prompt) if !is_fully_visible(&own) => {
                    entry.tool.unique_name().into()
                }
                (true, _) => own.clone(),
                (false, OfferKind::Prompt) => entry.tool.qualified_name().into(),
                (false, OfferKind::Resource | OfferKind::Template) => {
                    format!("{}+{own}", entry.tool.source).into()
                }
            };
            CatalogOffer { entry, key, source_key: own }
        });
        offers.collect()
    }

    pub(super) fn listed_offers(&self, kind: OfferKind) -> impl Iterator<Item = Arc<OfferListing>> {
        let offers = self.catalog_offers(kind).into_iter();
        offers.filter_map(move |offer| {
            let shown = listing_fields(offer.entry.tool.served_manifest()?, kind, &offer.key);
            Some(Arc::new(OfferListing { key: offer.key, fields: shown }))
        })
    }
}

fn source_key(manifest: &Manifest<SchemaRef>, kind: OfferKind) -> Option<Box<str>> {
    let execution = &manifest.execution;
    match kind {
        OfferKind::Prompt if execution.primitive() == McpPrimitive::Prompt => {
            Some(manifest.name.clone())
        }
        OfferKind::Prompt => None,
        OfferKind::Resource => execution.resource_uri().map(Into::into),
        OfferKind::Template => execution.resource_template().map(Into::into),
    }
}

/// The fields that its server lists, under the agent's key.
fn listing_fields(
    manifest: &Manifest<SchemaRef>,
    kind: OfferKind,
    key: &str,
) -> Map<String, Value> {
    let mut shown = Map::new();
    let (member, name) = match kind {
        OfferKind::Prompt => ("name", None),
        OfferKind::Resource => ("uri", Some(&manifest.name)),
        OfferKind::Template => ("uriTemplate", Some(&manifest.name)),
    };
    shown.insert(member.to_owned(), key.into());
    shown.extend(name.map(|name| ("name".to_owned(), Value::from(sanitize_text(name)))));
    let title = manifest.title.as_ref();
    shown.extend(title.map(|title| ("title".to_owned(), Value::from(sanitize_text(title)))));
    if !manifest.description.is_empty() {
        shown.insert(
            "description".to_owned(),
            Value::from(sanitize_description(&manifest.description)),
        );
    }
    let extra = manifest.extra.iter();
    shown.extend(extra.map(|(name, value)| (name.to_string(), sanitize_json(value.to_value()))));
    shown
}
