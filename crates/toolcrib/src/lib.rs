//! Tools for agents, from Rust: the crate that embedders use.
//!
//! A [`Registry`] holds the tools, prompts and resources of your code. A `Toolcrib` serves them to agents, beside the
//! tools of OpenAPI specifications and MCP servers in its catalog, and its policies decide which agent may use which
//! tool. The crate `serving` speaks MCP and HTTP for it. `docs/embedding.md` is a ten-minute guide.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use toolcrib::{ProvidedTool, Registry, Toolcrib};
//!
//! let registry = Registry::new();
//! registry.register_tool(ProvidedTool::new("hello", "Says hello"), || async { "hello" }, &[])?;
//!
//! let view = Toolcrib::from_registry(registry).await?.anonymous_view();
//! assert_eq!(view.list()[0].name(), "hello");
//! assert_eq!(view.search("hello", 10).await[0].score, 1.0);
//! assert!(view.call("hello", Default::default()).await?.error.is_none());
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! - `gateway`: everything except the registry. Without it there is no HTTP client, no TLS and no database.
//! - `sqlite`, `postgres`: journals that outlive the process. Without them the journal is in memory.
//!
//! All of them are on by default.
#![warn(missing_docs)]
#![cfg_attr(
    not(feature = "gateway"),
    expect(dead_code, reason = "a running call can do more for the gateway than for a registry")
)]

#[cfg(feature = "gateway")]
mod authenticate;
mod call_context;
#[cfg(feature = "gateway")]
mod call_recorder;
#[cfg(feature = "gateway")]
mod compiled_tool_cache;
#[cfg(feature = "gateway")]
mod crib;
#[cfg(feature = "gateway")]
mod custom_settings;
#[cfg(feature = "gateway")]
mod explain;
#[cfg(feature = "gateway")]
mod gateway;
#[cfg(feature = "gateway")]
mod identity;
#[cfg(feature = "gateway")]
mod journal_location;
#[cfg(feature = "gateway")]
mod key_authentication;
#[cfg(feature = "gateway")]
mod openapi_provider;
mod provider;
#[cfg(feature = "gateway")]
mod provider_snapshot;
#[cfg(feature = "gateway")]
mod recent_snapshots;
#[cfg(feature = "gateway")]
mod refresh;
mod registry;
#[cfg(feature = "gateway")]
mod search_index_cache;
#[cfg(feature = "gateway")]
mod secrets;
#[cfg(feature = "gateway")]
mod semantic_search;
#[cfg(feature = "gateway")]
mod source_gates;
#[cfg(feature = "gateway")]
mod state_cipher;
#[cfg(feature = "gateway")]
mod stored_results;
#[cfg(feature = "gateway")]
pub mod telemetry;
#[cfg(feature = "gateway")]
mod tool_findings;
#[cfg(feature = "gateway")]
mod toolset;
#[cfg(feature = "gateway")]
mod toolset_resolver;
#[cfg(feature = "gateway")]
mod upstream_connections;
#[cfg(feature = "gateway")]
mod upstream_credentials;
mod uri_template;
#[cfg(feature = "gateway")]
mod usage_hints;
#[cfg(feature = "gateway")]
mod usage_ranking;
#[cfg(feature = "gateway")]
mod view;
#[cfg(feature = "gateway")]
mod what_if;
#[cfg(feature = "gateway")]
mod workflow_documents;

pub use call_context::{
    CallBuilder, CallContext, CallProgress, CallUpdate, CallerCapabilities, CallerCapability,
    InputError, InputRequest, LogLevel, TASKS_EXTENSION,
};
#[cfg(feature = "gateway")]
pub use gateway::*;
/// The nouns of the domain: ids, manifests, selectors, matchers.
pub use model;
pub use provider::{
    CompletionRequest, CompletionTarget, OfferListing, ProvidedTool, ProviderChanges,
    ProviderError, ProviderFuture, RequestProviders, ToolCallFuture, ToolProvider,
};
pub use registry::{
    BoxError, IntoResult, Json, Prompt, PromptMessage, PromptRole, RegisterError, Registry,
    Resource, ResourceContents, ResourceTemplate, ToolHandler,
};
