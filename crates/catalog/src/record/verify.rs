//! Whether the record is whole: every row is the one that was stored, and none is missing.
//!
//! Whoever can write the whole database can also make up another chain. Keep the head that is reported here somewhere
//! else, and hold the next one against it: the row of that id must still have that hash.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use model::Digest;
use serde::{Serialize, Serializer};

use super::{CallFilter, Chain, InvalidLink, Link, Records, Row};
use crate::journal::JournalError;

/// How many rows are read at once.
const PAGE: usize = 1_000;
/// More problems than this are not told one by one.
const TOLD: usize = 100;

/// By how much a call may have begun after one that ended later, and how long a look at all rows may take.
const ALLOWANCE: SignedDuration = SignedDuration::from_hours(1);

/// A head that is kept elsewhere, and when its call began: `12:5f1d…@2026-05-01T09:00:00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptHead {
    /// Which row it is.
    pub link: Link,
    /// When its call began, if that was kept too.
    pub time: Option<Timestamp>,
}

impl From<Link> for KeptHead {
    fn from(link: Link) -> Self {
        Self { link, time: None }
    }
}

impl FromStr for KeptHead {
    type Err = InvalidLink;

    /// Reads `ID:HASH@TIME`, or `ID:HASH`.
    fn from_str(text: &str) -> Result<Self, InvalidLink> {
        let (link, time) = match text.split_once('@') {
            Some((link, time)) => (link, Some(time.parse().map_err(|_| InvalidLink)?)),
            None => (text, None),
        };
        Ok(Self { link: link.parse()?, time })
    }
}

impl fmt::Display for KeptHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { link: Link { id, hash }, time } = self;
        write!(f, "{id}:{hash}")?;
        time.map_or(Ok(()), |time| write!(f, "@{}", super::written(time)))
    }
}

impl Serialize for KeptHead {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What somebody else knows of a record than its own database, which may be somebody's who wants to seem honest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// A head that was kept elsewhere must be there, unless its row has gone for its age.
    pub head: Option<KeptHead>,
    /// Only what is older may have gone for its age; nothing, if nothing is older.
    pub removed_before: Option<Timestamp>,
}

/// What a look at the whole record found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordVerification {
    /// How many rows were looked at.
    pub rows: u64,
    /// How many were removed for their age before.
    pub removed: u64,
    /// When the call of the first row began that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Timestamp>,
    /// The last row.
    pub head: Link,
    /// The same with when its call began, as it is to be kept elsewhere and given back.
    pub keep: KeptHead,
    /// The row of which a head was kept, if what there is begins after it: nobody can say any more whether it was the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_old: Option<u64>,
    /// One sentence for each thing that is wrong.
    pub problems: Vec<String>,
}

/// Looks at every row. Calls may be recorded meanwhile, and old rows may go.
pub async fn verify_records(
    records: &dyn Records,
    expected: Expected,
    mut tell: impl FnMut(u64),
) -> Result<RecordVerification, JournalError> {
    let Chain { anchor, head, counted } = records.chain().await?;
    let mut looking = Looking::after(anchor, expected);
    if counted != head.id {
        looking.problems.push(format!(
            "{counted} calls were counted, and the last row is {}: rows at the end were removed",
            head.id
        ));
    }
    while looking.last.id < head.id {
        let (after, limit) = (Some(looking.last.id), PAGE);
        let filter = CallFilter { after, limit, oldest_first: true, ..CallFilter::default() };
        let page = records.read(filter).await?;
        if page.is_empty() {
            looking.miss(head.id);
            break;
        }
        for row in page.iter().take_while(|row| row.id <= head.id) {
            // Some may have grown too old while we were reading.
            if row.id != looking.last.id + 1 {
                let anchor = records.chain().await?.anchor;
                if looking.last.id < anchor.id {
                    looking.begin_at(anchor);
                }
            }
            if looking.last.id < row.id {
                looking.look(row);
            }
        }
        if page.last().is_some_and(|row| head.id < row.id) && looking.last.id < head.id {
            looking.miss(head.id);
            break;
        }
        tell(looking.rows);
    }
    Ok(looking.end(anchor.id, head))
}

/// Looks at the lines of an export, one by one. What one begins with is taken as it is.
#[derive(Debug, Default)]
pub struct ExportVerifier {
    expected: Expected,
    /// What the first row follows, once there is one.
    begun: Option<(Link, Looking)>,
    lines: u64,
    odd: Vec<String>,
}

impl ExportVerifier {
    /// It is held against what is expected. Lines that begin later than the record are as if the rows before had gone.
    pub fn new(expected: Expected) -> Self {
        Self { expected, ..Self::default() }
    }

    /// The next line.
    pub fn look(&mut self, line: &str) {
        self.lines += 1;
        let row = Row::of_line(line.trim_end());
        let Some((row, call)) = row.and_then(|row| row.call().map(|call| (row, call))) else {
            if self.odd.len() <= TOLD {
                self.odd.push(format!("line {} is no row of an export", self.lines));
            }
            return;
        };
        let (_, looking) = self.begun.get_or_insert_with(|| {
            let before = Link { id: row.id.saturating_sub(1), hash: call.previous };
            let before = if before.id == 0 { Link::start() } else { before };
            (before, Looking::after(before, self.expected))
        });
        looking.look(&row);
    }

