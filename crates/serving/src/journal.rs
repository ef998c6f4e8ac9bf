//! `toolcrib journal …`: one file for each verb.

pub(crate) mod collect;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod show;
pub(crate) mod tail;
pub(crate) mod verify;

use std::sync::Arc;

use toolcrib::{Journal, JournalPlace, SystemClock};

use crate::failure::Failure;

/// For reading, beside a running server if there is one.
pub(crate) async fn open_to_read(place: &JournalPlace) -> Result<Arc<dyn Journal>, Failure> {
    refuse_memory(place)?;
    Ok(place.open_read_only(SystemClock).await?)
}

/// For writing; made if it is not there.
pub(crate) async fn open_or_make(place: &JournalPlace) -> Result<Arc<dyn Journal>, Failure> {
    refuse_memory(place)?;
    Ok(place.open(SystemClock).await?)
}

/// For writing, but only if it is there: a mistyped path leaves no new journal behind.
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
