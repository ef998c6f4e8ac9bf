//! `toolcrib journal …`: one file per verb.

pub(crate) mod collect;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod show;
pub(crate) mod tail;
pub(crate) mod verify;

use std::sync::Arc;

use toolcrib::{Journal, JournalLocation, SystemClock};

use crate::cli_error::CliError;

/// Opens the journal read-only; a server may have it open meanwhile.
pub(crate) async fn open_to_read(place: &JournalLocation) -> Result<Arc<dyn Journal>, CliError> {
    reject_in_memory(place)?;
    Ok(place.open_read_only(SystemClock).await?)
}

/// Opens the journal for writing and creates it if it does not exist.
pub(crate) async fn open_or_create(place: &JournalLocation) -> Result<Arc<dyn Journal>, CliError> {
    reject_in_memory(place)?;
    Ok(place.open(SystemClock).await?)
}

/// Opens an existing journal for writing. If it does not exist, it fails: a mistyped path must not create a journal.
pub(crate) async fn open_to_change(place: &JournalLocation) -> Result<Arc<dyn Journal>, CliError> {
    drop(open_to_read(place).await?);
    open_or_create(place).await
}

fn reject_in_memory(place: &JournalLocation) -> Result<(), CliError> {
    match place {
        JournalLocation::Memory => Err(CliError::InMemory),
        JournalLocation::File(_) | JournalLocation::Postgres(_) => Ok(()),
    }
}
