//! Tests of reads during writes, interrupted queries, and the use of indexes.

use std::sync::mpsc;
use std::sync::mpsc::{Receiver, Sender};

use rusqlite::StatementStatus;

use super::*;
use crate::sample_calls::{call, rare, time};

fn record() -> (tempfile::TempDir, SqliteCallLog) {
    let folder = tempfile::tempdir().unwrap();
    let records = SqliteCallLog::open(&folder.path().join("crib.db.record")).unwrap();
    (folder, records)
}

/// A query that signals its first row and then waits for permission to continue.
fn slow(
    begun: Sender<()>,
    go_on: Receiver<()>,
) -> impl FnOnce(&mut Connection) -> rusqlite::Result<u64> {
    move |connection| {
        let mut statement = connection.prepare("SELECT id FROM calls ORDER BY id")?;
        let mut rows = statement.query([])?;
        let mut count = 0;
        while rows.next()?.is_some() {
            if count == 0 {
                begun.send(()).unwrap();
                go_on.recv().unwrap();
            }
            count += 1;
        }
        Ok(count)
    }
}

#[tokio::test]
async fn a_long_read_blocks_neither_writers_nor_readers() {
    let (_folder, records) = record();
    let records = Arc::new(records);
    records.store_calls(vec![call("a:x", 1); 3].into()).await.unwrap();
    let ((begun, has_begun), (tell, told)) = (mpsc::channel(), mpsc::channel());
    let reading = tokio::spawn({
        let records = Arc::clone(&records);
        async move { records.readers.run_query(None, slow(begun, told)).await }
    });
    tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
    records.store_calls([call("a:x", 2)].into()).await.unwrap();
    assert_eq!(records.chain_bounds().await.unwrap().head.id, 4);
    tell.send(()).unwrap();
    // The query sees the rows that existed when it began.
    assert_eq!(reading.await.unwrap().unwrap(), 3);
}

const FOR_EVER: &str =
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

#[tokio::test]
async fn a_search_that_takes_too_long_is_interrupted() {
    let (_folder, records) = record();
    let (ended, has_ended) = mpsc::channel();
    let for_ever = move |connection: &mut Connection| {
        let found = connection.query_row(FOR_EVER, [], |row| row.get::<_, i64>(0));
        ended.send(found.as_ref().err().and_then(rusqlite::Error::sqlite_error_code)).unwrap();
        found
    };
    let answer = records.readers.run_query(Some(Duration::from_millis(20)), for_ever).await;
    assert!(matches!(answer, Err(JournalError::TookTooLong { .. })), "{answer:?}");
    let why = tokio::task::spawn_blocking(move || has_ended.recv().unwrap()).await.unwrap();
    assert_eq!(why, Some(ErrorCode::OperationInterrupted));
    assert_eq!(records.chain_bounds().await.unwrap().head.id, 0);
}

#[tokio::test]
async fn a_search_is_interrupted_when_its_caller_goes_away() {
    let (_folder, records) = record();
    let records = Arc::new(records);
    let ((begun, has_begun), (ended, has_ended)) = (mpsc::channel(), mpsc::channel());
    let for_ever = move |connection: &mut Connection| {
        let mut statement = connection.prepare(&FOR_EVER.replace("count(*)", "i"))?;
        let mut rows = statement.query([])?;
        rows.next()?;
        begun.send(()).unwrap();
        let ending = loop {
            if let Err(error) = rows.next() {
                break error;
            }
        };
        ended.send(ending.sqlite_error_code()).unwrap();
        Err::<(), _>(ending)
    };
    let reading = tokio::spawn({
        let records = Arc::clone(&records);
        async move { records.readers.run_query(None, for_ever).await }
    });
    tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
    reading.abort();
    let why = tokio::task::spawn_blocking(move || has_ended.recv().unwrap()).await.unwrap();
    assert_eq!(why, Some(ErrorCode::OperationInterrupted));
}

/// Number of virtual machine steps that a search takes.
async fn steps(records: &SqliteCallLog, filter: CallFilter) -> (usize, i32) {
    let look = move |connection: &mut Connection| {
        let found = read_rows(connection, filter.clone())?.len();
        let filter = narrow_by_time(connection, filter)?;
        let (wanted, values) = filter.to_sql(SQLITE_DIALECT);
        let mut statement = connection.prepare(&format!("SELECT id FROM calls {wanted}"))?;
        let mut rows = statement.query(rusqlite::params_from_iter(values))?;
        while rows.next()?.is_some() {}
        drop(rows);
        let steps = statement.get_status(StatementStatus::VmStep);
        assert_eq!(statement.get_status(StatementStatus::Sort), 0, "{wanted}");
        Ok((found, steps))
    };
    records.readers.run_query(None, look).await.unwrap()
}

#[tokio::test]
async fn rare_calls_are_found_without_a_full_scan() {
    let (_folder, records) = record();
    let (calls, rare) = rare();
    records.store_calls(calls.into()).await.unwrap();
    for filter in rare {
        let (found, steps) = steps(&records, filter.clone()).await;
        assert_eq!(found, 1, "{filter:?}");
        assert!(steps < 200, "{steps} steps: {filter:?}");
    }
    let all = CallFilter { limit: 100, ..CallFilter::default() };
    let never = CallFilter { since: Some(time(9_999)), ..all.clone() };
    assert_eq!(steps(&records, never).await.0, 0);
    let often = CallFilter { since: Some(time(0)), ..all };
    let (found, steps) = steps(&records, often).await;
    assert_eq!(found, 100);
    assert!(steps < 5_000, "{steps} steps");
}

#[tokio::test]
async fn a_call_log_of_the_first_format_gets_its_indexes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crib.db.record");
    create_private_file(&path).unwrap();
    let old = Connection::open(&path).unwrap();
    old.execute_batch(MIGRATIONS[0]).unwrap();
    old.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    drop(old);
    let looked_at = SqliteCallLog::open_read_only(&path).unwrap();
    let all = CallFilter { limit: 9, since: Some(time(0)), ..CallFilter::default() };
    assert_eq!(looked_at.read_rows(all.clone()).await.unwrap(), []);
    let records = SqliteCallLog::open(&path).unwrap();
    records.store_calls([call("a:x", 1)].into()).await.unwrap();
    assert_eq!(records.read_rows(all).await.unwrap().len(), 1);
}
