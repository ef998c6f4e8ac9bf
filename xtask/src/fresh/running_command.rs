//! A running command in a process group of its own, with deadlines.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::program;
use crate::xtask_error::XtaskError;

/// Interval between checks for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A running command. Dropping it kills its whole process group.
pub(super) struct RunningCommand {
    child: Child,
    lines: Receiver<String>,
}

impl RunningCommand {
    /// Starts the command. Its output is printed, and also queued for `read_until`.
    pub(super) fn start(command: &mut Command) -> Result<Self, XtaskError> {
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| XtaskError::new("there is no output"))?;
        Ok(Self { child, lines: print_and_queue(stdout) })
    }

    pub(super) fn group(&self) -> u32 {
        self.child.id()
    }

    /// Reads lines up to and including the first that `is_last` accepts.
    pub(super) fn read_until(
        &mut self,
        is_last: fn(&str) -> bool,
        limit: Duration,
    ) -> Result<Vec<String>, XtaskError> {
        let deadline = Instant::now() + limit;
        let mut lines = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).map_err(|error| match error {
                RecvTimeoutError::Timeout => timeout_error(limit),
                RecvTimeoutError::Disconnected => XtaskError::new("it ended before it was there"),
            })?;
            let last = is_last(&line);
            lines.push(line);
            if last {
                return Ok(lines);
            }
        }
    }

    pub(super) fn expect_exit_code(
        &mut self,
        exit_code: i32,
        limit: Duration,
    ) -> Result<(), XtaskError> {
        let status = self.wait_for_exit(limit)?;
        if status.code() == Some(exit_code) {
            return Ok(());
        }
        Err(XtaskError::new(format!("it ended with {status}, not with {exit_code}")))
    }

    /// Sends SIGTERM, as a service manager does, and expects exit code 0.
    pub(super) fn stop_within(&mut self, limit: Duration) -> Result<(), XtaskError> {
        program::run_command(
            program::new_command("kill").args(["-TERM", &self.group().to_string()]),
        )?;
        self.expect_exit_code(0, limit)
    }

    fn wait_for_exit(&mut self, limit: Duration) -> Result<ExitStatus, XtaskError> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if deadline <= Instant::now() {
                return Err(timeout_error(limit));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let group = format!("-{}", self.group());
        // Ignore the result: if the command ended properly, the group is empty and `kill` fails.
        program::run_succeeds(program::new_command("kill").args(["-KILL", "--", &group]));
        drop(self.child.wait());
    }
}

fn print_and_queue(stdout: ChildStdout) -> Receiver<String> {
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

fn timeout_error(limit: Duration) -> XtaskError {
    XtaskError::new(format!("it was not done after {} s", limit.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn running(script: &str) -> RunningCommand {
        RunningCommand::start(program::new_command("/bin/sh").args(["-c", script])).unwrap()
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
        assert!(running("sleep 60").expect_exit_code(0, Duration::from_millis(100)).is_err());
        assert!(running("exit 3").expect_exit_code(0, SOON).is_err());
        running("exit 3").expect_exit_code(3, SOON).unwrap();
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
            std::thread::sleep(POLL_INTERVAL);
        }
        assert!(!is_there());
    }
}
