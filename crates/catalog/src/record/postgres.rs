//! A call log in the journal's PostgreSQL database, shared by all nodes.
//!
//! A group of calls is stored under one advisory lock, so that all nodes extend one chain. If the connection is lost
//! during a commit, the outcome is unknown: the next attempt first looks for the last row of the group.
//! Searches have their own connections (`search_pool.rs`); lookups by name share one connection.

mod readers;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use model::Digest;
use tokio::sync::Mutex;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Transaction};

use self::readers::Readers;
use super::filter::{Dialect, Value};
use super::usage::added;
use super::{
    CallFilter, CallRecord, Chain, Link, Records, Row, STEP, Usage, UsageOf, UsagePage, chained,
    written,
};
use crate::journal::{Answering, JournalError, PostgresLink, PostgresUrl};

const DIALECT: Dialect = Dialect { table: "toolcrib_calls", placeholder: '$', json: "text::json" };

/// Attempts to store a group when the connection is lost.
const ATTEMPTS: usize = 3;

const LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('toolcrib record ' || current_schema(), 0))";

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS toolcrib_calls (
    id bigint PRIMARY KEY,
    text text NOT NULL,
    hash bytea NOT NULL,
    time text COLLATE \"C\" GENERATED ALWAYS AS (text::json ->> 'time') STORED,
    tool text COLLATE \"C\" GENERATED ALWAYS AS (text::json ->> 'tool_id') STORED,
    source text COLLATE \"C\" GENERATED ALWAYS AS (text::json ->> 'source_id') STORED,
    subject text COLLATE \"C\" GENERATED ALWAYS AS (text::json ->> 'subject') STORED,
    status text COLLATE \"C\" GENERATED ALWAYS AS (text::json ->> 'status') STORED,
    code text COLLATE \"C\" GENERATED ALWAYS AS (text::json ->> 'code') STORED
);
CREATE INDEX IF NOT EXISTS toolcrib_calls_of_tool ON toolcrib_calls (tool, id);
CREATE INDEX IF NOT EXISTS toolcrib_calls_of_subject ON toolcrib_calls (subject, id);
CREATE INDEX IF NOT EXISTS toolcrib_failed_calls ON toolcrib_calls (code, id) WHERE code IS NOT NULL;
CREATE TABLE IF NOT EXISTS toolcrib_usage (
    \"of\" text NOT NULL, name text COLLATE \"C\" NOT NULL, executions bigint NOT NULL, last_at text COLLATE \"C\",
    errors bigint NOT NULL, last_error text, PRIMARY KEY (\"of\", name)
);
CREATE TABLE IF NOT EXISTS toolcrib_calls_anchor (
    one bigint PRIMARY KEY CHECK (one = 1), id bigint NOT NULL, hash bytea NOT NULL
);
";

/// Indexes that were added later, each created if it does not exist. The last one serves as a marker for all of them.
const INDEXES: &str = "
CREATE INDEX IF NOT EXISTS toolcrib_calls_of_source ON toolcrib_calls (source, id);
CREATE INDEX IF NOT EXISTS toolcrib_calls_by_time ON toolcrib_calls (time, id);
CREATE INDEX IF NOT EXISTS toolcrib_calls_of_request ON toolcrib_calls ((text::json ->> 'correlation_id'), id)
    WHERE text::json ->> 'correlation_id' IS NOT NULL;
CREATE INDEX IF NOT EXISTS toolcrib_calls_not_completed ON toolcrib_calls (status, id) WHERE status <> 'completed';
";

/// Disables timeouts: indexing many rows takes long, and another node may hold the lock for the same work.
const PATIENCE: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0";

/// A call log in PostgreSQL.
pub struct PostgresRecords {
    link: Arc<PostgresLink>,
    readers: Readers,
    writing: Mutex<Writing>,
}

/// The state between two groups.
#[derive(Default)]
struct Writing {
    client: Option<Client>,
    /// A group whose commit may have succeeded, with its last row. If the reply is lost, the caller retries the same
    /// group.
    sent: Option<(Arc<[CallRecord]>, Link)>,
}

impl PostgresRecords {
    /// Connects, and creates missing tables and indexes.
    pub async fn connect(url: PostgresUrl) -> Result<Self, JournalError> {
        let records = Self::connect_to_read(url)?;
        if !records.has("toolcrib_calls_anchor").await? {
            records.make(TABLES).await?;
        }
        if !records.has("toolcrib_calls_not_completed").await?
            && let Err(error) = records.make(INDEXES).await
        {
            // This user may not own the tables. Everything works without the indexes, only slower.
            tracing::warn!(%error, "the record goes without some indexes: {error}");
        }
        Ok(records)
    }

    async fn has(&self, relation: &str) -> Result<bool, JournalError> {
        let there = "SELECT to_regclass($1::text) IS NOT NULL";
        let found = self.link.query(there, &[&relation]).await?;
        Ok(found.first().is_some_and(|row| row.get(0)))
    }

    async fn make(&self, what: &str) -> Result<(), JournalError> {
        let sql = |error: tokio_postgres::Error| self.link.failure(&error, false);
        let mut client = self.link.fresh().await?;
        let step = client.transaction().await.map_err(sql)?;
        for statement in [PATIENCE, LOCK, what] {
            step.batch_execute(statement).await.map_err(sql)?;
        }
        step.commit().await.map_err(sql)
    }

    /// Connects to an existing call log without changing it.
    pub fn connect_to_read(url: PostgresUrl) -> Result<Self, JournalError> {
        let link = Arc::new(PostgresLink::new(url)?);
        let readers = Readers::of(Arc::clone(&link));
        Ok(Self { link, readers, writing: Mutex::default() })
    }

    /// Attempts once to store a group.
    async fn try_store(&self, calls: &Arc<[CallRecord]>) -> Result<(), JournalError> {
        let sql = |error: tokio_postgres::Error| self.link.failure(&error, true);
        let mut writing = self.writing.lock().await;
        let mut client = match writing.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.link.fresh().await?,
        };
        let step = client.transaction().await.map_err(sql)?;
        step.batch_execute(LOCK).await.map_err(sql)?;
        if let Some((group, sent)) = &writing.sent
            && Arc::ptr_eq(group, calls)
        {
            let look = "SELECT 1 FROM toolcrib_calls WHERE id = $1 AND hash = $2";
            let values: [&(dyn ToSql + Sync); 2] = [&signed(sent.id), &&sent.hash.as_bytes()[..]];
            if step.query_opt(look, &values).await.map_err(sql)?.is_some() {
                writing.sent = None;
                return Ok(());
            }
        }
        let rows = chained(head(&step).await.map_err(sql)?, calls);
        insert(&step, &rows).await.map_err(sql)?;
        count(&step, calls).await.map_err(sql)?;
        writing.sent = rows.last().map(|row| (Arc::clone(calls), row.link()));
        step.commit().await.map_err(sql)?;
        *writing = Writing { client: Some(client), sent: None };
        Ok(())
    }

    /// Limits the filter to the ids of its time window if there are few of them.
    async fn narrowed(&self, filter: CallFilter) -> Result<CallFilter, JournalError> {
        let Some((sql, values)) = filter.few_of_a_time(DIALECT) else { return Ok(filter) };
        let found = self.readers.query(&sql, &values).await?;
        let Some(row) = found.first() else { return Ok(filter) };
        Ok(filter.among((row.get(0), row.get(1), row.get(2))))
    }

    async fn forget(&self, time: Timestamp) -> Result<u64, JournalError> {
        let sql = |error: tokio_postgres::Error| self.link.failure(&error, true);
        let mut client = self.link.fresh().await?;
        let step = client.transaction().await.map_err(sql)?;
        step.batch_execute(LOCK).await.map_err(sql)?;
        let first = format!("SELECT id, time, hash FROM toolcrib_calls ORDER BY id LIMIT {STEP}");
        let (rows, before) = (step.query(&first, &[]).await.map_err(sql)?, written(time));
        let is_old = |row: &&tokio_postgres::Row| {
            row.get::<_, Option<&str>>(1).is_none_or(|time| time < &*before)
        };
        let mut old: Vec<_> = rows.iter().take_while(is_old).collect();
        // The newest removable row stays as evidence of the age of the others.
        old.pop();
        if let Some(last) = old.last() {
            let (id, hash): (i64, &[u8]) = (last.get(0), last.get(2));
            let keep = "INSERT INTO toolcrib_calls_anchor VALUES (1, $1, $2)
                ON CONFLICT (one) DO UPDATE SET id = excluded.id, hash = excluded.hash";
            step.execute(keep, &[&id, &hash]).await.map_err(sql)?;
            let delete = "DELETE FROM toolcrib_calls WHERE id <= $1";
            step.execute(delete, &[&id]).await.map_err(sql)?;
        }
        step.commit().await.map_err(sql)?;
        Ok(old.len() as u64)
    }
}

