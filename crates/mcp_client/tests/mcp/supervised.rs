//! Supervised connections: opened on demand, shared, checked, closed when idle, and reopened with backoff.

use std::time::{Duration, Instant};

use mcp_client::{
    McpConnection, McpError, McpTarget, ServerEra, SupervisedConnection, SupervisionPolicy,
};
use serde_json::json;

use crate::support::*;

fn supervised(manner: &str, keeping: SupervisionPolicy) -> SupervisedConnection {
    SupervisedConnection::new(McpTarget::Program(program(manner)), settings(), keeping)
}

fn short_backoff() -> SupervisionPolicy {
    SupervisionPolicy {
        initial_cooldown: Duration::from_millis(600),
        max_cooldown: Duration::from_millis(2400),
        ..SupervisionPolicy::default()
    }
}

#[tokio::test]
async fn concurrent_users_share_one_opened_connection() {
    let supervised = supervised("legacy", short_backoff());
    assert!(!supervised.is_open());
    let all = (0..10).map(|_| async {
        let connection = supervised.get_connection().await.unwrap();
        call(&connection, "children", json!({})).await.unwrap()["pids"][0].clone()
    });
    let mut pids = futures_util::future::join_all(all).await;
    pids.dedup();
    assert_eq!(pids.len(), 1);
    assert_eq!((supervised.era(), supervised.is_open()), (Some(ServerEra::Initialize), true));
    drop(supervised);
    eventually("it ends with its owner", || !is_alive(&pids[0])).await;
}

#[tokio::test]
async fn a_failure_starts_a_backoff_that_reports_the_cause() {
    let supervised = supervised("exits", short_backoff());
    let Err(first) = supervised.get_connection().await else { panic!("it opened") };
    assert!(matches!(first, McpError::ProgramEnded { .. }), "{first}");
    assert_eq!(supervised.stderr_text().unwrap(), "no reason");
    let Err(second) = supervised.get_connection().await else { panic!("it opened") };
    let McpError::CoolingDown { wait, source } = second else { panic!("{second}") };
    assert!(wait <= Duration::from_millis(600) && matches!(*source, McpError::ProgramEnded { .. }));
    tokio::time::sleep(Duration::from_millis(620)).await;
    let Err(third) = supervised.get_connection().await else { panic!("it opened") };
    assert!(matches!(third, McpError::ProgramEnded { .. }), "{third}");
}

