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
pub use cache::Cache;
pub use call::{
    Blob, Call, CallStatus, Content, ErrorCode, Failure, Media, Outcome, ToolResult, WrongArgument,
};
pub use claims::{ClaimPath, Claims, InvalidClaimPath};
pub use custom::{
    CommandOutput, CustomBody, CustomCommand, CustomHolds, CustomMessage, CustomPrompt,
    CustomRequest, CustomResource, CustomResourceTemplate, CustomSettings, CustomTool, CustomWork,
    FixedAnswer, MessageRole, PromptArgument,
};
pub use digest::{Digest, InvalidDigest};
pub use finding::{Finding, Severity};
pub use group::{Exclusion, GroupProfile, NewGroup, SelectorMode};
pub use id::{GroupId, InvalidId, KeyId, LabelId, PolicyId, SourceId, ToolId};
pub use inspect::{
    DESCRIPTION_LIMIT, Inspector, is_seen, plain_line, rest_from_inspecting, show_json,
    shown_description, shown_text,
};
pub use inventory::{Discovered, Gathering, Inventory, InventoryError, Warning};
pub use key::KeyProfile;
pub use label::{Colour, InvalidColour, LabelProfile};
pub use limits::{Limit, SourceLimits};
pub use manifest::{
    BodyEncoding, CancelRequest, Execution, HttpRequest, Manifest, Polling, TEMPLATE_LIMIT,
};
pub use matcher::{InvalidMatcher, Matcher, Operator};
pub use name::{InvalidName, Name};
pub use openapi::{Describe, OpenapiSettings, SpecificationPlace};
pub use pattern::{InvalidPattern, Pattern};
pub use policy::{InvalidPolicy, PolicyRules};
pub use polling::{CancelSettings, PollingSettings, StatusWord, steps};
pub use raw_json::RawJson;
pub use schema::{
    Definition, Document, InvalidSchema, Schema, SchemaRef, StoredSchema, names_others,
};
pub use secret::{InvalidSecretRef, SecretRef};
pub use selector::{Facts, Primitive, Selector};
pub use sentence::sentence;
pub use source::{
    ApiKeyLocation, Auth, AuthProblem, ClientCertificate, ClientProof, Health, InvalidCommand,
    InvalidKind, InvalidUrl, Isolation, Kind, Lifecycle, McpClient, NewSource, Sandbox, Settings,
    SourceProfile, SourceUrl, StdioCommand, TokenClient, Trust, Visibility, is_scope,
};
pub use trace::TraceContext;
