//! `ToolProvider`: code that offers tools, prompts and resources at run time, in addition to the catalog (requirement
//! L2).

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use model::{ToolResult, Visibility};
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::call_context::{CallContext, InputError};

/// A tool of a provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProvidedTool {
    /// The name that agents use.
    pub name: Box<str>,
    /// The description for models.
    pub description: Box<str>,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
    /// Additional search terms.
    pub keywords: Vec<Box<str>>,
    /// Whether the tool is listed, found by search only, or callable by name only.
    pub visibility: Visibility,
    /// Other fields that MCP lists: `title`, `outputSchema`, `annotations`, `icons`, `_meta`.
    pub more: Map<String, Value>,
    /// Whether a call may continue after the caller received its response ([`CallContext::detach`]).
    pub may_outlive_request: bool,
}

impl ProvidedTool {
    /// A tool that is listed to agents.
    pub fn new(name: impl Into<Box<str>>, description: impl Into<Box<str>>) -> Self {
        Self { name: name.into(), description: description.into(), ..Self::default() }
    }

    /// Makes the tool searchable instead of listed.
    pub fn searchable(self) -> Self {
        Self { visibility: Visibility::Searchable, ..self }
    }

    /// Sets the schema of the arguments. Without it, a tool with typed arguments has the schema of their type. With
    /// both, arguments that fit the schema and not the type are rejected when the tool is called.
    pub fn with_input_schema(self, input_schema: Value) -> Self {
        Self { input_schema, ..self }
    }

    /// Sets another field that MCP lists: `title`, `annotations`, `icons`.
    pub fn with_field(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.more.insert(member.to_owned(), value.into());
        self
    }
}

/// The list entry of a prompt, a resource or a resource template, in the shape of MCP.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferListing {
    /// The name of a prompt, the `uri` of a resource, the `uriTemplate` of a template.
    pub key: Box<str>,
    /// All fields of the list entry.
    pub fields: Map<String, Value>,
}

/// A request to complete an argument while a user types it.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletionRequest {
    /// The prompt or template that the argument belongs to.
    pub target: CompletionTarget,
    /// Name of the argument.
    pub argument: Box<str>,
    /// The text typed so far.
    pub value: Box<str>,
    /// The other arguments that are already set.
    pub known_arguments: Map<String, Value>,
}

impl CompletionRequest {
    /// The values that start with the typed text, ignoring case.
    pub fn matching_values<'a>(&self, values: impl Iterator<Item = &'a str>) -> Vec<String> {
        let typed = self.value.to_lowercase();
        let begin_so = values.filter(|value| value.to_lowercase().starts_with(&typed));
        begin_so.map(str::to_owned).collect()
    }
}

/// The target of a completion request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompletionTarget {
    /// A prompt, by name.
    Prompt(Box<str>),
    /// A resource template, by its `uriTemplate`.
    Template(Box<str>),
}

/// Why a provider returned no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProviderError {
    /// The provider does not offer that tool, or no longer does.
    #[error("Tool not found: {name}")]
    ToolNotFound {
        /// The requested name.
        name: Box<str>,
    },
    /// The request is invalid: an argument of a prompt, an address.
    #[error("{0}")]
    Invalid(String),
    /// The tool failed.
    #[error("{0}")]
    Failed(String),
    /// The tool failed with a JSON-RPC error. Agents on other protocols get the message only.
    #[error("{message}")]
    Protocol {
        /// JSON-RPC or MCP error code.
        code: i64,
        /// Human-readable message.
        message: String,
    },
    /// The caller did not answer a request for input, or not yet.
    #[error(transparent)]
    Input(#[from] InputError),
}

/// The future of a provider's result.
pub type ProviderFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, ProviderError>> + Send + 'a>>;

/// The future of a tool call.
pub type ToolCallFuture<'a> = ProviderFuture<'a, ToolResult>;

/// Lists, gets and calls tools at run time, and optionally prompts and resources.
///
/// A list is complete, each tool with its schema and keywords, so no request per tool is needed. Lists are requested
/// often: a provider with a remote origin caches them, and reports when they change ([`Self::changes`]).
///
/// ```
/// use std::sync::Arc;
///
/// use serde_json::{Map, Value};
/// use toolcrib_provider::{CallContext, ToolCallFuture, IntoResult, ProvidedTool, ProviderError, ToolProvider};
///
/// /// Every script is a tool.
/// struct Scripts(Vec<Arc<ProvidedTool>>);
///
/// impl ToolProvider for Scripts {
///     fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
///         self.0.clone()
///     }
///
///     fn call_tool<'a>(
///         &'a self,
///         name: &'a str,
///         _arguments: Map<String, Value>,
///         _call: &'a CallContext,
///     ) -> ToolCallFuture<'a> {
///         Box::pin(async move {
///             if self.get_tool(name).is_none() {
///                 return Err(ProviderError::ToolNotFound { name: name.into() });
///             }
///             "the script ran".into_result()
///         })
///     }
/// }
///
/// let scripts = Scripts(vec![Arc::new(ProvidedTool::new("backup", "Saves everything"))]);
/// assert_eq!(*scripts.get_tool("backup").unwrap().description, *"Saves everything");
/// ```
pub trait ToolProvider: Send + Sync {
    /// Lists all tools.
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>>;

    /// Gets one tool by name.
    fn get_tool(&self, name: &str) -> Option<Arc<ProvidedTool>> {
        self.list_tools().into_iter().find(|tool| *tool.name == *name)
    }

