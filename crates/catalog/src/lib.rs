//! The catalog: commands → events → snapshot. It decides without I/O and touches the outside only through the
//! [`Journal`](journal::Journal). Beside it stands the [call log](record::Records), which decides nothing.
#![cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "only stores that share a database need all of it")
)]

mod catalog;
mod checkpoint;
pub mod clock;
mod command;
pub mod event;
mod fold;
pub mod group;
mod ingest;
pub mod journal;
pub mod key;
pub mod label;
mod names;
pub mod policy;
pub mod record;
#[cfg(test)]
#[path = "../tests/support/reference_page.rs"]
mod reference_page;
mod refusal;
#[cfg(test)]
mod samples;
pub mod search;
pub mod snapshot;
pub mod source;
pub mod tool;
pub mod tool_set;
mod tool_table;
mod transfer;
mod verify;

pub use catalog::{
    Appends, Catalog, CommandError, Executed, Moment, RefusedAt, Supposed, snapshot_at,
};
pub use command::Command;
pub use names::{NAME_LIMIT, is_portable, portable_name};
pub use refusal::Refusal;
pub use snapshot::{CataloguedGroup, CataloguedSource, Snapshot};
pub use tool_table::CataloguedTool;
pub use transfer::{Import, TransferError, export};
pub use verify::{Collected, Verification, collect_documents, verify};
