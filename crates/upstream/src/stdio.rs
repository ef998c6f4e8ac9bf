//! Child processes that communicate line by line over standard input and output.
//!
//! A program gets its arguments unchanged, never through a shell, and only the environment it was given. It leads its
//! own process group; when it exits or is stopped, the rest of the group is ended too. A program cannot block the
//! server: input that it does not read waits in a bounded queue, its output is read in lines of bounded length, and of
//! its standard error only the end is kept, in a ring buffer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::chunked::MessageBounds;
pub use bound_child::{run_as_bound_child, run_as_bound_child_with};
pub use output_lines::{OutputLine, OutputLines};
pub use run_program::{ProgramOutput, ProgramRunError, run_program};
pub use stdin_queue::StdinQueueError;

mod bound_child;
#[cfg(target_os = "linux")]
mod confinement;
mod find_program;
mod group_guard;
mod output_lines;
mod process_group;
mod process_starter;
mod run_program;
mod stderr_ring;
mod stdin_queue;

/// A program to start, with its arguments, environment and restrictions.
#[derive(Clone)]
pub struct ProgramSpec {
    /// An absolute path, or a bare name to find in the `PATH` of `environment`, or in `search_path` if that has none.
    pub command: PathBuf,
    /// Passed unchanged; no shell parses them.
    pub arguments: Vec<OsString>,
    /// The whole environment. Nothing is inherited, not even `PATH`.
    pub environment: BTreeMap<OsString, OsString>,
    /// The working directory; `/` by default, so that the program does not run where the server keeps its own files.
    pub working_directory: Option<PathBuf>,
    /// The server's own `PATH`, as its configuration read it at startup. It is used only to find `command`.
    pub search_path: Option<OsString>,
    /// A program that calls [`run_as_bound_child`] before anything else: the server's own executable. On Linux
    /// `/proc/self/exe` is best, because it stays valid when the file is replaced. With it the child and its
    /// descendants die with the server, even if the server is killed, and on Linux the child has fewer rights than the
    /// server.
    pub binder: Option<PathBuf>,
    /// Files and folders hidden from the program, on Linux with Landlock. Files that appear later in a parent folder of
    /// a hidden path are hidden too, so hide only paths whose parent folders do not change. Needs `binder`.
    pub hidden: Vec<PathBuf>,
    /// The files the program may open; `None` means all that the server may open. Needs `binder`, and Linux with
    /// Landlock.
    pub sandbox: Option<SandboxPaths>,
    /// Keeps the program's standard error, which can then be read even if the connection fails.
    pub stderr: Option<StderrTail>,
}

/// The last lines of a program's standard error. A clone shares the same buffer.
#[derive(Clone)]
pub struct StderrTail(Arc<stderr_ring::StderrRing>);

/// The files and folders a program may open, besides those of the system, its own folder and its working directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxPaths {
    /// May be read and executed.
    pub read: Vec<PathBuf>,
    /// May be modified too.
    pub write: Vec<PathBuf>,
}

/// The limits on a program's output, input and exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramLimits {
    /// The length of an output line, in bytes.
    pub max_line: usize,
    /// The number of JSON values in an output line; an object counts as four.
    pub max_values: usize,
    /// Input that waits until the program reads it, in bytes.
    pub max_queue: usize,
    /// Kept standard error, in bytes.
    pub max_stderr: usize,
    /// How long the program may take to exit after it was asked to.
    pub grace: Duration,
}

/// How and when a program exited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramExit {
    /// The status in the system's words: `exit status: 1`, `signal: 9 (SIGKILL)`.
    pub status: String,
    /// Whether the status means success.
    pub is_success: bool,
    pub at: Instant,
}

/// A running program. Dropping it stops the program.
pub struct ChildProcess {
    pub outbox: stdin_queue::StdinQueue,
    pub stderr: Arc<stderr_ring::StderrRing>,
    pub exit: watch::Receiver<Option<ProgramExit>>,
    stopper: process_group::ProcessStopper,
}

impl ProgramSpec {
    /// A program without arguments and with an empty environment and no search path.
    pub fn new(command: impl Into<PathBuf>) -> Self {
        Self {
            command: command.into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            working_directory: None,
            search_path: None,
            binder: None,
            hidden: Vec::new(),
            sandbox: None,
            stderr: None,
        }
    }

    /// The path of the executable.
    pub fn resolve_path(&self) -> io::Result<PathBuf> {
        find_program::find_program(self)
    }
}

impl StderrTail {
    /// Keeps the last `max` bytes.
    pub fn new(max: usize) -> Self {
        Self(Arc::new(stderr_ring::StderrRing::new(max)))
    }

    /// The last lines, without control characters that could affect a terminal.
    pub fn last_lines(&self, lines: usize) -> String {
        self.0.last_lines(lines)
    }
}

impl ProgramLimits {
    fn line_bounds(&self) -> MessageBounds {
        MessageBounds { bytes: self.max_line, values: self.max_values }
    }
}

impl Default for ProgramLimits {
    fn default() -> Self {
        Self {
            max_line: 8 * 1024 * 1024,
            max_values: 300_000,
            max_queue: 8 * 1024 * 1024,
            max_stderr: 64 * 1024,
            grace: Duration::from_secs(2),
        }
    }
}

/// Prevents other programs of the same user from reading the memory and environment of this process, which contain
/// secrets. As a side effect, core dumps and debuggers do not work.
#[cfg(target_os = "linux")]
pub fn hide_this_process() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Does nothing: other systems protect processes by default.
#[cfg(not(target_os = "linux"))]
pub fn hide_this_process() -> io::Result<()> {
    Ok(())
}

impl ChildProcess {
    /// Starts a program and returns a reader for the lines of its output.
    pub async fn start_process(
        program: &ProgramSpec,
        limits: ProgramLimits,
    ) -> io::Result<(Self, OutputLines)> {
        let file = find_program::find_program(program)?;
        let mut child = process_starter::start_program(program, &file).await?;
        let outbox = stdin_queue::StdinQueue::new(child.stdin.take(), limits.max_queue)?;
        let lines = OutputLines::new(child.stdout.take(), limits.line_bounds())?;
        let stderr = program.stderr.clone().unwrap_or_else(|| StderrTail::new(limits.max_stderr)).0;
        stderr.clear_contents();
        stderr_ring::drain_stderr(child.stderr.take(), stderr.clone());
        let (keeper, ended) = process_group::supervise_child(child, outbox.clone(), limits.grace)?;
        Ok((Self { outbox, stderr, exit: ended, stopper: keeper }, lines))
    }

    /// Stops the program without waiting for it: closes its input, then sends `SIGTERM`, then `SIGKILL`.
    pub fn stop(&self) {
        self.stopper.request_stop();
    }
}
