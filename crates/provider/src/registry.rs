//! `Registry`: tools, prompts and resources of an embedder's code, registered one by one or through providers
//! (requirements L1, L2).
//!
//! The registry is a provider itself. Registered items come first, then the providers in the order in which they were
//! added. The first item with a name wins; shadowed ones are logged.

mod completion_values;
mod handler_result;
mod ordered_map;
mod register_error;
mod registered_items;
mod registered_prompt;
mod registered_resource;
mod tool_handler;

use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use model::ToolResult;
use serde_json::{Map, Value};
use tokio::sync::watch;

use self::registered_items::{RegisteredItems, RegisteredTool};
use crate::call_context::{CallContext, InputError};
use crate::tool_provider::{
    CompletionRequest, GuardedLists as _, OfferListing, ProvidedTool, ProviderChanges,
    ProviderError, ProviderFuture, ToolCallFuture, ToolProvider, catch_provider_panic,
};

pub use self::handler_result::{BoxError, IntoResult, Json};
pub use self::register_error::RegisterError;
pub use self::registered_prompt::{Prompt, PromptMessage, PromptRole};
pub use self::registered_resource::{Resource, ResourceContents, ResourceTemplate};
pub use self::tool_handler::ToolHandler;

/// Providers in order of precedence.
pub type ProviderList = Arc<Vec<Arc<dyn ToolProvider>>>;

/// Tools, prompts and resources of an embedder's code. Cheap to clone; all clones are the same registry.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use toolcrib_provider::{ProvidedTool, Registry};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Sum {
///     /// The first number
///     one: i64,
///     /// The other number
///     two: i64,
/// }
///
/// let registry = Registry::new();
/// registry.register_tool(
///     ProvidedTool::new("add", "Adds two numbers"),
///     |sum: Sum| async move { (sum.one + sum.two).to_string() },
///     &["math"],
/// )?;
/// let arguments = serde_json::json!({"one": 2, "two": 3});
/// let result = registry.call("add", arguments.as_object().cloned().unwrap()).await;
/// assert_eq!(serde_json::to_value(result)?["content"][0]["text"], "5");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Registry(Arc<RegistryInner>);

struct RegistryInner {
    registered: Arc<RegisteredItems>,
    /// The registered items as a provider, then the added providers.
    providers: ArcSwap<Vec<Arc<dyn ToolProvider>>>,
}

impl Default for Registry {
    fn default() -> Self {
        let registered = Arc::new(RegisteredItems::default());
        let first: Arc<dyn ToolProvider> = Arc::clone(&registered) as _;
        Self(Arc::new(RegistryInner { registered, providers: ArcSwap::from_pointee(vec![first]) }))
    }
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// A registry with one provider.
    pub fn from_provider(provider: Arc<dyn ToolProvider>) -> Self {
        let registry = Self::default();
        registry.add_provider(provider);
        registry
    }

    /// Registers a tool with its handler and additional search terms.
    ///
    /// A handler is a function or a closure that returns a future. It takes nothing, the arguments, or the arguments
    /// and the [`CallContext`], to report progress, ask the user and observe cancellation. Arguments are either a
    /// struct, whose schema becomes the tool's, or a `Map<String, Value>` with an explicit schema
    /// ([`ProvidedTool::with_input_schema`]). The handler returns a string, [`Json`], a [`ToolResult`], or a `Result` of one of
    /// them. An error or a panic becomes the result `Error: …`.
    pub fn register_tool<Takes>(
        &self,
        tool: ProvidedTool,
        handler: impl ToolHandler<Takes>,
        keywords: &[&str],
    ) -> Result<(), RegisterError> {
        let tool = RegisteredTool::new(tool, handler, keywords)?;
        self.0.registered.add_tool(tool)
    }

    /// Registers a prompt.
    pub fn register_prompt(&self, prompt: Prompt) -> Result<(), RegisterError> {
        self.0.registered.add_prompt(prompt)
    }

    /// Registers a resource.
    pub fn register_resource(&self, resource: Resource) -> Result<(), RegisterError> {
        self.0.registered.add_resource(resource)
    }

    /// Registers a resource template.
    pub fn register_resource_template(
        &self,
        template: ResourceTemplate,
    ) -> Result<(), RegisterError> {
        self.0.registered.add_template(template)
    }

    /// Reports that the content of a resource changed: subscribers are notified.
    pub fn resource_changed(&self, uri: &str) {
        self.0.registered.report_change(|changes| changes.record_resource_update(uri));
    }

    /// Adds a provider after the existing ones. A provider that is already there keeps its position. A registry must
    /// not be added to itself or to one that it contains: listing would never end.
    pub fn add_provider(&self, provider: Arc<dyn ToolProvider>) {
        self.0.providers.rcu(|known| {
            let is_there = known.iter().any(|one| is_same_provider(one, &provider));
            let added = Some(&provider).filter(|_| !is_there);
            known.iter().chain(added).cloned().collect::<Vec<_>>()
        });
        self.report_provider_change(&*provider);
    }

    /// Removes a provider; returns whether it was there. Running calls continue.
    pub fn remove_provider(&self, provider: &Arc<dyn ToolProvider>) -> bool {
        let before = self.0.providers.rcu(|known| {
            known.iter().filter(|one| !is_same_provider(one, provider)).cloned().collect::<Vec<_>>()
        });
        self.report_provider_change(&**provider);
        before.iter().any(|one| is_same_provider(one, provider))
    }

    /// Reports changes of the lists that a provider contributes to.
    fn report_provider_change(&self, provider: &dyn ToolProvider) {
        let has_prompts = !provider.prompts_or_empty().is_empty();
        let has_resources =
            !provider.resources_or_empty().is_empty() || !provider.templates_or_empty().is_empty();
        self.0.registered.report_change(|changes| {
            changes.tools += 1;
            changes.prompts += u64::from(has_prompts);
            changes.resources += u64::from(has_resources);
        });
    }

