//! MCP programs over stdio: how they are started, contacted and stopped.

use std::time::{Duration, Instant};

use mcp_client::{CallNotification, McpAnswer, McpConnection, McpError, McpTarget, ServerEra};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn both_protocol_eras_are_detected() {
    for (manner, era, version) in [
        ("modern", ServerEra::Modern, "2026-07-28"),
        ("both", ServerEra::Modern, "2026-07-28"),
        ("legacy", ServerEra::Initialize, "2025-06-18"),
        ("dies-on-discover", ServerEra::Initialize, "2025-06-18"),
    ] {
        let connection = open(manner).await;
        assert_eq!(
            (connection.server_description().era, connection.server_description().version),
            (era, version),
            "{manner}"
        );
        let result = call(&connection, "echo", json!({"b": 1.50, "a": "ä"})).await.unwrap();
        let text = r#"{"content":[{"type":"text","text":"ok"}],"x-unknown":{"b":1,"a":2.5},"structuredContent":{"b":1.5,"a":"ä"}}"#;
        assert_eq!(result.to_string(), text);
    }
}

#[tokio::test]
async fn a_server_that_ignores_the_modern_probe_speaks_the_older_protocol() {
    let mut settings = settings();
    settings.limits.probe_deadline = Duration::from_millis(300);
    let connection = open_with("silent", &settings).await.unwrap();
    assert_eq!(connection.server_description().era, ServerEra::Initialize);
}

#[tokio::test]
async fn a_modern_server_that_is_slow_to_answer_is_probed_again() {
    let mut settings = settings();
    settings.limits.probe_deadline = Duration::from_millis(500);
    let connection = open_with("modern-but-slow", &settings).await.unwrap();
    assert_eq!(connection.server_description().era, ServerEra::Modern);
    assert_eq!(call(&connection, "echo", json!({})).await.unwrap()["content"][0]["text"], "ok");
}

#[tokio::test]
async fn a_remembered_era_is_tried_first_but_corrected_if_wrong() {
    let mut settings = settings();
    settings.era = Some(ServerEra::Initialize);
    assert_eq!(
        open_with("both", &settings).await.unwrap().server_description().era,
        ServerEra::Initialize
    );
    assert_eq!(
        open_with("modern", &settings).await.unwrap().server_description().era,
        ServerEra::Modern
    );
    settings.era = Some(ServerEra::Modern);
    assert_eq!(
        open_with("legacy", &settings).await.unwrap().server_description().era,
        ServerEra::Initialize
    );
}

#[tokio::test]
async fn every_modern_request_identifies_the_client() {
    let connection = open("modern").await;
    let (mut call, _hears) = listening_call();
    call.capabilities = Some(object(json!({"roots": {}})));
    call.log_level = Some("info".into());
    let mut params = tool("params", json!({}));
    params.insert("_meta".to_owned(), json!({"progressToken": "theirs", "traceparent": "00-1"}));
    let answer = connection.call_method("tools/call", params, call).await.unwrap();
    let meta = result(answer)["params"]["_meta"].clone();
    let version = env!("CARGO_PKG_VERSION");
    let expected = json!({
        "traceparent": "00-1",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "toolcrib", "version": version},
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "io.modelcontextprotocol/logLevel": "info",
        "progressToken": 2,
    });
    assert_eq!(meta, expected);
}

#[tokio::test]
async fn an_error_is_returned_unchanged() {
    let connection = open("legacy").await;
    let answer =
        connection.call_method("tools/call", tool("error", json!({})), call_within(5.0)).await;
    let McpAnswer::Error(error) = answer.unwrap() else { panic!("it is no error") };
    let raw = json!({"code": -32042, "message": "no", "data": {"kept": [1]}});
    assert_eq!((error.code, error.message(), json!(error.raw)), (-32042, "no", raw));
}

