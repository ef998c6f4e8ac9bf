//! A call log in the journal's PostgreSQL database, shared by all nodes.
//!
//! A group of calls is stored under one advisory lock, so that all nodes extend one chain. If the connection is lost
//! during a commit, the outcome is unknown: the next attempt first looks for the last row of the group.
//! Searches have their own connections (`search_pool.rs`); lookups by name share one connection.

mod search_pool;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use catalog::journal::{JournalError, JournalFuture, PostgresConnection, PostgresUrl};
use jiff::Timestamp;
use model::Digest;
use tokio::sync::Mutex;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Transaction};

use self::search_pool::PostgresSearchPool;
use super::call_filter::{SqlDialect, SqlParameter};
use super::usage_totals::totals_of_calls;
use super::{
    CallFilter, CallLog, CallLogRow, CallRecord, ChainBounds, ChainLink, REMOVAL_BATCH, UsageKind,
    UsagePage, UsageTotals, chain_rows, format_time,
};

const POSTGRES_DIALECT: SqlDialect =
    SqlDialect { table: "toolcrib_calls", placeholder: '$', json: "text::json" };

/// Attempts to store a group when the connection is lost.
const STORE_ATTEMPTS: usize = 3;

const CHAIN_LOCK_SQL: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('toolcrib record ' || current_schema(), 0))";

const CREATE_TABLES_SQL: &str = "
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
const CREATE_INDEXES_SQL: &str = "
CREATE INDEX IF NOT EXISTS toolcrib_calls_of_source ON toolcrib_calls (source, id);
CREATE INDEX IF NOT EXISTS toolcrib_calls_by_time ON toolcrib_calls (time, id);
CREATE INDEX IF NOT EXISTS toolcrib_calls_of_request ON toolcrib_calls ((text::json ->> 'correlation_id'), id)
    WHERE text::json ->> 'correlation_id' IS NOT NULL;
CREATE INDEX IF NOT EXISTS toolcrib_calls_not_completed ON toolcrib_calls (status, id) WHERE status <> 'completed';
";

/// Disables timeouts: indexing many rows takes long, and another node may hold the lock for the same work.
const NO_TIMEOUTS_SQL: &str = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0";

/// A call log in PostgreSQL.
pub struct PostgresCallLog {
    connection: Arc<PostgresConnection>,
    readers: PostgresSearchPool,
    writer_state: Mutex<CallWriterState>,
}

/// The state between two groups.
#[derive(Default)]
struct CallWriterState {
    client: Option<Client>,
    /// A group whose commit may have succeeded, with its last row. If the reply is lost, the caller retries the same
    /// group.
    uncertain_group: Option<(Arc<[CallRecord]>, ChainLink)>,
}

impl PostgresCallLog {
    /// Connects, and creates missing tables and indexes.
    pub async fn connect(url: PostgresUrl) -> Result<Self, JournalError> {
        let records = Self::connect_to_read(url)?;
        if !records.relation_exists("toolcrib_calls_anchor").await? {
            records.run_ddl(CREATE_TABLES_SQL).await?;
        }
        if !records.relation_exists("toolcrib_calls_not_completed").await?
            && let Err(error) = records.run_ddl(CREATE_INDEXES_SQL).await
        {
            // This user may not own the tables. Everything works without the indexes, only slower.
            tracing::warn!(%error, "the record goes without some indexes: {error}");
        }
        Ok(records)
    }

    async fn relation_exists(&self, relation: &str) -> Result<bool, JournalError> {
        let there = "SELECT to_regclass($1::text) IS NOT NULL";
        let found = self.connection.query(there, &[&relation]).await?;
        Ok(found.first().is_some_and(|row| row.get(0)))
    }

    async fn run_ddl(&self, what: &str) -> Result<(), JournalError> {
        let sql = |error: tokio_postgres::Error| self.connection.map_error(&error, false);
        let mut client = self.connection.open_client().await?;
        let step = client.transaction().await.map_err(sql)?;
        for statement in [NO_TIMEOUTS_SQL, CHAIN_LOCK_SQL, what] {
            step.batch_execute(statement).await.map_err(sql)?;
        }
        step.commit().await.map_err(sql)
    }

    /// Connects to an existing call log without changing it.
    pub fn connect_to_read(url: PostgresUrl) -> Result<Self, JournalError> {
        let link = Arc::new(PostgresConnection::new(url)?);
        let readers = PostgresSearchPool::new(Arc::clone(&link));
        Ok(Self { connection: link, readers, writer_state: Mutex::default() })
    }

