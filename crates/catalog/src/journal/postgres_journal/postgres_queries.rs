//! The queries. Each is one statement, so its result is consistent.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use model::{Digest, RawJson, SchemaDocument};
use tokio_postgres::Row;

use super::postgres_connection::PostgresConnection;
use super::postgres_schema::{READ_AFTER_SQL, SELECT_EVENT};
use super::{
    IdempotentAnswer, JournalError, Position, RecordedEvent, StorageReport, StreamName,
    StreamVersion,
};

pub(super) async fn read_head(link: &PostgresConnection) -> Result<Position, JournalError> {
    let sql = "SELECT coalesce(max(position), 0) FROM toolcrib_events";
    let rows = link.query(sql, &[]).await?;
    Ok(Position(u64_from_row(&rows[0], 0)))
}

pub(super) async fn read_after(
    link: &PostgresConnection,
    after: Position,
    limit: usize,
) -> Result<Vec<RecordedEvent>, JournalError> {
    let rows = link.query(READ_AFTER_SQL, &[&to_i64(after.0), &limit_to_i64(limit)]).await?;
    rows.iter().map(|row| event_from_row(link, row)).collect()
}

pub(super) async fn read_stream(
    link: &PostgresConnection,
    stream: StreamName,
    after: StreamVersion,
    limit: usize,
) -> Result<Vec<RecordedEvent>, JournalError> {
    let sql =
        format!("{SELECT_EVENT} WHERE stream = $1 AND version > $2 ORDER BY version LIMIT $3");
    let rows =
        link.query(&sql, &[&stream.as_str(), &to_i64(after.0), &limit_to_i64(limit)]).await?;
    rows.iter().map(|row| event_from_row(link, row)).collect()
}

fn event_from_row(link: &PostgresConnection, row: &Row) -> Result<RecordedEvent, JournalError> {
    let time = Timestamp::try_from(row.get::<_, SystemTime>(4))
        .map_err(|error| damaged_error(link, error.to_string()))?;
    let maybe = |column: usize| row.get::<_, Option<&str>>(column).map(Box::from);
    Ok(RecordedEvent {
        position: Position(u64_from_row(row, 0)),
        stream: StreamName::new(row.get(1)),
        version: StreamVersion(u64_from_row(row, 2)),
        kind: row.get::<_, &str>(3).into(),
        time,
        actor: row.get::<_, &str>(5).into(),
        correlation_id: maybe(6),
        causation_id: maybe(7),
        data: row.get::<_, &str>(8).into(),
    })
}

pub(super) async fn position_at(
    link: &PostgresConnection,
    time: Timestamp,
) -> Result<Position, JournalError> {
    let sql = "SELECT coalesce(max(position), 0) FROM toolcrib_events WHERE time <= $1";
    // PostgreSQL supports no time before 4713 BC, and no event is older than 1970.
    let rows = link.query(sql, &[&to_system_time(time.max(Timestamp::UNIX_EPOCH))]).await?;
    Ok(Position(u64_from_row(&rows[0], 0)))
}

pub(super) async fn read_documents(
    link: &PostgresConnection,
    digests: Vec<Digest>,
) -> Result<Vec<SchemaDocument>, JournalError> {
    let wanted: Vec<&[u8]> = digests.iter().map(|digest| &digest.as_bytes()[..]).collect();
    let sql = "SELECT digest, body FROM toolcrib_documents WHERE digest = ANY ($1)";
    let rows = link.query(sql, &[&wanted]).await?;
    let document = |row: &Row| {
        let text = RawJson::parse(row.get(1))
            .map_err(|error| damaged_error(link, format!("a document: {error}")))?;
        Ok(SchemaDocument { digest: digest_from_row(link, row, 0)?, text })
    };
    rows.iter().map(document).collect()
}

pub(super) async fn document_digests(
    link: &PostgresConnection,
    after: Option<Digest>,
    limit: usize,
) -> Result<Vec<Digest>, JournalError> {
    let after = after.map_or(Vec::new(), |digest| digest.as_bytes().to_vec());
    let sql = "SELECT digest FROM toolcrib_documents WHERE digest > $1 ORDER BY digest LIMIT $2";
    let rows = link.query(sql, &[&after, &limit_to_i64(limit)]).await?;
    rows.iter().map(|row| digest_from_row(link, row, 0)).collect()
}

