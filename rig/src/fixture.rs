//! `rig fixture`: a server with tools, prompts and resources of its own, for suites that test an MCP server from
//! outside, for benchmarks and for tests. Their names and texts follow the MCP conformance suite.

mod fixture_server;
mod media;
mod prompts;
mod questions_to_caller;
mod resources;
mod tools;

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::watch;
use toolcrib::{
    CallContext, CompletionRequest, CompletionTarget, OfferListing, ProvidedTool, ProviderChanges,
    ProviderError, ProviderFuture, ToolCallFuture, ToolProvider,
};

use self::prompts::{FixturePrompt, PromptRequest};
use self::tools::list_changes::watched_changes;
use self::tools::{FixtureCall, FixtureTool};

pub(crate) use self::fixture_server::{FixtureArgs, run};

/// The provider behind the server.
struct FixtureProvider {
    tools: Vec<FixtureTool>,
    prompts: Vec<FixturePrompt>,
    resources: Vec<Arc<OfferListing>>,
    templates: Vec<Arc<OfferListing>>,
    changes: watch::Sender<ProviderChanges>,
}

impl FixtureProvider {
    fn new() -> Self {
        Self {
            tools: tools::all_tools(),
            prompts: prompts::all_prompts(),
            resources: resources::all_resources(),
            templates: resources::templates(),
            changes: watch::Sender::default(),
        }
    }

    fn tool(&self, name: &str) -> Option<&FixtureTool> {
        self.tools.iter().find(|tool| *tool.definition.name == *name)
    }
}

impl ToolProvider for FixtureProvider {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        let mut all: Vec<_> = self.tools.iter().map(|tool| Arc::clone(&tool.definition)).collect();
        // An agent is notified only if its list differs, so the last description counts the changes.
        let times = self.changes.borrow().tools;
        if let Some(last) = all.last_mut() {
            let description = format!("{} (the tools changed {times} times)", last.description);
            *last = Arc::new(ProvidedTool { description: description.into(), ..(**last).clone() });
        }
        all
    }

    fn get_tool(&self, name: &str) -> Option<Arc<ProvidedTool>> {
        self.tool(name).map(|tool| Arc::clone(&tool.definition))
    }

    fn call_tool<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> ToolCallFuture<'a> {
        match self.tool(name) {
            Some(tool) => (tool.handler)(FixtureCall { arguments, call, changes: &self.changes }),
            None => Box::pin(async { Err(ProviderError::ToolNotFound { name: name.into() }) }),
        }
    }

    fn list_prompts(&self) -> Vec<Arc<OfferListing>> {
        self.prompts.iter().map(|prompt| Arc::clone(&prompt.definition)).collect()
    }

    fn get_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> ProviderFuture<'a, Map<String, Value>> {
        match self.prompts.iter().find(|prompt| *prompt.definition.key == *name) {
            Some(prompt) => (prompt.handler)(PromptRequest { arguments, call }),
            None => Box::pin(async { Err(ProviderError::Invalid("no such prompt".to_owned())) }),
        }
    }

    fn list_resources(&self) -> Vec<Arc<OfferListing>> {
        self.resources.clone()
    }

    fn list_resource_templates(&self) -> Vec<Arc<OfferListing>> {
        self.templates.clone()
    }

    fn read_resource<'a>(
        &'a self,
        uri: &'a str,
        _call: &'a CallContext,
    ) -> ProviderFuture<'a, Option<Map<String, Value>>> {
        let changes = watched_changes(&self.changes.borrow());
        Box::pin(async move { Ok(resources::read_resource(uri, changes)) })
    }

    fn complete(&self, unfinished: &CompletionRequest) -> Option<Vec<String>> {
        match &unfinished.target {
            CompletionTarget::Prompt(name) => {
                prompts::proposals(name, &unfinished.argument, &unfinished.value)
            }
            CompletionTarget::Template(_) => None,
        }
    }

    fn changes(&self) -> Vec<watch::Receiver<ProviderChanges>> {
        vec![self.changes.subscribe()]
    }
}

#[cfg(test)]
mod tests;
