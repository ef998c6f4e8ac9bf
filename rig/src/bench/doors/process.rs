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
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
    keys: BTreeMap<String, String>,
}

impl Server {
    /// Starts one and waits until it is ready.
    pub(super) fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let command = command.arg("server").args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let Ready { address, keys } =
            serde_json::from_str(&line).context("a server did not start")?;
        Ok(Self { child, address, keys })
    }

    pub(super) fn key(&self, name: &str) -> &str {
        &self.keys[name]
    }

    pub(super) fn is_alive(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// The CPU time of all its threads so far, to the nanosecond.
    pub(super) fn cpu_time(&self) -> anyhow::Result<Duration> {
        let mut total = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            let on_cpu = text.split(' ').next().context("schedstat is empty")?;
            total += on_cpu.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(total))
    }

    /// Of its memory, what is in the machine's.
    pub(super) fn resident_bytes(&self) -> anyhow::Result<f64> {
        opened::resident(&self.child.id().to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
