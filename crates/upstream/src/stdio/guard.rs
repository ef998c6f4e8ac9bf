//! What a program started dies with the server too.
//!
//! The wish of `bound.rs` holds for the program alone, not for what it starts. So one more process of the server's own
//! program knows all groups, and waits for the end of its input: that is the end of the server, whatever ended it. Then
//! it kills what is left and ends.

use std::collections::BTreeSet;
use std::io::{BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

/// The first argument of the process that knows all groups.
pub(super) const ASKED: &str = "--guard-bound-children";

/// The server's side of it. The thread that starts programs has it, so writing may block.
#[derive(Default)]
pub(super) struct Guard {
    process: Option<Child>,
    program: Option<PathBuf>,
    groups: BTreeSet<u32>,
}

impl Guard {
    pub(super) fn add(&mut self, program: &Path, group: u32) {
        self.groups.insert(group);
        self.program.get_or_insert_with(|| program.to_owned());
        self.tell(&format!("+{group}\n"));
    }

    pub(super) fn remove(&mut self, group: u32) {
        if self.groups.remove(&group) {
            self.tell(&format!("-{group}\n"));
        }
    }

    /// A guard that is gone is replaced, and told everything again.
    fn tell(&mut self, line: &str) {
        if self.write(line).is_some() {
            return;
        }
        if let Some(mut gone) = self.process.take() {
            // It may hang instead; both fail if it has ended, which is fine.
            gone.kill().unwrap_or_default();
            drop(gone.wait());
        }
        self.process = self.program.as_deref().and_then(start);
        let all: String = self.groups.iter().map(|group| format!("+{group}\n")).collect();
        if self.write(&all).is_none() {
            tracing::warn!(
                "what MCP servers start may outlive toolcrib if it is killed: its guard cannot be started"
            );
        }
    }

    fn write(&mut self, line: &str) -> Option<()> {
        self.process.as_mut()?.stdin.as_mut()?.write_all(line.as_bytes()).ok()
    }
}

fn start(program: &Path) -> Option<Child> {
    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    let mut command = Command::new(program);
    let command = command.arg(ASKED).env_clear().current_dir("/").process_group(0);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().ok()
}

/// The guard's side of it.
pub(super) fn watch(input: impl BufRead) {
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
        // Most are gone already.
        kill_process_group(group, Signal::KILL).unwrap_or_default();
    }
}