impl Records for PostgresRecords {
    fn store(&self, calls: Arc<[CallRecord]>) -> Answering<'_, ()> {
        Box::pin(async move {
            for _ in 1..ATTEMPTS {
                match self.try_store(&calls).await {
                    Err(JournalError::Unavailable { cause, .. }) => {
                        tracing::debug!("calls could not be recorded ({cause}): trying again");
                    }
                    other => return other,
                }
            }
            self.try_store(&calls).await
        })
    }

    fn read(&self, filter: CallFilter) -> Answering<'_, Vec<Row>> {
        Box::pin(async move {
            let (wanted, values) = self.narrowed(filter).await?.to_sql(DIALECT);
            let sql = format!("SELECT id, text, hash FROM toolcrib_calls {wanted}");
            let rows = self.readers.query(&sql, &values).await?;
            Ok(rows.iter().map(row_of).collect())
        })
    }

    fn usage(&self, of: UsageOf, names: Vec<String>) -> Answering<'_, Vec<(String, Usage)>> {
        Box::pin(async move {
            let sql = "SELECT name, executions, last_at, errors, last_error FROM toolcrib_usage
                WHERE \"of\" = $1 AND name = ANY ($2)";
            let rows = self.link.query(sql, &[&of.as_str(), &names]).await?;
            Ok(rows.iter().map(|row| (row.get(0), usage_of(row))).collect())
        })
    }

    fn most_used(&self, page: UsagePage) -> Answering<'_, Vec<(String, Usage)>> {
        Box::pin(async move {
            let sql = "SELECT name, executions, last_at, errors, last_error FROM toolcrib_usage
                WHERE \"of\" = $1 AND name <> '' AND (executions < $2 OR (executions = $2 AND name > $3))
                ORDER BY executions DESC, name LIMIT $4";
            let (used, name, limit) = page.numbers();
            let [of, name] =
                [page.of.as_str(), name].map(|text| Value::Text(text.replace('\0', "\u{fffd}")));
            let values = [of, Value::Number(used), name, Value::Number(limit)];
            let rows = self.readers.query(sql, &values).await?;
            Ok(rows.iter().map(|row| (row.get(0), usage_of(row))).collect())
        })
    }

    fn chain(&self) -> Answering<'_, Chain> {
        Box::pin(async move {
            // One statement, so that all values are consistent.
            let sql = "SELECT (SELECT coalesce(sum(executions), 0)::bigint FROM toolcrib_usage WHERE \"of\" = 'tool'),
                    a.id, a.hash, c.id, c.hash
                FROM (SELECT 1) one
                LEFT JOIN toolcrib_calls_anchor a ON true
                LEFT JOIN (SELECT id, hash FROM toolcrib_calls ORDER BY id DESC LIMIT 1) c ON true";
            let rows = self.link.query(sql, &[]).await?;
            let row = rows.first();
            let at = |column: usize| -> Option<Link> {
                let row = row?;
                let id: Option<i64> = row.get(column);
                Some(Link { id: unsigned(id?), hash: digest(row.get(column + 1)) })
            };
            let anchor = at(1).unwrap_or_else(Link::start);
            let counted = row.map_or(0, |row| unsigned(row.get(0)));
            Ok(Chain { anchor, head: at(3).unwrap_or(anchor), counted })
        })
    }

    fn forget_before(&self, time: Timestamp) -> Answering<'_, u64> {
        Box::pin(self.forget(time))
    }
}

