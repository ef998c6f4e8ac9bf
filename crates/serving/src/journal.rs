//! `toolcrib journal …`: one file per verb.

pub(crate) mod collect;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod show;
pub(crate) mod tail;
pub(crate) mod verify;

use std::sync::Arc;

use toolcrib::{Journal, JournalPlace, SystemClock};

use crate::failure::Failure;

/// Opens the journal read-only; a server may have it open meanwhile.
pub(crate) async fn open_to_read(place: &JournalPlace) -> Result<Arc<dyn Journal>, Failure> {
    refuse_memory(place)?;
    Ok(place.open_read_only(SystemClock).await?)
}

/// Opens the journal for writing and creates it if it does not exist.
pub(crate) async fn open_or_make(place: &JournalPlace) -> Result<Arc<dyn Journal>, Failure> {
    refuse_memory(place)?;
    Ok(place.open(SystemClock).await?)
}

/// Opens an existing journal for writing. If it does not exist, it fails: a mistyped path must not create a journal.
pub(crate) async fn open_to_change(place: &JournalPlace) -> Result<Arc<dyn Journal>, Failure> {
    drop(open_to_read(place).await?);
    open_or_make(place).await
}

fn refuse_memory(place: &JournalPlace) -> Result<(), Failure> {
    match place {
        JournalPlace::Memory => Err(Failure::InMemory),
        JournalPlace::File(_) | JournalPlace::Postgres(_) => Ok(()),
    }
}
