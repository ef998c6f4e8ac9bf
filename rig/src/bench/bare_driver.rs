//! Writes the same rows with the bare database driver, in its fastest way.

use catalog::journal::RecordedEvent;
use model::SchemaDocument;
use tokio_postgres::types::ToSql;

/// A connection of the bare driver.
pub(super) enum BareDriver {
    Sqlite(rusqlite::Connection),
    Postgres(Box<BarePostgres>),
}

/// A client with its prepared statements.
pub(super) struct BarePostgres {
    client: tokio_postgres::Client,
    events: tokio_postgres::Statement,
    documents: tokio_postgres::Statement,
}

impl BareDriver {
    pub(super) async fn prepare_postgres(client: tokio_postgres::Client) -> anyhow::Result<Self> {
        let (events, documents) =
            (client.prepare(INSERT_EVENTS).await?, client.prepare(INSERT_DOCUMENTS).await?);
        Ok(Self::Postgres(Box::new(BarePostgres { client, events, documents })))
    }

    pub(super) async fn head(&mut self) -> anyhow::Result<u64> {
        match self {
            Self::Sqlite(connection) => Ok(connection.query_row(
                "SELECT coalesce(max(position), 0) FROM events",
                [],
                |row| row.get(0),
            )?),
            Self::Postgres(bare) => {
                let row = bare
                    .client
                    .query_one("SELECT coalesce(max(position), 0) FROM toolcrib_events", &[])
                    .await?;
                Ok(u64::try_from(row.get::<_, i64>(0))?)
            }
        }
    }

    pub(super) async fn insert(
        &mut self,
        rows: &[RecordedEvent],
        documents: &[SchemaDocument],
    ) -> Result<(), std::io::Error> {
        match self {
            Self::Sqlite(connection) => {
                insert_sqlite(connection, rows, documents).map_err(std::io::Error::other)
            }
            Self::Postgres(bare) => {
                insert_postgres(bare, rows, documents).await.map_err(std::io::Error::other)
            }
        }
    }
}

fn insert_sqlite(
    connection: &mut rusqlite::Connection,
    rows: &[RecordedEvent],
    documents: &[SchemaDocument],
) -> rusqlite::Result<()> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    {
        let mut insert = transaction
            .prepare_cached("INSERT OR IGNORE INTO documents (digest, body) VALUES (?1, ?2)")?;
        for document in documents {
            insert.execute((&document.digest.as_bytes()[..], document.text.as_str()))?;
        }
        let mut insert = transaction.prepare_cached(
            "INSERT INTO events (position, stream, version, type, time, actor, correlation_id, causation_id, data)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        for row in rows {
            insert.execute((
                row.position.0,
                row.stream.as_str(),
                row.version.0,
                &*row.kind,
                row.time.as_microsecond(),
                &*row.actor,
                row.correlation_id.as_deref(),
                row.causation_id.as_deref(),
                &*row.data,
            ))?;
        }
    }
    transaction.commit()
}

/// One prepared statement over arrays for each table; events alone take one round trip.
async fn insert_postgres(
    bare: &mut BarePostgres,
    rows: &[RecordedEvent],
    documents: &[SchemaDocument],
) -> Result<(), tokio_postgres::Error> {
    let position: Vec<_> = rows.iter().map(|row| row.position.0 as i64).collect();
    let stream: Vec<_> = rows.iter().map(|row| row.stream.as_str()).collect();
    let version: Vec<_> = rows.iter().map(|row| row.version.0 as i64).collect();
    let kind: Vec<_> = rows.iter().map(|row| &*row.kind).collect();
    let actor: Vec<_> = rows.iter().map(|row| &*row.actor).collect();
    let data: Vec<_> = rows.iter().map(|row| &*row.data).collect();
    let events: [&(dyn ToSql + Sync); 6] = [&position, &stream, &version, &kind, &actor, &data];
    if documents.is_empty() {
        return bare.client.execute(&bare.events, &events).await.map(drop);
    }
    let digest: Vec<_> = documents.iter().map(|document| &document.digest.as_bytes()[..]).collect();
    let body: Vec<_> = documents.iter().map(|document| document.text.as_str()).collect();
    let transaction = bare.client.transaction().await?;
    transaction.execute(&bare.documents, &[&digest, &body]).await?;
    transaction.execute(&bare.events, &events).await?;
    transaction.commit().await
}

const INSERT_DOCUMENTS: &str = "INSERT INTO toolcrib_documents
    SELECT * FROM unnest($1::bytea[], $2::text[]) ON CONFLICT DO NOTHING";

const INSERT_EVENTS: &str = "INSERT INTO toolcrib_events
    SELECT p, s, v, t, now(), a, NULL, NULL, d
    FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[]) x(p, s, v, t, a, d)";