async fn insert(step: &Transaction<'_>, rows: &[Row]) -> Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO toolcrib_calls (id, text, hash)
        SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[])";
    let ids: Vec<i64> = rows.iter().map(|row| signed(row.id)).collect();
    let texts: Vec<&str> = rows.iter().map(|row| &*row.text).collect();
    let hashes: Vec<&[u8]> = rows.iter().map(|row| &row.hash.as_bytes()[..]).collect();
    step.execute(sql, &[&ids, &texts, &hashes]).await.map(drop)
}

async fn count(step: &Transaction<'_>, calls: &[CallRecord]) -> Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO toolcrib_usage AS known (\"of\", name, executions, last_at, errors, last_error)
        SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[])
        ON CONFLICT (\"of\", name) DO UPDATE SET
            executions = known.executions + excluded.executions,
            last_at = greatest(known.last_at, excluded.last_at),
            errors = known.errors + excluded.errors,
            last_error = coalesce(excluded.last_error, known.last_error)";
    let totals = added(calls);
    let of: Vec<&str> = totals.keys().map(|(of, _)| of.as_str()).collect();
    let names: Vec<&str> = totals.keys().map(|(_, name)| *name).collect();
    let calls: Vec<i64> = totals.values().map(|usage| signed(usage.execution_count)).collect();
    let last_at: Vec<Option<String>> =
        totals.values().map(|usage| usage.last_executed_at.map(written)).collect();
    let errors: Vec<i64> = totals.values().map(|usage| signed(usage.error_count)).collect();
    let last: Vec<Option<&str>> =
        totals.values().map(|usage| usage.last_error.as_deref()).collect();
    step.execute(sql, &[&of, &names, &calls, &last_at, &errors, &last]).await.map(drop)
}

