//! A failed flush: no write is acknowledged afterwards, writing stops permanently, and a restart recovers cleanly.
//!
//! The kernel drops the pages whose flush failed, so a second flush that succeeds proves nothing.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use catalog::journal::{AppendRequest, Journal, JournalError, SqliteJournal};
use toolcrib::SystemClock;

use crate::program::{command, inner_folder, rerun_test, run};
use crate::world::{assert_sound, event, open, runtime, texts};

/// Child process whose flush fails; prints the outcome of each append, one per line.
async fn write(path: &Path) {
    let mut out = std::io::stdout();
    let mut say = |line: String| {
        out.write_all(format!("\n{line}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    };
    let journal = match SqliteJournal::open(path, Arc::new(SystemClock)) {
        Ok(journal) => journal,
        Err(error) => return say(format!("not-opened {error}")),
    };
    let (mut version, mut refused) = (journal.head_position().await.unwrap().0, 0);
    while version < 40 && refused < 5 {
        match journal.append(event("diary", version, &version.to_string())).await {
            Ok(_) => {
                say(format!("acknowledged {version}"));
                version += 1;
            }
            Err(JournalError::Stopped { cause, .. }) => {
                say(format!("stopped {cause}"));
                // Checking whether the journal is writable fails too.
                assert!(journal.append(AppendRequest::default()).await.is_err());
                refused += 1;
            }
            Err(error) => {
                say(format!("other {error}"));
                refused += 1;
            }
        }
        // Reading still works.
        let there = journal.read_after(catalog::journal::Position(0), 1000).await.unwrap();
        assert!(version <= there.len() as u64);
    }
}

/// Runs the child with its n-th flush failing, then reopens the journal. Returns the number of acknowledged appends.
fn run_with_failing_flush(when: &str, test: &str) -> Option<usize> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolcrib.db");
    // Create the tables and the first event beforehand, so that opening needs few flushes.
    runtime().block_on(open(&path).append(event("diary", 0, "0"))).unwrap();
    crate::world::wait_until_closed(&path);
    let inject = format!("inject=fdatasync,fsync:error=EIO:when={when}");
    let around = ["strace", "-f", "-o", "/dev/null", "-e", "trace=fdatasync,fsync", "-e", &inject];
    let ended = run(&mut rerun_test(&around, test, folder.path()));
    ended.assert_succeeded("a process under strace");
    let lines: Vec<_> = ended.stdout.lines().collect();
    let said = |word: &str| lines.iter().filter(|line| line.starts_with(word)).count();
    assert_eq!(said("other "), 0, "{when}: {}", ended.stdout);
    let first_refusal = lines.iter().position(|line| line.starts_with("stopped "));
    let last_acknowledged = lines.iter().rposition(|line| line.starts_with("acknowledged "));
    if let (Some(refusal), Some(acknowledged)) = (first_refusal, last_acknowledged) {
        assert!(acknowledged < refusal, "{when}: acknowledged after a failed flush");
    }
    let acknowledged = said("acknowledged ");
    if first_refusal.is_some() {
        assert_eq!(said("stopped "), 5, "{when}: {}", ended.stdout);
    }

    // After the restart every acknowledged event is there, followed by at most the one whose flush failed.
    let expected: Vec<_> = (0..=acknowledged).map(|number| number.to_string()).collect();
    runtime().block_on(async {
        let journal: Arc<dyn Journal> = open(&path);
        let there = texts(&*journal, "diary").await;
        assert!(there.starts_with(&expected), "{when}: {there:?} without {expected:?}");
        assert!(there.len() <= expected.len() + 1, "{when}: {there:?} after {expected:?}");
        assert_sound(&journal).await;
        let next = there.len() as u64;
        journal.append(event("diary", next, "after the restart")).await.unwrap();
    });
    first_refusal.map(|_| acknowledged)
}

fn check(test: &str, sticky: &str) {
    if let Some(folder) = inner_folder() {
        return runtime().block_on(write(&folder.join("toolcrib.db")));
    }
    let strace = run(command("strace").arg("-V"));
    strace.assert_succeeded("strace (the system package `strace`)");
    let runs: Vec<_> =
        (1..=8).map(|n| run_with_failing_flush(&format!("{n}{sticky}"), test)).collect();
    let hit: Vec<_> = runs.iter().flatten().collect();
    assert!(4 <= hit.len(), "too few runs got as far as an append: {runs:?}");
    assert!(hit.iter().any(|acknowledged| 0 < **acknowledged), "{runs:?}");
}

#[test]
fn nothing_is_acknowledged_after_one_failed_flush() {
    check("failed_flush::nothing_is_acknowledged_after_one_failed_flush", "");
}

#[test]
fn nothing_is_acknowledged_while_every_flush_fails() {
    check("failed_flush::nothing_is_acknowledged_while_every_flush_fails", "+");
}
