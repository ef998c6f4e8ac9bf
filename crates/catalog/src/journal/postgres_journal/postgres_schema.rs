//! The tables, the SQL function that appends, and the settings of a connection.

use super::JournalError;
use super::postgres_connection::PostgresConnection;

/// Set on every connection. A journal must not acknowledge before the flush, so `synchronous_commit = off` is
/// overridden; stricter settings stay.
pub(super) const SESSION_SETTINGS_SQL: &str = "
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
    SET plan_cache_mode = force_generic_plan; -- planning anew costs more than the append itself
    SET default_transaction_isolation = 'read committed'; -- the head is read after the lock is taken
    SET statement_timeout = '30s';
    SET lock_timeout = '15s';
    SET idle_in_transaction_session_timeout = '60s';
    SET tcp_keepalives_idle = 20; -- what a node that has lost its power held is given back soon
    SET tcp_keepalives_interval = 5;
    SET tcp_keepalives_count = 4;
    SET client_min_messages = warning;
";

/// The schema of the journal: the first one on the search path that contains it, or else the current schema.
pub(super) const FIND_SCHEMA_SQL: &str = "SELECT coalesce(
    (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = to_regclass('toolcrib_format')), current_schema())::text";

/// Taken by every append and held until commit, so that positions become visible in order.
pub(super) const APPEND_LOCK_SQL: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('toolcrib journal ' || current_schema(), 0))";

