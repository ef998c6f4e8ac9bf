//! `durability`: traces the system calls of a writing process and checks that every acknowledgement follows the flush
//! of its data.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

#[derive(clap::Args)]
pub(crate) struct DurabilityArgs {
    /// Commands of each writer.
    #[arg(long, default_value_t = 40)]
    commands: u64,
    /// How many writers at once.
    #[arg(long, default_value_t = 8)]
    writers: u32,
}

pub(crate) async fn run(orders: DurabilityArgs) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let trace = folder.path().join("trace");
    let mut command = Command::new("strace");
    command
        .args(["-f", "-y", "-s", "70000", "-e", "trace=pwrite64,write,fsync,fdatasync", "-o"])
        .arg(&trace);
    command.arg(std::env::current_exe()?).arg("worker");
    command
        .arg("--journal")
        .arg(folder.path().join("trace.db"))
        .arg("--notes")
        .arg(folder.path().join("notes"));
    command.args([
        "--commands",
        &orders.commands.to_string(),
        "--writers",
        &orders.writers.to_string(),
    ]);
    let status = command.stdin(Stdio::null()).status().context("strace is needed")?;
    ensure!(status.success(), "the traced process failed");
    let verdict = judge_trace(&std::fs::read_to_string(&trace)?);
    println!(
        "acknowledged {} after their flush {} too early {}",
        verdict.acknowledged,
        verdict.flushed,
        verdict.too_early.len()
    );
    for key in &verdict.too_early {
        println!("too early: {key}");
    }
    ensure!(0 < verdict.acknowledged, "nothing was acknowledged, so nothing was shown");
    if !verdict.too_early.is_empty() {
        std::process::exit(1);
    }
    Ok(())
}

struct TraceVerdict {
    acknowledged: usize,
    flushed: usize,
    too_early: Vec<String>,
}

/// How far a key is on its way to the disk.
#[derive(Clone, Copy, PartialEq)]
enum KeyState {
    Written,
    Flushed,
}

/// Reads a trace in order. A key is written if a write to the log contains it. It is flushed when a later flush of the
/// log has returned.
fn judge_trace(trace: &str) -> TraceVerdict {
    let mut keys: BTreeMap<String, KeyState> = BTreeMap::new();
    let mut flushing: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut verdict = TraceVerdict { acknowledged: 0, flushed: 0, too_early: Vec::new() };
    for line in trace.lines() {
        let (thread, call) = line.split_once(' ').unwrap_or(("", line));
        let call = call.trim_start();
        let to_log = call.contains("-wal>");
        if call.starts_with("pwrite64(") && to_log {
            for key in keys_in(call) {
                keys.entry(key).or_insert(KeyState::Written);
            }
        } else if (call.starts_with("fdatasync(") || call.starts_with("fsync(")) && to_log {
            let written: Vec<_> = keys
                .iter()
                .filter(|(_, way)| **way == KeyState::Written)
                .map(|(key, _)| key.clone())
                .collect();
            if call.contains("unfinished") {
                flushing.insert(thread, written);
            } else if call.ends_with("= 0") {
                written.into_iter().for_each(|key| {
                    keys.insert(key, KeyState::Flushed);
                });
            }
        } else if call.starts_with("<... fdatasync resumed>")
            || call.starts_with("<... fsync resumed>")
        {
            let written = flushing.remove(thread).unwrap_or_default();
            if call.ends_with("= 0") {
                written.into_iter().for_each(|key| {
                    keys.insert(key, KeyState::Flushed);
                });
            }
        } else if call.starts_with("write(") && call.contains("\"ack ") && call.contains(" changed")
        {
            let Some(key) = keys_in(call).into_iter().next() else { continue };
            verdict.acknowledged += 1;
            if keys.get(&key) == Some(&KeyState::Flushed) {
                verdict.flushed += 1;
            } else {
                verdict.too_early.push(key);
            }
        }
    }
    verdict
}

/// Finds keys such as `key-0-0-3-17-end`.
fn keys_in(text: &str) -> Vec<String> {
    let ends = text.split("key-").skip(1).filter_map(|rest| rest.split_once("-end"));
    ends.filter(|(key, _)| key.chars().all(|c| c.is_ascii_digit() || c == '-'))
        .map(|(key, _)| key.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: &str = r#"7 pwrite64(5</x/a.db-wal>, "..key-0-0-1-1-end..", 4096, 32) = 4096"#;
    const FLUSH: &str = "7 fdatasync(5</x/a.db-wal>) = 0";
    const ACK: &str = r#"8 write(4</x/notes>, "ack key-0-0-1-1-end 9 changed\n", 30) = 30"#;

    fn too_early(lines: &[&str]) -> usize {
        judge_trace(&lines.join("\n")).too_early.len()
    }

    #[test]
    fn an_acknowledgement_after_its_flush_is_correct() {
        assert_eq!(too_early(&[WRITE, FLUSH, ACK]), 0);
        let apart =
            ["7 fdatasync(5</x/a.db-wal> <unfinished ...>", "7 <... fdatasync resumed>) = 0"];
        assert_eq!(too_early(&[WRITE, apart[0], apart[1], ACK]), 0);
        assert_eq!(too_early(&[WRITE, apart[0], ACK, apart[1]]), 1);
    }

    #[test]
    fn an_acknowledgement_before_its_flush_is_detected() {
        assert_eq!(too_early(&[WRITE, ACK, FLUSH]), 1);
        assert_eq!(too_early(&[FLUSH, WRITE, ACK]), 1);
        assert_eq!(too_early(&[ACK]), 1);
        assert_eq!(
            too_early(&[WRITE, "7 fdatasync(5</x/a.db-wal>) = -1 EIO (Input/output error)", ACK]),
            1
        );
        assert_eq!(too_early(&[WRITE, "7 fdatasync(6</x/other>) = 0", ACK]), 1);
    }
}