    /// What was found.
    pub fn end(self) -> RecordVerification {
        let start = Link::start();
        let begun = self.begun.unwrap_or_else(|| (start, Looking::after(start, self.expected)));
        let (before, mut looking) = begun;
        looking.problems.extend(self.odd);
        let head = looking.last;
        looking.end(before.id, head)
    }
}

/// What a look at rows, one after the other, has found so far.
#[derive(Debug)]
struct Looking {
    /// What stood before is gone.
    begins_after: u64,
    /// All of that must be older.
    removed_before: Option<Timestamp>,
    /// By how much it may be younger.
    allowance: SignedDuration,
    /// Whether that is to be seen from the next row.
    is_age_due: bool,
    oldest: Option<Timestamp>,
    newest: Option<Timestamp>,
    last: Link,
    rows: u64,
    problems: Vec<String>,
    /// A head that was kept elsewhere, until it is found.
    kept: Option<KeptHead>,
}

impl Looking {
    fn after(first: Link, Expected { head, removed_before }: Expected) -> Self {
        let mut looking = Self {
            begins_after: first.id,
            removed_before,
            allowance: SignedDuration::ZERO,
            is_age_due: first.id != 0,
            oldest: None,
            newest: None,
            last: first,
            rows: 0,
            problems: Vec::new(),
            kept: head,
        };
        looking.reach(first);
        looking
    }

    /// Everything up to there has gone since we began. It may have grown old enough only then.
    fn begin_at(&mut self, anchor: Link) {
        self.begins_after = anchor.id;
        self.allowance = ALLOWANCE;
        self.is_age_due = true;
        self.newest = None;
        self.reach(anchor);
    }

    fn look(&mut self, row: &Row) {
        self.problems.extend(problem(self.last, row));
        self.newest = row.call().map(|call| call.call.time);
        if self.rows == 0 {
            self.oldest = self.newest;
        }
        self.look_at_age(self.newest);
        self.rows += 1;
        self.reach(row.link());
    }

    /// Retention leaves the last row that may go: all that stood before it is older still, or nearly.
    fn look_at_age(&mut self, first: Option<Timestamp>) {
        let is_due = std::mem::take(&mut self.is_age_due);
        let Some(removed_before) = self.removed_before.filter(|_| is_due) else { return };
        if first.is_none_or(|first| later(removed_before, self.allowance) <= first) {
            let (removed, oldest) = (self.begins_after, first.map(super::written));
            let left = oldest.unwrap_or_else(|| "of no time".to_owned());
            self.problems.push(format!(
                "rows up to {removed} were removed, and nothing shows that they were old enough: the first that is left is {left}"
            ));
        }
    }

    fn reach(&mut self, link: Link) {
        self.last = link;
        let is_it = |kept: &mut KeptHead| kept.link.id == link.id;
        let Some(kept) = self.kept.take_if(is_it) else { return };
        if kept.link.hash != link.hash {
            let id = link.id;
            self.problems.push(format!("row {id} does not have the hash that was kept of it"));
        }
        self.look_at_age_of(kept);
    }

    /// A row that is known only from the one behind it has been removed, whatever that one says of its own age.
    fn look_at_age_of(&mut self, kept: KeptHead) {
        let KeptHead { link: Link { id, .. }, time } = kept;
        let Some((time, boundary)) = time.zip(self.removed_before) else { return };
        if id != 0 && id <= self.begins_after && later(boundary, ALLOWANCE) <= time {
            let time = super::written(time);
            self.problems.push(format!(
                "row {id}, of which a hash was kept, was removed, and was not old enough: it is of {time}"
            ));
        }
    }

    fn miss(&mut self, last: u64) {
        self.problems.push(format!("rows {} to {last} are missing", self.last.id + 1));
    }

