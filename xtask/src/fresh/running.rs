//! A running command in a process group of its own, with deadlines.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::program;

/// Interval between checks for its end.
const BETWEEN: Duration = Duration::from_millis(50);

/// A running command. Dropping it kills its whole process group.
pub(super) struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    /// Starts the command. Its output is printed, and also queued for `read_until`.
    pub(super) fn start(command: &mut Command) -> Result<Self, Failure> {
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| Failure::new("there is no output"))?;
        Ok(Self { child, lines: shown(stdout) })
    }

    pub(super) fn group(&self) -> u32 {
        self.child.id()
    }

    /// Reads lines up to and including the first that `is_last` accepts.
    pub(super) fn read_until(
        &mut self,
        is_last: fn(&str) -> bool,
        limit: Duration,
    ) -> Result<Vec<String>, Failure> {
        let deadline = Instant::now() + limit;
        let mut lines = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).map_err(|error| match error {
                RecvTimeoutError::Timeout => too_late(limit),
                RecvTimeoutError::Disconnected => Failure::new("it ended before it was there"),
            })?;
            let last = is_last(&line);
            lines.push(line);
            if last {
                return Ok(lines);
            }
        }
    }

    pub(super) fn end_with(&mut self, exit_code: i32, limit: Duration) -> Result<(), Failure> {
        let status = self.wait(limit)?;
        if status.code() == Some(exit_code) {
            return Ok(());
        }
        Err(Failure::new(format!("it ended with {status}, not with {exit_code}")))
    }

    /// Sends SIGTERM, as a service manager does, and expects exit code 0.
    pub(super) fn stop_within(&mut self, limit: Duration) -> Result<(), Failure> {
        program::run(program::command("kill").args(["-TERM", &self.group().to_string()]))?;
        self.end_with(0, limit)
    }

    fn wait(&mut self, limit: Duration) -> Result<ExitStatus, Failure> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if deadline <= Instant::now() {
                return Err(too_late(limit));
            }
            std::thread::sleep(BETWEEN);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = format!("-{}", self.group());
        // Ignore the result: if the command ended properly, the group is empty and `kill` fails.
        program::succeeds(program::command("kill").args(["-KILL", "--", &group]));
        drop(self.child.wait());
    }
}

fn shown(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            println!("   {line}");
            // Sending fails once the receiver is dropped; the line is printed anyway.
            drop(sender.send(line));
        }
    });
    lines
}

fn too_late(limit: Duration) -> Failure {
    Failure::new(format!("it was not done after {} s", limit.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn running(script: &str) -> Running {
        Running::start(program::command("/bin/sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn output_is_read_up_to_a_line_and_the_command_is_stopped() {
        let mut running =
            running("trap 'exit 0' TERM; echo one; echo two; while :; do sleep 0.1; done");
        let said = running.read_until(|line| line == "two", SOON).unwrap();
        assert_eq!(said, ["one", "two"]);
        running.stop_within(SOON).unwrap();
    }

    #[test]
    fn a_command_that_ends_early_late_or_with_the_wrong_code_fails() {
        assert!(running("echo one").read_until(|line| line == "two", SOON).is_err());
        assert!(running("sleep 60").end_with(0, Duration::from_millis(100)).is_err());
        assert!(running("exit 3").end_with(0, SOON).is_err());
        running("exit 3").end_with(3, SOON).unwrap();
    }

    #[test]
    fn dropping_it_kills_all_processes_it_started() {
        let mut running = running("sleep 600 & echo $!; wait");
        let said = running.read_until(|_| true, SOON).unwrap();
        drop(running);
        // A killed process may remain as a zombie until the container's init process reaps it.
        let stat = format!("/proc/{}/stat", said[0]);
        let is_there = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        let deadline = Instant::now() + SOON;
        while is_there() && Instant::now() < deadline {
            std::thread::sleep(BETWEEN);
        }
        assert!(!is_there());
    }
}
