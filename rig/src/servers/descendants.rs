//! Descendant processes. Orphans among them become our children, so that none escapes the count.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

struct DescendantProcess {
    id: u32,
    parent: u32,
    /// True for a zombie: the parent has not waited for it yet.
    has_ended: bool,
    command: String,
}

/// Makes this process the parent of every orphaned descendant.
pub(super) fn become_subreaper() -> anyhow::Result<()> {
    let this = rustix::process::getpid();
    Ok(rustix::process::set_child_subreaper(Some(this))?)
}

/// The number of descendant processes.
pub(super) fn count_descendants() -> anyhow::Result<usize> {
    Ok(find_descendants()?.len())
}

/// Waits until at most `wanted` descendants are left; otherwise fails with their commands.
pub(super) async fn wait_until_left(wanted: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + EXIT_TIMEOUT;
    loop {
        let left = find_descendants()?;
        if left.len() <= wanted {
            return Ok(());
        }
        if deadline < Instant::now() {
            let commands: Vec<String> = left.into_iter().map(|one| one.command).collect();
            bail!("{} programs are left, and must be {wanted}: {commands:#?}", commands.len());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn find_descendants() -> anyhow::Result<Vec<DescendantProcess>> {
    let mut others = all_processes()?;
    let mut found = Vec::new();
    let mut parents = vec![std::process::id()];
    while let Some(parent) = parents.pop() {
        let (children, rest) = others.into_iter().partition(|one| one.parent == parent);
        let children: Vec<DescendantProcess> = children;
        parents.extend(children.iter().map(|child| child.id));
        found.extend(children);
        others = rest;
    }
    for ended in found.extract_if(.., |one| one.has_ended) {
        reap(ended.id)?;
    }
    Ok(found)
}

/// Reaps an adopted process, which has no other parent. A zombie of another parent stays.
fn reap(id: u32) -> anyhow::Result<()> {
    let id = Pid::from_raw(i32::try_from(id)?).context("no program has the number 0")?;
    match waitpid(Some(id), WaitOptions::NOHANG) {
        Ok(_) | Err(Errno::CHILD) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn all_processes() -> anyhow::Result<Vec<DescendantProcess>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // The process may have ended since the folder was read.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let (_, stat) = stat.rsplit_once(") ").context("a name ends with a bracket")?;
        let mut words = stat.split(' ');
        let (state, parent) = (words.next(), words.next());
        let has_ended = matches!(state, Some("Z" | "X"));
        let parent = parent.context("there is a parent")?.parse()?;
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        all.push(DescendantProcess { id, parent, has_ended, command });
    }
    Ok(all)
}
