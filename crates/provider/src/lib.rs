//! Tools from code: the registry, providers of tools, and the context of a running call. No server, no database.

#![warn(missing_docs)]

mod call_context;
mod registry;
mod tool_provider;
pub mod uri_template;

pub use call_context::{
    CallBuilder, CallContext, CallProgress, CallUpdate, CallerCapabilities, CallerCapability,
    InputError, InputRequest, LogLevel, TASKS_EXTENSION,
};
pub use registry::{
    BoxError, IntoResult, Json, Prompt, PromptMessage, PromptRole, ProviderList, RegisterError,
    Registry, Resource, ResourceContents, ResourceTemplate, ToolHandler, collect_tools,
};
pub use tool_provider::{
    CompletionRequest, CompletionTarget, GuardedLists, OfferListing, ProvidedTool, ProviderChanges,
    ProviderError, ProviderFuture, RequestProviders, ToolCallFuture, ToolProvider,
    catch_provider_panic,
};
