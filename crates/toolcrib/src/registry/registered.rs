//! The individually registered items of a registry, as a provider.
//!
//! No lock is held while a handler runs: the item is cloned out of its list first.

use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::{Map, Value};
use tokio::sync::watch;

use super::error::RegisterError;
use super::handler::Handler;
use super::prompt::Prompt;
use super::resource::{Resource, ResourceTemplate};
use super::shelf::Shelf;
use crate::call::CallContext;
use crate::provider::{
    Calling, Changes, Coming, Listed, ProvidedTool, ProviderError, ToolProvider, Unfinished,
    UnfinishedOf,
};

/// Maximum length of a tool name in MCP.
const LONGEST: usize = 128;
/// Names of the meta tools: no other tool may be listed under them.
const OURS: [&str; 2] = ["tool_search", "execute_tool"];

/// A tool with its handler.
pub(super) struct RegisteredTool {
    offered: Arc<ProvidedTool>,
    handler: Box<dyn Fn(Map<String, Value>, CallContext) -> Calling<'static> + Send + Sync>,
}

#[derive(Default)]
struct Shelves {
    tools: Shelf<RegisteredTool>,
    prompts: Shelf<Prompt>,
    resources: Shelf<Resource>,
    templates: Shelf<ResourceTemplate>,
}

#[derive(Default)]
pub(super) struct Registered {
    shelves: RwLock<Shelves>,
    changes: watch::Sender<Changes>,
}

impl RegisteredTool {
    pub(super) fn new<Takes, H: Handler<Takes>>(
        mut tool: ProvidedTool,
        handler: H,
        keywords: &[&str],
    ) -> Result<Self, RegisterError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let length = tool.name.len();
        if length == 0 || LONGEST < length || !tool.name.chars().all(allowed) {
            return Err(RegisterError::Name(tool.name));
        }
        if OURS.contains(&&*tool.name) {
            return Err(RegisterError::Reserved(tool.name));
        }
        if tool.input_schema.is_null() {
            tool.input_schema = H::input_schema();
        }
        let Value::Object(schema) = &mut tool.input_schema else {
            return Err(RegisterError::Arguments(tool.name));
        };
        // The schema of an enum of objects has no `type` of its own.
        if schema.entry("type").or_insert_with(|| "object".into()) != "object" {
            return Err(RegisterError::Arguments(tool.name));
        }
        if let Some(promised) = H::output_schema() {
            tool.more.entry("outputSchema").or_insert(promised);
        }
        tool.keywords.extend(keywords.iter().map(|word| Box::from(*word)));
        let handler = Box::new(move |arguments, call| handler.handle(arguments, call));
        Ok(Self { offered: Arc::new(tool), handler })
    }
}

impl RegisteredTool {
    pub(super) fn call<'a>(
        &self,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> Calling<'a> {
        (self.handler)(arguments, call.clone())
    }
}

fn well_formed(key: &str, checked: Result<(), &'static str>) -> Result<(), RegisterError> {
    checked.map_err(|why| RegisterError::Malformed { key: key.into(), why })
}

impl Registered {
    pub(super) fn add_tool(&self, tool: RegisteredTool) -> Result<(), RegisterError> {
        let offered = Arc::clone(&tool.offered);
        let exists = || RegisterError::ToolExists(offered.name.clone());
        // Check under the read lock first: a duplicate must not block readers.
        if self.tool(&offered.name).is_some() {
            return Err(exists());
        }
        // Report the change under the write lock, so that a notified reader finds the tool.
        let mut known = self.write();
        if !known.tools.add(&offered.name, tool) {
            return Err(exists());
        }
        self.change(|changes| changes.tools += 1);
        Ok(())
    }

    pub(super) fn add_prompt(&self, prompt: Prompt) -> Result<(), RegisterError> {
        let key = prompt.listed().key.clone();
        well_formed(&key, prompt.check())?;
        let mut known = self.write();
        if !known.prompts.add(&key, prompt) {
            return Err(RegisterError::PromptExists(key));
        }
        self.change(|changes| changes.prompts += 1);
        Ok(())
    }

