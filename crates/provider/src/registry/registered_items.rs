//! The individually registered items of a registry, as a provider.
//!
//! No lock is held while a handler runs: the item is cloned out of its list first.

use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::{Map, Value};
use tokio::sync::watch;

use super::ordered_map::OrderedMap;
use super::register_error::RegisterError;
use super::registered_prompt::Prompt;
use super::registered_resource::{Resource, ResourceTemplate};
use super::tool_handler::ToolHandler;
use crate::call_context::CallContext;
use crate::tool_provider::{
    CompletionRequest, CompletionTarget, OfferListing, ProvidedTool, ProviderChanges,
    ProviderError, ProviderFuture, ToolCallFuture, ToolProvider,
};

/// Maximum length of a tool name in MCP.
const MAX_TOOL_NAME: usize = 128;
/// Names of the meta tools: no other tool may be listed under them.
const RESERVED_NAMES: [&str; 2] = ["tool_search", "execute_tool"];

/// A tool with its handler.
pub(super) struct RegisteredTool {
    tool: Arc<ProvidedTool>,
    handler: Box<dyn Fn(Map<String, Value>, CallContext) -> ToolCallFuture<'static> + Send + Sync>,
}

#[derive(Default)]
struct RegisteredLists {
    tools: OrderedMap<RegisteredTool>,
    prompts: OrderedMap<Prompt>,
    resources: OrderedMap<Resource>,
    templates: OrderedMap<ResourceTemplate>,
}

#[derive(Default)]
pub(super) struct RegisteredItems {
    lists: RwLock<RegisteredLists>,
    changes: watch::Sender<ProviderChanges>,
}

impl RegisteredTool {
    pub(super) fn new<Takes, H: ToolHandler<Takes>>(
        mut tool: ProvidedTool,
        handler: H,
        keywords: &[&str],
    ) -> Result<Self, RegisterError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let length = tool.name.len();
        if length == 0 || MAX_TOOL_NAME < length || !tool.name.chars().all(allowed) {
            return Err(RegisterError::InvalidName(tool.name));
        }
        if RESERVED_NAMES.contains(&&*tool.name) {
            return Err(RegisterError::Reserved(tool.name));
        }
        if tool.input_schema.is_null() {
            tool.input_schema = H::input_schema();
        }
        let Value::Object(schema) = &mut tool.input_schema else {
            return Err(RegisterError::NonObjectArguments(tool.name));
        };
        // The schema of an enum of objects has no `type` of its own.
        if schema.entry("type").or_insert_with(|| "object".into()) != "object" {
            return Err(RegisterError::NonObjectArguments(tool.name));
        }
        if let Some(promised) = H::output_schema() {
            tool.more.entry("outputSchema").or_insert(promised);
        }
        tool.keywords.extend(keywords.iter().map(|word| Box::from(*word)));
        let handler = Box::new(move |arguments, call| handler.handle_call(arguments, call));
        Ok(Self { tool: Arc::new(tool), handler })
    }
}

impl RegisteredTool {
    pub(super) fn call_handler<'a>(
        &self,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> ToolCallFuture<'a> {
        (self.handler)(arguments, call.clone())
    }
}

fn require_valid(key: &str, checked: Result<(), &'static str>) -> Result<(), RegisterError> {
    checked.map_err(|why| RegisterError::Malformed { key: key.into(), why })
}

impl RegisteredItems {
    pub(super) fn add_tool(&self, tool: RegisteredTool) -> Result<(), RegisterError> {
        let offered = Arc::clone(&tool.tool);
        let exists = || RegisterError::ToolExists(offered.name.clone());
        // Check under the read lock first: a duplicate must not block readers.
        if self.find_tool(&offered.name).is_some() {
            return Err(exists());
        }
        // Report the change under the write lock, so that a notified reader finds the tool.
        let mut known = self.write_lists();
        if !known.tools.insert_new(&offered.name, tool) {
            return Err(exists());
        }
        self.report_change(|changes| changes.tools += 1);
        Ok(())
    }

    pub(super) fn add_prompt(&self, prompt: Prompt) -> Result<(), RegisterError> {
        let key = prompt.listing().key.clone();
        require_valid(&key, prompt.validate())?;
        let mut known = self.write_lists();
        if !known.prompts.insert_new(&key, prompt) {
            return Err(RegisterError::PromptExists(key));
        }
        self.report_change(|changes| changes.prompts += 1);
        Ok(())
    }

