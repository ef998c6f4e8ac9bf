//! The queries. Each is one statement, so its result is consistent.

use jiff::Timestamp;
use model::{Digest, RawJson, SchemaDocument};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::journal::{IdempotentAnswer, Position, RecordedEvent, StreamName, StreamVersion};

pub(super) fn read_head(connection: &Connection) -> rusqlite::Result<Position> {
    connection.query_row("SELECT coalesce(max(position), 0) FROM events", [], |row| {
        row.get(0).map(Position)
    })
}

pub(super) fn read_version(
    connection: &Connection,
    stream: &StreamName,
) -> rusqlite::Result<StreamVersion> {
    let mut query = connection
        .prepare_cached("SELECT coalesce(max(version), 0) FROM events WHERE stream = ?1")?;
    query.query_row([stream.as_str()], |row| row.get(0).map(StreamVersion))
}

const SELECT_EVENT: &str = "SELECT position, stream, version, type, time, actor, correlation_id, causation_id, data FROM events";

pub(super) fn read_after(
    connection: &Connection,
    after: Position,
    limit: usize,
) -> rusqlite::Result<Vec<RecordedEvent>> {
    let mut query = connection.prepare_cached(&format!(
        "{SELECT_EVENT} WHERE position > ?1 ORDER BY position LIMIT ?2"
    ))?;
    let rows = query.query_map((to_i64(after.0), limit_to_i64(limit)), event_from_row)?;
    rows.collect()
}

pub(super) fn read_stream(
    connection: &Connection,
    stream: &StreamName,
    after: StreamVersion,
    limit: usize,
) -> rusqlite::Result<Vec<RecordedEvent>> {
    let sql =
        format!("{SELECT_EVENT} WHERE stream = ?1 AND version > ?2 ORDER BY version LIMIT ?3");
    let mut query = connection.prepare_cached(&sql)?;
    let rows =
        query.query_map((stream.as_str(), to_i64(after.0), limit_to_i64(limit)), event_from_row)?;
    rows.collect()
}

fn event_from_row(row: &Row<'_>) -> rusqlite::Result<RecordedEvent> {
    let text = |column: usize| -> rusqlite::Result<&str> { Ok(row.get_ref(column)?.as_str()?) };
    let maybe = |column: usize| -> rusqlite::Result<Option<Box<str>>> {
        Ok(row.get_ref(column)?.as_str_or_null()?.map(Box::from))
    };
    let time = Timestamp::from_microsecond(row.get(4)?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(4, Type::Integer, error.into())
    })?;
    Ok(RecordedEvent {
        position: Position(row.get(0)?),
        stream: StreamName::new(text(1)?),
        version: StreamVersion(row.get(2)?),
        kind: text(3)?.into(),
        time,
        actor: text(5)?.into(),
        correlation_id: maybe(6)?,
        causation_id: maybe(7)?,
        data: text(8)?.into(),
    })
}

/// SQLite integers are signed 64-bit; no position beyond that exists.
fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn limit_to_i64(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) fn position_at(connection: &Connection, time: Timestamp) -> rusqlite::Result<Position> {
    let sql = "SELECT coalesce(max(position), 0) FROM events WHERE time <= ?1";
    connection.query_row(sql, [time.as_microsecond()], |row| row.get(0).map(Position))
}

pub(super) fn read_documents(
    connection: &Connection,
    digests: &[Digest],
) -> rusqlite::Result<Vec<SchemaDocument>> {
    // A transaction, so that all lookups share one lock.
    let _transaction = connection.unchecked_transaction()?;
    let mut query = connection.prepare_cached("SELECT body FROM documents WHERE digest = ?1")?;
    let mut found = Vec::with_capacity(digests.len());
    for digest in digests {
        let mut rows = query.query([&digest.as_bytes()[..]])?;
        let Some(row) = rows.next()? else { continue };
        let text = RawJson::parse(row.get_ref(0)?.as_str()?).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into())
        })?;
        found.push(SchemaDocument { digest: *digest, text });
    }
    Ok(found)
}

pub(super) fn document_digests(
    connection: &Connection,
    after: Option<Digest>,
    limit: usize,
) -> rusqlite::Result<Vec<Digest>> {
    let after = after.map_or(Vec::new(), |digest| digest.as_bytes().to_vec());
    let mut query = connection
        .prepare("SELECT digest FROM documents WHERE digest > ?1 ORDER BY digest LIMIT ?2")?;
    let rows = query.query_map((after, limit_to_i64(limit)), |row| digest_from_row(row, 0))?;
    rows.collect()
}

fn digest_from_row(row: &Row<'_>, column: usize) -> rusqlite::Result<Digest> {
    Digest::from_bytes(row.get_ref(column)?.as_blob()?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, error.into())
    })
}

pub(super) fn find_answer(
    connection: &Connection,
    key: &str,
) -> rusqlite::Result<Option<IdempotentAnswer>> {
    let mut query = connection
        .prepare_cached("SELECT key, request, answer, position FROM answers WHERE key = ?1")?;
    query.query_row([key], answer_from_row).optional()
}

pub(super) fn list_answers(
    connection: &Connection,
    after: &str,
    limit: usize,
) -> rusqlite::Result<Vec<IdempotentAnswer>> {
    let sql =
        "SELECT key, request, answer, position FROM answers WHERE key > ?1 ORDER BY key LIMIT ?2";
    let mut query = connection.prepare(sql)?;
    let rows = query.query_map((after, limit_to_i64(limit)), answer_from_row)?;
    rows.collect()
}

fn answer_from_row(row: &Row<'_>) -> rusqlite::Result<IdempotentAnswer> {
    Ok(IdempotentAnswer {
        key: row.get_ref(0)?.as_str()?.into(),
        request: digest_from_row(row, 1)?,
        answer: row.get_ref(2)?.as_str()?.into(),
        position: Position(row.get(3)?),
    })
}

pub(super) fn checkpoint_positions(connection: &Connection) -> rusqlite::Result<Vec<Position>> {
    let mut query =
        connection.prepare("SELECT at FROM checkpoints WHERE piece = 0 ORDER BY at DESC")?;
    let rows = query.query_map([], |row| row.get(0).map(Position))?;
    rows.collect()
}

pub(super) fn read_checkpoint(
    connection: &Connection,
    at: Position,
    piece: u32,
) -> rusqlite::Result<Option<Vec<u8>>> {
    let mut query =
        connection.prepare_cached("SELECT body FROM checkpoints WHERE at = ?1 AND piece = ?2")?;
    query.query_row((at.0, piece), |row| row.get(0)).optional()
}

pub(super) fn encrypted_secret(
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<Option<Vec<u8>>> {
    connection
        .query_row("SELECT body FROM sealed WHERE name = ?1", [name], |row| row.get(0))
        .optional()
}

pub(super) fn encrypted_secret_names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut query = connection.prepare("SELECT name FROM sealed ORDER BY name")?;
    let rows = query.query_map([], |row| row.get(0))?;
    rows.collect()
}

pub(super) fn check_storage(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut query = connection.prepare("PRAGMA integrity_check")?;
    let rows = query.query_map([], |row| row.get::<_, String>(0))?;
    rows.filter(|line| !matches!(line.as_deref(), Ok("ok"))).collect()
}