    fn end(mut self, removed: u64, head: Link) -> RecordVerification {
        self.look_at_age(None);
        let kept = self.kept.map(|kept| kept.link.id);
        let too_old = kept.filter(|id| *id < self.begins_after);
        if let (Some(id), None) = (kept, too_old) {
            self.problems.push(format!("row {id}, of which a hash was kept, is not there"));
        }
        if let Some(kept) = self.kept.filter(|_| too_old.is_some()) {
            self.look_at_age_of(kept);
        }
        let mut problems = self.problems;
        if TOLD < problems.len() {
            let more = problems.len() - TOLD;
            problems.truncate(TOLD);
            problems.push(format!("and {more} more problems"));
        }
        let (rows, oldest) = (self.rows, self.oldest);
        let keep = KeptHead { link: head, time: self.newest };
        RecordVerification { rows, removed, oldest, head, keep, too_old, problems }
    }
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// What is wrong with a row that follows another.
fn problem(last: Link, row: &Row) -> Option<String> {
    let id = row.id;
    if Digest::of(&*row.text) != row.hash {
        return Some(format!("row {id} was changed: its hash is that of another text"));
    }
    let Some(call) = row.call().filter(|call| call.id == id) else {
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
    use crate::record::{CallDoor, CallEnd, CallRecord, ShownBy, chained};

    fn rows(count: usize) -> Vec<Row> {
        let call = CallRecord {
            time: "2026-05-01T09:00:00Z".parse().unwrap(),
            node: "n1".into(),
            subject: "ada".into(),
            issuer: None,
            client: None,
            means: ShownBy::Key,
            door: CallDoor::Mcp,
            kind: model::Primitive::Tool,
            tool_id: None,
            source_id: None,
            status: CallEnd::Completed,
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
        chained(Link::start(), &vec![call; count])
    }

    fn verified<'a>(
        rows: impl IntoIterator<Item = &'a Row>,
        head: Option<Link>,
    ) -> RecordVerification {
        let head = head.map(KeptHead::from);
        held_against(rows, Expected { head, ..Expected::default() })
    }

    fn held_against<'a>(
        rows: impl IntoIterator<Item = &'a Row>,
        expected: Expected,
    ) -> RecordVerification {
        let mut verifier = ExportVerifier::new(expected);
        rows.into_iter().for_each(|row| verifier.look(&(row.to_line() + "\n")));
        verifier.end()
    }

    #[test]
    fn an_export_is_whole_from_where_it_begins() {
        let rows = rows(5);
        let all = verified(&rows, Some(rows[3].link()));
        assert_eq!((all.rows, all.removed, all.head), (5, 0, rows[4].link()));
        assert_eq!(all.problems, Vec::<String>::new());
        // The first row says what stood before it.
        let later = verified(&rows[2..], Some(rows[1].link()));
        assert_eq!((later.rows, later.removed, later.problems), (3, 2, vec![]));
    }

    #[test]
    fn a_head_of_before_the_first_row_cannot_be_checked_and_is_no_problem() {
        let rows = rows(5);
        let later = verified(&rows[3..], Some(rows[1].link()));
        assert_eq!((later.too_old, later.problems), (Some(2), vec![]));
        // The first row says what the one before it must be.
        let before = Link { id: 3, hash: Digest::of("x") };
        let other = verified(&rows[3..], Some(before));
        assert_eq!(other.problems, ["row 3 does not have the hash that was kept of it"]);
        assert_eq!(other.too_old, None);
    }

    #[test]
    fn an_export_that_begins_too_late_shows() {
        let rows = rows(5);
        let began = rows[0].call().unwrap().call.time;
        let held = |rows: &[Row], removed_before| {
            let removed_before = Some(removed_before);
            held_against(rows, Expected { removed_before, ..Expected::default() }).problems
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
    fn a_head_that_was_kept_says_whether_its_row_was_old_enough_to_go() {
        let rows = rows(5);
        let kept = held_against(&rows[..3], Expected::default()).keep;
        assert_eq!(kept.to_string(), format!("3:{}@2026-05-01T09:00:00.000000Z", rows[2].hash));
        assert_eq!(kept.to_string().parse(), Ok(kept));
        assert!("3:x@2026-05-01".parse::<KeptHead>().is_err());
        let held = |begin: usize, removed_before: &str| {
            let removed_before = removed_before.parse().ok();
            let expected = Expected { head: Some(kept), removed_before };
            held_against(&rows[begin..], expected).problems
        };
        // The first that is left is taken for older than it is.
        let told = "row 3, of which a hash was kept, was removed, and was not old enough";
        for begin in [3, 4] {
            let problems = held(begin, "2026-05-01T08:00:00Z");
            assert!(problems.iter().any(|problem| problem.starts_with(told)), "{problems:?}");
            assert_eq!(held(begin, "2026-05-01T09:00:01Z"), [""; 0]);
        }
        assert_eq!(held(0, "2026-05-01T08:00:00Z"), [""; 0]);
    }

    #[test]
    fn what_is_wrong_with_an_export_shows() {
        let rows = rows(5);
        let gap = verified(rows.iter().filter(|row| row.id != 3), None);
        assert_eq!(gap.problems, ["row 3 is missing"]);
        let twice = verified([&rows[0], &rows[1], &rows[1]], None);
        assert_eq!(twice.problems, ["row 2 stands after row 2"]);
        let mut odd = rows[0].clone();
        for id in [0, u64::MAX] {
            let text =
                odd.text.replacen(&format!(r#""id":{}"#, odd.id), &format!(r#""id":{id}"#), 1);
            odd = Row { id, hash: Digest::of(&text), text: text.into() };
            assert_ne!(verified([&odd, &rows[0]], None).problems, Vec::<String>::new());
        }
        let cut = verified(&rows[..4], Some(rows[4].link()));
        assert_eq!(cut.problems, ["row 5, of which a hash was kept, is not there"]);
        let other = Link { id: 2, hash: Digest::of("x") };
        let made_up = verified(&rows, Some(other));
        assert_eq!(made_up.problems, ["row 2 does not have the hash that was kept of it"]);
        assert_eq!(verified(&[], None).rows, 0);
        let mut first = rows[0].clone();
        first.text = first.text.replace("ada", "eve").into();
        assert_eq!(verified([&first], None).problems.len(), 1);
    }
}
