//! A server in a process of its own, and what it takes of the machine.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;

use super::server::Ready;
use crate::bench::opened;

/// A server that ends when this is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    keys: BTreeMap<String, String>,
}

impl Server {
    /// Starts one and waits until it is ready.
    pub(crate) fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        Self::start_as("server", arguments)
    }

    /// Another order of the rig, that says as servers do when it is ready.
    pub(crate) fn start_as(order: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let command = command.arg(order).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let Ready { address, keys } =
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

    /// The CPU time of all its threads so far, to the nanosecond.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        cpu_time_of(self.child.id())
    }

    /// Of its memory, what is in the machine's.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<f64> {
        opened::resident(&self.child.id().to_string())
    }
}

/// The CPU time of all threads of a process so far, to the nanosecond.
pub(crate) fn cpu_time_of(process: u32) -> anyhow::Result<Duration> {
    let mut total = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let on_cpu = text.split(' ').next().context("schedstat is empty")?;
        total += on_cpu.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(total))
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
