//! The public API of the feature `gateway`: sources, the catalog, policies, and the views of agents.

pub use crate::api_key::new_key;
pub use crate::authenticate::{
    Audience, Authenticator, IssuerConfig, IssuerError, IssuerState, KeySource, Timing,
};
pub use crate::crib::{Options, Toolcrib};
pub use crate::custom::{InvalidCustom, read_custom};
pub use crate::explain::{
    Explanation, GroupExplanation, GroupOfTool, HeldTool, PolicyExplanation, Stop, StopCode,
    ToolExplanation, explain,
};
pub use crate::findings::findings;
pub use crate::gates::GateState;
pub use crate::identity::{CameWith, Identity, Means, NotIdentified};
pub use crate::kept_results::ResultPart;
pub use crate::meaning::{Embeddings, NoVectors, VectorMaker, vectors};
pub use crate::openapi::{OpenApi, OpenApiError, OpenApiOptions};
pub use crate::place::{InvalidPlace, JournalPlace};
pub use crate::record::{RecordOptions, Recorder, Via};
pub use crate::refresh::{
    FindingCounts, RefreshResult, RefreshedTool, Refresher, SourceChanges, next_refresh,
};
pub use crate::resolver::CacheLimits;
pub use crate::seal::{Seal, random};
pub use crate::secrets::{SealingKey, SecretError, Secrets};
pub use crate::toolset::Toolset;
pub use crate::upstreams::followers::{Following, NotFollowed};
pub use crate::upstreams::{ProgramHost, UpstreamError};
pub use crate::view::{
    AgentView, Beside, Called, Changed, Done, Got, Hit, MetaTool, NotFound, OfferHit, ReadsOn,
    Stamp, ToolAnswer, ViewedTool,
};
pub use crate::what_if::{Effect, Extent, Renamed, effects};
pub use crate::workflows::{InvalidDocument, read_workflow, read_workflows};
pub use access::{Algorithm, InvalidIssuer, InvalidKeys, TokenError, TokenType};
pub use catalog::clock::{Clock, ManualClock, SystemClock};
pub use catalog::journal::{
    Context, Journal, JournalError, Position, Recorded, StreamName, Version,
};
pub use catalog::record::{
    CallDoor, CallEnd, CallFilter, CallRecord, Expected as ExpectedRecord, ExportVerifier,
    KeptHead, Link as RecordLink, MemoryRecords, RecordVerification, RecordedCall, Records,
    ShownBy, Usage, UsageOf, UsagePage, verify_records,
};
pub use catalog::{
    Catalog, Collected, Command, CommandError, Executed, Import, Moment, Refusal, RefusedAt,
    Snapshot, Supposed, TransferError, Verification, collect_documents, export, snapshot_at,
    verify,
};
pub use catalog::{group, key, label, policy, source, tool};
/// Why discovery found no tools in a document.
pub use discovery::DiscoveryError;
pub use discovery::custom::CustomProblem;
pub use embedding::{InvalidModel, SentenceModel};
/// Credentials for APIs: one for each named security scheme, or one for all operations.
pub use execution::{Credentials, Own};
pub use secrecy::{ExposeSecret, SecretString};
/// Outgoing connections: which addresses may be reached, and the client that [`Refresher`] needs.
pub use upstream;
/// A tool of several steps.
pub use workflow::Workflow;
