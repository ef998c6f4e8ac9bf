//! `toolcrib execution verify`: checks that the call log is complete and unchanged.

use std::fs::File;
use std::io;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use toolcrib::{
    AuditExpectations, CallLogVerification, Clock as _, ExportVerifier, JournalLocation,
    SystemClock, verify_call_log,
};

use crate::arguments::VerbOutcome;
use crate::arguments::execution::VerifyCallsArgs;
use crate::cli_error::CliError;
use crate::output;
use crate::progress::ProgressLine;

/// Maximum bytes of a line; a longer line is not a row.
const MAX_LINE_BYTES: u64 = 1 << 20;

pub(super) async fn verify_calls(
    place: &JournalLocation,
    given: &VerifyCallsArgs,
) -> Result<VerbOutcome, CliError> {
    let mut progress = ProgressLine::start();
    let tell = |rows: u64| {
        progress.update(|| {
            let rows = usize::try_from(rows).unwrap_or(usize::MAX);
            format!("verified {}", output::count_noun(rows, "call", "calls"))
        })
    };
    let removed_before = given.keep_days.map(|days| removed_before(days, SystemClock.now()));
    let expected = AuditExpectations { head: given.head, removed_before };
    let verification = match &given.file {
        Some(file) => verify_exported_file(file, expected, tell)?,
        None if matches!(place, JournalLocation::Memory) => return Err(CliError::InMemory),
        None => {
            let records = place.open_call_log_read_only().await?;
            verify_call_log(&*records, expected, tell).await?
        }
    };
    output::print_verified(
        &given.json,
        verification.problems.is_empty(),
        &verification,
        verification_text,
    )
}

/// The time before which rows may be removed, by the rules of `record.keep_days`: zero keeps all rows.
fn removed_before(keep_days: u32, now: Timestamp) -> Timestamp {
    let keep = SignedDuration::from_hours(i64::from(keep_days) * 24);
    let before = now.checked_sub(keep).ok().filter(|_| keep_days != 0);
    before.unwrap_or(Timestamp::MIN)
}

fn verify_exported_file(
    path: &Path,
    expected: AuditExpectations,
    mut tell: impl FnMut(u64),
) -> Result<CallLogVerification, CliError> {
    let cannot_read = |source: io::Error| CliError::Read { path: path.to_owned(), source };
    let mut reader: Box<dyn BufRead> = match path.to_str() {
        Some("-") => Box::new(BufReader::new(io::stdin())),
        _ => Box::new(BufReader::new(File::open(path).map_err(cannot_read)?)),
    };
    let (mut verifier, mut line, mut lines) = (ExportVerifier::new(expected), Vec::new(), 0);
    loop {
        line.clear();
        let read = reader
            .by_ref()
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)
            .map_err(cannot_read)?;
        if read == 0 {
            return Ok(verifier.finish());
        }
        verifier.check_line(&String::from_utf8_lossy(&line));
        lines += 1;
        tell(lines);
    }
}

fn verification_text(verification: &CallLogVerification) -> String {
    let CallLogVerification { rows, removed, oldest, keep, too_old, problems, .. } = verification;
    let oldest = oldest.map_or_else(String::new, |time| format!("oldest   {time}\n"));
    let problems = output::problems_text(problems);
    let too_old = too_old.map_or_else(String::new, |id| {
        format!(
            "row {id}, of which a hash was kept, is too old to be checked: keep the head of now\n"
        )
    });
    format!("calls    {rows}\nremoved  {removed}\n{oldest}head     {keep}\n{too_old}{problems}")
}

#[cfg(test)]
mod tests {
    use toolcrib::SavedHead;

    use super::*;

    #[test]
    fn with_unlimited_retention_no_row_may_be_removed() {
        let now: Timestamp = "2026-05-11T09:00:00Z".parse().unwrap();
        assert_eq!(removed_before(0, now), Timestamp::MIN);
        assert_eq!(removed_before(u32::MAX, now), Timestamp::MIN);
        assert_eq!(removed_before(10, now).to_string(), "2026-05-01T09:00:00Z");
    }

    #[test]
    fn a_head_that_is_too_old_is_reported_and_is_not_a_problem() {
        let keep = format!("9:{}@2026-05-02T09:00:00Z", "0".repeat(64));
        let keep: SavedHead = keep.parse().unwrap();
        let (head, oldest) = (keep.link, "2026-05-01T09:00:00Z".parse().ok());
        let (rows, removed, too_old, problems) = (4, 5, Some(3), Vec::new());
        let verification =
            CallLogVerification { rows, removed, oldest, head, keep, too_old, problems };
        insta::assert_snapshot!(verification_text(&verification), @"
        calls    4
        removed  5
        oldest   2026-05-01T09:00:00Z
        head     9:0000000000000000000000000000000000000000000000000000000000000000@2026-05-02T09:00:00.000000Z
        row 3, of which a hash was kept, is too old to be checked: keep the head of now
        ok
        ");
    }
}
