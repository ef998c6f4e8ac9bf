//! A server in a separate process, and its CPU time and memory.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;

use super::bench_server::ReadyMessage;
use crate::bench::open_catalog;

/// A server process that is killed when this value is dropped.
pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) address: SocketAddr,
    keys: BTreeMap<String, String>,
}

impl ServerProcess {
    /// Starts a server and waits until it is ready.
    pub(crate) fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        Self::start_command("server", arguments)
    }

    /// Starts another command of the rig that prints a ready message.
    pub(crate) fn start_command(order: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let command = command.arg(order).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let ReadyMessage { address, keys } =
            serde_json::from_str(&line).context("a server did not start")?;
        Ok(Self { child, address, keys })
    }

    pub(crate) fn key(&self, name: &str) -> &str {
        &self.keys[name]
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_alive(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// CPU time of all its threads so far, in nanosecond resolution.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        cpu_time_of(self.child.id())
    }

    /// Resident memory of the process.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<f64> {
        open_catalog::resident_bytes_of(&self.child.id().to_string())
    }
}

/// CPU time of all threads of a process so far, in nanosecond resolution.
pub(crate) fn cpu_time_of(process: u32) -> anyhow::Result<Duration> {
    let mut total = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let on_cpu = text.split(' ').next().context("schedstat is empty")?;
        total += on_cpu.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(total))
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
