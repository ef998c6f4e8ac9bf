//! A child process that runs until we stop it and prints its address when it starts.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// The program is already built; it only opens a file and a port.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// The program first completes the requests that it has accepted.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A child process that is killed when this value is dropped.
pub(crate) struct ChildProgram {
    process: Child,
    /// Kept open, because the program may print more.
    _stdout: BufReader<ChildStdout>,
}

impl ChildProgram {
    /// Starts a program and reads its output line by line, until `found` returns a value.
    pub(crate) async fn start<T>(
        program: &Command,
        found: impl Fn(&str) -> Option<T>,
    ) -> anyhow::Result<(Self, T)> {
        let program = program.as_std();
        // The child ends with this process, even if this process is killed by SIGKILL.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program.get_program()).args(program.get_args());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().context("cannot start `setpriv`")?;
        let stdout = process.stdout.take().context("stdout is a pipe")?;
        let mut stdout = BufReader::new(stdout);
        let found = timeout(START_TIMEOUT, read_until(&mut stdout, found))
            .await
            .with_context(|| format!("{program:?} did not say where it is"))??;
        Ok((Self { process, _stdout: stdout }, found))
    }

    /// The process id, while the process runs.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Sends a signal, and waits until the program has ended.
    pub(crate) async fn stop(&mut self, signal: Signal) -> anyhow::Result<()> {
        let id = self.process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        kill_process(id.context("the program has ended before")?, signal)?;
        timeout(STOP_TIMEOUT, self.process.wait()).await.context("the program does not end")??;
        Ok(())
    }
}

async fn read_until<T>(
    stdout: &mut BufReader<ChildStdout>,
    found: impl Fn(&str) -> Option<T>,
) -> anyhow::Result<T> {
    let mut said = String::new();
    loop {
        if stdout.read_line(&mut said).await? == 0 {
            bail!("the program ended; it said: {said}");
        }
        if let Some(found) = found(&said) {
            return Ok(found);
        }
    }
}