    /// The registered items as a provider, then the added providers.
    pub fn provider_list(&self) -> ProviderList {
        self.0.providers.load_full()
    }

    /// Calls a tool for a caller that receives no progress and cannot be asked. The result also reports failures.
    pub async fn call(&self, name: &str, arguments: Map<String, Value>) -> ToolResult {
        self.call_in_context(name, arguments, &CallContext::silent()).await
    }

    /// Calls a tool for any caller; create the context with a [`CallBuilder`](crate::CallBuilder). The update channel closes
    /// when the call is dropped.
    ///
    /// [`ToolProvider::call_tool`] is for code that wraps the registry as a provider. There, a panic of a handler
    /// propagates, and the context does not learn that the call is over.
    pub async fn call_in_context(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        call: &CallContext,
    ) -> ToolResult {
        let _awaited = call.guard();
        let called = catch_provider_panic(name, || self.call_tool(name, arguments, call)).await;
        called.unwrap_or_else(|error| error.into_error_result())
    }
}

/// All tools with their providers; of several with one name, the first.
pub fn collect_tools(
    providers: &[Arc<dyn ToolProvider>],
) -> Vec<(Arc<ProvidedTool>, Arc<dyn ToolProvider>)> {
    let mut taken = HashSet::new();
    let all = providers.iter().flat_map(|provider| {
        provider.tools_or_empty().into_iter().map(move |tool| (tool, Arc::clone(provider)))
    });
    let first = all.filter(|(tool, _)| {
        let is_free = taken.insert(tool.name.clone());
        if !is_free {
            tracing::debug!(name = &*tool.name, "a tool `{}` is shadowed by another", tool.name);
        }
        is_free
    });
    first.collect()
}

fn is_same_provider(one: &Arc<dyn ToolProvider>, two: &Arc<dyn ToolProvider>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(two))
}

/// Keeps the first item of each key.
fn dedup_by_key(listed: impl Iterator<Item = Arc<OfferListing>>) -> Vec<Arc<OfferListing>> {
    let mut taken = HashSet::new();
    listed.filter(|one| taken.insert(one.key.clone())).collect()
}

impl ToolProvider for Registry {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        collect_tools(&self.provider_list()).into_iter().map(|(tool, _)| tool).collect()
    }

    fn get_tool(&self, name: &str) -> Option<Arc<ProvidedTool>> {
        self.provider_list().iter().find_map(|provider| provider.get_tool(name))
    }

    fn call_tool<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> ToolCallFuture<'a> {
        // Most tools are registered ones: this path avoids one allocation.
        if let Some(tool) = self.0.registered.find_tool(name) {
            return tool.call_handler(arguments, call);
        }
        Box::pin(async move {
            let providers = self.provider_list();
            match providers.iter().find(|provider| provider.get_tool(name).is_some()) {
                Some(provider) => provider.call_tool(name, arguments, call).await,
                None => Err(ProviderError::ToolNotFound { name: name.into() }),
            }
        })
    }

    fn list_prompts(&self) -> Vec<Arc<OfferListing>> {
        dedup_by_key(self.provider_list().iter().flat_map(|provider| provider.prompts_or_empty()))
    }

    fn get_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        call: &'a CallContext,
    ) -> ProviderFuture<'a, Map<String, Value>> {
        Box::pin(async move {
            let providers = self.provider_list();
            let has = |provider: &&Arc<dyn ToolProvider>| {
                provider.prompts_or_empty().iter().any(|prompt| *prompt.key == *name)
            };
            match providers.iter().find(has) {
                Some(provider) => provider.get_prompt(name, arguments, call).await,
                None => Err(ProviderError::Invalid(format!("Prompt not found: {name}"))),
            }
        })
    }

    fn list_resources(&self) -> Vec<Arc<OfferListing>> {
        dedup_by_key(self.provider_list().iter().flat_map(|provider| provider.resources_or_empty()))
    }

    fn list_resource_templates(&self) -> Vec<Arc<OfferListing>> {
        let providers = self.provider_list();
        dedup_by_key(providers.iter().flat_map(|provider| provider.templates_or_empty()))
    }

    fn read_resource<'a>(
        &'a self,
        uri: &'a str,
        call: &'a CallContext,
    ) -> ProviderFuture<'a, Option<Map<String, Value>>> {
        Box::pin(async move {
            for provider in self.provider_list().iter() {
                if let Some(read) = provider.read_resource(uri, call).await? {
                    return Ok(Some(read));
                }
            }
            Ok(None)
        })
    }

    fn complete(&self, unfinished: &CompletionRequest) -> Option<Vec<String>> {
        self.provider_list().iter().find_map(|provider| provider.complete(unfinished))
    }

    fn changes(&self) -> Vec<watch::Receiver<ProviderChanges>> {
        self.provider_list().iter().flat_map(|provider| provider.changes()).collect()
    }
}

impl ProviderError {
    /// The error message for agents, in the format of requirement B5.
    pub fn agent_message(&self) -> String {
        match self {
            Self::ToolNotFound { .. } => self.to_string(),
            Self::Invalid(_)
            | Self::Failed(_)
            | Self::Protocol { .. }
            | Self::Input(
                InputError::Pending | InputError::Unsupported(_) | InputError::Refused(_),
            ) => {
                format!("Error: {self}")
            }
        }
    }

    fn into_error_result(self) -> ToolResult {
        ToolResult { is_error: true, ..handler_result::text_result(self.agent_message()) }
    }
}
