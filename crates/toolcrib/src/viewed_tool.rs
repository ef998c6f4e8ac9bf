//! A tool as one agent sees it: name, description, schemas and other listed fields.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::{CataloguedTool, is_portable_name, portable_name};
use model::{Execution, ToolId, sanitize_description, sanitize_json, sanitize_text};
use provider::{ProvidedTool, ToolProvider};
use serde_json::{Map, Value, json};

use crate::meta_tool::MetaTool;

/// A tool as one agent sees it.
#[derive(Clone)]
pub struct ViewedTool {
    name: Box<str>,
    pub(super) origin: ToolOrigin,
}

/// Where a tool comes from.
#[derive(Clone)]
pub(super) enum ToolOrigin {
    Catalog(Arc<CataloguedTool>),
    Provider(Arc<ProvidedTool>, Arc<dyn ToolProvider>),
    Meta(MetaTool),
}

impl ViewedTool {
    pub(super) fn from_catalog(entry: &Arc<CataloguedTool>, name: Box<str>) -> Self {
        Self { name, origin: ToolOrigin::Catalog(Arc::clone(entry)) }
    }

    pub(crate) fn from_provider(tool: Arc<ProvidedTool>, provider: Arc<dyn ToolProvider>) -> Self {
        Self { name: tool.name.clone(), origin: ToolOrigin::Provider(tool, provider) }
    }

    pub(super) fn from_meta(tool: MetaTool) -> Self {
        Self { name: tool.name().into(), origin: ToolOrigin::Meta(tool) }
    }

