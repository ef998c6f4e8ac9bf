//! Verifies the call log: every row is unchanged, and none is missing.
//!
//! An attacker who can write the whole database can also forge a new chain. Store the reported head elsewhere and pass
//! it to the next verification: the row with that id must still have that hash.

use std::fmt;
use std::str::FromStr;

use catalog::journal::JournalError;
use jiff::{SignedDuration, Timestamp};
use model::Digest;
use serde::{Serialize, Serializer};

use super::{CallFilter, CallLog, CallLogRow, ChainBounds, ChainLink, InvalidChainLink};

/// Rows read in one call.
const READ_PAGE: usize = 1_000;
/// Problems beyond this number are only counted.
const PROBLEM_LIMIT: usize = 100;

/// Tolerance for the age of removed rows: a call may start later than one that ended after it, and a verification takes
/// time.
const AGE_TOLERANCE: SignedDuration = SignedDuration::from_hours(1);

/// A head that an auditor saved elsewhere, with the start of its call: `12:5f1d…@2026-05-01T09:00:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedHead {
    pub link: ChainLink,
    /// Start of its call, if it was saved too.
    pub time: Option<Timestamp>,
}

impl From<ChainLink> for SavedHead {
    fn from(link: ChainLink) -> Self {
        Self { link, time: None }
    }
}

impl FromStr for SavedHead {
    type Err = InvalidChainLink;

    /// Parses `ID:HASH@TIME` or `ID:HASH`.
    fn from_str(text: &str) -> Result<Self, InvalidChainLink> {
        let (link, time) = match text.split_once('@') {
            Some((link, time)) => (link, Some(time.parse().map_err(|_| InvalidChainLink)?)),
            None => (text, None),
        };
        Ok(Self { link: link.parse()?, time })
    }
}

impl fmt::Display for SavedHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { link: ChainLink { id, hash }, time } = self;
        write!(f, "{id}:{hash}")?;
        time.map_or(Ok(()), |time| write!(f, "@{}", super::format_time(time)))
    }
}

impl Serialize for SavedHead {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Independent knowledge of an external auditor about the log; the database itself may be forged.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditExpectations {
    /// A saved head whose row must exist, unless retention has removed it.
    pub head: Option<SavedHead>,
    /// Retention may have removed only rows older than this; `None` disables the check.
    pub removed_before: Option<Timestamp>,
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallLogVerification {
    /// Number of rows checked.
    pub rows: u64,
    /// Number of rows that retention had removed before.
    pub removed: u64,
    /// Start of the call in the first existing row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Timestamp>,
    /// The last row.
    pub head: ChainLink,
    /// The last row with the start of its call, to be saved elsewhere for the next verification.
    pub keep: SavedHead,
    /// Id of the saved head if the log begins after it, so that its hash can no longer be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_old: Option<u64>,
    /// One sentence for each problem.
    pub problems: Vec<String>,
}

/// Verifies every row. Calls may be recorded, and old rows removed, at the same time.
pub async fn verify_call_log(
    records: &dyn CallLog,
    expected: AuditExpectations,
    mut tell: impl FnMut(u64),
) -> Result<CallLogVerification, JournalError> {
    let ChainBounds { anchor, head, counted } = records.chain_bounds().await?;
    let mut looking = ChainVerifier::starting_after(anchor, expected);
    if counted != head.id {
        looking.problems.push(format!(
            "{counted} calls were counted, and the last row is {}: rows at the end were removed",
            head.id
        ));
    }
    while looking.last.id < head.id {
        let (after, limit) = (Some(looking.last.id), READ_PAGE);
        let filter = CallFilter { after, limit, oldest_first: true, ..CallFilter::default() };
        let page = records.read_rows(filter).await?;
        if page.is_empty() {
            looking.report_missing(head.id);
            break;
        }
        for row in page.iter().take_while(|row| row.id <= head.id) {
            // Retention may have removed some rows since the last read.
            if row.id != looking.last.id + 1 {
                let anchor = records.chain_bounds().await?.anchor;
                if looking.last.id < anchor.id {
                    looking.restart_at(anchor);
                }
            }
            if looking.last.id < row.id {
                looking.check_row(row);
            }
        }
        if page.last().is_some_and(|row| head.id < row.id) && looking.last.id < head.id {
            looking.report_missing(head.id);
            break;
        }
        tell(looking.rows);
    }
    Ok(looking.into_verification(anchor.id, head))
}

/// Verifies an export line by line. It trusts the hash that the first row of the export follows.
#[derive(Debug, Default)]
pub struct ExportVerifier {
    expected: AuditExpectations,
    /// The link before the first row, and the state since then; `None` before the first row.
    begun: Option<(ChainLink, ChainVerifier)>,
    lines: u64,
    odd: Vec<String>,
}

impl ExportVerifier {
    /// Compares with the expectations of an auditor. If the export begins after the first row of the log, earlier rows
    /// count as removed.
    pub fn new(expected: AuditExpectations) -> Self {
        Self { expected, ..Self::default() }
    }

