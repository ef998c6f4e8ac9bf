//! Providers: code that offers tools at run time, beside the catalog (requirement L2).

use std::pin::Pin;
use std::sync::Arc;

use model::ToolResult;
use serde_json::{Map, Value};

/// A tool that code offers.
#[derive(Clone, Debug, PartialEq)]
pub struct ProvidedTool {
    /// What agents call it.
    pub name: Box<str>,
    /// For the model to read.
    pub description: Box<str>,
    /// Of its arguments.
    pub input_schema: Value,
    /// Further words it is found by.
    pub keywords: Vec<Box<str>>,
}

/// Why a provider did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// It does not offer that tool, or no longer.
    #[error("Tool not found: {name}")]
    ToolNotFound {
        /// The name.
        name: Box<str>,
    },
    /// It failed.
    #[error("{0}")]
    Failed(String),
}

/// What a call leads to, some time.
pub type Calling<'a> = Pin<Box<dyn Future<Output = Result<ToolResult, ProviderError>> + Send + 'a>>;

/// Lists, gets and calls tools at run time.
pub trait ToolProvider: Send + Sync {
    /// All of them.
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>>;

    /// One of them.
    fn get_tool(&self, name: &str) -> Option<Arc<ProvidedTool>> {
        self.list_tools().into_iter().find(|tool| *tool.name == *name)
    }

    /// Does what a tool does.
    fn call_tool<'a>(&'a self, name: &'a str, arguments: Map<String, Value>) -> Calling<'a>;
}
