//! The call log over every store: rows are hash-chained, filtered, counted, and deleted by age in order.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use jiff::Timestamp;
use model::{ErrorCode, McpPrimitive};
use tokio_postgres::NoTls;
use toolcrib_call_log::{
    AuditExpectations, CallEndpoint, CallFilter, CallLog, CallLogRow, CallRecord,
    CallerCredentialKind, FinalCallStatus, MemoryCallLog, PostgresCallLog, RecordedCall,
    SqliteCallLog, UsageKind, UsagePage, UsageTotals, verify_call_log,
};

use self::support::database;

#[path = "../../catalog/tests/support/database.rs"]
mod support;

struct Store {
    records: Arc<dyn CallLog>,
    folder: Option<tempfile::TempDir>,
    url: Option<String>,
}

async fn stores(name: &str) -> [Store; 3] {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = SqliteCallLog::open(&folder.path().join("crib.db.record")).unwrap();
    let url = database(&format!("record_{name}")).await;
    let postgres = PostgresCallLog::connect(url.parse().unwrap()).await.unwrap();
    [
        Store { records: Arc::new(MemoryCallLog::default()), folder: None, url: None },
        Store { records: Arc::new(sqlite), folder: Some(folder), url: None },
        Store { records: Arc::new(postgres), folder: None, url: Some(url) },
    ]
}

impl Store {
    /// Modifies the database directly, bypassing the store; returns false for the memory store, which has no database.
    async fn tamper(&self, sql: &str) -> bool {
        if let Some(folder) = &self.folder {
            let sql =
                sql.replace("toolcrib_calls_anchor", "anchor").replace("toolcrib_calls", "calls");
            let path = folder.path().join("crib.db.record");
            rusqlite::Connection::open(path).unwrap().execute_batch(&sql).unwrap();
        } else if let Some(url) = &self.url {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(sql).await.unwrap();
        }
        self.folder.is_some() || self.url.is_some()
    }

    async fn problems(&self) -> Vec<String> {
        verify_call_log(&*self.records, AuditExpectations::default(), |_| {})
            .await
            .unwrap()
            .problems
    }

    async fn ids(&self, filter: CallFilter) -> Vec<u64> {
        let rows = self.records.read_rows(CallFilter { limit: 100, ..filter }).await.unwrap();
        rows.iter().map(|row| row.id).collect()
    }
}

fn time(minute: u32) -> Timestamp {
    format!("2026-05-01T09:{minute:02}:00.5Z").parse().unwrap()
}

fn call(tool: &str, minute: u32) -> CallRecord {
    CallRecord {
        time: time(minute),
        node: "n1".into(),
        subject: "ada".into(),
        issuer: Some("https://id.example".into()),
        client: None,
        means: CallerCredentialKind::Token,
        door: CallEndpoint::Mcp,
        kind: McpPrimitive::Tool,
        tool_id: Some(tool.into()),
        source_id: tool.split(':').next().map(Into::into),
        status: FinalCallStatus::Completed,
        code: None,
        error: None,
        upstream_status: Some(200),
        duration_us: 1_500,
        argument_bytes: 2,
        result_bytes: 17,
        correlation_id: Some("r1".into()),
        trace_id: None,
        arguments: None,
    }
}

fn failed(tool: &str, minute: u32, why: &str) -> CallRecord {
    let (status, code) = (FinalCallStatus::Failed, Some(ErrorCode::RateLimited));
    CallRecord { status, code, error: Some(why.into()), ..call(tool, minute) }
}

#[tokio::test]
async fn a_row_holds_the_stored_call_and_links_to_the_previous_row() {
    for store in stores("rows").await {
        store
            .records
            .store_calls([call("a:x", 1), failed("b:y", 2, "no \u{1F37A}")].into())
            .await
            .unwrap();
        store.records.store_calls([call("a:x", 3)].into()).await.unwrap();
        let rows =
            store.records.read_rows(CallFilter { limit: 9, ..Default::default() }).await.unwrap();
        let calls: Vec<RecordedCall> =
            rows.iter().rev().map(|row| row.parse_call().unwrap()).collect();
        assert_eq!(calls[1].call, failed("b:y", 2, "no \u{1F37A}"));
        for (one, two) in calls.iter().zip(&calls[1..]) {
            assert_eq!((two.previous, two.id), (one.hash, one.id + 1));
        }
        let verified =
            verify_call_log(&*store.records, AuditExpectations::default(), |_| {}).await.unwrap();
        assert_eq!((verified.rows, verified.removed, verified.head.id), (3, 0, 3));
        assert_eq!(verified.problems, Vec::<String>::new());
    }
}

