//! `rig fixture`: a server with tools, prompts and resources of its own, for suites that test an MCP server from
//! outside, for benchmarks and for tests. Their names and texts follow the MCP conformance suite.

mod form;
mod media;
mod prompts;
mod resources;
mod server;
mod tools;

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::watch;
use toolcrib::{
    CallContext, Calling, Changes, Coming, Listed, ProvidedTool, ProviderError, ToolProvider,
    Unfinished, UnfinishedOf,
};

use self::prompts::{Prompt, Wanted};
use self::tools::changing::watched_changes;
use self::tools::{Incoming, Tool};

pub(crate) use self::server::{Orders, run};

/// The provider behind the server.
struct Fixture {
    tools: Vec<Tool>,
    prompts: Vec<Prompt>,
    resources: Vec<Arc<Listed>>,
    templates: Vec<Arc<Listed>>,
    changes: watch::Sender<Changes>,
}

impl Fixture {
    fn new() -> Self {
        Self {
            tools: tools::all(),
            prompts: prompts::all(),
            resources: resources::all(),
            templates: resources::templates(),
            changes: watch::Sender::default(),
        }
    }

    fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| *tool.offered.name == *name)
    }
}

impl ToolProvider for Fixture {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        let mut all: Vec<_> = self.tools.iter().map(|tool| Arc::clone(&tool.offered)).collect();
        // An agent is notified only if its list differs, so the last description counts the changes.
        let times = self.changes.borrow().tools;
        if let Some(last) = all.last_mut() {
            let description = format!("{} (the tools changed {times} times)", last.description);
            *last = Arc::new(ProvidedTool { description: description.into(), ..(**last).clone() });
        }
        all
    }

    fn get_tool(&self, name: &str) -> Option<Arc<ProvidedTool>> {
        self.tool(name).map(|tool| Arc::clone(&tool.offered))
    }

    fn call_tool<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> Calling<'a> {
        match self.tool(name) {
            Some(tool) => (tool.handler)(Incoming { arguments, call, changes: &self.changes }),
            None => Box::pin(async { Err(ProviderError::ToolNotFound { name: name.into() }) }),
        }
    }

    fn list_prompts(&self) -> Vec<Arc<Listed>> {
        self.prompts.iter().map(|prompt| Arc::clone(&prompt.offered)).collect()
    }

    fn get_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> Coming<'a, Map<String, Value>> {
        match self.prompts.iter().find(|prompt| *prompt.offered.key == *name) {
            Some(prompt) => (prompt.handler)(Wanted { arguments, call }),
            None => Box::pin(async { Err(ProviderError::Invalid("no such prompt".to_owned())) }),
        }
    }

    fn list_resources(&self) -> Vec<Arc<Listed>> {
        self.resources.clone()
    }

    fn list_resource_templates(&self) -> Vec<Arc<Listed>> {
        self.templates.clone()
    }

    fn read_resource<'a>(
        &'a self,
        uri: &'a str,
        _call: &'a CallContext,
    ) -> Coming<'a, Option<Map<String, Value>>> {
        let changes = watched_changes(&self.changes.borrow());
        Box::pin(async move { Ok(resources::read(uri, changes)) })
    }

    fn complete(&self, unfinished: &Unfinished) -> Option<Vec<String>> {
        match &unfinished.of {
            UnfinishedOf::Prompt(name) => {
                prompts::proposals(name, &unfinished.argument, &unfinished.value)
            }
            UnfinishedOf::Template(_) => None,
        }
    }

    fn changes(&self) -> Vec<watch::Receiver<Changes>> {
        vec![self.changes.subscribe()]
    }
}

#[cfg(test)]
mod tests;