async fn head(step: &Transaction<'_>) -> Result<Link, tokio_postgres::Error> {
    let last = "SELECT id, hash FROM toolcrib_calls ORDER BY id DESC LIMIT 1";
    let mut found = step.query_opt(last, &[]).await?;
    if found.is_none() {
        found = step.query_opt("SELECT id, hash FROM toolcrib_calls_anchor", &[]).await?;
    }
    let link =
        |row: tokio_postgres::Row| Link { id: unsigned(row.get(0)), hash: digest(row.get(1)) };
    Ok(found.map_or_else(Link::start, link))
}

fn row_of(row: &tokio_postgres::Row) -> Row {
    Row { id: unsigned(row.get(0)), text: row.get(1), hash: digest(row.get(2)) }
}

fn usage_of(row: &tokio_postgres::Row) -> Usage {
    let last_at: Option<&str> = row.get(2);
    Usage {
        execution_count: unsigned(row.get(1)),
        last_executed_at: last_at.and_then(|time| time.parse().ok()),
        error_count: unsigned(row.get(3)),
        last_error: row.get(4),
    }
}

/// An invalid hash is replaced by one that no row text has, so that verification reports it.
fn digest(bytes: &[u8]) -> Digest {
    Digest::from_bytes(bytes).unwrap_or_else(|_| Digest::of("no hash"))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
