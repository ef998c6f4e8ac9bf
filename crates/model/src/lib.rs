//! The shared data types of toolcrib, parsed once at the edge so that every value that exists is valid. No async, no
//! I/O.
#![warn(missing_docs)]

mod agent;
mod cache;
mod call;
mod claims;
mod custom;
mod digest;
mod finding;
mod group;
pub mod header;
pub mod id;
mod inspect;
mod inventory;
pub mod json_size;
mod key;
mod label;
mod limits;
mod manifest;
mod matcher;
pub mod meter;
mod name;
mod openapi;
mod pattern;
pub mod placeholder;
mod policy;
mod polling;
mod raw_json;
mod schema;
pub mod secret;
mod selector;
mod sentence;
mod source;
pub mod strict_json;
mod trace;

pub use agent::{Actor, Agent};
pub use cache::LruCache;
pub use call::{
    ArgumentProblem, BlobContent, Call, CallFailure, CallStatus, Content, ErrorCode, MediaContent,
    Outcome, ToolResult,
};
pub use claims::{ClaimPath, Claims, InvalidClaimPath};
pub use custom::{
    CommandOutput, CustomBody, CustomCommand, CustomHolds, CustomMessage, CustomPrompt,
    CustomRequest, CustomResource, CustomResourceTemplate, CustomSettings, CustomTool, CustomWork,
    FixedAnswer, MessageRole, PromptArgument,
};
pub use digest::{Digest, InvalidDigest};
pub use finding::{Finding, Severity};
pub use group::{GroupExclusion, GroupProfile, NewGroup, SelectorMode};
pub use id::{GroupId, InvalidId, KeyId, LabelId, PolicyId, SourceId, ToolId};
pub use inspect::{
    DESCRIPTION_LIMIT, TextInspector, is_fully_visible, printable_line, release_inspector_memory,
    sanitize_description, sanitize_json, sanitize_text,
};
pub use inventory::{
    DiscoveredTool, DiscoveryWarning, Inventory, InventoryBuilder, InventoryError,
};
pub use key::KeyProfile;
pub use label::{InvalidColour, LabelColour, LabelProfile};
pub use limits::{CallLimit, SourceLimits};
pub use manifest::{
    BodyEncoding, CancelRequest, Execution, HttpRequest, Manifest, StatusPolling, TEMPLATE_LIMIT,
};
pub use matcher::{InvalidMatcher, MatchOperator, Matcher};
pub use name::{DisplayName, InvalidName};
pub use openapi::{OpenapiSettings, OperationDescription, SpecificationLocation};
pub use pattern::{InvalidPattern, Pattern};
pub use policy::{InvalidPolicy, PolicyRules};
pub use polling::{CancelSettings, PollingSettings, StatusWord, path_steps};
pub use raw_json::RawJson;
pub use schema::{
    InvalidSchema, Schema, SchemaDefinition, SchemaDocument, SchemaRef, StoredSchema,
    has_indirect_properties,
};
pub use secret::{InvalidSecretRef, SecretRef};
pub use selector::{McpPrimitive, Selector, SelectorTarget};
pub use sentence::format_error_chain;
pub use source::{
    ApiKeyLocation, AuthProblem, ClientCertificate, ClientProof, CommandProblem, CommandSandbox,
    InvalidSourceKind, InvalidSourceUrl, Isolation, Lifecycle, McpClient, NewSource, SourceHealth,
    SourceKind, SourceProfile, SourceSettings, SourceUrl, StdioCommand, TokenClient, Trust,
    UpstreamAuth, Visibility, is_scope,
};
pub use trace::TraceContext;
