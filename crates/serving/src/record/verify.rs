//! `toolcrib execution verify`: checks that the call log is complete and unchanged.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use toolcrib::{
    Clock as _, ExpectedRecord, ExportVerifier, JournalPlace, RecordVerification, SystemClock,
    verify_records,
};

use crate::cli::Ended;
use crate::cli::execution::VerifyCalls;
use crate::failure::Failure;
use crate::out;
use crate::progress::Progress;

/// Maximum bytes of a line; a longer line is not a row.
const LINE: u64 = 1 << 20;

pub(super) async fn verify(place: &JournalPlace, given: &VerifyCalls) -> Result<Ended, Failure> {
    let mut progress = Progress::start();
    let tell = |rows: u64| {
        progress.show(|| {
            let rows = usize::try_from(rows).unwrap_or(usize::MAX);
            format!("verified {}", out::counted(rows, "call", "calls"))
        })
    };
    let removed_before = given.keep_days.map(|days| removed_before(days, SystemClock.now()));
    let expected = ExpectedRecord { head: given.head, removed_before };
    let verification = match &given.file {
        Some(file) => verify_file(file, expected, tell)?,
        None if matches!(place, JournalPlace::Memory) => return Err(Failure::InMemory),
        None => {
            let records = place.open_record_to_read().await?;
            verify_records(&*records, expected, tell).await?
        }
    };
    out::print_verified(&given.json, verification.problems.is_empty(), &verification, text)
}

/// The time before which rows may be removed, by the rules of `record.keep_days`: zero keeps all rows.
fn removed_before(keep_days: u32, now: Timestamp) -> Timestamp {
    let keep = SignedDuration::from_hours(i64::from(keep_days) * 24);
    let before = now.checked_sub(keep).ok().filter(|_| keep_days != 0);
    before.unwrap_or(Timestamp::MIN)
}

fn verify_file(
    path: &Path,
    expected: ExpectedRecord,
    mut tell: impl FnMut(u64),
) -> Result<RecordVerification, Failure> {
    let cannot_read = |source: io::Error| Failure::Read { path: path.to_owned(), source };
    let mut reader: Box<dyn BufRead> = match path.to_str() {
        Some("-") => Box::new(BufReader::new(io::stdin())),
        _ => Box::new(BufReader::new(File::open(path).map_err(cannot_read)?)),
    };
    let (mut verifier, mut line, mut lines) = (ExportVerifier::new(expected), Vec::new(), 0);
    loop {
        line.clear();
        let read = reader.by_ref().take(LINE).read_until(b'\n', &mut line).map_err(cannot_read)?;
        if read == 0 {
            return Ok(verifier.end());
        }
        verifier.look(&String::from_utf8_lossy(&line));
        lines += 1;
        tell(lines);
    }
}

fn text(verification: &RecordVerification) -> String {
    let RecordVerification { rows, removed, oldest, keep, too_old, problems, .. } = verification;
    let oldest = oldest.map_or_else(String::new, |time| format!("oldest   {time}\n"));
    let problems = out::problems(problems);
    let too_old = too_old.map_or_else(String::new, |id| {
        format!(
            "row {id}, of which a hash was kept, is too old to be checked: keep the head of now\n"
        )
    });
    format!("calls    {rows}\nremoved  {removed}\n{oldest}head     {keep}\n{too_old}{problems}")
}

#[cfg(test)]
mod tests {
    use toolcrib::KeptHead;

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
        let keep: KeptHead = keep.parse().unwrap();
        let (head, oldest) = (keep.link, "2026-05-01T09:00:00Z".parse().ok());
        let (rows, removed, too_old, problems) = (4, 5, Some(3), Vec::new());
        let verification =
            RecordVerification { rows, removed, oldest, head, keep, too_old, problems };
        insta::assert_snapshot!(text(&verification), @"
        calls    4
        removed  5
        oldest   2026-05-01T09:00:00Z
        head     9:0000000000000000000000000000000000000000000000000000000000000000@2026-05-02T09:00:00.000000Z
        row 3, of which a hash was kept, is too old to be checked: keep the head of now
        ok
        ");
    }
}