    pub(super) fn add_resource(&self, resource: Resource) -> Result<(), RegisterError> {
        let key = resource.listed().key.clone();
        well_formed(&key, resource.check())?;
        let mut known = self.write();
        if !known.resources.add(&key, resource) {
            return Err(RegisterError::ResourceExists(key));
        }
        self.change(|changes| changes.resources += 1);
        Ok(())
    }

    pub(super) fn add_template(&self, template: ResourceTemplate) -> Result<(), RegisterError> {
        let key = template.listed().key.clone();
        well_formed(&key, template.check())?;
        let mut known = self.write();
        if !known.templates.add(&key, template) {
            return Err(RegisterError::TemplateExists(key));
        }
        self.change(|changes| changes.resources += 1);
        Ok(())
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Changes)) {
        self.changes.send_modify(change);
    }

    fn write(&self) -> RwLockWriteGuard<'_, Shelves> {
        self.shelves.write().expect("no one panics while holding it")
    }

    fn read(&self) -> RwLockReadGuard<'_, Shelves> {
        self.shelves.read().expect("no one panics while holding it")
    }

    pub(super) fn tool(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        self.read().tools.get(name).cloned()
    }

    fn prompt(&self, name: &str) -> Option<Arc<Prompt>> {
        self.read().prompts.get(name).cloned()
    }

    fn resource(&self, uri: &str) -> Option<Arc<Resource>> {
        self.read().resources.get(uri).cloned()
    }

    fn template_of(&self, uri: &str) -> Option<Arc<ResourceTemplate>> {
        self.read().templates.iter().find(|template| template.has(uri)).cloned()
    }
}

impl ToolProvider for Registered {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        self.read().tools.iter().map(|tool| Arc::clone(&tool.offered)).collect()
    }

    fn get_tool(&self, name: &str) -> Option<Arc<ProvidedTool>> {
        self.read().tools.get(name).map(|tool| Arc::clone(&tool.offered))
    }

    fn call_tool<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> Calling<'a> {
        match self.tool(name) {
            Some(tool) => tool.call(arguments, call),
            None => Box::pin(async move { Err(ProviderError::ToolNotFound { name: name.into() }) }),
        }
    }

    fn list_prompts(&self) -> Vec<Arc<Listed>> {
        self.read().prompts.iter().map(|prompt| Arc::clone(prompt.listed())).collect()
    }

    fn get_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> Coming<'a, Map<String, Value>> {
        Box::pin(async move {
            match self.prompt(name) {
                Some(prompt) => prompt.get(arguments, call).await,
                None => Err(ProviderError::Invalid(format!("Prompt not found: {name}"))),
            }
        })
    }

    fn list_resources(&self) -> Vec<Arc<Listed>> {
        self.read().resources.iter().map(|resource| Arc::clone(resource.listed())).collect()
    }

    fn list_resource_templates(&self) -> Vec<Arc<Listed>> {
        self.read().templates.iter().map(|template| Arc::clone(template.listed())).collect()
    }

    fn read_resource<'a>(
        &'a self,
        uri: &'a str,
        call: &'a CallContext,
    ) -> Coming<'a, Option<Map<String, Value>>> {
        Box::pin(async move {
            if let Some(resource) = self.resource(uri) {
                return resource.read(call).await.map(Some);
            }
            match self.template_of(uri) {
                Some(template) => template.read(uri, call).await.map(Some),
                None => Ok(None),
            }
        })
    }

    fn complete(&self, unfinished: &Unfinished) -> Option<Vec<String>> {
        let known = self.read();
        Some(match &unfinished.of {
            UnfinishedOf::Prompt(name) => known.prompts.get(name)?.proposals().of(unfinished),
            UnfinishedOf::Template(uri) => known.templates.get(uri)?.proposals().of(unfinished),
        })
    }

    fn changes(&self) -> Vec<watch::Receiver<Changes>> {
        vec![self.changes.subscribe()]
    }
}