#[test]
fn an_exported_line_is_hashed_without_its_hash_field() {
    let row = CallLogRow {
        id: 1,
        text: r#"{"id":1,"a":"b"}"#.into(),
        hash: model::Digest::of_bytes("x"),
    };
    assert_eq!(row.to_line(), format!(r#"{{"id":1,"a":"b","hash":"{}"}}"#, row.hash));
}

#[tokio::test]
async fn calls_are_found_by_every_filter() {
    for store in stores("filters").await {
        let cancelled = CallRecord { status: FinalCallStatus::Cancelled, ..call("b:y", 4) };
        let by_eve = CallRecord { subject: "eve".into(), ..call("a:x", 5) };
        let of_a_trace = CallRecord {
            issuer: None,
            door: CallEndpoint::Stdio,
            correlation_id: Some("r7".into()),
            trace_id: Some("0af7651916cd43dd8448eb211c80319c".into()),
            ..call("a:x", 1)
        };
        let all = vec![of_a_trace, failed("a:z", 2, "no"), call("b:y", 3), cancelled, by_eve];
        store.records.store_calls(all.into()).await.unwrap();
        let text = |text: &str| Some(text.to_owned());
        let none = CallFilter::default;
        assert_eq!(store.ids(none()).await, [5, 4, 3, 2, 1]);
        assert_eq!(store.ids(CallFilter { tool: text("a:x"), ..none() }).await, [5, 1]);
        assert_eq!(store.ids(CallFilter { source: text("a"), ..none() }).await, [5, 2, 1]);
        assert_eq!(store.ids(CallFilter { subject: text("eve"), ..none() }).await, [5]);
        assert_eq!(store.ids(CallFilter { subject: text("e\0e"), ..none() }).await, [0; 0]);
        let issuer = text("https://id.example");
        assert_eq!(store.ids(CallFilter { issuer, ..none() }).await, [5, 4, 3, 2]);
        let door = Some(CallEndpoint::Stdio);
        assert_eq!(store.ids(CallFilter { door, ..none() }).await, [1]);
        let correlation_id = text("r7");
        assert_eq!(store.ids(CallFilter { correlation_id, ..none() }).await, [1]);
        let trace_id = text("0af7651916cd43dd8448eb211c80319c");
        assert_eq!(store.ids(CallFilter { trace_id, ..none() }).await, [1]);
        let status = Some(FinalCallStatus::Cancelled);
        assert_eq!(store.ids(CallFilter { status, ..none() }).await, [4]);
        assert_eq!(store.ids(CallFilter { code: text("rate_limited"), ..none() }).await, [2]);
        let (since, until) = (Some(time(2)), Some(time(4)));
        assert_eq!(store.ids(CallFilter { since, until, ..none() }).await, [3, 2]);
        assert_eq!(store.ids(CallFilter { before: Some(3), ..none() }).await, [2, 1]);
        let (after, oldest_first) = (Some(3), true);
        assert_eq!(store.ids(CallFilter { after, oldest_first, ..none() }).await, [4, 5]);
    }
}

#[tokio::test]
async fn changed_or_removed_rows_are_detected() {
    let attempts = [
        ("UPDATE toolcrib_calls SET text = replace(text, 'ada', 'eve') WHERE id = 2", "row 2"),
        ("DELETE FROM toolcrib_calls WHERE id = 3", "row 3 is missing"),
        ("DELETE FROM toolcrib_calls WHERE id < 3", "rows 1 to 2 are missing"),
        ("DELETE FROM toolcrib_calls WHERE id > 3", "rows at the end were removed"),
        ("DELETE FROM toolcrib_calls", "5 calls were counted"),
        (
            "UPDATE toolcrib_calls SET hash = (SELECT hash FROM toolcrib_calls WHERE id = 1) WHERE id = 4",
            "row 4",
        ),
        (
            "DELETE FROM toolcrib_calls WHERE id = 1; INSERT INTO toolcrib_calls (id, text, hash) SELECT 1, text, hash FROM toolcrib_calls WHERE id = 2",
            "row 1 was replaced",
        ),
    ];
    for (attempt, (sql, expected)) in attempts.into_iter().enumerate() {
        for store in stores(&format!("tamper_{attempt}")).await {
            store
                .records
                .store_calls((1..=5).map(|minute| call("a:x", minute)).collect::<Vec<_>>().into())
                .await
                .unwrap();
            assert_eq!(store.problems().await, Vec::<String>::new());
            if store.tamper(sql).await {
                let problems = store.problems().await;
                assert!(problems.iter().any(|text| text.contains(expected)), "{sql}: {problems:?}");
            }
        }
    }
}

#[tokio::test]
async fn usage_totals_follow_the_rows_and_outlive_them() {
    for store in stores("usage").await {
        let calls = vec![call("a:x", 5), failed("a:x", 2, "first"), failed("a:x", 3, "last")];
        store.records.store_calls(calls.into()).await.unwrap();
        store.records.store_calls([call("a:x", 4), call("b:y", 6)].into()).await.unwrap();
        assert_eq!(store.records.remove_before(time(50)).await.unwrap(), 4);
        let names = vec!["a:x".to_owned(), "never".to_owned()];
        let usage = store.records.usage_totals(UsageKind::Tool, names).await.unwrap();
        let [(name, usage)] = &usage[..] else { panic!("{usage:?}") };
        assert_eq!((&**name, usage.execution_count, usage.error_count), ("a:x", 4, 2));
        assert_eq!(usage.last_error.as_deref(), Some("last"));
        assert_eq!(usage.last_executed_at, Some(time(5)));
        let agents =
            store.records.usage_totals(UsageKind::Subject, vec!["ada".to_owned()]).await.unwrap();
        assert_eq!(agents[0].1.execution_count, 5);
        store
            .records
            .store_calls([call("a:w", 7), call("c:z", 8), call("c:z", 9)].into())
            .await
            .unwrap();
        let unknown = CallRecord { tool_id: None, ..call("a:x", 10) };
        store.records.store_calls([unknown].into()).await.unwrap();
        let most = async |page: UsagePage| store.records.most_used(page).await.unwrap();
        let names = |used: &[(String, UsageTotals)]| -> Vec<String> {
            used.iter().map(|(name, _)| name.clone()).collect()
        };
        let all = most(UsagePage::first_page(UsageKind::Tool, 10)).await;
        assert_eq!(names(&all), ["a:x", "c:z", "a:w", "b:y"]);
        assert_eq!((all[0].1.execution_count, all[0].1.error_count), (4, 2));
        // Reading the usage page by page gives the same list.
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let page = most(UsagePage { of: UsageKind::Tool, after, limit: 1 }).await;
            let Some((name, usage)) = page.first() else { break };
            after = Some((usage.execution_count, name.clone()));
            paged.extend(page);
        }
        assert_eq!(paged, all);
        let callers = most(UsagePage::first_page(UsageKind::Subject, 10)).await;
        assert_eq!((names(&callers), callers[0].1.execution_count), (vec!["ada".to_owned()], 9));
    }
}

#[tokio::test]
async fn old_rows_are_removed_and_the_chain_continues() {
    for store in stores("retention").await {
        let calls = [1, 2, 9, 3, 10].map(|minute| call("a:x", minute));
        store.records.store_calls(calls[..1].to_vec().into()).await.unwrap();
        let kept = store.records.chain_bounds().await.unwrap().head;
        store.records.store_calls(calls[1..].to_vec().into()).await.unwrap();
        // Retention keeps the second row, the newest removable one, to prove the age of the first. The old fourth row
        // stays because the newer third precedes it.
        assert_eq!(store.records.remove_before(time(5)).await.unwrap(), 1);
        assert_eq!(store.records.remove_before(time(5)).await.unwrap(), 0);
        assert_eq!(store.ids(CallFilter::default()).await, [5, 4, 3, 2]);
        store.records.store_calls([call("a:x", 11)].into()).await.unwrap();
        let expected =
            AuditExpectations { removed_before: Some(time(5)), ..AuditExpectations::default() };
        let verified = verify_call_log(&*store.records, expected, |_| {}).await.unwrap();
        assert_eq!((verified.rows, verified.removed, verified.head.id), (5, 1, 6));
        assert_eq!((verified.problems, verified.too_old), (vec![], None));
        assert_eq!(verified.oldest, Some(time(2)));
        assert_eq!(store.records.remove_before(time(10)).await.unwrap(), 2);
        let expected =
            AuditExpectations { head: Some(kept.into()), ..AuditExpectations::default() };
        let verified = verify_call_log(&*store.records, expected, |_| {}).await.unwrap();
        assert_eq!((verified.problems, verified.too_old), (vec![], Some(1)));
        if store.tamper("DELETE FROM toolcrib_calls WHERE id = 5").await {
            assert_eq!(store.problems().await, ["row 5 is missing"]);
        }
    }
}

#[tokio::test]
async fn rows_removed_too_early_from_the_front_are_detected_by_age() {
    const REMOVE: &str = "DELETE FROM toolcrib_calls_anchor;
        INSERT INTO toolcrib_calls_anchor (one, id, hash) SELECT 1, id, hash FROM toolcrib_calls WHERE id = 3;
        DELETE FROM toolcrib_calls WHERE id <= 3";
    for store in stores("front").await {
        store
            .records
            .store_calls([1, 2, 9, 10].map(|minute| call("a:x", minute)).into())
            .await
            .unwrap();
        assert_eq!(store.records.remove_before(time(5)).await.unwrap(), 1);
        let problems = async |removed_before| {
            let expected = AuditExpectations {
                removed_before: Some(removed_before),
                ..AuditExpectations::default()
            };
            verify_call_log(&*store.records, expected, |_| {}).await.unwrap().problems
        };
        assert_eq!(problems(time(5)).await, [""; 0]);
        // If rows are kept without a limit, any removed row is a problem.
        assert_eq!(problems(Timestamp::MIN).await.len(), 1);
        if store.tamper(REMOVE).await {
            let [problem] = &problems(time(5)).await[..] else { panic!("one problem") };
            assert!(problem.starts_with("rows up to 3 were removed"), "{problem}");
            assert!(problem.ends_with("2026-05-01T09:10:00.500000Z"), "{problem}");
            // Without a retention time, verification cannot judge the age of the first row and only reports it.
            assert_eq!(store.problems().await, [""; 0]);
            store
                .tamper("DELETE FROM toolcrib_calls; UPDATE toolcrib_calls_anchor SET id = 4")
                .await;
            assert_eq!(problems(time(5)).await.len(), 1);
        }
    }
}

#[tokio::test]
async fn concurrent_writers_extend_one_chain() {
    for store in stores("nodes").await {
        let mut all: Vec<Arc<dyn CallLog>> = vec![Arc::clone(&store.records)];
        if let Some(folder) = &store.folder {
            let path = folder.path().join("crib.db.record");
            all.push(Arc::new(SqliteCallLog::open(&path).unwrap()));
        }
        if let Some(url) = &store.url {
            all.push(Arc::new(PostgresCallLog::connect(url.parse().unwrap()).await.unwrap()));
        }
        let mut storing = tokio::task::JoinSet::new();
        for minute in 0..20 {
            let records = Arc::clone(&all[minute as usize % all.len()]);
            storing.spawn(
                async move { records.store_calls(vec![call("a:x", minute); 3].into()).await },
            );
        }
        storing.join_all().await.into_iter().for_each(|stored| stored.unwrap());
        let verified =
            verify_call_log(&*store.records, AuditExpectations::default(), |_| {}).await.unwrap();
        assert_eq!((verified.rows, verified.problems), (60, Vec::new()));
    }
}

#[tokio::test]
async fn a_call_log_is_reopened_and_a_foreign_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = SqliteCallLog::path_beside(&folder.path().join("crib.db"));
    assert!(path.ends_with("crib.db.record"));
    assert!(SqliteCallLog::open_read_only(&path).is_err());
    SqliteCallLog::open(&path).unwrap().store_calls([call("a:x", 1)].into()).await.unwrap();
    let records = SqliteCallLog::open_read_only(&path).unwrap();
    assert_eq!(
        verify_call_log(&records, AuditExpectations::default(), |_| {}).await.unwrap().rows,
        1
    );
    assert!(records.store_calls([call("a:x", 1)].into()).await.is_err());
    let foreign = folder.path().join("other.db");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE a (b)").unwrap();
    assert!(SqliteCallLog::open(&foreign).is_err());
}
