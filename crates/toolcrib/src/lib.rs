//! Tools for agents, from Rust: the crate that embedders use.
//!
//! A [`Registry`] holds the tools, prompts and resources of your code. A `Toolcrib` serves them to agents, beside the
//! tools of OpenAPI specifications and MCP servers in its catalog, and its policies decide which agent may use which
//! tool. The crate `mcp_server` speaks MCP for it. `docs/embedding.md` is a ten-minute guide.
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
//! `sqlite` and `postgres` (on by default): journals that outlive the process. Without them the journal is in memory.
//! Programs that need only a registry depend on `toolcrib-provider`: no HTTP client, no TLS, no database.
#![warn(missing_docs)]

mod authenticate;
mod crib;
mod explain;
mod key_authentication;
mod meta_tool;
mod metric_readings;
mod openapi_provider;
mod provider_snapshot;
mod recent_snapshots;
mod refresh;
mod search_hit;
mod search_index_cache;
mod semantic_search;
mod stored_results;
mod tool_findings;
mod toolset;
mod toolset_resolver;
pub(crate) mod upstream_subscriptions;
mod usage_hints;
mod usage_ranking;
mod view;
pub(crate) mod viewed_tool;
mod what_if;

pub use access::{InvalidIssuer, InvalidKeySet, JwsAlgorithm, TokenError, TokenType};
pub use authenticate::{
    Authenticator, IssuerAudience, IssuerConfig, IssuerError, IssuerState, KeySource, KeyTiming,
};
pub use call_log::{
    AuditExpectations, CallEndpoint, CallFilter, CallLog, CallLogVerification, CallRecord,
    CallerCredentialKind, ChainLink, ExportVerifier, FinalCallStatus, MemoryCallLog, RecordedCall,
    SavedHead, UsageKind, UsagePage, UsageTotals, verify_call_log,
};
pub use calls::call_recorder::{CallLogOptions, CallOrigin, CallRecorder};
pub use calls::identity::{AuthMethod, AuthenticationError, CallerIdentity, RequestCredentials};
pub use calls::journal_location::{InvalidJournalLocation, JournalLocation};
pub use calls::secrets::{SealingKey, SecretError, SecretStore};
pub use calls::source_gates::GateState;
pub use calls::state_cipher::{StateCipher, random_id};
/// Metrics and traces.
pub use calls::telemetry;
pub use calls::upstream_connections::{ProgramHost, UpstreamError};
pub use catalog::clock::{Clock, ManualClock, SystemClock};
pub use catalog::journal::{
    ChangeContext, Journal, JournalError, Position, RecordedEvent, StreamName, StreamVersion,
};
pub use catalog::{
    Catalog, Command, CommandError, CommandPlan, CommandRefusal, DocumentCleanup, ExecutedCommand,
    JournalImport, JournalMoment, JournalVerification, RefusedCommand, Snapshot, TransferError,
    export_journal, remove_unused_documents, snapshot_at, verify_journal,
};
pub use catalog::{api_key, group, label, policy, source, tool};
pub use crib::{Toolcrib, ToolcribOptions};
pub use embedding::{InvalidModel, SentenceModel};
/// Credentials for APIs: one for each named security scheme, or one for all operations.
pub use execution::{Credentials, SourceCredential};
pub use explain::{
    AccessExplanation, BlockerCode, GroupExplanation, GroupOfTool, HeldTool, PolicyExplanation,
    ToolBlocker, ToolExplanation, explain_access,
};
pub use key_authentication::new_api_key;
/// The nouns of the domain: ids, manifests, selectors, matchers.
pub use model;
pub use openapi_provider::{OpenApi, OpenApiError, OpenApiOptions};
pub use provider::{
    BoxError, IntoResult, Json, Prompt, PromptMessage, PromptRole, RegisterError, Registry,
    Resource, ResourceContents, ResourceTemplate, ToolHandler,
};
pub use provider::{
    CallBuilder, CallContext, CallProgress, CallUpdate, CallerCapabilities, CallerCapability,
    InputError, InputRequest, LogLevel, TASKS_EXTENSION,
};
pub use provider::{
    CompletionRequest, CompletionTarget, OfferListing, ProvidedTool, ProviderChanges,
    ProviderError, ProviderFuture, RequestProviders, ToolCallFuture, ToolProvider,
};
pub use refresh::{
    FindingCounts, RefreshResult, RefreshedTool, SourceChanges, SourceRefresher, next_refresh,
};
pub use secrecy::{ExposeSecret, SecretString};
pub use semantic_search::{EmbeddingBackend, EmbeddingError, EmbeddingOptions, embed_texts};
/// Why discovery found no tools in a document.
pub use sources::DiscoveryError;
pub use sources::custom::CustomProblem;
pub use sources::custom_settings::{InvalidCustomSettings, read_custom};
pub use sources::workflow_documents::{InvalidWorkflowDocument, read_workflow, read_workflows};
pub use stored_results::ResultPart;
pub use tool_findings::tool_findings;
pub use toolset::Toolset;
pub use toolset_resolver::ToolsetCacheLimits;
/// Outgoing connections: which addresses may be reached, and the client that [`SourceRefresher`] needs.
pub use upstream;
pub use upstream_subscriptions::{ResourceSubscriptions, SubscribeError};
pub use view::{
    AgentView, CallResult, CompletedCall, ContinuationSupport, ListChange, MetaTool, OfferHit,
    OfferResult, PinnedTools, ToolAnswer, ToolHit, ToolLookupError, ViewStamp, ViewedTool,
};
pub use what_if::{AccessEffect, RenamedTool, ToolsetExtent, access_effects};
/// A tool of several steps.
pub use workflow::Workflow;
/// The client of MCP servers, and how it obtains tokens.
pub use {mcp_client, oauth};
