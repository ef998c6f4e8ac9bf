//! Providers: code that offers tools, prompts and resources at run time, beside the catalog (requirement L2).

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use model::{ToolResult, Visibility};
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::call::{CallContext, NoAnswer};

/// A tool that code offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProvidedTool {
    /// What agents call it.
    pub name: Box<str>,
    /// For the model to read.
    pub description: Box<str>,
    /// Of its arguments.
    pub input_schema: Value,
    /// Further words it is found by.
    pub keywords: Vec<Box<str>>,
    /// Where agents meet it: in their list, by search only, or by its name only.
    pub visibility: Visibility,
    /// What else MCP shows of it: `title`, `outputSchema`, `annotations`, `icons`, `_meta`.
    pub more: Map<String, Value>,
    /// Whether a call may go on after the caller was answered ([`CallContext::go_on`]).
    pub may_go_on: bool,
}

impl ProvidedTool {
    /// A tool, for agents to see in their list.
    pub fn new(name: impl Into<Box<str>>, description: impl Into<Box<str>>) -> Self {
        Self { name: name.into(), description: description.into(), ..Self::default() }
    }

    /// The same, which agents find by search and not in their list.
    pub fn searchable(self) -> Self {
        Self { visibility: Visibility::Searchable, ..self }
    }

    /// The same with a schema of its arguments: without it, a tool that is registered with typed arguments has theirs. With
    /// both, what the schema lets through and the type does not is refused when it is called.
    pub fn taking(self, input_schema: Value) -> Self {
        Self { input_schema, ..self }
    }

    /// The same with something else that MCP shows of it: `title`, `annotations`, `icons`.
    pub fn showing(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.more.insert(member.to_owned(), value.into());
        self
    }
}

/// A prompt, a resource or a resource template, as MCP lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The name of a prompt, the `uri` of a resource, the `uriTemplate` of a template.
    pub key: Box<str>,
    /// All that a list shows.
    pub shown: Map<String, Value>,
}

/// Something a person fills in, and wants proposals for.
#[derive(Clone, Debug, PartialEq)]
pub struct Unfinished {
    /// What it is for.
    pub of: UnfinishedOf,
    /// Which argument.
    pub argument: Box<str>,
    /// What was typed so far.
    pub value: Box<str>,
    /// The other arguments that are known.
    pub known: Map<String, Value>,
}

impl Unfinished {
    /// Those values that begin with what was typed, in capitals or not.
    pub fn among<'a>(&self, values: impl Iterator<Item = &'a str>) -> Vec<String> {
        let typed = self.value.to_lowercase();
        let begin_so = values.filter(|value| value.to_lowercase().starts_with(&typed));
        begin_so.map(str::to_owned).collect()
    }
}

/// Whose argument is filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnfinishedOf {
    /// A prompt, by name.
    Prompt(Box<str>),
    /// A resource template, by its `uriTemplate`.
    Template(Box<str>),
}

/// Why a provider did not answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProviderError {
    /// It does not offer that tool, or no longer.
    #[error("Tool not found: {name}")]
    ToolNotFound {
        /// The name.
        name: Box<str>,
    },
    /// What was asked for cannot be used: a prompt's argument, an address.
    #[error("{0}")]
    Invalid(String),
    /// It failed.
    #[error("{0}")]
    Failed(String),
    /// It failed, and says so in the words of JSON-RPC. Agents without them read the message.
    #[error("{message}")]
    Protocol {
        /// A number of JSON-RPC or MCP.
        code: i64,
        /// For people.
        message: String,
    },
    /// The caller did not answer, or not yet.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
}

/// What comes of it, some time.
pub type Coming<'a, T> = Pin<Box<dyn Future<Output = Result<T, ProviderError>> + Send + 'a>>;

/// What a call leads to, some time.
pub type Calling<'a> = Coming<'a, ToolResult>;