    pub(super) fn add_resource(&self, resource: Resource) -> Result<(), RegisterError> {
        let key = resource.listing().key.clone();
        require_valid(&key, resource.validate())?;
        let mut known = self.write_lists();
        if !known.resources.insert_new(&key, resource) {
            return Err(RegisterError::ResourceExists(key));
        }
        self.report_change(|changes| changes.resources += 1);
        Ok(())
    }

    pub(super) fn add_template(&self, template: ResourceTemplate) -> Result<(), RegisterError> {
        let key = template.listing().key.clone();
        require_valid(&key, template.validate())?;
        let mut known = self.write_lists();
        if !known.templates.insert_new(&key, template) {
            return Err(RegisterError::TemplateExists(key));
        }
        self.report_change(|changes| changes.resources += 1);
        Ok(())
    }

    pub(super) fn report_change(&self, change: impl FnOnce(&mut ProviderChanges)) {
        self.changes.send_modify(change);
    }

    fn write_lists(&self) -> RwLockWriteGuard<'_, RegisteredLists> {
        self.lists.write().expect("no one panics while holding it")
    }

    fn read_lists(&self) -> RwLockReadGuard<'_, RegisteredLists> {
        self.lists.read().expect("no one panics while holding it")
    }

    pub(super) fn find_tool(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        self.read_lists().tools.get(name).cloned()
    }

    fn find_prompt(&self, name: &str) -> Option<Arc<Prompt>> {
        self.read_lists().prompts.get(name).cloned()
    }

    fn find_resource(&self, uri: &str) -> Option<Arc<Resource>> {
        self.read_lists().resources.get(uri).cloned()
    }

    fn find_template(&self, uri: &str) -> Option<Arc<ResourceTemplate>> {
        self.read_lists().templates.iter().find(|template| template.matches_uri(uri)).cloned()
    }
}

impl ToolProvider for RegisteredItems {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        self.read_lists().tools.iter().map(|tool| Arc::clone(&tool.tool)).collect()
    }

    fn get_tool(&self, name: &str) -> Option<Arc<ProvidedTool>> {
        self.read_lists().tools.get(name).map(|tool| Arc::clone(&tool.tool))
    }

    fn call_tool<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> ToolCallFuture<'a> {
        match self.find_tool(name) {
            Some(tool) => tool.call_handler(arguments, call),
            None => Box::pin(async move { Err(ProviderError::ToolNotFound { name: name.into() }) }),
        }
    }

    fn list_prompts(&self) -> Vec<Arc<OfferListing>> {
        self.read_lists().prompts.iter().map(|prompt| Arc::clone(prompt.listing())).collect()
    }

    fn get_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> ProviderFuture<'a, Map<String, Value>> {
        Box::pin(async move {
            match self.find_prompt(name) {
                Some(prompt) => prompt.render(arguments, call).await,
                None => Err(ProviderError::Invalid(format!("Prompt not found: {name}"))),
            }
        })
    }

    fn list_resources(&self) -> Vec<Arc<OfferListing>> {
        self.read_lists().resources.iter().map(|resource| Arc::clone(resource.listing())).collect()
    }

    fn list_resource_templates(&self) -> Vec<Arc<OfferListing>> {
        self.read_lists().templates.iter().map(|template| Arc::clone(template.listing())).collect()
    }

    fn read_resource<'a>(
        &'a self,
        uri: &'a str,
        call: &'a CallContext,
    ) -> ProviderFuture<'a, Option<Map<String, Value>>> {
        Box::pin(async move {
            if let Some(resource) = self.find_resource(uri) {
                return resource.read_contents(call).await.map(Some);
            }
            match self.find_template(uri) {
                Some(template) => template.read_uri(uri, call).await.map(Some),
                None => Ok(None),
            }
        })
    }

    fn complete(&self, unfinished: &CompletionRequest) -> Option<Vec<String>> {
        let known = self.read_lists();
        Some(match &unfinished.target {
            CompletionTarget::Prompt(name) => {
                known.prompts.get(name)?.completions().values_for(unfinished)
            }
            CompletionTarget::Template(uri) => {
                known.templates.get(uri)?.completions().values_for(unfinished)
            }
        })
    }

    fn changes(&self) -> Vec<watch::Receiver<ProviderChanges>> {
        vec![self.changes.subscribe()]
    }
}
