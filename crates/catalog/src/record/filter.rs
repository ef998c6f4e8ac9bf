//! Which rows are wanted, and the SQL that says so. Values are never part of the SQL, numbers excepted.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::{CallEnd, written};

/// Which rows are wanted. What is left out does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// Of this tool.
    pub tool: Option<String>,
    /// Of this source.
    pub source: Option<String>,
    /// Of this caller.
    pub subject: Option<String>,
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

impl CallFilter {
    /// What follows `SELECT … FROM …`, and the values for its placeholders, which begin with this character.
    pub(super) fn to_sql(&self, placeholder: char) -> (String, Vec<String>) {
        let (mut sql, mut values) = ("WHERE true".to_owned(), Vec::new());
        let status = self.status.map(|status| status.as_str().to_owned());
        let columns = [
            ("tool =", self.tool.clone()),
            ("source =", self.source.clone()),
            ("subject =", self.subject.clone()),
            ("status =", status),
            ("code =", self.code.clone()),
            ("time >=", self.since.map(written)),
            ("time <", self.until.map(written)),
        ];
        for (condition, value) in columns {
            let Some(value) = value else { continue };
            // No row holds a NUL, and PostgreSQL takes none.
            values.push(value.replace('\0', "\u{fffd}"));
            write!(sql, " AND {condition} {placeholder}{}", values.len()).expect("a text grows");
        }
        let ids = [("id <", self.before), ("id >", self.after)];
        for (condition, id) in ids.into_iter().filter_map(|(word, id)| Some((word, id?))) {
            let id = i64::try_from(id).unwrap_or(i64::MAX);
            write!(sql, " AND {condition} {id}").expect("a text grows");
        }
        let order = if self.oldest_first { "ASC" } else { "DESC" };
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        write!(sql, " ORDER BY id {order} LIMIT {limit}").expect("a text grows");
        (sql, values)
    }
}
