//! One process writes a journal file; a second one gets an error and can only read.

use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::Arc;
use std::time::Duration;

use catalog::Catalog;
use catalog::journal::{ChangeContext, JournalError, SqliteJournal};
use toolcrib::SystemClock;

use crate::program::{Running, inner_folder, rerun_test, run, toolcrib};
use crate::world::{Deadline, create_group, make_journal, open, runtime};

const TEST: &str = "one_writer::a_second_process_is_refused_until_the_first_is_gone";

/// First process: writes an event, prints `holding`, and stays until it is killed.
fn hold_journal(path: &std::path::Path) {
    let runtime = runtime();
    let catalog = runtime.block_on(Catalog::open(open(path))).unwrap();
    let created = catalog.execute(create_group("held"), ChangeContext::by_actor("ada"), None);
    runtime.block_on(created).unwrap();
    let mut out = std::io::stdout();
    out.write_all(b"\nholding\n").unwrap();
    out.flush().unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a_second_process_is_refused_until_the_first_is_gone() {
    if let Some(folder) = inner_folder() {
        return hold_journal(&folder.join("toolcrib.db"));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolcrib.db");
    make_journal(&path, 3);
    let mut first = Running(rerun_test(&[], TEST, folder.path()).spawn().unwrap());
    let said = BufReader::new(first.0.stdout.take().unwrap());
    let mut lines = said.lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "holding"), "the first process did not start");

    for verb in ["journal show", "journal tail", "journal verify", "journal export", "secret list"]
    {
        run(&mut toolcrib(folder.path(), verb)).assert_succeeded(verb);
    }
    let tail = run(&mut toolcrib(folder.path(), "journal tail"));
    assert!(
        tail.stdout.contains("tool_group-held"),
        "what the first process wrote is seen: {}",
        tail.stdout
    );
    std::fs::write(
        folder.path().join("nothing.jsonl"),
        "{\"journal\":{\"format\":1,\"events\":0}}\n",
    )
    .unwrap();
    for verb in ["journal collect", "journal import nothing.jsonl"] {
        let refused = run(&mut toolcrib(folder.path(), verb));
        refused.assert_rejected(verb);
        assert!(refused.stderr.contains("in use by another process"), "{verb}: {}", refused.stderr);
    }
    let second = SqliteJournal::open(&path, Arc::new(SystemClock));
    assert!(matches!(second.err(), Some(JournalError::InUse { .. })));

    // A killed process leaves nothing that would need manual cleanup.
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    run(&mut toolcrib(folder.path(), "journal collect"))
        .assert_succeeded("after the first is gone");
    let tail = run(&mut toolcrib(folder.path(), "journal tail"));
    assert!(tail.stdout.contains("tool_group-held"), "{}", tail.stdout);
}

/// The same within one process.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_was_closed_can_be_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolcrib.db");
    let first = open(&path);
    let second = SqliteJournal::open(&path, Arc::new(SystemClock));
    assert!(matches!(second.err(), Some(JournalError::InUse { .. })));
    drop(first);
    let deadline = Deadline::after(Duration::from_secs(5));
    while SqliteJournal::open(&path, Arc::new(SystemClock)).is_err() {
        deadline.wait_or_panic("closing").await;
    }
}
