//! `toolcrib record …`: the record of calls, one file for each verb.

pub(crate) mod export;
pub(crate) mod list;
pub(crate) mod verify;

use std::sync::Arc;

use toolcrib::{JournalPlace, Records};

use crate::failure::Failure;

/// For reading, beside a running server if there is one.
async fn open(place: &JournalPlace) -> Result<Arc<dyn Records>, Failure> {
    match place {
        JournalPlace::Memory => Err(Failure::InMemory),
        JournalPlace::File(_) | JournalPlace::Postgres(_) => {
            Ok(place.open_record_to_read().await?)
        }
    }
}
