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
mod api_key;
#[cfg(feature = "gateway")]
mod authenticate;
mod call;
#[cfg(feature = "gateway")]
mod credentials;
#[cfg(feature = "gateway")]
mod crib;
#[cfg(feature = "gateway")]
mod custom;
#[cfg(feature = "gateway")]
mod explain;
#[cfg(feature = "gateway")]
mod finder;
#[cfg(feature = "gateway")]
mod findings;
#[cfg(feature = "gateway")]
mod gates;
#[cfg(feature = "gateway")]
mod gateway;
#[cfg(feature = "gateway")]
mod hints;
#[cfg(feature = "gateway")]
mod identity;
#[cfg(feature = "gateway")]
mod kept_results;
#[cfg(feature = "gateway")]
mod meaning;
#[cfg(feature = "gateway")]
mod most_used;
#[cfg(feature = "gateway")]
mod openapi;
#[cfg(feature = "gateway")]
mod place;
#[cfg(feature = "gateway")]
mod provided;
mod provider;
#[cfg(feature = "gateway")]
mod ready;
#[cfg(feature = "gateway")]
mod recent;
#[cfg(feature = "gateway")]
mod record;
#[cfg(feature = "gateway")]
mod refresh;
mod registry;
#[cfg(feature = "gateway")]
mod resolver;
#[cfg(feature = "gateway")]
mod seal;
#[cfg(feature = "gateway")]
mod secrets;
#[cfg(feature = "gateway")]
pub mod telemetry;
#[cfg(feature = "gateway")]
mod toolset;
#[cfg(feature = "gateway")]
mod upstreams;
mod uri_template;
#[cfg(feature = "gateway")]
mod view;
#[cfg(feature = "gateway")]
mod what_if;
#[cfg(feature = "gateway")]
mod workflows;

pub use call::{
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