#[tokio::test]
async fn a_program_gets_only_its_own_arguments_and_environment() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = program("legacy");
    program.arguments.extend(["$(touch x); `id`".into(), "a b*".into()]);
    program.environment.insert("ONLY".into(), "this one".into());
    program.working_directory = Some(folder.path().into());
    let connection = McpConnection::open(&McpTarget::Program(program), &settings()).await.unwrap();
    let mut found = call(&connection, "environment", json!({})).await.unwrap();
    // Python sets this variable itself if there is no locale.
    found["environment"].as_object_mut().unwrap().remove("LC_CTYPE");
    assert_eq!(found["environment"], json!({"ONLY": "this one"}));
    assert_eq!(found["arguments"], json!(["$(touch x); `id`", "a b*"]));
    let real = folder.path().canonicalize().unwrap();
    assert_eq!(found["folder"], json!(real.to_str().unwrap()));
    assert_eq!(found["group"], json!(true));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_bare_program_name_is_resolved_in_the_given_path() {
    let full = program("legacy");
    let mut bare = full.clone();
    bare.command = full.command.file_name().unwrap().into();
    let open = async |program| McpConnection::open(&McpTarget::Program(program), &settings()).await;
    let nowhere = open(bare.clone()).await.err().unwrap();
    assert!(matches!(nowhere, McpError::ProgramNotStarted { .. }), "{nowhere}");
    bare.search_path = Some(full.command.parent().unwrap().into());
    open(bare.clone()).await.unwrap();
    bare.environment.insert("PATH".into(), "/nowhere".into());
    assert!(matches!(open(bare.clone()).await.err().unwrap(), McpError::ProgramNotStarted { .. }));
    bare.command = "./python3".into();
    assert!(matches!(open(bare).await.err().unwrap(), McpError::ProgramNotStarted { .. }));
}

#[tokio::test]
async fn answers_in_any_order_are_matched_to_their_calls() {
    let connection = open("legacy").await;
    let slow = async |number: u32| {
        let seconds = f64::from(40 - number) / 200.0;
        let arguments = json!({"seconds": seconds, "word": number.to_string()});
        let answer = call(&connection, "slow", arguments).await.unwrap();
        assert_eq!(answer["content"][0]["text"], json!(number.to_string()));
    };
    futures_util::future::join_all((0..40).map(slow)).await;
    assert_eq!(connection.active_calls(), 0);
}

#[tokio::test]
async fn an_answer_with_an_unknown_id_is_ignored() {
    let connection = open("legacy").await;
    let answer = call(&connection, "odd", json!({})).await.unwrap();
    assert_eq!(answer["content"][0]["text"], json!("right"));
    eventually("they are counted", || {
        let counts = connection.dispatch_counts();
        counts.unknown_answers + counts.garbage == 8
    })
    .await;
}

#[tokio::test]
async fn a_late_answer_is_not_given_to_the_next_call() {
    let connection = open("legacy").await;
    let slow = |seconds: f64, word: &str| tool("slow", json!({"seconds": seconds, "word": word}));
    let late =
        connection.call_method("tools/call", slow(0.4, "of the first"), call_within(0.1)).await;
    assert!(matches!(late, Err(McpError::Timeout { .. })), "{late:?}");
    let next =
        connection.call_method("tools/call", slow(0.8, "of the second"), call_within(20.0)).await;
    assert_eq!(result(next.unwrap())["content"][0]["text"], json!("of the second"));
    assert_eq!(connection.dispatch_counts().unknown_answers, 1);
}

#[tokio::test]
async fn an_abandoned_call_is_cancelled() {
    let connection = open("legacy").await;
    let given_up =
        connection.call_method("tools/call", tool("never", json!({})), call_within(0.2)).await;
    assert!(matches!(given_up, Err(McpError::Timeout { .. })));
    let seen = call(&connection, "cancelled", json!({})).await.unwrap();
    assert!(seen["cancelled"].is_number(), "{seen}");
    assert_eq!(seen["cancelled"], seen["was"]);
}

#[tokio::test]
async fn progress_and_log_messages_reach_their_call() {
    let connection = open("legacy").await;
    let (call, mut hears) = listening_call();
    let params = tool("progress", json!({"steps": 3}));
    connection.call_method("tools/call", params, call).await.unwrap();
    let mut said = Vec::new();
    while let Ok(heard) = hears.try_recv() {
        said.push(match heard {
            CallNotification::Progress(params) => json!(params),
            CallNotification::Log(params) => params["data"].clone(),
            other => panic!("{other:?}"),
        });
    }
    let step = |number| json!({"progress": number, "more": [number]});
    assert_eq!(said, [step(0), step(1), step(2), json!("done")]);
}