/// Schema migrations, one per format. A released migration never changes; a new one is added instead.
const MIGRATIONS: &[&str] = &["
CREATE TABLE toolcrib_events (
    position bigint PRIMARY KEY,
    stream text NOT NULL COLLATE \"C\",
    version bigint NOT NULL,
    type text NOT NULL,
    time timestamptz NOT NULL,
    actor text NOT NULL,
    correlation_id text,
    causation_id text,
    data text NOT NULL,
    UNIQUE (stream, version)
);
CREATE TABLE toolcrib_documents (digest bytea PRIMARY KEY, body text NOT NULL);
CREATE TABLE toolcrib_answers (
    key text COLLATE \"C\" PRIMARY KEY, request bytea NOT NULL, answer text NOT NULL, position bigint NOT NULL
);
CREATE TABLE toolcrib_checkpoints (
    at bigint NOT NULL, piece bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY (at, piece)
);
CREATE TABLE toolcrib_sealed (name text COLLATE \"C\" PRIMARY KEY, body bytea NOT NULL);

-- Stores a group of appends. Prefixes: s_ streams, e_ events, d_ documents, k_ idempotency keys; each array of a
-- prefix has the same length, and `append` says to which append of the group a row belongs. Within one group every
-- stream and every key stands once. `head` is the position before the step; `answered` and `conflicts` say, as JSON,
-- which appends were not stored and why.
CREATE FUNCTION toolcrib_append(
    s_append bigint[], s_stream text[], s_expected bigint[],
    e_append bigint[], e_stream text[], e_version bigint[], e_type text[],
    e_actor text[], e_correlation text[], e_causation text[], e_data text[],
    d_append bigint[], d_digest bytea[], d_body text[],
    k_append bigint[], k_key text[], k_request bytea[], k_answer text[],
    OUT head bigint, OUT answered text, OUT conflicts text
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    refused bigint[] := '{}';
    stored bigint;
    moment timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('toolcrib journal ' || current_schema(), 0));
    head := coalesce((SELECT max(e.position) FROM toolcrib_events e), 0);
    -- One time for the whole step: a moment between two of its events would show half of it.
    moment := clock_timestamp();

    IF cardinality(k_append) > 0 THEN
        SELECT coalesce(array_agg(k.append), '{}'),
               json_agg(json_build_object('append', k.append, 'position', a.position, 'answer', a.answer,
                                          'request', encode(a.request, 'hex')))
        INTO refused, answered
        FROM unnest(k_append, k_key) k(append, key) JOIN toolcrib_answers a ON a.key = k.key;
    END IF;

    INSERT INTO toolcrib_events
    SELECT head + row_number() OVER (ORDER BY e.place), e.stream, e.version, e.type, moment,
           e.actor, e.correlation, e.causation, e.data
    FROM unnest(e_append, e_stream, e_version, e_type, e_actor, e_correlation, e_causation, e_data)
         WITH ORDINALITY e(append, stream, version, type, actor, correlation, causation, data, place)
    WHERE e.append <> ALL (refused) AND e.append <> ALL (ARRAY(
        SELECT s.append FROM unnest(s_append, s_stream, s_expected) s(append, stream, expected)
        WHERE s.expected <> coalesce((SELECT max(v.version) FROM toolcrib_events v WHERE v.stream = s.stream), 0)
    ));
    GET DIAGNOSTICS stored = ROW_COUNT;
    -- Only if somebody was refused: who, and why. What was just stored is after `head`.
    IF stored < cardinality(e_append) OR cardinality(e_append) = 0 THEN
        SELECT json_agg(json_build_object('append', s.append, 'stream', s.stream, 'actual', v.version)),
               refused || coalesce(array_agg(s.append), '{}')
        INTO conflicts, refused
        FROM unnest(s_append, s_stream, s_expected) s(append, stream, expected)
        CROSS JOIN LATERAL (
            SELECT coalesce(max(e.version), 0) AS version
            FROM toolcrib_events e WHERE e.stream = s.stream AND e.position <= head
        ) v
        WHERE v.version <> s.expected AND s.append <> ALL (refused);
    END IF;
    IF cardinality(d_append) > 0 THEN
        INSERT INTO toolcrib_documents
        SELECT d.digest, d.body FROM unnest(d_append, d_digest, d_body) d(append, digest, body)
        WHERE d.append <> ALL (refused)
        ON CONFLICT DO NOTHING;
    END IF;
    IF cardinality(k_append) > 0 THEN
        INSERT INTO toolcrib_answers
        SELECT k.key, k.request, k.answer,
               head + (SELECT count(*) FROM unnest(e_append) e(append)
                       WHERE e.append <= k.append AND e.append <> ALL (refused))
        FROM unnest(k_append, k_key, k_request, k_answer) k(append, key, request, answer)
        WHERE k.append <> ALL (refused);
    END IF;
END
$$;
"];

pub(super) const APPEND_SQL: &str =
    "SELECT * FROM toolcrib_append($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18)";

pub(super) const VERSIONS_SQL: &str =
    "SELECT stream, max(version) FROM toolcrib_events WHERE stream = ANY ($1) GROUP BY stream";

pub(super) const SELECT_EVENT: &str = "SELECT position, stream, version, type, time, actor, correlation_id, causation_id, data FROM toolcrib_events";

pub(super) const READ_AFTER_SQL: &str =
    "SELECT position, stream, version, type, time, actor, correlation_id, causation_id, data FROM toolcrib_events
     WHERE position > $1 ORDER BY position LIMIT $2";

/// The format of the existing journal, if there is one.
async fn read_format(link: &PostgresConnection) -> Result<Option<i64>, JournalError> {
    let there = link.query("SELECT to_regclass('toolcrib_format') IS NOT NULL", &[]).await?;
    if !there.first().is_some_and(|row| row.get(0)) {
        return Ok(None);
    }
    let rows = link.query("SELECT coalesce(max(format), 0) FROM toolcrib_format", &[]).await?;
    let (found, known): (i64, i64) =
        (rows.first().map_or(0, |row| row.get(0)), MIGRATIONS.len() as i64);
    if known < found {
        return Err(JournalError::Newer { place: link.display_url(), found, known });
    }
    Ok(Some(found))
}

/// Rejects a database that contains no journal, or a journal in an unsupported format.
pub(super) async fn check_format(link: &PostgresConnection) -> Result<(), JournalError> {
    match read_format(link).await? {
        Some(_) => Ok(()),
        None => {
            let cause = "it has no journal in it".to_owned();
            Err(JournalError::NotAJournal { place: link.display_url(), cause })
        }
    }
}

/// Creates the tables, or migrates them to this program's format. Several nodes may start at the same time.
pub(super) async fn run_migrations(link: &PostgresConnection) -> Result<(), JournalError> {
    if read_format(link).await? == Some(MIGRATIONS.len() as i64) {
        return Ok(());
    }
    let rows = link.query("SHOW server_encoding", &[]).await?;
    let encoding = rows.first().map_or(String::new(), |row| row.get(0));
    if encoding != "UTF8" && encoding != "SQL_ASCII" {
        let cause = format!("its encoding is {encoding}: make a database with `ENCODING 'UTF8'`");
        return Err(JournalError::CannotOpen { place: link.display_url(), cause });
    }
    let mut client = link.open_client().await?;
    let sql = |error: tokio_postgres::Error| link.map_error(&error, false);
    let transaction = client.transaction().await.map_err(sql)?;
    transaction.batch_execute(APPEND_LOCK_SQL).await.map_err(sql)?;
    let create = "CREATE TABLE IF NOT EXISTS toolcrib_format (format bigint NOT NULL)";
    transaction.batch_execute(create).await.map_err(sql)?;
    let found = "SELECT coalesce(max(format), 0) FROM toolcrib_format";
    let found: i64 = transaction.query_one(found, &[]).await.map_err(sql)?.get(0);
    for (migration, format) in MIGRATIONS.iter().zip(1_i64..) {
        if found < format {
            transaction.batch_execute(migration).await.map_err(sql)?;
            let note = "INSERT INTO toolcrib_format (format) VALUES ($1)";
            transaction.execute(note, &[&format]).await.map_err(sql)?;
        }
    }
    transaction.commit().await.map_err(sql)
}
