//! Filters for rows, and their SQL. Values are bound as parameters and never part of the SQL, so that filters with the
//! same conditions share one prepared statement.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::{CallEndpoint, FinalCallStatus, format_time};

/// If a time window contains at most this many rows, the search is limited to their ids. Rows are stored in the order
/// in which calls ended, so the rows of a window are scattered, and for many of them a full scan is faster.
const TIME_WINDOW_ROWS: usize = 100_000;

/// A filter for rows of the call log. Fields that are `None` match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFilter {
    pub tool: Option<String>,
    pub source: Option<String>,
    /// The subject of the caller.
    pub subject: Option<String>,
    /// The issuer of the caller's token.
    pub issuer: Option<String>,
    /// The endpoint that received the call.
    pub door: Option<CallEndpoint>,
    /// The correlation id of the request.
    pub correlation_id: Option<String>,
    pub trace_id: Option<String>,
    /// The final status of the call.
    pub status: Option<FinalCallStatus>,
    /// The error code of a failed call.
    pub code: Option<String>,
    /// Start of the call at this time or later.
    pub since: Option<Timestamp>,
    /// Start of the call before this time.
    pub until: Option<Timestamp>,
    /// Only smaller ids.
    pub before: Option<u64>,
    /// Only greater ids.
    pub after: Option<u64>,
    /// Sort by ascending id; otherwise the newest rows come first.
    pub oldest_first: bool,
    /// Upper bound for returned rows.
    pub limit: usize,
}

/// The value of a SQL placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SqlParameter {
    Text(String),
    Number(i64),
}

/// The SQL syntax of a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct SqlDialect {
    /// Table of the rows.
    pub(super) table: &'static str,
    /// First character of placeholders.
    pub(super) placeholder: char,
    /// SQL expression for the text of a row as JSON.
    pub(super) json: &'static str,
}

impl CallFilter {
    /// The SQL after `SELECT … FROM …`, and the values of its placeholders.
    pub(super) fn to_sql(&self, dialect: SqlDialect) -> (String, Vec<SqlParameter>) {
        let mut sql = "WHERE true".to_owned();
        // Not as plain columns: with the index on time, the database would sort all matching rows, however many there
        // are.
        let (since, until) = ("coalesce(time, '') >=", "coalesce(time, '') <");
        // The expression must equal that of the index on correlation ids.
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
            (since, self.since.map(format_time)),
            (until, self.until.map(format_time)),
        ];
        let mut values = push_conditions(&mut sql, dialect, columns);
        match self.status {
            None => {}
            Some(FinalCallStatus::Completed) => sql.push_str(" AND status = 'completed'"),
            // The redundant second condition lets the database use the partial index of calls that did not complete.
            Some(status @ (FinalCallStatus::Failed | FinalCallStatus::Cancelled)) => {
                let status = status.as_str();
                write!(sql, " AND status = '{status}' AND status <> 'completed'")
                    .expect("a text grows");
            }
        }
        let mut number = |sql: &mut String, word: &str, number: i64| {
            values.push(SqlParameter::Number(number));
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

    /// SQL for the row count of the time window, capped at `TIME_WINDOW_ROWS` + 1, and for the range of its ids.
    /// `None` without a window.
    pub(super) fn time_window_sql(
        &self,
        dialect: SqlDialect,
    ) -> Option<(String, Vec<SqlParameter>)> {
        self.since.or(self.until)?;
        let mut sql = format!(
            "SELECT count(*), min(id), max(id) FROM (SELECT id FROM {} WHERE true",
            dialect.table
        );
        let times =
            [("time >=", self.since.map(format_time)), ("time <", self.until.map(format_time))];
        let values = push_conditions(&mut sql, dialect, times);
        write!(sql, " ORDER BY time LIMIT {}) few", TIME_WINDOW_ROWS + 1).expect("a text grows");
        Some((sql, values))
    }

    /// Limits the filter to the ids of its time window if there are few of them.
    pub(super) fn limit_to_ids(
        mut self,
        (count, first, last): (i64, Option<i64>, Option<i64>),
    ) -> Self {
        if usize::try_from(count).is_ok_and(|count| TIME_WINDOW_ROWS < count) {
            return self;
        }
        let id = |id: i64| u64::try_from(id).unwrap_or_default();
        // An empty window leaves an empty range of ids.
        let (first, last) = (first.map_or(1, id), last.map_or(0, id));
        self.after = self.after.max(Some(first.saturating_sub(1)));
        self.before = Some(self.before.map_or(last + 1, |before| before.min(last + 1)));
        self
    }
}

/// Appends the conditions to the SQL and returns the values of their placeholders.
fn push_conditions<const N: usize>(
    sql: &mut String,
    dialect: SqlDialect,
    wanted: [(&str, Option<String>); N],
) -> Vec<SqlParameter> {
    let mut values = Vec::new();
    for (condition, value) in wanted {
        let Some(value) = value else { continue };
        // No row contains a NUL, and PostgreSQL rejects it as a parameter.
        values.push(SqlParameter::Text(value.replace('\0', "\u{fffd}")));
        write!(sql, " AND {condition} {}{}", dialect.placeholder, values.len())
            .expect("a text grows");
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_search_uses_the_same_sql() {
        let dialect = SqlDialect { table: "calls", placeholder: '$', json: "text" };
        let at = |second: i64| Timestamp::from_second(second).ok();
        // Simulates a client that polls for the newest calls of the last minutes.
        let asked = |round: i64| {
            let since = at(1_777_000_000 + round);
            let tool = Some(format!("a:{round}"));
            let filter = CallFilter { tool, since, limit: round as usize, ..CallFilter::default() };
            let few = filter.time_window_sql(dialect).unwrap().0;
            (few, filter.limit_to_ids((round, Some(round), Some(2 * round))).to_sql(dialect))
        };
        let ((few, (text, values)), (few_again, (text_again, values_again))) = (asked(7), asked(8));
        assert_eq!((few, text), (few_again, text_again));
        assert_ne!(values, values_again);
        let numbers = [15, 6, 7].map(SqlParameter::Number);
        assert_eq!(values[2..], numbers);
    }
}
