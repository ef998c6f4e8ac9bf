//! `toolcrib journal collect`: removes documents that no event refers to.

use serde_json::json;
use toolcrib::{DocumentCleanup, JournalLocation};

use super::open_to_change;
use crate::arguments::{JsonFlag, VerbOutcome};
use crate::cli_error::CliError;
use crate::output;

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
        true => output::print_json(&json!({"removed_documents": removed}))?,
        false => output::print_text(&format!(
            "{} removed",
            output::count_noun(removed, "document", "documents")
        ))?,
    }
    Ok(VerbOutcome::Success)
}