pub(super) async fn find_answer(
    link: &PostgresConnection,
    key: String,
) -> Result<Option<IdempotentAnswer>, JournalError> {
    let sql = "SELECT key, request, answer, position FROM toolcrib_answers WHERE key = $1";
    let rows = link.query(sql, &[&key]).await?;
    rows.first().map(|row| answer_from_row(link, row)).transpose()
}

pub(super) async fn list_answers(
    link: &PostgresConnection,
    after: String,
    limit: usize,
) -> Result<Vec<IdempotentAnswer>, JournalError> {
    let sql = "SELECT key, request, answer, position FROM toolcrib_answers WHERE key > $1 ORDER BY key LIMIT $2";
    let rows = link.query(sql, &[&after, &limit_to_i64(limit)]).await?;
    rows.iter().map(|row| answer_from_row(link, row)).collect()
}

fn answer_from_row(link: &PostgresConnection, row: &Row) -> Result<IdempotentAnswer, JournalError> {
    Ok(IdempotentAnswer {
        key: row.get::<_, &str>(0).into(),
        request: digest_from_row(link, row, 1)?,
        answer: row.get::<_, &str>(2).into(),
        position: Position(u64_from_row(row, 3)),
    })
}

pub(super) async fn checkpoint_positions(
    link: &PostgresConnection,
) -> Result<Vec<Position>, JournalError> {
    let sql = "SELECT at FROM toolcrib_checkpoints WHERE piece = 0 ORDER BY at DESC";
    let rows = link.query(sql, &[]).await?;
    Ok(rows.iter().map(|row| Position(u64_from_row(row, 0))).collect())
}

pub(super) async fn read_checkpoint(
    link: &PostgresConnection,
    at: Position,
    piece: u32,
) -> Result<Option<Vec<u8>>, JournalError> {
    let sql = "SELECT body FROM toolcrib_checkpoints WHERE at = $1 AND piece = $2";
    let rows = link.query(sql, &[&to_i64(at.0), &i64::from(piece)]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

pub(super) async fn encrypted_secret(
    link: &PostgresConnection,
    name: String,
) -> Result<Option<Vec<u8>>, JournalError> {
    let rows = link.query("SELECT body FROM toolcrib_sealed WHERE name = $1", &[&name]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

pub(super) async fn encrypted_secret_names(
    link: &PostgresConnection,
) -> Result<Vec<String>, JournalError> {
    let rows = link.query("SELECT name FROM toolcrib_sealed ORDER BY name", &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// PostgreSQL verifies its own pages; this checks for settings that make it skip flushes.
pub(super) async fn check_storage(
    link: &PostgresConnection,
) -> Result<StorageReport, JournalError> {
    let rows = link.query(
        "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes')",
        &[],
    );
    let mut report = StorageReport::default();
    for row in rows.await? {
        let (name, setting): (&str, &str) = (row.get(0), row.get(1));
        if setting == "off" {
            report.problems.push(format!(
                "the server runs with `{name} = off`: a power failure can lose events"
            ));
        }
    }
    Ok(report)
}

fn digest_from_row(
    link: &PostgresConnection,
    row: &Row,
    column: usize,
) -> Result<Digest, JournalError> {
    Digest::from_bytes(row.get(column)).map_err(|error| damaged_error(link, error.to_string()))
}

fn damaged_error(link: &PostgresConnection, cause: String) -> JournalError {
    JournalError::Damaged { place: link.display_url(), cause }
}

pub(super) fn u64_from_row(row: &Row, column: usize) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)
}

pub(super) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn limit_to_i64(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Converts to whole microseconds, the precision of PostgreSQL.
pub(super) fn to_system_time(time: Timestamp) -> SystemTime {
    match u64::try_from(time.as_microsecond()) {
        Ok(micros) => SystemTime::UNIX_EPOCH + Duration::from_micros(micros),
        Err(_) => {
            SystemTime::UNIX_EPOCH - Duration::from_micros(time.as_microsecond().unsigned_abs())
        }
    }
}
