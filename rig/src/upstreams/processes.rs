//! The processes of this machine, as `/proc` lists them.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) struct ProcEntry {
    pub(crate) id: u32,
    parent: u32,
    is_zombie: bool,
    words: Vec<String>,
}

fn all_processes() -> Vec<ProcEntry> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| read_process(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Returns `None` if the process is gone.
fn read_process(id: u32) -> Option<ProcEntry> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let words = fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
    // The process name, in parentheses, may contain any character.
    let (_, stat) = stat.rsplit_once(") ")?;
    let mut stat = stat.split(' ');
    let is_zombie = stat.next()? == "Z";
    let parent = stat.next()?.parse().ok()?;
    Some(ProcEntry { id, parent, is_zombie, words: words.split('\0').map(str::to_owned).collect() })
}

/// The running processes with the mark in their command line; with a parent, only its children.
pub(crate) fn find_marked(mark: &str, parent: Option<u32>) -> Vec<ProcEntry> {
    let is_marked = |process: &ProcEntry| {
        let is_child = parent.is_none_or(|parent| process.parent == parent);
        is_child && !process.is_zombie && process.words.iter().any(|word| word == mark)
    };
    all_processes().into_iter().filter(is_marked).collect()
}

/// The number of children that ended and that the parent did not wait for.
pub(crate) fn count_zombies(parent: u32) -> usize {
    all_processes().iter().filter(|process| process.is_zombie && process.parent == parent).count()
}

/// Sends SIGKILL. Returns false if there is no such process.
pub(crate) fn send_sigkill(id: u32) -> bool {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.is_some_and(|id| kill_process(id, Signal::KILL).is_ok())
}

/// Counts repeatedly until the count is zero or the time is over. Returns the last count.
pub(crate) async fn remaining_after(time: Duration, count: impl Fn() -> usize) -> usize {
    let start = Instant::now();
    loop {
        let left = count();
        if left == 0 || time < start.elapsed() {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
