//! The queries. Each is one statement, so its result is consistent.

use jiff::Timestamp;
use model::{Digest, Document, RawJson};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::journal::{Answer, Position, Recorded, StreamName, Version};

pub(super) fn head(connection: &Connection) -> rusqlite::Result<Position> {
    connection.query_row("SELECT coalesce(max(position), 0) FROM events", [], |row| {
        row.get(0).map(Position)
    })
}

pub(super) fn version(connection: &Connection, stream: &StreamName) -> rusqlite::Result<Version> {
    let mut query = connection
        .prepare_cached("SELECT coalesce(max(version), 0) FROM events WHERE stream = ?1")?;
    query.query_row([stream.as_str()], |row| row.get(0).map(Version))
}

const EVENT: &str = "SELECT position, stream, version, type, time, actor, correlation_id, causation_id, data FROM events";

pub(super) fn after(
    connection: &Connection,
    after: Position,
    limit: usize,
) -> rusqlite::Result<Vec<Recorded>> {
    let mut query = connection
        .prepare_cached(&format!("{EVENT} WHERE position > ?1 ORDER BY position LIMIT ?2"))?;
    let rows = query.query_map((signed(after.0), count(limit)), recorded)?;
    rows.collect()
}

pub(super) fn stream(
    connection: &Connection,
    stream: &StreamName,
    after: Version,
    limit: usize,
) -> rusqlite::Result<Vec<Recorded>> {
    let sql = format!("{EVENT} WHERE stream = ?1 AND version > ?2 ORDER BY version LIMIT ?3");
    let mut query = connection.prepare_cached(&sql)?;
    let rows = query.query_map((stream.as_str(), signed(after.0), count(limit)), recorded)?;
    rows.collect()
}

fn recorded(row: &Row<'_>) -> rusqlite::Result<Recorded> {
    let text = |column: usize| -> rusqlite::Result<&str> { Ok(row.get_ref(column)?.as_str()?) };
    let maybe = |column: usize| -> rusqlite::Result<Option<Box<str>>> {
        Ok(row.get_ref(column)?.as_str_or_null()?.map(Box::from))
    };
    let time = Timestamp::from_microsecond(row.get(4)?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(4, Type::Integer, error.into())
    })?;
    Ok(Recorded {
        position: Position(row.get(0)?),
        stream: StreamName::new(text(1)?),
        version: Version(row.get(2)?),
        kind: text(3)?.into(),
        time,
        actor: text(5)?.into(),
        correlation_id: maybe(6)?,
        causation_id: maybe(7)?,
        data: text(8)?.into(),
    })
}

/// SQLite integers are signed 64-bit; no position beyond that exists.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) fn position_at(connection: &Connection, time: Timestamp) -> rusqlite::Result<Position> {
    let sql = "SELECT coalesce(max(position), 0) FROM events WHERE time <= ?1";
    connection.query_row(sql, [time.as_microsecond()], |row| row.get(0).map(Position))
}

pub(super) fn documents(
    connection: &Connection,
    digests: &[Digest],
) -> rusqlite::Result<Vec<Document>> {
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
        found.push(Document { digest: *digest, text });
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
    let rows = query.query_map((after, count(limit)), |row| digest(row, 0))?;
    rows.collect()
}

fn digest(row: &Row<'_>, column: usize) -> rusqlite::Result<Digest> {
    Digest::from_bytes(row.get_ref(column)?.as_blob()?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, error.into())
    })
}

pub(super) fn answer(connection: &Connection, key: &str) -> rusqlite::Result<Option<Answer>> {
    let mut query = connection
        .prepare_cached("SELECT key, request, answer, position FROM answers WHERE key = ?1")?;
    query.query_row([key], read_answer).optional()
}

pub(super) fn answers(
    connection: &Connection,
    after: &str,
    limit: usize,
) -> rusqlite::Result<Vec<Answer>> {
    let sql =
        "SELECT key, request, answer, position FROM answers WHERE key > ?1 ORDER BY key LIMIT ?2";
    let mut query = connection.prepare(sql)?;
    let rows = query.query_map((after, count(limit)), read_answer)?;
    rows.collect()
}

fn read_answer(row: &Row<'_>) -> rusqlite::Result<Answer> {
    Ok(Answer {
        key: row.get_ref(0)?.as_str()?.into(),
        request: digest(row, 1)?,
        answer: row.get_ref(2)?.as_str()?.into(),
        position: Position(row.get(3)?),
    })
}

pub(super) fn checkpoints(connection: &Connection) -> rusqlite::Result<Vec<Position>> {
    let mut query =
        connection.prepare("SELECT at FROM checkpoints WHERE piece = 0 ORDER BY at DESC")?;
    let rows = query.query_map([], |row| row.get(0).map(Position))?;
    rows.collect()
}

pub(super) fn checkpoint(
    connection: &Connection,
    at: Position,
    piece: u32,
) -> rusqlite::Result<Option<Vec<u8>>> {
    let mut query =
        connection.prepare_cached("SELECT body FROM checkpoints WHERE at = ?1 AND piece = ?2")?;
    query.query_row((at.0, piece), |row| row.get(0)).optional()
}

pub(super) fn sealed(connection: &Connection, name: &str) -> rusqlite::Result<Option<Vec<u8>>> {
    connection
        .query_row("SELECT body FROM sealed WHERE name = ?1", [name], |row| row.get(0))
        .optional()
}

pub(super) fn sealed_names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut query = connection.prepare("SELECT name FROM sealed ORDER BY name")?;
    let rows = query.query_map([], |row| row.get(0))?;
    rows.collect()
}

pub(super) fn check_storage(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut query = connection.prepare("PRAGMA integrity_check")?;
    let rows = query.query_map([], |row| row.get::<_, String>(0))?;
    rows.filter(|line| !matches!(line.as_deref(), Ok("ok"))).collect()
}