    /// Checks the next line.
    pub fn check_line(&mut self, line: &str) {
        self.lines += 1;
        let row = CallLogRow::from_line(line.trim_end());
        let Some((row, call)) = row.and_then(|row| row.parse_call().map(|call| (row, call))) else {
            if self.odd.len() <= PROBLEM_LIMIT {
                self.odd.push(format!("line {} is no row of an export", self.lines));
            }
            return;
        };
        let (_, looking) = self.begun.get_or_insert_with(|| {
            let before = ChainLink { id: row.id.saturating_sub(1), hash: call.previous };
            let before = if before.id == 0 { ChainLink::start() } else { before };
            (before, ChainVerifier::starting_after(before, self.expected))
        });
        looking.check_row(&row);
    }

    /// Completes the verification.
    pub fn finish(self) -> CallLogVerification {
        let start = ChainLink::start();
        let begun = self
            .begun
            .unwrap_or_else(|| (start, ChainVerifier::starting_after(start, self.expected)));
        let (before, mut looking) = begun;
        looking.problems.extend(self.odd);
        let head = looking.last;
        looking.into_verification(before.id, head)
    }
}

/// The state of a verification of consecutive rows.
#[derive(Debug)]
struct ChainVerifier {
    /// Rows up to this id have been removed.
    begins_after: u64,
    /// All removed rows must be older than this.
    removed_before: Option<Timestamp>,
    /// Tolerance for their age.
    allowance: SignedDuration,
    /// True if the next row has to prove the age of the removed rows.
    is_age_check_due: bool,
    oldest: Option<Timestamp>,
    newest: Option<Timestamp>,
    last: ChainLink,
    rows: u64,
    problems: Vec<String>,
    /// The saved head, until its row is found.
    saved_head: Option<SavedHead>,
}

impl ChainVerifier {
    fn starting_after(
        first: ChainLink,
        AuditExpectations { head, removed_before }: AuditExpectations,
    ) -> Self {
        let mut looking = Self {
            begins_after: first.id,
            removed_before,
            allowance: SignedDuration::ZERO,
            is_age_check_due: first.id != 0,
            oldest: None,
            newest: None,
            last: first,
            rows: 0,
            problems: Vec::new(),
            saved_head: head,
        };
        looking.advance_to(first);
        looking
    }

    /// Rows up to the anchor were removed during the verification. They may have become old enough only then.
    fn restart_at(&mut self, anchor: ChainLink) {
        self.begins_after = anchor.id;
        self.allowance = AGE_TOLERANCE;
        self.is_age_check_due = true;
        self.newest = None;
        self.advance_to(anchor);
    }

    fn check_row(&mut self, row: &CallLogRow) {
        self.problems.extend(find_row_problem(self.last, row));
        self.newest = row.parse_call().map(|call| call.call.time);
        if self.rows == 0 {
            self.oldest = self.newest;
        }
        self.check_removed_age(self.newest);
        self.rows += 1;
        self.advance_to(row.chain_link());
    }

    /// Checks the first remaining row. Retention keeps the newest removable row, so the removed ones are older, or
    /// nearly as old.
    fn check_removed_age(&mut self, first: Option<Timestamp>) {
        let is_due = std::mem::take(&mut self.is_age_check_due);
        let Some(removed_before) = self.removed_before.filter(|_| is_due) else { return };
        if first.is_none_or(|first| add_saturating(removed_before, self.allowance) <= first) {
            let (removed, oldest) = (self.begins_after, first.map(super::format_time));
            let left = oldest.unwrap_or_else(|| "of no time".to_owned());
            self.problems.push(format!(
                "rows up to {removed} were removed, and nothing shows that they were old enough: the first that is left is {left}"
            ));
        }
    }

    fn advance_to(&mut self, link: ChainLink) {
        self.last = link;
        let is_it = |kept: &mut SavedHead| kept.link.id == link.id;
        let Some(kept) = self.saved_head.take_if(is_it) else { return };
        if kept.link.hash != link.hash {
            let id = link.id;
            self.problems.push(format!("row {id} does not have the hash that was kept of it"));
        }
        self.check_saved_head_age(kept);
    }

