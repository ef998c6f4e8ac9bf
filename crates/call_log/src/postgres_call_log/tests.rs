//! Tests of concurrent searches, cancellation, and the use of indexes.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::NoTls;

use self::support::database;
use super::*;
use crate::sample_calls::{call, rare, time};

#[path = "../../../catalog/tests/support/database.rs"]
mod support;

/// Searches that the server has not answered yet.
const WAITING: &str = "SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND state = 'active' AND query LIKE 'SELECT id, text, hash%'";

/// A call log, and a second connection to its database.
async fn record(name: &str) -> (Arc<PostgresCallLog>, Client) {
    let url = database(&format!("record_readers_{name}")).await;
    let records = PostgresCallLog::connect(url.parse().unwrap()).await.unwrap();
    let (beside, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    (Arc::new(records), beside)
}

/// Blocks searches until the returned client is dropped.
async fn hold_up_searches(records: &PostgresCallLog) -> Client {
    let holding = records.connection.open_client().await.unwrap();
    let hold = "BEGIN; LOCK TABLE toolcrib_calls IN ACCESS EXCLUSIVE MODE";
    holding.batch_execute(hold).await.unwrap();
    holding
}

fn search(records: &Arc<PostgresCallLog>) -> JoinHandle<Result<Vec<CallLogRow>, JournalError>> {
    let records = Arc::clone(records);
    let filter = CallFilter { trace_id: Some("none".into()), limit: 9, ..CallFilter::default() };
    tokio::spawn(async move { records.read_rows(filter).await })
}

/// Waits until there are `count` searches, and returns the ids of their backend processes.
async fn waiting(beside: &Client, count: usize) -> Vec<i32> {
    let look = async {
        loop {
            let found = beside.query(WAITING, &[]).await.unwrap();
            if found.len() == count {
                return found.iter().map(|row| row.get(0)).collect();
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), look).await.expect("the server does as it is told")
}

#[tokio::test]
async fn a_blocked_search_delays_no_other_read_and_is_cancelled_with_its_caller() {
    let (records, beside) = record("beside").await;
    records.store_calls([call("a:x", 1)].into()).await.unwrap();
    let held_up = hold_up_searches(&records).await;
    let searches = [search(&records), search(&records)];
    waiting(&beside, 2).await;
    let usage = records.usage_totals(UsageKind::Tool, vec!["a:x".to_owned()]);
    let usage = timeout(Duration::from_secs(5), usage).await.expect("it waits for no search");
    assert_eq!(usage.unwrap()[0].1.execution_count, 1);
    for search in searches {
        search.abort();
    }
    waiting(&beside, 0).await;
    drop(held_up);
    assert_eq!(search(&records).await.unwrap().unwrap(), []);
}

#[tokio::test]
async fn a_search_that_the_server_cancels_reports_a_timeout() {
    let (records, beside) = record("given_up").await;
    let held_up = hold_up_searches(&records).await;
    let searching = search(&records);
    let pids = waiting(&beside, 1).await;
    // The server does the same when the statement timeout expires.
    beside.query("SELECT pg_cancel_backend($1)", &[&pids[0]]).await.unwrap();
    let answer = searching.await.unwrap();
    assert!(matches!(answer, Err(JournalError::TookTooLong { .. })), "{answer:?}");
    drop(held_up);
    assert_eq!(search(&records).await.unwrap().unwrap(), []);
}

#[tokio::test]
async fn excess_searches_wait_for_a_permit() {
    let (records, beside) = record("few").await;
    let held_up = hold_up_searches(&records).await;
    let searches: Vec<_> = (0..9).map(|_| search(&records)).collect();
    waiting(&beside, 4).await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!(waiting(&beside, 4).await.len(), 4);
    drop(held_up);
    for search in searches {
        assert_eq!(search.await.unwrap().unwrap(), []);
    }
}

#[tokio::test]
async fn a_lost_connection_is_reopened() {
    let (records, beside) = record("again").await;
    assert_eq!(search(&records).await.unwrap().unwrap(), []);
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    beside.query(end, &[]).await.unwrap();
    assert_eq!(search(&records).await.unwrap().unwrap(), []);
}

#[tokio::test]
async fn a_group_whose_commit_was_not_confirmed_is_not_stored_twice() {
    let (records, _beside) = record("unheard").await;
    let group: Arc<[CallRecord]> = [call("a:x", 1), call("a:x", 2)].into();
    let stored = async || {
        let filter = CallFilter { limit: 9, ..CallFilter::default() };
        records.read_rows(filter).await.unwrap()
    };
    records.store_calls(Arc::clone(&group)).await.unwrap();
    // Simulates a connection that was lost before the reply arrived.
    let last =
        stored().await.iter().map(CallLogRow::chain_link).max_by_key(|link| link.id).unwrap();
    records.writer_state.lock().await.uncertain_group = Some((Arc::clone(&group), last));
    records.store_calls(group).await.unwrap();
    assert_eq!(stored().await.len(), 2);
    records.store_calls([call("a:x", 1), call("a:x", 2)].into()).await.unwrap();
    assert_eq!(stored().await.len(), 4, "another group that says the same is another one");
}

#[tokio::test]
async fn repeated_searches_leave_no_prepared_statements() {
    let (records, _beside) = record("prepared").await;
    let calls: Vec<_> = (0..20).map(|second| call("a:x", second)).collect();
    records.store_calls(calls.into()).await.unwrap();
    for second in 0..20 {
        let since = Some(time(second));
        let filter = CallFilter { since, limit: 100, ..CallFilter::default() };
        assert_eq!(records.read_rows(filter).await.unwrap().len() as u64, 20 - second);
    }
    let count = "SELECT count(*) FROM pg_prepared_statements";
    let prepared: i64 = records.readers.run_search(count, &[]).await.unwrap()[0].get(0);
    assert_eq!(prepared, 0);
}

/// Number of rows that all steps of a plan read, including rows removed by a filter.
async fn looked_at(records: &PostgresCallLog, sql: &str, values: &[SqlParameter]) -> f64 {
    let explain = format!("EXPLAIN (ANALYZE, TIMING false) {sql}");
    let plan = records.readers.run_search(&explain, values).await.unwrap();
    let rows = |line: &str| -> Option<f64> {
        let removed = line.trim().strip_prefix("Rows Removed by Filter: ");
        let of_step = line.split_once("(actual rows=").map(|(_, rest)| rest);
        removed.or(of_step)?.split(' ').next()?.parse().ok()
    };
    plan.iter().filter_map(|line| rows(line.get(0))).sum()
}

#[tokio::test]
async fn rare_calls_are_found_without_a_full_scan() {
    let (records, beside) = record("rare").await;
    let (calls, rare) = rare();
    records.store_calls(calls.into()).await.unwrap();
    beside.batch_execute("ANALYZE toolcrib_calls").await.unwrap();
    for filter in rare {
        let found = records.read_rows(filter.clone()).await.unwrap().len();
        assert_eq!(found, 1, "{filter:?}");
        let mut looked = 0.0;
        if let Some((sql, values)) = filter.time_window_sql(POSTGRES_DIALECT) {
            looked += looked_at(&records, &sql, &values).await;
        }
        let (wanted, values) =
            records.narrow_by_time(filter.clone()).await.unwrap().to_sql(POSTGRES_DIALECT);
        let sql = format!("SELECT id, text, hash FROM toolcrib_calls {wanted}");
        looked += looked_at(&records, &sql, &values).await;
        assert!((1.0..20.0).contains(&looked), "{looked} rows: {filter:?}");
    }
}
