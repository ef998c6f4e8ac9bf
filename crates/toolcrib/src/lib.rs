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

mod authenticate;
mod place;
mod refresh;
mod secrets;

pub use access::{Algorithm, InvalidIssuer, InvalidKeys, TokenError, TokenType};
pub use authenticate::{
    Audience, Authenticator, IssuerConfig, IssuerError, IssuerState, KeySource, Timing,
};
pub use catalog::clock::{Clock, ManualClock, SystemClock};
pub use catalog::journal::{
    Context, Journal, JournalError, Position, Recorded, StreamName, Version,
};
pub use catalog::{
    Catalog, Collected, Command, CommandError, Executed, Import, Moment, Refusal, Snapshot,
    TransferError, Verification, collect_documents, export, snapshot_at, verify,
};
pub use catalog::{group, label, policy, source, tool};
/// The words: ids, manifests, selectors, matchers.
pub use model;
pub use place::{InvalidPlace, JournalPlace};
pub use refresh::{RefreshResult, RefreshedTool, Refresher};
pub use secrets::{SealingKey, SecretError, Secrets};
/// The way out: what may be reached, and the client that [`Refresher`] needs.
pub use upstream;
