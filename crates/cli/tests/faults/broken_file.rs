//! Truncated, overwritten and too new journal files: one line reports the error, and the file stays unchanged.

use std::fs;
use std::path::Path;

use crate::program::{run, toolcrib};
use crate::world::make_journal;

const READING: [&str; 4] = ["journal show", "journal tail", "journal verify", "journal export"];
const WRITING: [&str; 3] = ["journal collect", "journal import export.jsonl", "secret remove x"];

/// Folder with an intact journal and an export of it; also the bytes of the journal.
fn folder() -> (tempfile::TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    make_journal(&folder.path().join("toolcrib.db"), 200);
    run(&mut toolcrib(folder.path(), "journal export export.jsonl")).assert_succeeded("export");
    let whole = fs::read(folder.path().join("toolcrib.db")).unwrap();
    (folder, whole)
}

/// Replaces the journal by these bytes, without its side files.
fn replace_journal(folder: &Path, bytes: &[u8]) {
    for beside in ["-wal", "-shm", ".lock"] {
        fs::remove_file(folder.join(format!("toolcrib.db{beside}"))).ok();
    }
    fs::write(folder.join("toolcrib.db"), bytes).unwrap();
}

/// Every verb reports the error in one line and leaves the file unchanged.
fn assert_rejected_and_unchanged(folder: &Path, bytes: &[u8], what: &str) {
    replace_journal(folder, bytes);
    for verb in READING.into_iter().chain(WRITING) {
        let what = format!("{verb} with {what}");
        let ended = run(&mut toolcrib(folder, verb));
        // `verify` succeeds in its own way when it reports damage: exit code 3.
        if verb == "journal verify" && ended.code == Some(3) {
            assert!(ended.stdout.contains("problem"), "{what}: {}", ended.stdout);
        } else {
            ended.assert_rejected(&what);
        }
        assert!(fs::read(folder.join("toolcrib.db")).unwrap() == bytes, "{what}: it was changed");
    }
}

fn random(length: usize) -> Vec<u8> {
    let mut state: u64 = 0x2545_f491_4f6c_dd1d;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn a_truncated_journal_is_rejected_at_any_length() {
    let (folder, whole) = folder();
    let pages = whole.len() / 4096;
    // SQLite treats a file of one byte as empty.
    let lengths = [2, 15, 16, 99, 100, 512, 4095, 4096, 4097, 8192, pages / 2 * 4096];
    for length in lengths.into_iter().chain([whole.len() - 4096, whole.len() - 1]) {
        let what = format!("{length} of {} bytes", whole.len());
        assert_rejected_and_unchanged(folder.path(), &whole[..length], &what);
    }
    replace_journal(folder.path(), &whole);
    run(&mut toolcrib(folder.path(), "journal verify")).assert_succeeded("the whole file");
}

#[test]
fn random_bytes_are_no_journal() {
    let (folder, _) = folder();
    for length in [2, 100, 4096, 50_000] {
        let what = format!("{length} random bytes");
        assert_rejected_and_unchanged(folder.path(), &random(length), &what);
    }
}

#[test]
fn a_journal_overwritten_behind_its_header_is_rejected() {
    let (folder, whole) = folder();
    for kept in [100, 4096] {
        let mut bytes = whole.clone();
        bytes.truncate(kept);
        bytes.extend(random(whole.len() - kept));
        replace_journal(folder.path(), &bytes);
        for verb in READING {
            let ended = run(&mut toolcrib(folder.path(), verb));
            let what = format!("{verb} with {kept} bytes left:\n{}{}", ended.stdout, ended.stderr);
            // Neither a panic nor a report that the journal is intact.
            assert!(matches!(ended.code, Some(1 | 3)), "{:?} {what}", ended.code);
        }
    }
}

#[test]
fn a_journal_of_a_newer_version_is_rejected_by_every_verb() {
    let (folder, _) = folder();
    let path = folder.path().join("toolcrib.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let newer = fs::read(&path).unwrap();
    assert_rejected_and_unchanged(folder.path(), &newer, "format 99");
    let ended = run(&mut toolcrib(folder.path(), "journal show"));
    assert!(
        ended.stderr.contains("has format 99 and this toolcrib knows up to"),
        "{}",
        ended.stderr
    );
}
