//! `toolcrib execution verify`: whether every recorded call is there, and as it was recorded.

use toolcrib::{JournalPlace, RecordVerification, verify_records};

use crate::cli::{Ended, Json};
use crate::failure::Failure;
use crate::out;
use crate::progress::Progress;

pub(super) async fn verify(place: &JournalPlace, format: &Json) -> Result<Ended, Failure> {
    if matches!(place, JournalPlace::Memory) {
        return Err(Failure::InMemory);
    }
    let records = place.open_record_to_read().await?;
    let mut progress = Progress::start();
    let tell = |rows: u64| {
        progress.show(|| {
            let rows = usize::try_from(rows).unwrap_or(usize::MAX);
            format!("verified {}", out::counted(rows, "call", "calls"))
        })
    };
    let verification = verify_records(&*records, tell).await?;
    out::print_verified(format, verification.problems.is_empty(), &verification, text)
}

fn text(verification: &RecordVerification) -> String {
    let RecordVerification { rows, removed, head, problems } = verification;
    let (id, hash, problems) = (head.id, head.hash, out::problems(problems));
    format!("calls    {rows}\nremoved  {removed}\nhead     {id} {hash}\n{problems}")
}
