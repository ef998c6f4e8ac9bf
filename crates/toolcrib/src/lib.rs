//! The library: joins the catalog, access, discovery and execution. What embedders use.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use toolcrib::{Catalog, JournalPlace, SystemClock};
//!
//! let place: JournalPlace = "memory:".parse()?;
//! let catalog = Catalog::open(place.open(SystemClock).await?).await?;
//! assert_eq!(catalog.snapshot().tool_count(), 0);
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
#![warn(missing_docs)]

mod api_key;
mod authenticate;
mod call;
mod credentials;
mod crib;
mod explain;
mod finder;
mod findings;
mod gates;
mod hints;
mod identity;
mod kept_results;
mod meaning;
mod most_used;
mod place;
mod provider;
mod ready;
mod recent;
mod record;
mod refresh;
mod resolver;
mod seal;
mod secrets;
pub mod telemetry;
mod toolset;
mod upstreams;
mod view;
mod what_if;

pub use access::{Algorithm, InvalidIssuer, InvalidKeys, TokenError, TokenType};
pub use api_key::new_key;
pub use authenticate::{
    Audience, Authenticator, IssuerConfig, IssuerError, IssuerState, KeySource, Timing,
};
pub use call::{Abilities, Ability, CallContext, Level, NoAnswer, Progress, Question, Said, TASKS};
pub use catalog::clock::{Clock, ManualClock, SystemClock};
pub use catalog::journal::{
    Context, Journal, JournalError, Position, Recorded, StreamName, Version,
};
pub use catalog::record::{
    CallDoor, CallEnd, CallFilter, CallRecord, MemoryRecords, RecordVerification, RecordedCall,
    Records, ShownBy, Usage, UsageOf, verify_records,
};
pub use catalog::{
    Catalog, Collected, Command, CommandError, Executed, Import, Moment, Refusal, Snapshot,
    TransferError, Verification, collect_documents, export, snapshot_at, verify,
};
pub use catalog::{group, key, label, policy, source, tool};
pub use crib::{Options, Toolcrib};
pub use explain::{
    Explanation, GroupExplanation, GroupOfTool, HeldTool, PolicyExplanation, Stop, StopCode,
    ToolExplanation, explain,
};
pub use findings::findings;
pub use gates::GateState;
pub use identity::{CameWith, Identity, Means, NotIdentified};
pub use kept_results::ResultPart;
pub use meaning::{Embeddings, NoVectors, vectors};
/// The words: ids, manifests, selectors, matchers.
pub use model;
pub use place::{InvalidPlace, JournalPlace};
pub use provider::{
    Calling, Changes, Coming, Listed, ProvidedTool, ProviderError, ToolProvider, Unfinished,
    UnfinishedOf,
};
pub use record::{RecordOptions, Recorder, Via};
pub use refresh::{
    FindingCounts, RefreshResult, RefreshedTool, Refresher, SourceChanges, next_refresh,
};
pub use resolver::CacheLimits;
pub use seal::{Seal, random};
pub use secrets::{SealingKey, SecretError, Secrets};
pub use toolset::Toolset;
/// The way out: what may be reached, and the client that [`Refresher`] needs.
pub use upstream;
pub use upstreams::followers::{Following, NotFollowed};
pub use upstreams::{ProgramHost, UpstreamError};
pub use view::{
    AgentView, Beside, Called, Changed, Done, Got, Hit, MetaTool, NotFound, OfferHit, Stamp,
    ToolAnswer, ViewedTool,
};
pub use what_if::{Effect, Extent, Renamed, effects};