    /// Calls a tool.
    fn call_tool<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> ToolCallFuture<'a>;

    /// Lists all prompts.
    fn list_prompts(&self) -> Vec<Arc<OfferListing>> {
        Vec::new()
    }

    /// Renders a prompt: the result of `prompts/get`. Called only for listed prompts.
    fn get_prompt<'a>(
        &'a self,
        name: &'a str,
        _arguments: Map<String, Value>,
        _call: &'a CallContext,
    ) -> ProviderFuture<'a, Map<String, Value>> {
        Box::pin(async move { Err(ProviderError::Invalid(format!("Prompt not found: {name}"))) })
    }

    /// Lists all resources.
    fn list_resources(&self) -> Vec<Arc<OfferListing>> {
        Vec::new()
    }

    /// Lists all resource templates.
    fn list_resource_templates(&self) -> Vec<Arc<OfferListing>> {
        Vec::new()
    }

    /// Reads a resource: the result of `resources/read`; `None` if the provider has no such resource.
    fn read_resource<'a>(
        &'a self,
        _uri: &'a str,
        _call: &'a CallContext,
    ) -> ProviderFuture<'a, Option<Map<String, Value>>> {
        Box::pin(async { Ok(None) })
    }

    /// Completes an argument, best values first; `None` if the provider does not know the target.
    fn complete(&self, _unfinished: &CompletionRequest) -> Option<Vec<String>> {
        None
    }

    /// Channels that report changes of this provider's lists; empty if they never change. A provider that wraps others
    /// also returns theirs, and reports when the set of them changes.
    fn changes(&self) -> Vec<watch::Receiver<ProviderChanges>> {
        Vec::new()
    }
}

/// Providers for one request only: they come last, and no other request sees them.
#[derive(Clone, Default)]
pub struct RequestProviders(Vec<Arc<dyn ToolProvider>>);

impl RequestProviders {
    /// Providers in order of precedence.
    pub fn new(providers: Vec<Arc<dyn ToolProvider>>) -> Self {
        Self(providers)
    }

    /// Iterates over the providers in order of precedence.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn ToolProvider>> {
        self.0.iter()
    }
}

impl fmt::Debug for RequestProviders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} providers", self.0.len())
    }
}

/// Counters of a provider's changes. Each only increases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderChanges {
    /// Changes of the tool list.
    pub tools: u64,
    /// Changes of the prompt list.
    pub prompts: u64,
    /// Changes of the list of resources or templates.
    pub resources: u64,
    /// Resources whose content changed recently, newest last, each with an increasing number.
    pub updated_resources: Vec<(u64, Arc<str>)>,
    /// The number of the last entry that was dropped. A reader that has seen only lower numbers missed an update.
    pub last_dropped: u64,
}

/// Maximum number of recently changed resources that are kept.
const MAX_UPDATED: usize = 256;

impl ProviderChanges {
    /// Records that the content of a resource changed.
    pub fn record_resource_update(&mut self, uri: &str) {
        let number = self.updated_resources.last().map_or(0, |(number, _)| *number) + 1;
        self.updated_resources.retain(|(_, known)| **known != *uri);
        if self.updated_resources.len() == MAX_UPDATED {
            (self.last_dropped, _) = self.updated_resources.remove(0);
        }
        self.updated_resources.push((number, uri.into()));
    }
}

/// The lists of a provider. A provider that panics lists nothing, and others are not affected.
pub trait GuardedLists {
    /// The tools; none if the provider panics.
    fn tools_or_empty(&self) -> Vec<Arc<ProvidedTool>>;
    /// The prompts; none if the provider panics.
    fn prompts_or_empty(&self) -> Vec<Arc<OfferListing>>;
    /// The resources; none if the provider panics.
    fn resources_or_empty(&self) -> Vec<Arc<OfferListing>>;
    /// The resource templates; none if the provider panics.
    fn templates_or_empty(&self) -> Vec<Arc<OfferListing>>;
}

impl GuardedLists for dyn ToolProvider + '_ {
    fn tools_or_empty(&self) -> Vec<Arc<ProvidedTool>> {
        list_or_empty("tools", || self.list_tools())
    }

    fn prompts_or_empty(&self) -> Vec<Arc<OfferListing>> {
        list_or_empty("prompts", || self.list_prompts())
    }

    fn resources_or_empty(&self) -> Vec<Arc<OfferListing>> {
        list_or_empty("resources", || self.list_resources())
    }

    fn templates_or_empty(&self) -> Vec<Arc<OfferListing>> {
        list_or_empty("resource templates", || self.list_resource_templates())
    }
}

fn list_or_empty<T>(what: &str, list: impl FnOnce() -> Vec<T>) -> Vec<T> {
    std::panic::catch_unwind(AssertUnwindSafe(list)).unwrap_or_else(|_| {
        tracing::error!("a provider panicked when it was asked for its {what}");
        Vec::new()
    })
}

/// Awaits a provider. A panic becomes a failure of this request only.
pub async fn catch_provider_panic<'a, T>(
    name: &str,
    coming: impl FnOnce() -> ProviderFuture<'a, T>,
) -> Result<T, ProviderError> {
    // Inside the future, to catch also a panic before the first await.
    let coming = AssertUnwindSafe(async { coming().await });
    coming.catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(name, "`{name}` panicked");
        Err(ProviderError::Failed(PANIC_MESSAGE.to_owned()))
    })
}

/// The panic message itself is for the log, not for agents.
const PANIC_MESSAGE: &str = "it panicked";
