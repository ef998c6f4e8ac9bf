//! A minimal client of the legacy era that talks to a server directly, without any product code in between.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::agent_answers;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct DirectClient {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next: u64,
    _process: Child,
}

impl DirectClient {
    /// Starts the server with an empty environment.
    pub(super) async fn start(command: &[String]) -> anyhow::Result<Self> {
        let (program, arguments) = command.split_first().context("there is no command")?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().with_context(|| format!("cannot start `{program}`"))?;
        let stdin = process.stdin.take().context("stdin is a pipe")?;
        let stdout = BufReader::new(process.stdout.take().context("stdout is a pipe")?);
        let mut direct = Self { stdin, stdout, next: 1, _process: process };
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": agent_answers::stdio_capabilities(),
            "clientInfo": {"name": "rig", "version": "1"},
        });
        direct.send_request("initialize", params).await?;
        direct
            .write_message(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await?;
        Ok(direct)
    }

    pub(super) async fn list_tools(&mut self) -> anyhow::Result<Vec<Value>> {
        let mut result = self.send_request("tools/list", json!({})).await?;
        ensure!(result["nextCursor"].is_null(), "there is more than one page");
        Ok(serde_json::from_value(result["tools"].take())?)
    }

    pub(super) async fn call_tool(
        &mut self,
        name: &str,
        arguments: Value,
    ) -> anyhow::Result<Value> {
        self.send_request("tools/call", json!({"name": name, "arguments": arguments})).await
    }

    async fn send_request(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        let id = self.next;
        self.next += 1;
        self.write_message(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}),
        )
        .await?;
        loop {
            let mut said = self.read_message().await?;
            match said["method"].as_str() {
                None if said["id"] == id => {
                    ensure!(said["error"].is_null(), "the answer is the error {}", said["error"]);
                    return Ok(said["result"].take());
                }
                Some(method) if !said["id"].is_null() => {
                    let answer = agent_answers::answer_question(method)
                        .context("a question of no known kind")?;
                    let reply = json!({"jsonrpc": "2.0", "id": said["id"], "result": answer});
                    self.write_message(&reply).await?;
                }
                None | Some(_) => {}
            }
        }
    }

    async fn read_message(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        timeout(REQUEST_TIMEOUT, self.stdout.read_line(&mut line))
            .await
            .context("the server is silent")??;
        ensure!(!line.is_empty(), "the server ended");
        Ok(serde_json::from_str(&line)?)
    }

    async fn write_message(&mut self, message: &Value) -> anyhow::Result<()> {
        Ok(self.stdin.write_all(format!("{message}\n").as_bytes()).await?)
    }
}
