//! `rig fixture`: a server whose only tools, prompts and resources are our own, made for suites that try a server of MCP
//! from outside, for benchmarks and for tests. What they are called and say is what the conformance suite of MCP expects.

mod form;
mod media;
mod server;
mod tools;

use std::sync::Arc;

use serde_json::{Map, Value};
use toolcrib::{CallContext, Calling, ProvidedTool, ProviderError, ToolProvider};

use self::tools::{Incoming, Tool};

pub(crate) use self::server::{Orders, run};

/// The provider behind the server.
struct Fixture {
    tools: Vec<Tool>,
}

impl Fixture {
    fn new() -> Self {
        Self { tools: tools::all() }
    }

    fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| *tool.offered.name == *name)
    }
}

impl ToolProvider for Fixture {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        self.tools.iter().map(|tool| Arc::clone(&tool.offered)).collect()
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
            Some(tool) => (tool.handler)(Incoming { arguments, call }),
            None => Box::pin(async { Err(ProviderError::ToolNotFound { name: name.into() }) }),
        }
    }
}

#[cfg(test)]
mod tests;
