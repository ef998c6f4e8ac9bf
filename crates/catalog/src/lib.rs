//! The catalog: commands → events → snapshot. It decides without I/O and touches the outside only through the
//! [`Journal`](journal::Journal).
#![cfg_attr(
    not(feature = "postgres"),
    expect(dead_code, reason = "only stores that share a database need all of it")
)]

pub mod api_key;
mod catalog;
mod checkpoint;
pub mod clock;
mod command;
mod command_refusal;
pub mod event;
pub mod group;
mod ingest;
pub mod journal;
mod journal_transfer;
mod journal_verification;
pub mod label;
pub mod policy;
#[cfg(test)]
#[path = "../tests/support/reference_page.rs"]
mod reference_page;
#[cfg(test)]
mod sample_events;
pub mod snapshot;
mod snapshot_fold;
pub mod source;
pub mod tool;
mod tool_names;
pub mod tool_set;
pub mod tool_table;

pub use catalog::{
    AppendMetrics, Catalog, CommandError, CommandPlan, ExecutedCommand, JournalMoment,
    RefusedCommand, snapshot_at,
};
pub use command::Command;
pub use command_refusal::CommandRefusal;
pub use journal_transfer::{JournalImport, TransferError, export_journal};
pub use journal_verification::{
    DocumentCleanup, JournalVerification, remove_unused_documents, verify_journal,
};
pub use snapshot::{CataloguedGroup, CataloguedSource, Snapshot};
pub use tool_names::{NAME_LIMIT, is_portable_name, portable_name};
pub use tool_table::CataloguedTool;