#[tokio::test]
async fn a_slow_listener_does_not_block_the_connection() {
    let connection = open("legacy").await;
    let (call, hears) = listening_call();
    let params = tool("progress", json!({"steps": 500}));
    connection.call_method("tools/call", params, call).await.unwrap();
    assert_eq!(hears.len(), 64);
    assert!(400 < connection.dispatch_counts().dropped_notifications);
}

#[tokio::test]
async fn a_program_that_dies_fails_its_calls_at_once() {
    let connection = open("legacy").await;
    let slow = connection.call_method("tools/call", tool("never", json!({})), call_within(20.0));
    let die = connection.call_method("tools/call", tool("die", json!({})), call_within(20.0));
    let start = Instant::now();
    let (slow, die) = tokio::join!(slow, die);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    for error in [slow.unwrap_err(), die.unwrap_err(), connection.end_reason().unwrap()] {
        let message = "the program ended (exit status: 3) and had written 3 lines to its standard \
                       error: look there for the reason";
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(connection.stderr_text().unwrap(), "one\ntwo\nsecret\n");
    let Some(McpError::ProgramEnded { stderr, .. }) = connection.end_reason() else {
        panic!("it goes on")
    };
    assert_eq!(&*stderr, "one\ntwo\nsecret");
}

#[tokio::test]
async fn a_program_that_is_killed_fails_its_calls_at_once_and_leaves_no_zombie() {
    let connection = open("legacy").await;
    let pids = call(&connection, "children", json!({})).await.unwrap()["pids"].clone();
    let never = connection.call_method("tools/call", tool("never", json!({})), call_within(20.0));
    let kill = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        #[expect(clippy::disallowed_methods, reason = "a test kills")]
        let mut kill = std::process::Command::new("kill");
        kill.args(["-9", &pids[0].to_string()]).status().unwrap();
        Instant::now()
    };
    let (error, killed) = tokio::join!(never, kill);
    assert!(killed.elapsed() < Duration::from_secs(1));
    assert!(error.unwrap_err().to_string().contains("signal: 9 (SIGKILL)"));
    for pid in pids.as_array().unwrap() {
        eventually("the whole tree is gone", || !is_alive(pid)).await;
    }
    eventually("it is no zombie", || !process_exists(&pids[0])).await;
}

#[tokio::test]
async fn closing_a_connection_ends_the_whole_process_tree() {
    let connection = open("stays").await;
    let pids = call(&connection, "children", json!({})).await.unwrap()["pids"].clone();
    assert!(pids.as_array().unwrap().iter().all(is_alive));
    let copy = connection.clone();
    drop(connection);
    call(&copy, "echo", json!({})).await.unwrap();
    drop(copy);
    for pid in pids.as_array().unwrap() {
        eventually("the whole tree is gone", || !is_alive(pid)).await;
    }
}

#[tokio::test]
async fn a_program_that_cannot_start_or_exits_at_once_gives_an_error() {
    let Err(error) = open_with("exits", &settings()).await else { panic!("it opened") };
    assert!(error.to_string().contains("exit status: 7"), "{error}");
    let program = upstream::stdio::ProgramSpec::new("/not/there");
    let Err(error) = McpConnection::open(&McpTarget::Program(program), &settings()).await else {
        panic!("it opened")
    };
    let message = "`/not/there` cannot be started: check the command, and that it is installed";
    assert_eq!(error.to_string(), message);
}

#[tokio::test]
async fn changes_are_reported_in_both_eras() {
    for manner in ["modern", "legacy"] {
        let connection = open(manner).await;
        let mut changes = connection.subscribe_changes();
        if manner == "legacy" {
            call(&connection, "flood", json!({"count": 1})).await.unwrap();
        }
        changes.wait_for(|changes| changes.tools == 1).await.unwrap();
        if manner == "modern" {
            changes.wait_for(|changes| !changes.updated_resources.is_empty()).await.unwrap();
        }
    }
}
