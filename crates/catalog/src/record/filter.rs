//! Which rows are wanted, and the SQL that says so. Values are never part of the SQL, so that those who ask for other values
//! of the same ask with the same text, which a database may have prepared.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::{CallDoor, CallEnd, written};

/// If no more rows than this are of a time, the rows are looked for among their ids. Rows are in the order in which calls
/// ended, so those of a time are not one after the other, and for many of them it is better to go through all.
const FEW: usize = 100_000;

/// Which rows are wanted. What is left out does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// Of this tool.
    pub tool: Option<String>,
    /// Of this source.
    pub source: Option<String>,
    /// Of this caller.
    pub subject: Option<String>,
    /// Whose token was of this issuer.
    pub issuer: Option<String>,
    /// That came by this door.
    pub door: Option<CallDoor>,
    /// Of the request with this name.
    pub correlation_id: Option<String>,
    /// Of this trace.
    pub trace_id: Option<String>,
    /// That ended so.
    pub status: Option<CallEnd>,
    /// That failed for this reason.
    pub code: Option<String>,
    /// That began then or later.
    pub since: Option<Timestamp>,
    /// That began earlier.
    pub until: Option<Timestamp>,
    /// With smaller ids.
    pub before: Option<u64>,
    /// With greater ids.
    pub after: Option<u64>,
    /// In the order of their ids; otherwise the newest come first.
    pub oldest_first: bool,
    /// At most so many.
    pub limit: usize,
}

/// What stands at a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Number(i64),
}

/// How a store writes its SQL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    /// Where the rows are.
    pub(super) table: &'static str,
    /// What placeholders begin with.
    pub(super) placeholder: char,
    /// The text of a row as JSON.
    pub(super) json: &'static str,
}

impl CallFilter {
    /// What follows `SELECT … FROM …`, and the values for its placeholders.
    pub(super) fn to_sql(&self, dialect: Dialect) -> (String, Vec<Value>) {
        let mut sql = "WHERE true".to_owned();
        // Not as columns: an index of times would have all of them sorted, however many there are.
        let (since, until) = ("coalesce(time, '') >=", "coalesce(time, '') <");
        // Exactly as the index of requests has it.
        let member = |name: &str| format!("{} ->> '{name}' =", dialect.json);
        let (issuer, door) = (member("issuer"), member("door"));
        let (request, trace) = (member("correlation_id"), member("trace_id"));
        let columns = [
            ("tool =", self.tool.clone()),
            ("source =", self.source.clone()),
            ("subject =", self.subject.clone()),
            ("code =", self.code.clone()),
            (&issuer, self.issuer.clone()),
            (&door, self.door.map(|door| door.as_str().to_owned())),
            (&request, self.correlation_id.clone()),
            (&trace, self.trace_id.clone()),
            (since, self.since.map(written)),
            (until, self.until.map(written)),
        ];
        let mut values = conditions(&mut sql, dialect, columns);
        match self.status {
            None => {}
            Some(CallEnd::Completed) => sql.push_str(" AND status = 'completed'"),
            // So said, the index of the others serves.
            Some(status @ (CallEnd::Failed | CallEnd::Cancelled)) => {
                let status = status.as_str();
                write!(sql, " AND status = '{status}' AND status <> 'completed'")
                    .expect("a text grows");
            }
        }
        let mut number = |sql: &mut String, word: &str, number: i64| {
            values.push(Value::Number(number));
            write!(sql, " {word} {}{}", dialect.placeholder, values.len()).expect("a text grows");
        };
        let ids = [("AND id <", self.before), ("AND id >", self.after)];
        for (condition, id) in ids.into_iter().filter_map(|(word, id)| Some((word, id?))) {
            number(&mut sql, condition, i64::try_from(id).unwrap_or(i64::MAX));
        }
        sql.push_str(if self.oldest_first { " ORDER BY id ASC" } else { " ORDER BY id DESC" });
        number(&mut sql, "LIMIT", i64::try_from(self.limit).unwrap_or(i64::MAX));
        (sql, values)
    }

    /// The SQL that says how many rows are of the time that is wanted, and between which ids they are; it does not count
    /// for ever. None if any time will do.
    pub(super) fn few_of_a_time(&self, dialect: Dialect) -> Option<(String, Vec<Value>)> {
        self.since.or(self.until)?;
        let mut sql = format!(
            "SELECT count(*), min(id), max(id) FROM (SELECT id FROM {} WHERE true",
            dialect.table
        );
        let times = [("time >=", self.since.map(written)), ("time <", self.until.map(written))];
        let values = conditions(&mut sql, dialect, times);
        write!(sql, " ORDER BY time LIMIT {}) few", FEW + 1).expect("a text grows");
        Some((sql, values))
    }

    /// The same, among these ids if they are few.
    pub(super) fn among(mut self, (count, first, last): (i64, Option<i64>, Option<i64>)) -> Self {
        if usize::try_from(count).is_ok_and(|count| FEW < count) {
            return self;
        }
        let id = |id: i64| u64::try_from(id).unwrap_or_default();
        // Of none, there is nothing between the two.
        let (first, last) = (first.map_or(1, id), last.map_or(0, id));
        self.after = self.after.max(Some(first.saturating_sub(1)));
        self.before = Some(self.before.map_or(last + 1, |before| before.min(last + 1)));
        self
    }
}

/// Adds what is wanted to a text of SQL, and says the values of its placeholders.
fn conditions<const N: usize>(
    sql: &mut String,
    dialect: Dialect,
    wanted: [(&str, Option<String>); N],
) -> Vec<Value> {
    let mut values = Vec::new();
    for (condition, value) in wanted {
        let Some(value) = value else { continue };
        // No row holds a NUL, and PostgreSQL takes none.
        values.push(Value::Text(value.replace('\0', "\u{fffd}")));
        write!(sql, " AND {condition} {}{}", dialect.placeholder, values.len())
            .expect("a text grows");
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_again_asks_with_the_same_text() {
        let dialect = Dialect { table: "calls", placeholder: '$', json: "text" };
        let at = |second: i64| Timestamp::from_second(second).ok();
        // As somebody who looks at the newest calls of the last minutes again and again.
        let asked = |round: i64| {
            let since = at(1_777_000_000 + round);
            let tool = Some(format!("a:{round}"));
            let filter = CallFilter { tool, since, limit: round as usize, ..CallFilter::default() };
            let few = filter.few_of_a_time(dialect).unwrap().0;
            (few, filter.among((round, Some(round), Some(2 * round))).to_sql(dialect))
        };
        let ((few, (text, values)), (few_again, (text_again, values_again))) = (asked(7), asked(8));
        assert_eq!((few, text), (few_again, text_again));
        assert_ne!(values, values_again);
        let numbers = [15, 6, 7].map(Value::Number);
        assert_eq!(values[2..], numbers);
    }
}
