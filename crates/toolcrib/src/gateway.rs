//! The public API of the feature `gateway`: sources, the catalog, policies, and the views of agents.

pub use crate::authenticate::{
    Authenticator, IssuerAudience, IssuerConfig, IssuerError, IssuerState, KeySource, KeyTiming,
};
pub use crate::call_recorder::{CallLogOptions, CallOrigin, CallRecorder};
pub use crate::crib::{Toolcrib, ToolcribOptions};
pub use crate::custom_settings::{InvalidCustomSettings, read_custom};
pub use crate::explain::{
    AccessExplanation, BlockerCode, GroupExplanation, GroupOfTool, HeldTool, PolicyExplanation,
    ToolBlocker, ToolExplanation, explain_access,
};
pub use crate::identity::{AuthMethod, AuthenticationError, CallerIdentity, RequestCredentials};
pub use crate::journal_location::{InvalidJournalLocation, JournalLocation};
pub use crate::key_authentication::new_api_key;
pub use crate::openapi_provider::{OpenApi, OpenApiError, OpenApiOptions};
pub use crate::refresh::{
    FindingCounts, RefreshResult, RefreshedTool, SourceChanges, SourceRefresher, next_refresh,
};
pub use crate::secrets::{SealingKey, SecretError, SecretStore};
pub use crate::semantic_search::{EmbeddingBackend, EmbeddingError, EmbeddingOptions, embed_texts};
pub use crate::source_gates::GateState;
pub use crate::state_cipher::{StateCipher, random_id};
pub use crate::stored_results::ResultPart;
pub use crate::tool_findings::tool_findings;
pub use crate::toolset::Toolset;
pub use crate::toolset_resolver::ToolsetCacheLimits;
pub use crate::upstream_connections::upstream_subscriptions::{
    ResourceSubscriptions, SubscribeError,
};
pub use crate::upstream_connections::{ProgramHost, UpstreamError};
pub use crate::view::{
    AgentView, CallResult, CompletedCall, ContinuationSupport, ListChange, MetaTool, OfferHit,
    OfferResult, PinnedTools, ToolAnswer, ToolHit, ToolLookupError, ViewStamp, ViewedTool,
};
pub use crate::what_if::{AccessEffect, RenamedTool, ToolsetExtent, access_effects};
pub use crate::workflow_documents::{InvalidWorkflowDocument, read_workflow, read_workflows};
pub use access::{InvalidIssuer, InvalidKeySet, JwsAlgorithm, TokenError, TokenType};
pub use catalog::call_log::{
    AuditExpectations as ExpectedRecord, CallEndpoint, CallFilter, CallLog, CallLogVerification,
    CallRecord, CallerCredentialKind, ChainLink as RecordLink, ExportVerifier, FinalCallStatus,
    MemoryCallLog, RecordedCall, SavedHead, UsageKind, UsagePage, UsageTotals, verify_call_log,
};
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
/// Why discovery found no tools in a document.
pub use discovery::DiscoveryError;
pub use discovery::custom::CustomProblem;
pub use embedding::{InvalidModel, SentenceModel};
/// Credentials for APIs: one for each named security scheme, or one for all operations.
pub use execution::{Credentials, SourceCredential};
pub use secrecy::{ExposeSecret, SecretString};
/// Outgoing connections: which addresses may be reached, and the client that [`SourceRefresher`] needs.
pub use upstream;
/// A tool of several steps.
pub use workflow::Workflow;