    /// The name in this agent's list.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An alternative name that every model API accepts: 1 to 64 ASCII letters, digits, `_` and `-`, starting with a
    /// letter or `_`. Usually the listed name itself.
    pub fn portable_name(&self) -> Cow<'_, str> {
        match &self.origin {
            _ if is_portable_name(&self.name) => Cow::Borrowed(&*self.name),
            ToolOrigin::Catalog(entry) => entry.tool.unique_name().into(),
            ToolOrigin::Provider(..) | ToolOrigin::Meta(_) => {
                portable_name(&self.name, &self.name).into()
            }
        }
    }

    /// The catalog entry; `None` for tools outside the catalog.
    pub fn catalog_entry(&self) -> Option<&Arc<CataloguedTool>> {
        match &self.origin {
            ToolOrigin::Catalog(entry) => Some(entry),
            ToolOrigin::Provider(..) | ToolOrigin::Meta(_) => None,
        }
    }

    /// The tool id; `None` for tools outside the catalog.
    pub fn id(&self) -> Option<&ToolId> {
        self.catalog_entry().map(|entry| &entry.tool.id)
    }

    /// Whether a call may send progress or ask for input. A tool that sends one HTTP request never does.
    pub fn may_send_updates(&self) -> bool {
        match &self.origin {
            ToolOrigin::Catalog(entry) => {
                let manifest = entry.tool.served_manifest();
                manifest
                    .is_some_and(|manifest| !matches!(manifest.execution, Execution::SyncHttp(_)))
            }
            ToolOrigin::Provider(..) | ToolOrigin::Meta(_) => true,
        }
    }

    /// Whether the upstream continues to work after its first response.
    pub fn is_job(&self) -> bool {
        let manifest = self.catalog_entry().and_then(|entry| entry.tool.served_manifest());
        manifest.is_some_and(|manifest| matches!(manifest.execution, Execution::AsyncPoll { .. }))
    }

    pub(super) fn is_workflow(&self) -> bool {
        let manifest = self.catalog_entry().and_then(|entry| entry.tool.served_manifest());
        manifest.is_some_and(|manifest| matches!(manifest.execution, Execution::Workflow { .. }))
    }

    pub(super) fn origin(&self) -> &ToolOrigin {
        &self.origin
    }

    /// The description for models, without invisible characters and within 16 KiB.
    pub fn description(&self) -> Cow<'_, str> {
        match &self.origin {
            ToolOrigin::Catalog(entry) => sanitize_description(entry.tool.description()),
            ToolOrigin::Provider(tool, _) => Cow::Borrowed(&tool.description),
            ToolOrigin::Meta(tool) => Cow::Borrowed(tool.description()),
        }
    }

    /// Additional search terms: tags, labels, keywords.
    pub fn keywords(&self) -> Vec<&str> {
        match &self.origin {
            ToolOrigin::Catalog(entry) => {
                let tags = entry.tool.current_manifest().tags.iter().map(AsRef::as_ref);
                tags.chain(entry.tool.labels.iter().map(|label| label.as_str())).collect()
            }
            ToolOrigin::Provider(tool, _) => tool.keywords.iter().map(AsRef::as_ref).collect(),
            ToolOrigin::Meta(_) => Vec::new(),
        }
    }

    /// The full schema of the arguments.
    pub fn input_schema(&self) -> Value {
        match &self.origin {
            ToolOrigin::Catalog(entry) => {
                let schema = entry.input_schema.as_ref().map(|schema| shown_schema(entry, schema));
                schema.unwrap_or_else(|| Value::Object(Map::new()))
            }
            ToolOrigin::Provider(tool, _) => tool.input_schema.clone(),
            ToolOrigin::Meta(tool) => tool.input_schema(),
        }
    }

    /// The arguments that MCP clients repeat in headers (`x-mcp-header`), each with its header name.
    pub fn header_arguments(&self) -> Vec<(String, String)> {
        let schema = match &self.origin {
            ToolOrigin::Catalog(entry) => entry.input_schema.as_ref().filter(|schema| {
                // Hardly any schema has one, and parsing all of them would cost more than the call.
                schema.contains_text(HEADER_KEYWORD)
            }),
            ToolOrigin::Provider(tool, _) => return header_arguments_of(&tool.input_schema),
            ToolOrigin::Meta(_) => None,
        };
        schema.map(|schema| header_arguments_of(&schema.to_served())).unwrap_or_default()
    }

    /// Whether the tool has an output schema.
    pub fn has_output_schema(&self) -> bool {
        match &self.origin {
            ToolOrigin::Catalog(entry) => entry.promised_output_schema().is_some(),
            ToolOrigin::Provider(tool, _) => tool.more.contains_key("outputSchema"),
            ToolOrigin::Meta(_) => false,
        }
    }

    /// The full schema of the structured results, if the tool has one.
    pub fn output_schema(&self) -> Option<Value> {
        match &self.origin {
            ToolOrigin::Catalog(entry) => {
                entry.promised_output_schema().map(|schema| shown_schema(entry, schema))
            }
            ToolOrigin::Provider(tool, _) => tool.more.get("outputSchema").cloned(),
            ToolOrigin::Meta(_) => None,
        }
    }

    /// Other fields that MCP lists: `title`, `annotations`, `icons`, `_meta` and additional fields of the source.
    pub fn extra_fields(&self) -> Map<String, Value> {
        match &self.origin {
            ToolOrigin::Catalog(entry) => {
                let manifest = entry.tool.current_manifest();
                let title = manifest.title.as_ref();
                let title = title.map(|title| ("title", Value::from(sanitize_text(title))));
                let title = title.into_iter().map(|(name, title)| (name.to_owned(), title));
                let extra = manifest.extra.iter();
                let extra = extra.map(|(name, value)| (name.to_string(), value.to_value()));
                let mut all: Map<String, Value> = title.chain(extra).collect();
                if manifest.requires_task() {
                    remove_task_support(&mut all);
                }
                match sanitize_json(Value::Object(all)) {
                    Value::Object(shown) => shown,
                    _ => Map::new(),
                }
            }
            ToolOrigin::Provider(tool, _) => {
                let others = tool.more.iter().filter(|(name, _)| *name != "outputSchema");
                others.map(|(name, value)| (name.clone(), value.clone())).collect()
            }
            ToolOrigin::Meta(tool) => {
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
fn remove_task_support(more: &mut Map<String, Value>) {
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
fn shown_schema(entry: &CataloguedTool, schema: &model::Schema) -> Value {
    let manifest = entry.tool.served_manifest();
    sanitize_json(match manifest.is_some_and(|manifest| manifest.execution == Execution::McpCall) {
        true => schema.to_value(),
        false => schema.to_served(),
    })
}

const HEADER_KEYWORD: &str = "x-mcp-header";

fn header_arguments_of(schema: &Value) -> Vec<(String, String)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let named = properties.into_iter().flatten().filter_map(|(property, schema)| {
        Some((property.clone(), schema.get(HEADER_KEYWORD)?.as_str()?.to_owned()))
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
            remove_task_support(&mut more);
            assert_eq!(more.get("execution").cloned().unwrap_or_default(), left);
        }
    }
}
