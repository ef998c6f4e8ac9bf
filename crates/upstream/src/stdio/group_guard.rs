//! A guard process that kills the descendants of bound children when the server dies.
//!
//! The parent-death signal of the `bound_child` module covers only the program itself, not its descendants. So one more
//! process of the server's executable knows all process groups and waits for the end of its input, which means that the
//! server has ended in any way. Then it kills the remaining groups and exits.

use std::collections::BTreeSet;
use std::io::{BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

/// The first argument of the guard process.
pub(super) const GUARD_FLAG: &str = "--guard-bound-children";

/// The server's side of the guard. It belongs to the thread that starts programs, so its writes may block.
#[derive(Default)]
pub(super) struct GroupGuard {
    process: Option<Child>,
    program: Option<PathBuf>,
    groups: BTreeSet<u32>,
}

impl GroupGuard {
    pub(super) fn add_group(&mut self, program: &Path, group: u32) {
        self.groups.insert(group);
        self.program.get_or_insert_with(|| program.to_owned());
        self.send_line(&format!("+{group}\n"));
    }

    pub(super) fn remove_group(&mut self, group: u32) {
        if self.groups.remove(&group) {
            self.send_line(&format!("-{group}\n"));
        }
    }

    /// Writes a line to the guard. If the guard has died, starts a new one and sends it all groups again.
    fn send_line(&mut self, line: &str) {
        if self.write_line(line).is_some() {
            return;
        }
        if let Some(mut gone) = self.process.take() {
            // The guard may also hang. Both calls fail harmlessly if it has exited.
            gone.kill().unwrap_or_default();
            drop(gone.wait());
        }
        self.process = self.program.as_deref().and_then(start_guard);
        let all: String = self.groups.iter().map(|group| format!("+{group}\n")).collect();
        if self.write_line(&all).is_none() {
            tracing::warn!(
                "what MCP servers start may outlive toolcrib if it is killed: its guard cannot be started"
            );
        }
    }

    fn write_line(&mut self, line: &str) -> Option<()> {
        self.process.as_mut()?.stdin.as_mut()?.write_all(line.as_bytes()).ok()
    }
}

fn start_guard(program: &Path) -> Option<Child> {
    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    let mut command = Command::new(program);
    let command = command.arg(GUARD_FLAG).env_clear().current_dir("/").process_group(0);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().ok()
}

/// The guard process: tracks the groups until its input ends, then kills them.
pub(super) fn run_guard(input: impl BufRead) {
    let mut groups = BTreeSet::new();
    for line in input.lines().map_while(Result::ok) {
        let group = line.get(1..).and_then(|group| group.parse().ok()).and_then(Pid::from_raw);
        match (line.as_bytes().first(), group) {
            (Some(b'+'), Some(group)) => drop(groups.insert(group.as_raw_nonzero())),
            (Some(b'-'), Some(group)) => drop(groups.remove(&group.as_raw_nonzero())),
            _ => {}
        }
    }
    for group in groups.into_iter().filter_map(|group| Pid::from_raw(group.get())) {
        // Most groups have ended already.
        kill_process_group(group, Signal::KILL).unwrap_or_default();
    }
}