    /// Checks the age of the saved head if its row was removed, regardless of the age that the next row claims.
    fn check_saved_head_age(&mut self, kept: SavedHead) {
        let SavedHead { link: ChainLink { id, .. }, time } = kept;
        let Some((time, boundary)) = time.zip(self.removed_before) else { return };
        if id != 0 && id <= self.begins_after && add_saturating(boundary, AGE_TOLERANCE) <= time {
            let time = super::format_time(time);
            self.problems.push(format!(
                "row {id}, of which a hash was kept, was removed, and was not old enough: it is of {time}"
            ));
        }
    }

    fn report_missing(&mut self, last: u64) {
        self.problems.push(format!("rows {} to {last} are missing", self.last.id + 1));
    }

    fn into_verification(mut self, removed: u64, head: ChainLink) -> CallLogVerification {
        self.check_removed_age(None);
        let kept = self.saved_head.map(|kept| kept.link.id);
        let too_old = kept.filter(|id| *id < self.begins_after);
        if let (Some(id), None) = (kept, too_old) {
            self.problems.push(format!("row {id}, of which a hash was kept, is not there"));
        }
        if let Some(kept) = self.saved_head.filter(|_| too_old.is_some()) {
            self.check_saved_head_age(kept);
        }
        let mut problems = self.problems;
        if PROBLEM_LIMIT < problems.len() {
            let more = problems.len() - PROBLEM_LIMIT;
            problems.truncate(PROBLEM_LIMIT);
            problems.push(format!("and {more} more problems"));
        }
        let (rows, oldest) = (self.rows, self.oldest);
        let keep = SavedHead { link: head, time: self.newest };
        CallLogVerification { rows, removed, oldest, head, keep, too_old, problems }
    }
}

fn add_saturating(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// The first problem of a row that follows `last`.
fn find_row_problem(last: ChainLink, row: &CallLogRow) -> Option<String> {
    let id = row.id;
    if Digest::of_bytes(&*row.text) != row.hash {
        return Some(format!("row {id} was changed: its hash is that of another text"));
    }
    let Some(call) = row.parse_call().filter(|call| call.id == id) else {
        return Some(format!("row {id} was replaced: its text is not that of row {id}"));
    };
    match last.id.saturating_add(1) {
        next if id < next => Some(format!("row {id} stands after row {}", last.id)),
        next if next == id && call.previous == last.hash => None,
        next if next == id => Some(format!("row {id} does not follow row {}", last.id)),
        next if next + 1 == id => Some(format!("row {next} is missing")),
        next => Some(format!("rows {next} to {} are missing", id - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CallEndpoint, CallRecord, CallerCredentialKind, FinalCallStatus, chain_rows};

    fn rows(count: usize) -> Vec<CallLogRow> {
        let call = CallRecord {
            time: "2026-05-01T09:00:00Z".parse().unwrap(),
            node: "n1".into(),
            subject: "ada".into(),
            issuer: None,
            client: None,
            means: CallerCredentialKind::Key,
            door: CallEndpoint::Mcp,
            kind: model::McpPrimitive::Tool,
            tool_id: None,
            source_id: None,
            status: FinalCallStatus::Completed,
            code: None,
            error: None,
            upstream_status: None,
            duration_us: 1,
            argument_bytes: 2,
            result_bytes: 3,
            correlation_id: None,
            trace_id: None,
            arguments: Some(r#"{"hash":"x","a":",\"hash\":\""}"#.into()),
        };
        chain_rows(ChainLink::start(), &vec![call; count])
    }

    fn verified<'a>(
        rows: impl IntoIterator<Item = &'a CallLogRow>,
        head: Option<ChainLink>,
    ) -> CallLogVerification {
        let head = head.map(SavedHead::from);
        held_against(rows, AuditExpectations { head, ..AuditExpectations::default() })
    }

    fn held_against<'a>(
        rows: impl IntoIterator<Item = &'a CallLogRow>,
        expected: AuditExpectations,
    ) -> CallLogVerification {
        let mut verifier = ExportVerifier::new(expected);
        rows.into_iter().for_each(|row| verifier.check_line(&(row.to_line() + "\n")));
        verifier.finish()
    }

    #[test]
    fn an_export_is_complete_from_its_first_row() {
        let rows = rows(5);
        let all = verified(&rows, Some(rows[3].chain_link()));
        assert_eq!((all.rows, all.removed, all.head), (5, 0, rows[4].chain_link()));
        assert_eq!(all.problems, Vec::<String>::new());
        // The first row contains the hash of the row before it.
        let later = verified(&rows[2..], Some(rows[1].chain_link()));
        assert_eq!((later.rows, later.removed, later.problems), (3, 2, vec![]));
    }

    #[test]
    fn a_saved_head_before_the_first_row_cannot_be_checked_and_is_no_problem() {
        let rows = rows(5);
        let later = verified(&rows[3..], Some(rows[1].chain_link()));
        assert_eq!((later.too_old, later.problems), (Some(2), vec![]));
        // The first row contains the hash that the row before it must have.
        let before = ChainLink { id: 3, hash: Digest::of_bytes("x") };
        let other = verified(&rows[3..], Some(before));
        assert_eq!(other.problems, ["row 3 does not have the hash that was kept of it"]);
        assert_eq!(other.too_old, None);
    }

    #[test]
    fn an_export_that_begins_too_late_is_detected() {
        let rows = rows(5);
        let began = rows[0].parse_call().unwrap().call.time;
        let held = |rows: &[CallLogRow], removed_before| {
            let removed_before = Some(removed_before);
            held_against(rows, AuditExpectations { removed_before, ..AuditExpectations::default() })
                .problems
        };
        let (before, after) = (Timestamp::MIN, Timestamp::MAX);
        assert_eq!(held(&rows, before), [""; 0]);
        assert_eq!(held(&rows[2..], after), [""; 0]);
        for boundary in [before, began] {
            let [problem] = &held(&rows[2..], boundary)[..] else { unreachable!("one problem") };
            assert!(problem.starts_with("rows up to 2 were removed"), "{problem}");
        }
    }

    #[test]
    fn a_saved_head_proves_whether_its_row_was_old_enough_to_be_removed() {
        let rows = rows(5);
        let kept = held_against(&rows[..3], AuditExpectations::default()).keep;
        assert_eq!(kept.to_string(), format!("3:{}@2026-05-01T09:00:00.000000Z", rows[2].hash));
        assert_eq!(kept.to_string().parse(), Ok(kept));
        assert!("3:x@2026-05-01".parse::<SavedHead>().is_err());
        let held = |begin: usize, removed_before: &str| {
            let removed_before = removed_before.parse().ok();
            let expected = AuditExpectations { head: Some(kept), removed_before };
            held_against(&rows[begin..], expected).problems
        };
        // The first remaining row is treated as if it were older.
        let told = "row 3, of which a hash was kept, was removed, and was not old enough";
        for begin in [3, 4] {
            let problems = held(begin, "2026-05-01T08:00:00Z");
            assert!(problems.iter().any(|problem| problem.starts_with(told)), "{problems:?}");
            assert_eq!(held(begin, "2026-05-01T09:00:01Z"), [""; 0]);
        }
        assert_eq!(held(0, "2026-05-01T08:00:00Z"), [""; 0]);
    }

    #[test]
    fn damage_of_an_export_is_detected() {
        let rows = rows(5);
        let gap = verified(rows.iter().filter(|row| row.id != 3), None);
        assert_eq!(gap.problems, ["row 3 is missing"]);
        let twice = verified([&rows[0], &rows[1], &rows[1]], None);
        assert_eq!(twice.problems, ["row 2 stands after row 2"]);
        let mut odd = rows[0].clone();
        for id in [0, u64::MAX] {
            let text =
                odd.text.replacen(&format!(r#""id":{}"#, odd.id), &format!(r#""id":{id}"#), 1);
            odd = CallLogRow { id, hash: Digest::of_bytes(&text), text: text.into() };
            assert_ne!(verified([&odd, &rows[0]], None).problems, Vec::<String>::new());
        }
        let cut = verified(&rows[..4], Some(rows[4].chain_link()));
        assert_eq!(cut.problems, ["row 5, of which a hash was kept, is not there"]);
        let other = ChainLink { id: 2, hash: Digest::of_bytes("x") };
        let made_up = verified(&rows, Some(other));
        assert_eq!(made_up.problems, ["row 2 does not have the hash that was kept of it"]);
        assert_eq!(verified(&[], None).rows, 0);
        let mut first = rows[0].clone();
        first.text = first.text.replace("ada", "eve").into();
        assert_eq!(verified([&first], None).problems.len(), 1);
    }
}
