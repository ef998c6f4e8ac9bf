//! The catalog: commands → events → snapshot. It decides without I/O and touches the outside only through the
//! [`Journal`](journal::Journal). Beside it stands the [call log](record::CallLog), which decides nothing.
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
    AppendMetrics, Catalog, CommandError, CommandPlan, ExecutedCommand, JournalMoment,
    RefusedCommand, snapshot_at,
};
pub use command::Command;
pub use names::{NAME_LIMIT, is_portable_name, portable_name};
pub use refusal::CommandRefusal;
pub use snapshot::{CataloguedGroup, CataloguedSource, Snapshot};
pub use tool_table::CataloguedTool;
pub use transfer::{JournalImport, TransferError, export_journal};
pub use verify::{DocumentCleanup, JournalVerification, remove_unused_documents, verify_journal};
