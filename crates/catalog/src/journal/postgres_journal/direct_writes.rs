//! Changes other than appends: restoring, checkpoints, encrypted secrets and removal of documents.

use std::collections::{HashMap, HashSet};

use model::{Digest, SchemaDocument};
use tokio_postgres::types::ToSql;

use super::postgres_connection::PostgresConnection;
use super::postgres_queries::{to_i64, to_system_time, u64_from_row};
use super::{
    IdempotentAnswer, JournalError, Position, RecordedEvent, StreamName, StreamVersion,
    postgres_schema,
};
use crate::journal::store_common::check_next_event;

pub(super) async fn restore_events(
    link: &PostgresConnection,
    events: Vec<RecordedEvent>,
    documents: Vec<SchemaDocument>,
    answers: Vec<IdempotentAnswer>,
) -> Result<Position, JournalError> {
    let sql = |error: tokio_postgres::Error| link.map_error(&error, true);
    let mut client = link.open_client().await?;
    let transaction = client.transaction().await.map_err(sql)?;
    transaction.batch_execute(postgres_schema::APPEND_LOCK_SQL).await.map_err(sql)?;
    let row = transaction.query_one("SELECT coalesce(max(position), 0) FROM toolcrib_events", &[]);
    let mut head = Position(u64_from_row(&row.await.map_err(sql)?, 0));

    let streams: HashSet<&str> = events.iter().map(|event| event.stream.as_str()).collect();
    let streams: Vec<&str> = streams.into_iter().collect();
    let rows = transaction.query(postgres_schema::VERSIONS_SQL, &[&streams]).await.map_err(sql)?;
    let mut versions: HashMap<StreamName, StreamVersion> = rows
        .iter()
        .map(|row| (StreamName::new(row.get(0)), StreamVersion(u64_from_row(row, 1))))
        .collect();
    for event in &events {
        head.0 += 1;
        let version = versions.entry(event.stream.clone()).or_default();
        *version = version.next();
        check_next_event(event, head, *version)?;
    }

    let insert = "INSERT INTO toolcrib_events
        SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::timestamptz[],
                             $6::text[], $7::text[], $8::text[], $9::text[])";
    let position: Vec<_> = events.iter().map(|event| to_i64(event.position.0)).collect();
    let stream: Vec<_> = events.iter().map(|event| event.stream.as_str()).collect();
    let version: Vec<_> = events.iter().map(|event| to_i64(event.version.0)).collect();
    let kind: Vec<_> = events.iter().map(|event| &*event.kind).collect();
    let time: Vec<_> = events.iter().map(|event| to_system_time(event.time)).collect();
    let actor: Vec<_> = events.iter().map(|event| &*event.actor).collect();
    let correlation: Vec<_> = events.iter().map(|event| event.correlation_id.as_deref()).collect();
    let causation: Vec<_> = events.iter().map(|event| event.causation_id.as_deref()).collect();
    let data: Vec<_> = events.iter().map(|event| &*event.data).collect();
    let columns: [&(dyn ToSql + Sync); 9] =
        [&position, &stream, &version, &kind, &time, &actor, &correlation, &causation, &data];
    transaction.execute(insert, &columns).await.map_err(sql)?;

    let digest: Vec<_> = documents.iter().map(|document| &document.digest.as_bytes()[..]).collect();
    let body: Vec<_> = documents.iter().map(|document| document.text.as_str()).collect();
    let insert = "INSERT INTO toolcrib_documents SELECT * FROM unnest($1::bytea[], $2::text[])
        ON CONFLICT DO NOTHING";
    transaction.execute(insert, &[&digest, &body]).await.map_err(sql)?;
    for answer in &answers {
        let insert = "INSERT INTO toolcrib_answers VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let (key, request, text) = (&*answer.key, &answer.request.as_bytes()[..], &*answer.answer);
        transaction
            .execute(insert, &[&key, &request, &text, &to_i64(answer.position.0)])
            .await
            .map_err(sql)?;
    }
    transaction.commit().await.map_err(sql)?;
    Ok(head)
}

pub(super) async fn remove_documents(
    link: &PostgresConnection,
    digests: Vec<Digest>,
    seen: Position,
) -> Result<Option<usize>, JournalError> {
    let sql = |error: tokio_postgres::Error| link.map_error(&error, true);
    let mut client = link.open_client().await?;
    let transaction = client.transaction().await.map_err(sql)?;
    transaction.batch_execute(postgres_schema::APPEND_LOCK_SQL).await.map_err(sql)?;
    let row = transaction.query_one("SELECT coalesce(max(position), 0) FROM toolcrib_events", &[]);
    if Position(u64_from_row(&row.await.map_err(sql)?, 0)) != seen {
        return Ok(None);
    }
    let unwanted: Vec<&[u8]> = digests.iter().map(|digest| &digest.as_bytes()[..]).collect();
    let delete = "DELETE FROM toolcrib_documents WHERE digest = ANY ($1)";
    let removed = transaction.execute(delete, &[&unwanted]).await.map_err(sql)?;
    transaction.commit().await.map_err(sql)?;
    Ok(Some(usize::try_from(removed).unwrap_or(usize::MAX)))
}

pub(super) async fn write_checkpoint(
    link: &PostgresConnection,
    at: Position,
    piece: u32,
    body: Vec<u8>,
) -> Result<(), JournalError> {
    let sql = "INSERT INTO toolcrib_checkpoints VALUES ($1, $2, $3)
               ON CONFLICT (at, piece) DO UPDATE SET body = excluded.body";
    link.execute(sql, &[&to_i64(at.0), &i64::from(piece), &body]).await.map(drop)
}

pub(super) async fn remove_checkpoints_before(
    link: &PostgresConnection,
    at: Position,
) -> Result<(), JournalError> {
    let sql = "DELETE FROM toolcrib_checkpoints WHERE at < $1";
    link.execute(sql, &[&to_i64(at.0)]).await.map(drop)
}

pub(super) async fn store_encrypted_secret(
    link: &PostgresConnection,
    name: String,
    bytes: Option<Vec<u8>>,
) -> Result<(), JournalError> {
    match bytes {
        Some(bytes) => {
            let sql = "INSERT INTO toolcrib_sealed VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET body = excluded.body";
            link.execute(sql, &[&name, &bytes]).await.map(drop)
        }
        None => {
            link.execute("DELETE FROM toolcrib_sealed WHERE name = $1", &[&name]).await.map(drop)
        }
    }
}