    /// Attempts once to store a group.
    async fn try_store(&self, calls: &Arc<[CallRecord]>) -> Result<(), JournalError> {
        let sql = |error: tokio_postgres::Error| self.connection.map_error(&error, true);
        let mut writing = self.writer_state.lock().await;
        let mut client = match writing.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.connection.open_client().await?,
        };
        let step = client.transaction().await.map_err(sql)?;
        step.batch_execute(CHAIN_LOCK_SQL).await.map_err(sql)?;
        if let Some((group, sent)) = &writing.uncertain_group
            && Arc::ptr_eq(group, calls)
        {
            let look = "SELECT 1 FROM toolcrib_calls WHERE id = $1 AND hash = $2";
            let values: [&(dyn ToSql + Sync); 2] = [&to_i64(sent.id), &&sent.hash.as_bytes()[..]];
            if step.query_opt(look, &values).await.map_err(sql)?.is_some() {
                writing.uncertain_group = None;
                return Ok(());
            }
        }
        let rows = chain_rows(read_head(&step).await.map_err(sql)?, calls);
        insert_rows(&step, &rows).await.map_err(sql)?;
        add_usage(&step, calls).await.map_err(sql)?;
        writing.uncertain_group = rows.last().map(|row| (Arc::clone(calls), row.chain_link()));
        step.commit().await.map_err(sql)?;
        *writing = CallWriterState { client: Some(client), uncertain_group: None };
        Ok(())
    }

    /// Limits the filter to the ids of its time window if there are few of them.
    async fn narrow_by_time(&self, filter: CallFilter) -> Result<CallFilter, JournalError> {
        let Some((sql, values)) = filter.time_window_sql(POSTGRES_DIALECT) else {
            return Ok(filter);
        };
        let found = self.readers.run_search(&sql, &values).await?;
        let Some(row) = found.first() else { return Ok(filter) };
        Ok(filter.limit_to_ids((row.get(0), row.get(1), row.get(2))))
    }

    async fn remove_old_rows(&self, time: Timestamp) -> Result<u64, JournalError> {
        let sql = |error: tokio_postgres::Error| self.connection.map_error(&error, true);
        let mut client = self.connection.open_client().await?;
        let step = client.transaction().await.map_err(sql)?;
        step.batch_execute(CHAIN_LOCK_SQL).await.map_err(sql)?;
        let first =
            format!("SELECT id, time, hash FROM toolcrib_calls ORDER BY id LIMIT {REMOVAL_BATCH}");
        let (rows, before) = (step.query(&first, &[]).await.map_err(sql)?, format_time(time));
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

impl CallLog for PostgresCallLog {
    fn store_calls(&self, calls: Arc<[CallRecord]>) -> JournalFuture<'_, ()> {
        Box::pin(async move {
            for _ in 1..STORE_ATTEMPTS {
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

    fn read_rows(&self, filter: CallFilter) -> JournalFuture<'_, Vec<CallLogRow>> {
        Box::pin(async move {
            let (wanted, values) = self.narrow_by_time(filter).await?.to_sql(POSTGRES_DIALECT);
            let sql = format!("SELECT id, text, hash FROM toolcrib_calls {wanted}");
            let rows = self.readers.run_search(&sql, &values).await?;
            Ok(rows.iter().map(log_row_from).collect())
        })
    }

    fn usage_totals(
        &self,
        of: UsageKind,
        names: Vec<String>,
    ) -> JournalFuture<'_, Vec<(String, UsageTotals)>> {
        Box::pin(async move {
            let sql = "SELECT name, executions, last_at, errors, last_error FROM toolcrib_usage
                WHERE \"of\" = $1 AND name = ANY ($2)";
            let rows = self.connection.query(sql, &[&of.as_str(), &names]).await?;
            Ok(rows.iter().map(|row| (row.get(0), usage_from_row(row))).collect())
        })
    }

    fn most_used(&self, page: UsagePage) -> JournalFuture<'_, Vec<(String, UsageTotals)>> {
        Box::pin(async move {
            let sql = "SELECT name, executions, last_at, errors, last_error FROM toolcrib_usage
                WHERE \"of\" = $1 AND name <> '' AND (executions < $2 OR (executions = $2 AND name > $3))
                ORDER BY executions DESC, name LIMIT $4";
            let (used, name, limit) = page.sql_parameters();
            let [of, name] = [page.of.as_str(), name]
                .map(|text| SqlParameter::Text(text.replace('\0', "\u{fffd}")));
            let values = [of, SqlParameter::Number(used), name, SqlParameter::Number(limit)];
            let rows = self.readers.run_search(sql, &values).await?;
            Ok(rows.iter().map(|row| (row.get(0), usage_from_row(row))).collect())
        })
    }

    fn chain_bounds(&self) -> JournalFuture<'_, ChainBounds> {
        Box::pin(async move {
            // One statement, so that all values are consistent.
            let sql = "SELECT (SELECT coalesce(sum(executions), 0)::bigint FROM toolcrib_usage WHERE \"of\" = 'tool'),
                    a.id, a.hash, c.id, c.hash
                FROM (SELECT 1) one
                LEFT JOIN toolcrib_calls_anchor a ON true
                LEFT JOIN (SELECT id, hash FROM toolcrib_calls ORDER BY id DESC LIMIT 1) c ON true";
            let rows = self.connection.query(sql, &[]).await?;
            let row = rows.first();
            let at = |column: usize| -> Option<ChainLink> {
                let row = row?;
                let id: Option<i64> = row.get(column);
                Some(ChainLink { id: to_u64(id?), hash: parse_hash(row.get(column + 1)) })
            };
            let anchor = at(1).unwrap_or_else(ChainLink::start);
            let counted = row.map_or(0, |row| to_u64(row.get(0)));
            Ok(ChainBounds { anchor, head: at(3).unwrap_or(anchor), counted })
        })
    }

    fn remove_before(&self, time: Timestamp) -> JournalFuture<'_, u64> {
        Box::pin(self.remove_old_rows(time))
    }
}

