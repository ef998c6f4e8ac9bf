//! Programs that are spoken to over their standard input and output, a line at a time.
//!
//! A program gets its arguments as they are, never through a shell, and the environment it was given and nothing else. It
//! leads a process group of its own; when it ends or is no longer wanted, whatever is left of the group ends too.
//! Nothing it does or leaves undone blocks anybody: what it does not read waits in a bounded queue, what it says is read
//! in lines of bounded length, and what it says on the side is kept in a ring.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::pieces::Bounds;
pub use bound::{run_if_asked, run_in_this_process};
pub(crate) use lines::{Line, Lines};
pub(crate) use outbox::NotTaken;
pub use run::{Ran, RunError, run};

mod bound;
mod find;
mod guard;
mod lines;
mod outbox;
#[cfg(target_os = "linux")]
mod profile;
mod ring;
mod run;
mod starter;
mod tree;

/// What to start.
#[derive(Clone)]
pub struct Program {
    /// An absolute path, or a bare name that is looked up in the `PATH` of `environment`, and if that has none in
    /// `search_path`.
    pub command: PathBuf,
    /// As they are: no shell reads them.
    pub arguments: Vec<OsString>,
    /// All of it. Nothing is inherited, not even `PATH`.
    pub environment: BTreeMap<OsString, OsString>,
    /// Where it runs; `/` if not said, so that it does not run where the server keeps its own files.
    pub folder: Option<PathBuf>,
    /// The server's own `PATH`, as its configuration read it at the start. It is for finding `command` only.
    pub search_path: Option<OsString>,
    /// A program that calls [`run_if_asked`] before anything else: the server's own, on Linux best as `/proc/self/exe`,
    /// which stays what it is when the file is replaced. With it a child dies with the server even if that is killed,
    /// and so does what the child started; and on Linux it has fewer rights than the server.
    pub bound_by: Option<PathBuf>,
    /// Files and folders that it is kept from, on Linux with Landlock. Beside the way to them it is kept from what appears
    /// there after its start, too: hide only what lies in folders where nothing does. Needs `bound_by`.
    pub hidden: Vec<PathBuf>,
    /// What it may open; without it, whatever the server may. Needs `bound_by`, and Linux with Landlock.
    pub sandbox: Option<Sandbox>,
    /// Where its standard error is kept, for whoever reads it even if there is no connection in the end.
    pub stderr: Option<Stderr>,
}

/// What a program said last on its standard error. A copy is the same.
#[derive(Clone)]
pub struct Stderr(Arc<ring::Ring>);

/// The files and folders that a program may open, beside those of the system, its own folder and the one it runs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// May be read, and programs in them started.
    pub read: Vec<PathBuf>,
    /// May be changed too.
    pub write: Vec<PathBuf>,
}

/// How much of a program is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramLimits {
    /// Of a line it says, in bytes.
    pub max_line: usize,
    /// The same in values of JSON; an object counts for four.
    pub max_parts: usize,
    /// What waits until it reads, in bytes.
    pub max_queue: usize,
    /// What is kept of its standard error, in bytes.
    pub max_stderr: usize,
    /// How long it has to end when it is told to.
    pub grace: Duration,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// As the system says it: `exit status: 1`, `signal: 9 (SIGKILL)`.
    pub how: String,
    /// Whether that means that all went well.
    pub is_success: bool,
    /// When.
    pub at: Instant,
}

/// A program that was started. Dropping it ends the program.
pub(crate) struct Process {
    pub(crate) outbox: outbox::Outbox,
    pub(crate) stderr: Arc<ring::Ring>,
    pub(crate) ended: watch::Receiver<Option<Ended>>,
    keeper: tree::Keeper,
}

impl Program {
    /// With no arguments, an empty environment and nothing to find it by.
    pub fn new(command: impl Into<PathBuf>) -> Self {
        Self {
            command: command.into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            folder: None,
            search_path: None,
            bound_by: None,
            hidden: Vec::new(),
            sandbox: None,
            stderr: None,
        }
    }

    /// Where it is.
    pub fn find(&self) -> io::Result<PathBuf> {
        find::find(self)
    }
}

impl Stderr {
    /// Keeps so many bytes.
    pub fn new(max: usize) -> Self {
        Self(Arc::new(ring::Ring::new(max)))
    }

    /// The last lines, without what could steer a terminal.
    pub fn last_lines(&self, lines: usize) -> String {
        self.0.tail(lines)
    }
}

impl ProgramLimits {
    fn line(&self) -> Bounds {
        Bounds { bytes: self.max_line, parts: self.max_parts }
    }
}

impl Default for ProgramLimits {
    fn default() -> Self {
        Self {
            max_line: 8 * 1024 * 1024,
            max_parts: 300_000,
            max_queue: 8 * 1024 * 1024,
            max_stderr: 64 * 1024,
            grace: Duration::from_secs(2),
        }
    }
}

/// Lets no program of the same user look into the memory and the environment of this process, where secrets are. Core
/// files and debuggers are gone with that.
#[cfg(target_os = "linux")]
pub fn hide_this_process() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Elsewhere the system sees to that.
#[cfg(not(target_os = "linux"))]
pub fn hide_this_process() -> io::Result<()> {
    Ok(())
}

impl Process {
    /// Starts a program. What it says comes in lines.
    pub(crate) async fn start(
        program: &Program,
        limits: ProgramLimits,
    ) -> io::Result<(Self, Lines)> {
        let file = find::find(program)?;
        let mut child = starter::start(program, &file).await?;
        let outbox = outbox::Outbox::new(child.stdin.take(), limits.max_queue)?;
        let lines = Lines::new(child.stdout.take(), limits.line())?;
        let stderr = program.stderr.clone().unwrap_or_else(|| Stderr::new(limits.max_stderr)).0;
        stderr.begin();
        ring::drain(child.stderr.take(), stderr.clone());
        let (keeper, ended) = tree::keep(child, outbox.clone(), limits.grace)?;
        Ok((Self { outbox, stderr, ended, keeper }, lines))
    }

    /// Tells it to end: its input is closed, then it is asked, then it is made to. Does not wait for that.
    pub(crate) fn stop(&self) {
        self.keeper.stop();
    }
}