#[tokio::test]
async fn a_program_that_exited_is_restarted_after_the_backoff() {
    let supervised = supervised("legacy", short_backoff());
    let connection = supervised.get_connection().await.unwrap();
    call(&connection, "die", json!({})).await.unwrap_err();
    assert!(!supervised.is_open());
    let Err(error) = supervised.get_connection().await else { panic!("it opened") };
    assert!(matches!(error, McpError::CoolingDown { .. }), "{error}");
    assert_eq!(supervised.stderr_text().unwrap(), "one\ntwo\nsecret\n");
    tokio::time::sleep(Duration::from_millis(620)).await;
    let connection = supervised.get_connection().await.unwrap();
    call(&connection, "echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn the_backoff_of_an_idle_connection_runs_from_the_exit() {
    let supervised = supervised("legacy", short_backoff());
    let connection = supervised.get_connection().await.unwrap();
    call(&connection, "die", json!({})).await.unwrap_err();
    tokio::time::sleep(Duration::from_millis(620)).await;
    let connection = supervised.get_connection().await.unwrap();
    call(&connection, "echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_was_useful_before_it_failed_keeps_the_first_backoff() {
    let supervised = supervised("legacy", short_backoff());
    for _ in 0..4 {
        let connection = supervised.get_connection().await.unwrap();
        call(&connection, "echo", json!({})).await.unwrap();
        let wait = backoff_after_exit(&supervised, &connection).await;
        assert!(wait <= Duration::from_millis(600), "{wait:?}");
        tokio::time::sleep(wait).await;
    }
}

#[tokio::test]
async fn a_connection_that_fails_on_every_first_call_backs_off_longer_each_time() {
    let supervised = supervised("legacy", short_backoff());
    for least in [300, 600, 1200] {
        let connection = supervised.get_connection().await.unwrap();
        let before = Instant::now();
        let wait = backoff_after_exit(&supervised, &connection).await;
        assert!(Duration::from_millis(least) < before.elapsed() + wait, "{wait:?}");
        tokio::time::sleep(wait).await;
    }
}

async fn backoff_after_exit(
    supervised: &SupervisedConnection,
    connection: &McpConnection,
) -> Duration {
    call(connection, "die", json!({})).await.unwrap_err();
    let Err(error) = supervised.get_connection().await else { panic!("it opened") };
    let McpError::CoolingDown { wait, .. } = error else { panic!("{error}") };
    wait
}

#[tokio::test]
async fn an_unresponsive_idle_connection_is_replaced() {
    let keeping = SupervisionPolicy {
        check_after: Duration::from_millis(50),
        check_timeout: Duration::from_millis(300),
        stable_after: Duration::ZERO,
        ..short_backoff()
    };
    let supervised = supervised("legacy", keeping);
    let first = supervised.get_connection().await.unwrap();
    call(&first, "deaf", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_millis(80)).await;
    let second = supervised.get_connection().await.unwrap();
    call(&second, "echo", json!({})).await.unwrap();
    assert!(first.end_reason().is_some());
}

#[tokio::test]
async fn an_unused_connection_is_closed_and_reopened_on_demand() {
    let supervised = supervised(
        "legacy",
        SupervisionPolicy { idle_timeout: Duration::from_millis(300), ..short_backoff() },
    );
    let connection = supervised.get_connection().await.unwrap();
    let slow = json!({"seconds": 0.6, "word": "x"});
    call(&connection, "slow", slow).await.unwrap();
    assert!(supervised.is_open(), "it was closed while it was used");
    eventually("it is closed", || !supervised.is_open()).await;
    assert!(matches!(connection.end_reason(), Some(McpError::Closed)));
    let connection = supervised.get_connection().await.unwrap();
    call(&connection, "echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_transient_connection_is_opened_for_each_use() {
    let supervised =
        supervised("legacy", SupervisionPolicy { is_persistent: false, ..short_backoff() });
    let first = supervised.get_connection().await.unwrap();
    let second = supervised.get_connection().await.unwrap();
    let pid = async |connection| {
        call(connection, "children", json!({})).await.unwrap()["pids"][0].clone()
    };
    let (first_pid, second_pid) = (pid(&first).await, pid(&second).await);
    assert_ne!(first_pid, second_pid);
    drop(first);
    eventually("it ends with its use", || !is_alive(&first_pid)).await;
    assert!(is_alive(&second_pid));
}

#[tokio::test]
async fn a_busy_connection_is_not_replaced_but_a_hanging_one_is() {
    let keeping = SupervisionPolicy {
        check_after: Duration::from_millis(50),
        check_timeout: Duration::from_millis(100),
        stable_after: Duration::ZERO,
        ..short_backoff()
    };
    let supervised = supervised("legacy", keeping);
    let first = supervised.get_connection().await.unwrap();
    call(&first, "deaf", json!({})).await.unwrap();
    let long = first.call_method("tools/call", tool("echo", json!({})), call_within(20.0));
    let others = async {
        tokio::time::sleep(Duration::from_millis(80)).await;
        let busy = supervised.get_connection().await.unwrap();
        assert!(busy.end_reason().is_none(), "a call is under way");
        for _ in 0..10 {
            assert!(
                supervised.get_connection().await.unwrap().end_reason().is_none(),
                "it is in use"
            );
        }
        while first.end_reason().is_none() {
            let connection = supervised.get_connection().await.unwrap();
            drop(
                connection
                    .call_method("tools/call", tool("echo", json!({})), call_within(0.1))
                    .await,
            );
        }
    };
    let (long, ()) = tokio::join!(long, others);
    assert!(matches!(long, Err(McpError::Closed)));
    call(&supervised.get_connection().await.unwrap(), "echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn an_abandoned_wait_does_not_cancel_the_opening() {
    let supervised = supervised("legacy", short_backoff());
    let impatient =
        tokio::time::timeout(Duration::from_millis(1), supervised.get_connection()).await;
    assert!(impatient.is_err(), "a program takes longer to start");
    eventually("it is open", || supervised.is_open()).await;
}

#[tokio::test]
async fn repeatedly_killed_programs_mix_up_no_answers_and_leave_no_processes() {
    let keeping = SupervisionPolicy { initial_cooldown: Duration::ZERO, ..short_backoff() };
    let supervised = supervised("legacy", keeping);
    let mut pids = Vec::new();
    for round in 0..10 {
        let connection = supervised.get_connection().await.unwrap();
        let found = call(&connection, "pid", json!({})).await.unwrap();
        let calls = (0..20).map(|number| {
            let (seconds, word) = (f64::from(number) / 100.0, format!("{round}-{number}"));
            let connection = connection.clone();
            async move {
                let start = tokio::time::Instant::now();
                let answer =
                    call(&connection, "slow", json!({"seconds": seconds, "word": word})).await;
                assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
                if let Ok(answer) = answer {
                    assert_eq!(answer["content"][0]["text"], json!(word));
                }
            }
        });
        let kill = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            #[expect(clippy::disallowed_methods, reason = "a test kills")]
            let mut kill = std::process::Command::new("kill");
            kill.args(["-9", &found["pid"].to_string()]).status().unwrap();
        };
        tokio::join!(futures_util::future::join_all(calls), kill);
        pids.push(found["pid"].clone());
    }
    pids.dedup();
    assert_eq!(pids.len(), 10);
    for pid in &pids {
        eventually("nothing is left, not even a zombie", || !process_exists(pid)).await;
    }
}
