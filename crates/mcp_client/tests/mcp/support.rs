//! Test programs, and shorthands for calls.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use mcp_client::{
    CallNotification, ConnectionSettings, McpAnswer, McpCallOptions, McpConnection, McpError,
    McpTarget,
};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use upstream::stdio::ProgramSpec;

/// The real interpreter: a wrapper script would need an environment to find it.
static PYTHON: LazyLock<PathBuf> = LazyLock::new(|| {
    #[expect(clippy::disallowed_methods, reason = "a test looks for its tools")]
    let found = std::process::Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .unwrap();
    String::from_utf8(found.stdout).unwrap().trim().into()
});

pub(crate) fn program(manner: &str) -> ProgramSpec {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/fake.py");
    let mut program = ProgramSpec::new(PYTHON.clone());
    program.arguments = vec!["-S".into(), "-E".into(), script.into(), manner.into()];
    program
}

pub(crate) fn settings() -> ConnectionSettings {
    let mut settings = ConnectionSettings::default();
    settings.limits.grace = Duration::from_millis(400);
    settings
}

pub(crate) async fn open(manner: &str) -> McpConnection {
    open_with(manner, &settings()).await.unwrap()
}

pub(crate) async fn open_with(
    manner: &str,
    settings: &ConnectionSettings,
) -> Result<McpConnection, McpError> {
    McpConnection::open(&McpTarget::Program(program(manner)), settings).await
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

pub(crate) fn tool(name: &str, arguments: Value) -> Map<String, Value> {
    object(json!({"name": name, "arguments": arguments}))
}

pub(crate) fn call_within(seconds: f32) -> McpCallOptions {
    McpCallOptions { deadline: Some(Duration::from_secs_f32(seconds)), ..McpCallOptions::default() }
}

pub(crate) fn listening_call() -> (McpCallOptions, mpsc::Receiver<CallNotification>) {
    let (heard, hears) = mpsc::channel(64);
    (McpCallOptions { notifications: Some(heard), ..call_within(20.0) }, hears)
}

pub(crate) async fn call(
    connection: &McpConnection,
    name: &str,
    arguments: Value,
) -> Result<Value, McpError> {
    let answer =
        connection.call_method("tools/call", tool(name, arguments), call_within(20.0)).await;
    answer.map(result)
}

pub(crate) fn result(answer: McpAnswer) -> Value {
    match answer {
        McpAnswer::Result(result) => Value::Object(result),
        McpAnswer::Error(error) => panic!("it was refused: {:?}", error.raw),
    }
}

/// Polls until the condition holds, for at most ten seconds.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: not within ten seconds");
}

/// Whether a process exists and is not a zombie.
pub(crate) fn is_alive(pid: &Value) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

pub(crate) fn process_exists(pid: &Value) -> bool {
    PathBuf::from(format!("/proc/{pid}")).exists()
}
