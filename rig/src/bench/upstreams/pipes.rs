//! The minimal way to call an MCP server over its pipes: write a line, read a line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

pub(super) struct PipeClient {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
    turn: u64,
}

impl PipeClient {
    /// Starts an MCP server of the rig and initializes the connection.
    pub(super) fn open() -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let command = command.args(["mcp", "--name", "bare"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().context("no input")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let mut pipes = Self { child, input, output, line: String::new(), turn: 0 };
        pipes.send_request("initialize", json!({}))?;
        Ok(pipes)
    }

    /// Calls the echo tool.
    pub(super) fn call_echo(&mut self, text: &str) -> anyhow::Result<()> {
        let params = json!({"name": "bare_echo", "arguments": {"text": text}});
        let answer = self.send_request("tools/call", params)?;
        ensure!(answer["result"]["content"][0]["text"] == text, "{answer}");
        Ok(())
    }

    fn send_request(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.turn += 1;
        let asked = json!({"jsonrpc": "2.0", "id": self.turn, "method": method, "params": params});
        self.input.write_all(format!("{asked}\n").as_bytes())?;
        self.line.clear();
        self.output.read_line(&mut self.line)?;
        Ok(serde_json::from_str(&self.line)?)
    }
}

impl Drop for PipeClient {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
