//! Malicious and broken MCP programs.

use std::time::{Duration, Instant};

use mcp_client::McpError;
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn a_server_that_never_answers_times_out() {
    let mut settings = settings();
    settings.limits.open_deadline = Duration::from_millis(500);
    settings.limits.probe_deadline = Duration::from_millis(200);
    let start = Instant::now();
    let Err(error) = open_with("hang", &settings).await else { panic!("it opened") };
    assert!(matches!(error, McpError::Timeout { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn an_unknown_protocol_version_is_refused() {
    let Err(error) = open_with("old", &settings()).await else { panic!("it opened") };
    assert!(matches!(error, McpError::UnsupportedVersion { offered } if &*offered == "1999-01-01"));
}

#[tokio::test]
async fn a_flood_of_notifications_does_not_block_answers() {
    let connection = open("legacy").await;
    let mut changes = connection.subscribe_changes();
    call(&connection, "flood", json!({"count": 5000})).await.unwrap();
    changes.wait_for(|changes| changes.tools == 5000).await.unwrap();
    call(&connection, "echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn empty_lines_are_rate_limited_too() {
    let mut settings = settings();
    settings.limits.max_unsolicited = 100;
    let connection = open_with("legacy", &settings).await.unwrap();
    let start = Instant::now();
    call(&connection, "blank", json!({"count": 250})).await.unwrap();
    assert!(Duration::from_secs(1) < start.elapsed(), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_flood_of_requests_progress_and_logs_does_not_delay_deadlines() {
    let connection = open("legacy").await;
    call(&connection, "asks_too_much", json!({"count": 300})).await.unwrap();
    let start = Instant::now();
    let flood = tool("asks_too_much", json!({"count": 1_000_000}));
    let flooded = connection.call_method("tools/call", flood, call_within(1.0)).await;
    assert!(matches!(flooded, Err(McpError::Timeout { .. })), "{flooded:?}");
    assert!(start.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn a_line_sent_in_pieces_is_reassembled() {
    let connection = open("legacy").await;
    let answer = call(&connection, "pieces", json!({"word": "ä\u{0}b"})).await.unwrap();
    assert_eq!(answer["content"][0]["text"], json!("ä\u{0}b"));
}

#[tokio::test]
async fn a_little_garbage_is_ignored_and_much_closes_the_connection() {
    let connection = open("legacy").await;
    call(&connection, "garbage", json!({"count": 100})).await.unwrap();
    assert_eq!(connection.dispatch_counts().garbage, 200);
    let error = call(&connection, "garbage", json!({"count": 2000})).await.unwrap_err();
    assert!(matches!(error, McpError::TooMuchGarbage { limit: 1000 }), "{error}");
    assert!(connection.end_reason().is_some());
}

#[tokio::test]
async fn an_oversized_answer_fails_its_call_at_once() {
    let mut settings = settings();
    settings.limits.max_message_bytes = 100_000;
    settings.limits.max_values = 1000;
    let connection = open_with("legacy", &settings).await.unwrap();
    for tool in ["unreadable", "no_text"] {
        let error = call(&connection, tool, json!({})).await.unwrap_err();
        assert!(matches!(error, McpError::InvalidAnswer { .. }), "{error}");
    }
    for (tool, what) in [("too_long", "bytes"), ("too_many", "values")] {
        let error = call(&connection, tool, json!({})).await.unwrap_err().to_string();
        let is_told = error.starts_with("the answer to `tools/call` has more than 1");
        assert!(is_told && error.contains(what), "{error}");
    }
    call(&connection, "echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn an_overlong_line_is_skipped_and_the_next_one_is_read() {
    let mut settings = settings();
    settings.limits.max_message_bytes = 100_000;
    let connection = open_with("legacy", &settings).await.unwrap();
    for bytes in [99_999, 100_001, 1_000_000] {
        call(&connection, "long", json!({"bytes": bytes})).await.unwrap();
    }
    assert_eq!(connection.dispatch_counts().garbage, 3);
}

#[tokio::test]
async fn an_endless_line_uses_no_memory_and_the_call_times_out() {
    let mut settings = settings();
    settings.limits.max_message_bytes = 1_000_000;
    let connection = open_with("legacy", &settings).await.unwrap();
    let before = resident_memory();
    let endless =
        connection.call_method("tools/call", tool("endless", json!({})), call_within(1.0)).await;
    assert!(matches!(endless, Err(McpError::Timeout { .. })));
    assert!(resident_memory() < before + 32 * 1024, "{before} {}", resident_memory());
}

/// Resident memory of this process, in KiB.
fn resident_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn stderr_is_always_drained_and_its_tail_kept() {
    let mut settings = settings();
    settings.limits.max_stderr = 1000;
    let connection = open_with("legacy", &settings).await.unwrap();
    call(&connection, "stderr", json!({"lines": 50_000})).await.unwrap();
    eventually("the last line is there", || {
        connection.stderr_text().unwrap().contains("line 49999")
    })
    .await;
    let kept = connection.stderr_text().unwrap();
    assert!(kept.chars().count() <= 1000 && !kept.contains('\u{1b}'));
}

#[tokio::test]
async fn a_program_that_does_not_read_its_input_fails_only_its_own_calls() {
    let mut settings = settings();
    settings.limits.max_queue = 1_000_000;
    let deaf = open_with("legacy", &settings).await.unwrap();
    let other = open("legacy").await;
    call(&deaf, "deaf", json!({})).await.unwrap();
    let large = json!({"text": "x".repeat(300_000)});
    let mut refused = None;
    for _ in 0..10 {
        let call =
            deaf.call_method("tools/call", tool("echo", large.clone()), call_within(0.05)).await;
        refused = refused.or(call.err().filter(|error| matches!(error, McpError::NotReading)));
        call_quickly(&other).await;
    }
    assert!(refused.is_some());
}

async fn call_quickly(connection: &mcp_client::McpConnection) {
    let start = Instant::now();
    call(connection, "echo", json!({})).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn calls_beyond_the_queue_limit_are_rejected() {
    let mut settings = settings();
    (settings.limits.max_calls, settings.limits.max_waiting) = (2, 3);
    let connection = open_with("legacy", &settings).await.unwrap();
    let slow = || call(&connection, "slow", json!({"seconds": 0.3, "word": "x"}));
    let done = futures_util::future::join_all((0..10).map(|_| slow())).await;
    let (fine, busy): (Vec<_>, Vec<_>) = done.into_iter().partition(Result::is_ok);
    assert_eq!((fine.len(), busy.len()), (5, 5));
    assert!(busy.into_iter().all(|it| matches!(it, Err(McpError::Busy { limit: 2 }))));
}
