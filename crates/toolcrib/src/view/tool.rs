//! A tool as one agent sees it: name, description, schemas and other listed fields.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::{CataloguedTool, is_portable, portable_name};
use model::{Execution, ToolId, show_json, shown_description, shown_text};
use serde_json::{Map, Value, json};

use super::MetaTool;
use crate::provider::{ProvidedTool, ToolProvider};

/// A tool as one agent sees it.
#[derive(Clone)]
pub struct ViewedTool {
    name: Box<str>,
    pub(super) origin: Origin,
}

/// Where a tool comes from.
#[derive(Clone)]
pub(super) enum Origin {
    Catalog(Arc<CataloguedTool>),
    Provider(Arc<ProvidedTool>, Arc<dyn ToolProvider>),
    Meta(MetaTool),
}

impl ViewedTool {
    pub(super) fn catalogued(entry: &Arc<CataloguedTool>, name: Box<str>) -> Self {
        Self { name, origin: Origin::Catalog(Arc::clone(entry)) }
    }

    pub(crate) fn provided(tool: Arc<ProvidedTool>, provider: Arc<dyn ToolProvider>) -> Self {
        Self { name: tool.name.clone(), origin: Origin::Provider(tool, provider) }
    }

    pub(super) fn meta(tool: MetaTool) -> Self {
        Self { name: tool.name().into(), origin: Origin::Meta(tool) }
    }

    /// The name in this agent's list.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An alternative name that every model API accepts: 1 to 64 ASCII letters, digits, `_` and `-`, starting with a
    /// letter or `_`. Usually the listed name itself.
    pub fn portable_name(&self) -> Cow<'_, str> {
        match &self.origin {
            _ if is_portable(&self.name) => Cow::Borrowed(&*self.name),
            Origin::Catalog(entry) => entry.tool.unique_name().into(),
            Origin::Provider(..) | Origin::Meta(_) => portable_name(&self.name, &self.name).into(),
        }
    }

    /// The catalog entry; `None` for tools outside the catalog.
    pub fn entry(&self) -> Option<&Arc<CataloguedTool>> {
        match &self.origin {
            Origin::Catalog(entry) => Some(entry),
            Origin::Provider(..) | Origin::Meta(_) => None,
        }
    }

    /// The tool id; `None` for tools outside the catalog.
    pub fn id(&self) -> Option<&ToolId> {
        self.entry().map(|entry| &entry.tool.id)
    }

    /// Whether a call may send progress or ask for input. A tool that sends one HTTP request never does.
    pub fn may_speak(&self) -> bool {
        match &self.origin {
            Origin::Catalog(entry) => {
                let manifest = entry.tool.served_manifest();
                manifest
                    .is_some_and(|manifest| !matches!(manifest.execution, Execution::SyncHttp(_)))
            }
            Origin::Provider(..) | Origin::Meta(_) => true,
        }
    }

    /// Whether the upstream continues to work after its first response.
    pub fn is_job(&self) -> bool {
        let manifest = self.entry().and_then(|entry| entry.tool.served_manifest());
        manifest.is_some_and(|manifest| matches!(manifest.execution, Execution::AsyncPoll { .. }))
    }

    pub(super) fn is_workflow(&self) -> bool {
        let manifest = self.entry().and_then(|entry| entry.tool.served_manifest());
        manifest.is_some_and(|manifest| matches!(manifest.execution, Execution::Workflow { .. }))
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The description for models, without invisible characters and within 16 KiB.
    pub fn description(&self) -> Cow<'_, str> {
        match &self.origin {
            Origin::Catalog(entry) => shown_description(entry.tool.description()),
            Origin::Provider(tool, _) => Cow::Borrowed(&tool.description),
            Origin::Meta(tool) => Cow::Borrowed(tool.description()),
        }
    }

    /// Additional search terms: tags, labels, keywords.
    pub fn keywords(&self) -> Vec<&str> {
        match &self.origin {
            Origin::Catalog(entry) => {
                let tags = entry.tool.shown_manifest().tags.iter().map(AsRef::as_ref);
                tags.chain(entry.tool.labels.iter().map(|label| label.as_str())).collect()
            }
            Origin::Provider(tool, _) => tool.keywords.iter().map(AsRef::as_ref).collect(),
            Origin::Meta(_) => Vec::new(),
        }
    }

    /// The full schema of the arguments.
    pub fn input_schema(&self) -> Value {
        match &self.origin {
            Origin::Catalog(entry) => {
                let schema = entry.input_schema.as_ref().map(|schema| shown(entry, schema));
                schema.unwrap_or_else(|| Value::Object(Map::new()))
            }
            Origin::Provider(tool, _) => tool.input_schema.clone(),
            Origin::Meta(tool) => tool.input_schema(),
        }
    }

    /// The arguments that MCP clients repeat in headers (`x-mcp-header`), each with its header name.
    pub fn mirrored(&self) -> Vec<(String, String)> {
        let schema = match &self.origin {
            Origin::Catalog(entry) => entry.input_schema.as_ref().filter(|schema| {
                // Hardly any schema has one, and parsing all of them would cost more than the call.
                schema.mentions(MIRRORED)
            }),
            Origin::Provider(tool, _) => return mirrored(&tool.input_schema),
            Origin::Meta(_) => None,
        };
        schema.map(|schema| mirrored(&schema.to_served())).unwrap_or_default()
    }

    /// Whether the tool has an output schema.
    pub fn promises_output(&self) -> bool {
        match &self.origin {
            Origin::Catalog(entry) => entry.promised_output().is_some(),
            Origin::Provider(tool, _) => tool.more.contains_key("outputSchema"),
            Origin::Meta(_) => false,
        }
    }

    /// The full schema of the structured results, if the tool has one.
    pub fn output_schema(&self) -> Option<Value> {
        match &self.origin {
            Origin::Catalog(entry) => entry.promised_output().map(|schema| shown(entry, schema)),
            Origin::Provider(tool, _) => tool.more.get("outputSchema").cloned(),
            Origin::Meta(_) => None,
        }
    }

    /// Other fields that MCP lists: `title`, `annotations`, `icons`, `_meta` and additional fields of the source.
    pub fn more(&self) -> Map<String, Value> {
        match &self.origin {
            Origin::Catalog(entry) => {
                let manifest = entry.tool.shown_manifest();
                let title = manifest.title.as_ref();
                let title = title.map(|title| ("title", Value::from(shown_text(title))));
                let title = title.into_iter().map(|(name, title)| (name.to_owned(), title));
                let extra = manifest.extra.iter();
                let extra = extra.map(|(name, value)| (name.to_string(), value.to_value()));
                let mut all: Map<String, Value> = title.chain(extra).collect();
                if manifest.must_be_a_task() {
                    waited_for_here(&mut all);
                }
                match show_json(Value::Object(all)) {
                    Value::Object(shown) => shown,
                    _ => Map::new(),
                }
            }
            Origin::Provider(tool, _) => {
                let others = tool.more.iter().filter(|(name, _)| *name != "outputSchema");
                others.map(|(name, value)| (name.clone(), value.clone())).collect()
            }
            Origin::Meta(tool) => {
                let annotations = match tool {
                    MetaTool::Search => json!({"readOnlyHint": true, "openWorldHint": false}),
                    MetaTool::Execute => return Map::new(),
                };
                Map::from_iter([("annotations".to_owned(), annotations)])
            }
        }
    }
}

