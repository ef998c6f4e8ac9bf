//! `toolcrib journal collect`: removes documents that no event refers to.

use serde_json::json;
use toolcrib::{DocumentCleanup, JournalLocation};

use super::open_to_change;
use crate::cli::{JsonFlag, VerbOutcome};
use crate::failure::CliError;
use crate::out;

pub(crate) async fn collect_documents(
    place: &JournalLocation,
    format: &JsonFlag,
) -> Result<VerbOutcome, CliError> {
    let journal = open_to_change(place).await?;
    let removed = match toolcrib::remove_unused_documents(&*journal).await? {
        DocumentCleanup::Removed(removed) => removed,
        DocumentCleanup::NotUnderstood(events) => {
            return Err(CliError::UnknownEventTypes { events });
        }
        DocumentCleanup::Busy => return Err(CliError::EventsKeepArriving),
    };
    match format.json {
        true => out::print_json(&json!({"removed_documents": removed}))?,
        false => out::print_text(&format!(
            "{} removed",
            out::count_noun(removed, "document", "documents")
        ))?,
    }
    Ok(VerbOutcome::Success)
}