/// Lists, gets and calls tools at run time; prompts and resources too, if it has them.
///
/// A list comes whole, each tool with its schema and keywords, so nobody asks once for each tool. It is asked for often:
/// who gets its tools from elsewhere keeps them, and says when they are others ([`Self::changes`]).
///
/// ```
/// use std::sync::Arc;
///
/// use serde_json::{Map, Value};
/// use toolcrib::{CallContext, Calling, IntoResult, ProvidedTool, ProviderError, ToolProvider};
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
///     ) -> Calling<'a> {
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
    /// All of them.
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>>;

    /// One of them.
    fn get_tool(&self, name: &str) -> Option<Arc<ProvidedTool>> {
        self.list_tools().into_iter().find(|tool| *tool.name == *name)
    }

    /// Does what a tool does.
    fn call_tool<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> Calling<'a>;

    /// All prompts.
    fn list_prompts(&self) -> Vec<Arc<Listed>> {
        Vec::new()
    }

    /// The messages of a prompt: the result of `prompts/get`. Asked only for prompts that are listed.
    fn get_prompt<'a>(
        &'a self,
        name: &'a str,
        _arguments: Map<String, Value>,
        _call: &'a CallContext,
    ) -> Coming<'a, Map<String, Value>> {
        Box::pin(async move { Err(ProviderError::Invalid(format!("Prompt not found: {name}"))) })
    }

    /// All resources.
    fn list_resources(&self) -> Vec<Arc<Listed>> {
        Vec::new()
    }

    /// All templates of resources.
    fn list_resource_templates(&self) -> Vec<Arc<Listed>> {
        Vec::new()
    }

    /// The result of `resources/read`; none if it has no such resource.
    fn read_resource<'a>(
        &'a self,
        _uri: &'a str,
        _call: &'a CallContext,
    ) -> Coming<'a, Option<Map<String, Value>>> {
        Box::pin(async { Ok(None) })
    }

    /// Proposals for an argument, best first; none if it does not know what is filled in.
    fn complete(&self, _unfinished: &Unfinished) -> Option<Vec<String>> {
        None
    }

    /// Where it says what has changed so far; nowhere if nothing ever does. One that has others behind it hands on
    /// where they say so, and says itself when they are others.
    fn changes(&self) -> Vec<watch::Receiver<Changes>> {
        Vec::new()
    }
}

/// Code whose tools, prompts and resources are only for one request: they come last, and nobody else sees them.
#[derive(Clone, Default)]
pub struct RequestProviders(Vec<Arc<dyn ToolProvider>>);

impl RequestProviders {
    /// The first first.
    pub fn new(providers: Vec<Arc<dyn ToolProvider>>) -> Self {
        Self(providers)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn ToolProvider>> {
        self.0.iter()
    }
}

impl fmt::Debug for RequestProviders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} providers", self.0.len())
    }
}

/// How often something changed. Each number grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The list of tools.
    pub tools: u64,
    /// The list of prompts.
    pub prompts: u64,
    /// The list of resources or of templates.
    pub resources: u64,
    /// The resources that changed last, the newest at the end, each with a number that grows.
    pub updated: Vec<(u64, Arc<str>)>,
    /// The number of the last one that is not kept any more. Whoever has seen less than that has missed something.
    pub forgotten: u64,
}

/// How many resources are kept that changed last.
const UPDATED: usize = 256;

impl Changes {
    /// A resource changed.
    pub fn update(&mut self, uri: &str) {
        let number = self.updated.last().map_or(0, |(number, _)| *number) + 1;
        self.updated.retain(|(_, known)| **known != *uri);
        if self.updated.len() == UPDATED {
            (self.forgotten, _) = self.updated.remove(0);
        }
        self.updated.push((number, uri.into()));
    }
}

/// What a provider lists. One that panics lists nothing, and nothing else is lost.
pub(crate) trait Lists {
    fn tools(&self) -> Vec<Arc<ProvidedTool>>;
    fn prompts(&self) -> Vec<Arc<Listed>>;
    fn resources(&self) -> Vec<Arc<Listed>>;
    fn templates(&self) -> Vec<Arc<Listed>>;
}

impl Lists for dyn ToolProvider + '_ {
    fn tools(&self) -> Vec<Arc<ProvidedTool>> {
        listed("tools", || self.list_tools())
    }

    fn prompts(&self) -> Vec<Arc<Listed>> {
        listed("prompts", || self.list_prompts())
    }

    fn resources(&self) -> Vec<Arc<Listed>> {
        listed("resources", || self.list_resources())
    }

    fn templates(&self) -> Vec<Arc<Listed>> {
        listed("resource templates", || self.list_resource_templates())
    }
}

fn listed<T>(what: &str, list: impl FnOnce() -> Vec<T>) -> Vec<T> {
    std::panic::catch_unwind(AssertUnwindSafe(list)).unwrap_or_else(|_| {
        tracing::error!("a provider panicked when it was asked for its {what}");
        Vec::new()
    })
}

/// What a provider does for a call. One that panics has failed, and nothing else has.
pub(crate) async fn caught<'a, T>(
    name: &str,
    coming: impl FnOnce() -> Coming<'a, T>,
) -> Result<T, ProviderError> {
    // Also what panics before there is anything to wait for.
    let coming = AssertUnwindSafe(async { coming().await });
    coming.catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(name, "`{name}` panicked");
        Err(ProviderError::Failed(PANICKED.to_owned()))
    })
}

/// What it said is for the log of whoever wrote it, not for agents.
const PANICKED: &str = "it panicked";
