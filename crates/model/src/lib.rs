//! The shared data types of toolcrib, parsed once at the edge so that every value that exists is valid. No async, no
//! I/O.
#![warn(missing_docs)]

mod agent;
mod call_outcome;
mod claims;
mod custom_source;
mod digest;
mod display_name;
mod error_chain;
mod group;
pub mod header_names;
pub mod id;
mod inventory;
mod job_polling;
mod key_profile;
mod label;
mod manifest;
mod matcher;
mod openapi_settings;
mod pattern;
pub mod placeholder;
mod policy;
mod schema;
pub mod secret_ref;
mod selector;
mod source;
mod source_limits;
mod tool_inspection;
mod trace_context;

pub use agent::{Actor, Agent};
pub use call_outcome::{
    ArgumentProblem, BlobContent, Call, CallFailure, CallStatus, Content, ErrorCode, MediaContent,
    Outcome, ToolResult,
};
pub use claims::{ClaimPath, Claims, InvalidClaimPath};
pub use custom_source::{
    CommandOutput, CustomBody, CustomCommand, CustomHolds, CustomMessage, CustomPrompt,
    CustomRequest, CustomResource, CustomResourceTemplate, CustomSettings, CustomTool, CustomWork,
    FixedAnswer, MessageRole, PromptArgument,
};
pub use digest::{Digest, InvalidDigest};
pub use display_name::{DisplayName, InvalidName};
pub use error_chain::format_error_chain;
pub use group::{GroupExclusion, GroupProfile, NewGroup, SelectorMode};
pub use id::{GroupId, InvalidId, KeyId, LabelId, PolicyId, SourceId, ToolId};
pub use inspection::{
    DESCRIPTION_LIMIT, Finding, Severity, is_fully_visible, printable_line,
    release_inspector_memory, sanitize_description, sanitize_json, sanitize_text,
};
pub use inventory::{
    DiscoveredTool, DiscoveryWarning, Inventory, InventoryBuilder, InventoryError,
};
pub use job_polling::{CancelSettings, PollingSettings, StatusWord, path_steps};
pub use json::RawJson;
pub use key_profile::KeyProfile;
pub use label::{InvalidColour, LabelColour, LabelProfile};
pub use manifest::{
    BodyEncoding, CancelRequest, Execution, HttpRequest, Manifest, StatusPolling, TEMPLATE_LIMIT,
};
pub use matcher::{InvalidMatcher, MatchOperator, Matcher};
pub use openapi_settings::{OpenapiSettings, OperationDescription, SpecificationLocation};
pub use pattern::{InvalidPattern, Pattern};
pub use policy::{InvalidPolicy, PolicyRules};
pub use schema::{
    InvalidSchema, Schema, SchemaDefinition, SchemaDocument, SchemaRef, StoredSchema,
    has_indirect_properties,
};
pub use secret_ref::{InvalidSecretRef, SecretRef};
pub use selector::{McpPrimitive, Selector, SelectorTarget};
pub use source::{
    ApiKeyLocation, AuthProblem, ClientCertificate, ClientProof, CommandProblem, CommandSandbox,
    InvalidSourceKind, InvalidSourceUrl, Isolation, Lifecycle, McpClient, NewSource, SourceHealth,
    SourceKind, SourceProfile, SourceSettings, SourceUrl, StdioCommand, TokenClient, Trust,
    UpstreamAuth, Visibility, is_scope,
};
pub use source_limits::{CallLimit, SourceLimits};
pub use tool_inspection::TextInspector;
pub use trace_context::TraceContext;
