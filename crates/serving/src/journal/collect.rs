//! `toolcrib journal collect`: removes documents that no event refers to.

use serde_json::json;
use toolcrib::{Collected, JournalPlace};

use super::open_to_change;
use crate::cli::{Ended, Json};
use crate::failure::Failure;
use crate::out;

pub(crate) async fn collect(place: &JournalPlace, format: &Json) -> Result<Ended, Failure> {
    let journal = open_to_change(place).await?;
    let removed = match toolcrib::collect_documents(&*journal).await? {
        Collected::Removed(removed) => removed,
        Collected::NotUnderstood(events) => return Err(Failure::NotUnderstood { events }),
        Collected::Busy => return Err(Failure::Busy),
    };
    match format.json {
        true => out::print_json(&json!({"removed_documents": removed}))?,
        false => {
            out::print(&format!("{} removed", out::counted(removed, "document", "documents")))?
        }
    }
    Ok(Ended::Fine)
}
