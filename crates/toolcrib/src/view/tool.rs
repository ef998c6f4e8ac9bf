//! A tool as one agent sees it.

use std::sync::Arc;

use catalog::CataloguedTool;
use model::ToolId;
use serde_json::{Map, Value};

use crate::provider::{ProvidedTool, ToolProvider};

/// A tool as one agent sees it.
#[derive(Clone)]
pub struct ViewedTool {
    name: Box<str>,
    origin: Origin,
}

/// Where a tool comes from.
#[derive(Clone)]
pub(super) enum Origin {
    Catalog(Arc<CataloguedTool>),
    Provider(Arc<ProvidedTool>, Arc<dyn ToolProvider>),
}

impl ViewedTool {
    pub(super) fn catalogued(entry: &Arc<CataloguedTool>, name: Box<str>) -> Self {
        Self { name, origin: Origin::Catalog(Arc::clone(entry)) }
    }

    pub(super) fn provided(tool: Arc<ProvidedTool>, provider: Arc<dyn ToolProvider>) -> Self {
        Self { name: tool.name.clone(), origin: Origin::Provider(tool, provider) }
    }

    /// What this agent calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// In the catalog; a provider's tool is not there.
    pub fn entry(&self) -> Option<&Arc<CataloguedTool>> {
        match &self.origin {
            Origin::Catalog(entry) => Some(entry),
            Origin::Provider(..) => None,
        }
    }

    /// In the catalog; a provider's tool has none.
    pub fn id(&self) -> Option<&ToolId> {
        self.entry().map(|entry| &entry.tool.id)
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// For the model to read.
    pub fn description(&self) -> &str {
        match &self.origin {
            Origin::Catalog(entry) => entry.tool.description(),
            Origin::Provider(tool, _) => &tool.description,
        }
    }

    /// Further words it is found by: tags, labels, keywords.
    pub fn keywords(&self) -> Vec<&str> {
        match &self.origin {
            Origin::Catalog(entry) => {
                let tags = entry.tool.shown_manifest().tags.iter().map(AsRef::as_ref);
                tags.chain(entry.tool.labels.iter().map(|label| label.as_str())).collect()
            }
            Origin::Provider(tool, _) => tool.keywords.iter().map(AsRef::as_ref).collect(),
        }
    }

    /// Of its arguments, whole.
    pub fn input_schema(&self) -> Value {
        match &self.origin {
            Origin::Catalog(entry) => {
                let schema = entry.input_schema.as_ref().map(model::Schema::to_served);
                schema.unwrap_or_else(|| Value::Object(Map::new()))
            }
            Origin::Provider(tool, _) => tool.input_schema.clone(),
        }
    }
}