/// Removes `taskSupport`: toolcrib creates the task itself and waits for it, so callers need not.
fn waited_for_here(more: &mut Map<String, Value>) {
    let execution = more.get_mut("execution").and_then(Value::as_object_mut);
    let is_all = execution.is_some_and(|execution| {
        execution.shift_remove("taskSupport");
        execution.is_empty()
    });
    if is_all {
        more.shift_remove("execution");
    }
}

/// The schema as agents see it: unchanged for MCP tools, in compact form for tools that toolcrib generates. Invisible
/// characters are removed, except in names and in values that the upstream compares, which an admin approved.
fn shown(entry: &CataloguedTool, schema: &model::Schema) -> Value {
    let manifest = entry.tool.served_manifest();
    show_json(match manifest.is_some_and(|manifest| manifest.execution == Execution::McpCall) {
        true => schema.to_value(),
        false => schema.to_served(),
    })
}

const MIRRORED: &str = "x-mcp-header";

fn mirrored(schema: &Value) -> Vec<(String, String)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let named = properties.into_iter().flatten().filter_map(|(property, schema)| {
        Some((property.clone(), schema.get(MIRRORED)?.as_str()?.to_owned()))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_support_is_removed_from_the_listed_fields() {
        for (execution, left) in [
            (json!({"taskSupport": "required"}), Value::Null),
            (json!({"taskSupport": "required", "x": 1}), json!({"x": 1})),
        ] {
            let mut more = Map::from_iter([("execution".to_owned(), execution)]);
            waited_for_here(&mut more);
            assert_eq!(more.get("execution").cloned().unwrap_or_default(), left);
        }
    }
}