async fn insert_rows(
    step: &Transaction<'_>,
    rows: &[CallLogRow],
) -> Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO toolcrib_calls (id, text, hash)
        SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[])";
    let ids: Vec<i64> = rows.iter().map(|row| to_i64(row.id)).collect();
    let texts: Vec<&str> = rows.iter().map(|row| &*row.text).collect();
    let hashes: Vec<&[u8]> = rows.iter().map(|row| &row.hash.as_bytes()[..]).collect();
    step.execute(sql, &[&ids, &texts, &hashes]).await.map(drop)
}

async fn add_usage(
    step: &Transaction<'_>,
    calls: &[CallRecord],
) -> Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO toolcrib_usage AS known (\"of\", name, executions, last_at, errors, last_error)
        SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[])
        ON CONFLICT (\"of\", name) DO UPDATE SET
            executions = known.executions + excluded.executions,
            last_at = greatest(known.last_at, excluded.last_at),
            errors = known.errors + excluded.errors,
            last_error = coalesce(excluded.last_error, known.last_error)";
    let totals = totals_of_calls(calls);
    let of: Vec<&str> = totals.keys().map(|(of, _)| of.as_str()).collect();
    let names: Vec<&str> = totals.keys().map(|(_, name)| *name).collect();
    let calls: Vec<i64> = totals.values().map(|usage| to_i64(usage.execution_count)).collect();
    let last_at: Vec<Option<String>> =
        totals.values().map(|usage| usage.last_executed_at.map(format_time)).collect();
    let errors: Vec<i64> = totals.values().map(|usage| to_i64(usage.error_count)).collect();
    let last: Vec<Option<&str>> =
        totals.values().map(|usage| usage.last_error.as_deref()).collect();
    step.execute(sql, &[&of, &names, &calls, &last_at, &errors, &last]).await.map(drop)
}

async fn read_head(step: &Transaction<'_>) -> Result<ChainLink, tokio_postgres::Error> {
    let last = "SELECT id, hash FROM toolcrib_calls ORDER BY id DESC LIMIT 1";
    let mut found = step.query_opt(last, &[]).await?;
    if found.is_none() {
        found = step.query_opt("SELECT id, hash FROM toolcrib_calls_anchor", &[]).await?;
    }
    let link = |row: tokio_postgres::Row| ChainLink {
        id: to_u64(row.get(0)),
        hash: parse_hash(row.get(1)),
    };
    Ok(found.map_or_else(ChainLink::start, link))
}

fn log_row_from(row: &tokio_postgres::Row) -> CallLogRow {
    CallLogRow { id: to_u64(row.get(0)), text: row.get(1), hash: parse_hash(row.get(2)) }
}

fn usage_from_row(row: &tokio_postgres::Row) -> UsageTotals {
    let last_at: Option<&str> = row.get(2);
    UsageTotals {
        execution_count: to_u64(row.get(1)),
        last_executed_at: last_at.and_then(|time| time.parse().ok()),
        error_count: to_u64(row.get(3)),
        last_error: row.get(4),
    }
}

/// An invalid hash is replaced by one that no row text has, so that verification reports it.
fn parse_hash(bytes: &[u8]) -> Digest {
    Digest::from_bytes(bytes).unwrap_or_else(|_| Digest::of_bytes("no hash"))
}

fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn to_u64(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
